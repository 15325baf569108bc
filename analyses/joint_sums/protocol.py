"""`joint-count`, `joint-sum`, `joint-mean`: over the rows that several owners hold different columns of.

Every row is (c, x): a constant and all columns in integer units. Their sums are released once, with noise that nobody
knows: the constant's tells the number of rows, and a mean is a ratio. A sum is linear, so owners who know which of
their rows count add them up themselves and share one vector each; where rows are matched in secret all rows are shared,
and a product with the shared bit of a match decides which are added.

    step                                                       function
    rows become integers, 0 in the middle of their bounds      `UnitRows.quantise`
    every party brings a part of the noise                     `JointComputation.noise_of`
    owners share the sums of their own columns                 `JointComputation.row_sums`
    or all rows, which are added where they match              `SecretRows.row_sums`
    noisy sums are opened, once                                `JointComputation.release`
    the number of rows, sums and means, with errors            `estimates`, `ratio_intervals`
    or, of tables of different people, who is at which owner   `count_bins`, `open_bins`
"""

from typing import Any

import numpy as np

from analyses.job.analysis import Analysis, by_plan
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import products_opened_once
from analyses.joint_sums.bin_counts import count_bins, open_bins
from analyses.joint_sums.bin_plan import BinPlan
from analyses.joint_sums.estimate import Estimates, estimates
from analyses.joint_sums.forecast import forecast, forecast_of_people, signal, signal_of_people
from analyses.joint_sums.parameters import JointSumParams
from analyses.joint_sums.plan import COUNT, MEAN, SUM, JointSumPlan, plan
from analyses.joint_sums.reference import reference, reference_of_people
from analyses.rows.joint_computation import JointComputation, joined
from analyses.rows.own_rows import report_of
from analyses.rows.surplus import n_surplus
from mpc.protocol.session import Session
from mpc.protocol.shared import concatenate

__all__ = ["ANALYSIS", "JointSumParams", "JointSumPlan", "coordinator", "party", "plan", "reference"]


async def party(session: Session, plan: JointSumPlan, table: Table | None) -> LocalReport:
    """Run a party's part: agree on keys, check that rows match, share noise and sums, send the noisy share.

    Args:
        session: my end of the job.
        plan: computed by this party itself.
        table: my rows, columns as in my schema; None for a compute party without columns.

    Raises:
        UnequalValuesError: the tables do not hold the same rows in the same order.
        PeerError: a member is silent, drops out or violates the protocol.

    Privacy: at most t colluding parties learn nothing but the released sums; see `sensitivities` for what they cost.
    Cost: 6 rounds; 8 * n_words * (N - t) bytes per column, or, matched in secret, what `SecretMatch` says.
    """
    async with joined(session, plan, table) as (c, n_rows, counting, table):
        mine = plan.own_rows(session.me, table, counting) if table is not None and plan.widths else None
        total = await c.noise_of(plan.noise, (plan.n_released,))
        n_counting = n_rows - n_surplus(counting)
        sums = await c.row_sums(plan.owners, plan.widths, n_rows, mine, n_counting, bound=plan.total_bound)
        total += concatenate([sums[:1] * plan.constant, sums[1:]])
        await c.release(total)
    if table is not None and mine is None:
        return LocalReport(n_rows, {}, 0, surplus_rows=n_surplus(counting))
    return report_of(mine, n_rows)


async def coordinator(session: Session, plan: JointSumPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the noisy sums.

    Returns:
        JSON-able: `n_rows`, about the number of rows; `n_rows_standard_error`, `n_rows_interval`; but for `joint-count`
        `columns`, `bounds` and per column `sum`, `sum_standard_errors`, `mean`, `mean_standard_errors`,
        `mean_intervals`; those of means are None where the number of rows is within its noise, an interval also where
        the noise moved the mean out of the bounds; `wrong_shares_from`, names of the parties whose corrupted shares
        were corrected; `privacy`, the report. Errors and 95 % intervals are of noise alone.

    Raises:
        PeerError: fewer than 2t + 1 parties sent their share.
        InconsistentSharesError: there are corrupted shares that cannot be corrected.
    """
    c = JointComputation.of_coordinator(session, plan)
    opened = await c.open_noisy(c.noisy_outline((plan.n_released,)))
    assert opened is not None, "the coordinator is the receiver"
    return {
        "analysis": plan.job.analysis,
        **answer(estimates(np.asarray(opened.values), plan), plan),
        "wrong_shares_from": c.names_of(opened.wrong),
        "privacy": plan.privacy_report(),
    }


def answer(found: Estimates, plan: JointSumPlan) -> dict[str, Any]:
    """Return what was found as JSON data."""
    count = {
        "n_rows": found.n_rows,
        "n_rows_standard_error": found.n_rows_error,
        "n_rows_interval": list(found.n_rows_interval),
    }
    if not plan.widths:
        return count
    means, ends = None if found.means is None else found.means.tolist(), found.mean_intervals
    return count | {
        "columns": list(plan.names),
        "bounds": [[column.lower, column.upper] for column in plan.summed],
        "sum": found.sums.tolist(),
        "sum_standard_errors": found.sum_errors.tolist(),
        "mean": means,
        "mean_standard_errors": None if found.mean_errors is None else found.mean_errors.tolist(),
        "mean_intervals": None if ends is None else [None if one is None else list(one) for one in ends],
    }


ANALYSIS = Analysis(
    names=(COUNT, MEAN, SUM),
    parameters=JointSumParams,
    own_plan=plan,
    own_party=by_plan({JointSumPlan: party, BinPlan: count_bins}),
    coordinator=by_plan({JointSumPlan: coordinator, BinPlan: open_bins}),
    survival=products_opened_once,
    page="analyses/joint-sums.md",
    demo="joint-mean",
    own_forecast=by_plan({JointSumPlan: forecast, BinPlan: forecast_of_people}),
    signal=by_plan({JointSumPlan: signal, BinPlan: signal_of_people}),
    reference=by_plan({JointSumPlan: reference, BinPlan: reference_of_people}),
    matching=("revealed", "secret"),
    apart=("bins",),
)
