"""`secure-sum`, `secure-mean`, `secure-histogram`: over the rows of all parties' tables, as jobs.

Every party adds up its own rows (`analyses.sums.row_vectors`) and the parties' totals are added as a masked sum
(`analyses.sums.sessions.session_sum`): the coordinator learns the survivors' sum, and parties may drop out once
every party has committed the cost. With a privacy target the members add noise that keeps exactly the intended variance
for any set of survivors (`analyses.sums.noise`). Without a target the answer is exact and protects nobody; parties
refuse it unless their owner allows it explicitly.

    step                                                    function
    each row becomes a vector of certified size; a party    `contribution`
    adds up its own
    noise of which the intended amount stays, whoever       `SumNoise.draw`
    drops out
    the five stages, among all parties and the              `contribute`, `conduct`; `take_part` and `host` of
    coordinator                                             `mpc/secagg/drive.py`
    noise in excess is removed                              `SumNoise.remove_surplus`
    the answer and who is in it                             `answer`
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.analysis import Analysis
from analyses.job.job import Job
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import OpeningSurvival, Survival
from analyses.rows.own_values import zeros_if_raised
from analyses.rows.surplus import counting_rows, n_surplus, own_key
from analyses.sums.forecast import forecast, signal
from analyses.sums.parameters import TableSumParams
from analyses.sums.plan import TableSumPlan, plan, rounding_of_entry
from analyses.sums.reference import reference, value_of
from analyses.sums.round import HISTOGRAM, MEAN, SUM, participation, topology_of_parties
from analyses.sums.row_vectors import BinnedRows, ScaledRows, WeightedRows
from analyses.sums.sessions import session_sum
from mpc.protocol.session import Session
from mpc.secagg.config import RoundConfig
from mpc.secagg.opened_sum import OpenedSum

STAGES_PER_DEADLINE = 4
"""A stage lasts at most the job's deadline divided by this. A party that has answered waits for a whole deadline: for
the end of the stage, and before it for the last keys, or for a message to somebody who takes none."""

SHORTENED = "the whole contribution, by party_norm"
"""Key under which the owner's report counts whether the total was shortened."""

Integers = NDArray[np.int64]


def contribution(plan: TableSumPlan, table: Table, session: Session) -> tuple[Integers, LocalReport]:
    """Return a party's contribution, shape (entries,), and a report on it for the owner. Both are private."""
    return zeros_if_raised(
        table,
        lambda: _of_table(plan, table, session),
        lambda: (np.zeros(plan.encoding.n_elements, dtype=np.int64), LocalReport(table.n_rows, {}, 0)),
    )


def _of_table(plan: TableSumPlan, table: Table, session: Session) -> tuple[Integers, LocalReport]:
    counting = None
    if most := plan.most_rows_of.get(table.schema.party):
        counting = counting_rows(table, own_key(session), most)
    total, report = plan.rows.total(table, plan.encoding.largest_entry, counting)
    report = replace(report, surplus_rows=n_surplus(counting))
    if plan.params.party_norm is not None:
        encoded = plan.encoding.encode(total, session.entropy)
        total = encoded.values
        if encoded.norm_was_clipped:
            report = replace(report, clipped_values=report.clipped_values | {SHORTENED: 1})
    return total, report


async def party(session: Session, plan: TableSumPlan, table: Table | None) -> LocalReport:
    """Run a party's part: add up my rows, and take part in the masked sum.

    Raises:
        LeftBehindError: the others went on without us.
        ProtocolError: somebody is lost before the round, or violates the protocol.

    Privacy: at most t colluding parties and the coordinator learn nothing but the survivors' sum, noise included.
    Cost: 6 rounds over the coordinator; bits / 8 bytes per entry and about 260 bytes per party.
    """
    assert table is not None  # every member brings one: `plan` has checked it
    session.progress("rows", 0, 1)
    values, report = await session.compute(contribution, plan, table, session)
    noise = plan.noise

    async def noise_of(seeds: Sequence[bytes]) -> Integers:
        assert noise is not None
        return await session.draw(noise, seeds)

    await session_sum.contribute(
        session,
        lambda attempt, identities: plan.config_of(session, attempt, identities),
        plan.n_parties,
        session.binding,
        values,
        None if noise is None else noise_of,
    )
    return report


async def coordinator(session: Session, plan: TableSumPlan) -> dict[str, Any]:
    """Run the coordinator's part: host the masked sum and say what it comes to.

    Returns:
        JSON-able; see `answer`.

    Raises:
        ProtocolError: the sum cannot be opened.
    """
    opened, config = await session_sum.conduct(
        session,
        lambda attempt, identities: plan.config_of(session, attempt, identities),
        plan.n_parties,
        session.binding,
        stage_s=plan.job.deadline_s / STAGES_PER_DEADLINE,
        attempts=plan.params.attempts,
    )
    noise = plan.noise
    if noise is not None:
        opened = await session.compute(noise.remove_surplus, opened)
    return answer(plan, opened, config)


def answer(plan: TableSumPlan, opened: OpenedSum, config: RoundConfig) -> dict[str, Any]:
    """Return the answer: the values, the survivors, who dropped out when, and the privacy cost.

    Args:
        plan: plan of the job.
        opened: the outcome of the round, without the excess noise.
        config: configuration of the round.
    """
    total = opened.integers()
    return (
        value_of(plan, total)
        | errors_of(plan, total, len(opened.survivors))
        | {
            "analysis": plan.job.analysis,
            **participation(opened, config),
            "privacy": plan.privacy_report(),
        }
    )


def errors_of(plan: TableSumPlan, total: Integers, n_survivors: int) -> dict[str, Any]:
    """Return the stated errors: of noise and, of sums, at worst of rounding.

    `standard_errors` are of the noise in each column's sum or mean, or in each count (also `below` and `above`), 0 in
    an exact answer. A mean is
    the ratio m of a noisy sum to a noisy weight w, whose errors are independent and each s. By the delta method it is
    off by s sqrt(1 + m^2) / w in scaled units, as long as s is small beside w; without a mean there is none.
    `standard_error_of_weight` is s. `worst_rounding` is how far rounding may have moved each column's sum, whatever the
    rows hold (`TableSumPlan.worst_rounding`), or its mean: no further than the value of any row.
    """
    deviation = 0.0 if plan.noise is None else math.sqrt(plan.noise.variance(n_survivors))
    if isinstance(plan.rows, BinnedRows):
        n_bins = len(plan.rows.edges) - 1
        return {
            "standard_errors": [deviation] * n_bins,
            "n_rows_standard_error": deviation * math.sqrt(plan.rows.n_entries),
        }
    if isinstance(plan.rows, WeightedRows):
        scales, weight = np.array(plan.rows.rows.scales), int(total[-1])
        of_mean = deviation / weight * np.hypot(scales, total[:-1] / weight * scales) if weight > 0 else None
        return {
            "standard_errors": None if of_mean is None else of_mean.tolist(),
            "standard_error_of_weight": deviation / plan.rows.rows.units,
            "worst_rounding": (rounding_of_entry(plan.params) / plan.rows.rows.units * scales).tolist(),
            **({"n_rows_standard_error": deviation / plan.rows.rows.units} if plan.rows.weight_column is None else {}),
        }
    assert isinstance(plan.rows, ScaledRows)
    unit = np.array(plan.rows.scales) / plan.rows.units
    return {
        "standard_errors": (deviation * unit).tolist(),
        "worst_rounding": (plan.worst_rounding * unit).tolist(),
    }


def survival(job: Job, what: str = "a masked sum") -> Survival:
    """Return how many parties of a sum may drop out: the survivors' shares must suffice to remove all masks.

    Args:
        job: what is asked for.
        what: the opened sums, in words.
    """
    n = len(job.compute_parties)
    needed = topology_of_parties(n, job.t).fewest_survivors
    opened = OpeningSurvival(what, needed, n - needed, 0)
    return Survival(n, job.t, len(job.members) - n, (opened,), is_masked_sum=True)


ANALYSIS = Analysis(
    names=(SUM, MEAN, HISTOGRAM),
    parameters=TableSumParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=survival,
    page="analyses/sums.md",
    demo="sum",
    own_forecast=forecast,
    signal=signal,
    reference=reference,
    may_be_exact=True,
    own_rows=True,
    joins=False,
)
