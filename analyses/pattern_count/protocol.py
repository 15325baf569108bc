"""How many rows of a vertically partitioned table have each combination of categories: pattern counting.

Each of v parties brings one categorical column, of integers between public bounds. Three methods:

* `mpc`: indicators are multiplied and summed under shares, and noise that nobody knows is added once, as if somebody
  held all columns. The default.
* `randomized-response`: each party reports every indicator of every row, most of them false [VertPrim23, theorem B.1].
  Nothing is multiplied in secret; the error grows like sqrt(rows) and with the v-th power of the noise.
* `subsampled`: the same for a secret sample of the rows [VertPrim23, theorem B.2]: less to send, and the coordinator,
  who does not know the sample, learns less of each row.

Differences from the paper (docs/analyses/pattern-count.md): the exact constant of randomized response; the cost is that
of a record of the joint table, not of one party's part of it; rows are reported from secret places among `max_rows`
slots, so that their number stays hidden; counts come unbiased, with standard errors, and clipped beside.
"""

import asyncio
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import ceil, log, prod
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from analyses.job.analysis import Analysis
from analyses.job.declared_rows import JointRowsParams, parameters_of
from analyses.job.job import Finite, Job, JobError
from analyses.job.plan import OPENING_STAGE, Plan, check_roster, check_schemas, protected_of
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.job.survival import by_parameter
from analyses.pattern_count.products import count_patterns
from analyses.pattern_count.reports import PatternReports, PatternTally
from analyses.rows.integer_column import IntegerColumn, integer_columns
from analyses.rows.meeting import meet
from analyses.rows.slots import MAX_SLOTS, place_rows
from analyses.rows.surplus import n_surplus, rows_that_count
from dp.cost.accounting import CalibrationError
from dp.cost.composition import composed_epsilon
from dp.cost.report import privacy_report
from dp.cost.views import PERSON, VIEWS, Protected, View
from dp.mechanism.bits import BIAS_UNIT, RandomizedBits
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldTooSmallError
from mpc.protocol.computation import Computation, OpenedArray
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import COORDINATOR, Session
from mpc.protocol.shared import SharedArray, concatenate

MAX_CELLS = 1 << 15
"""Patterns of one job: their counts are a list in the result."""

MAX_PARTIES = 6
"""With columns. Randomized response tells nothing about patterns of more."""

CELL_SENSITIVITY: Mapping[View, VectorSensitivity] = {
    "coordinator": VectorSensitivity(1, 1),
    "coalition": VectorSensitivity(2, 2),
}
"""A record sits in one cell: present or absent it moves one count by 1, replaced two. k rows of a person may all sit in
one cell, and move it by k, replaced two of them by k: what `dp.cost.group` says is attained."""

MOST_REPORTED_BITS = 20_000
"""Of one person, in all its rows: so many releases are composed."""

COMPUTATION = "patterns"

NO_CATEGORY = -1
"""Of a row that does not count."""


class PatternCountParams(JointRowsParams):
    """Parameters of the analysis.

    Attributes:
        method: see the module.
        max_rows: see `JointRowsParams`. `mpc`: sizes the field, nothing else. Otherwise so many
            slots are reported on, and the error grows with its root.
        share: of the slots that are reported, with `subsampled` only.
    """

    method: Literal["mpc", "randomized-response", "subsampled"] = "mpc"
    max_rows: Annotated[int, Field(ge=2, le=1 << 100)]
    share: Annotated[Finite, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _a_share_belongs_to_a_sample(self) -> Self:
        if (self.share is None) != (self.method != "subsampled"):
            raise ValueError("share: needed with method 'subsampled', and only there")
        if self.unit == "person" and self.method == "subsampled":
            raise ValueError(
                "unit: what a sample of slots costs a person with several rows is not known; take method 'mpc' or "
                "'randomized-response'"
            )
        return self


class PatternCountPlan(Plan):
    """What all participants agree on before the count.

    Attributes:
        params: validated parameters.
        party_mu: Skellam parameter of each party's noise; 0 but for `mpc`.
        bias_units: of randomized response, in `dp.mechanism.bits.BIAS_UNIT`; 0 for `mpc`.
    """

    params: PatternCountParams
    party_mu: int = 0
    bias_units: int = 0

    @property
    def columns(self) -> tuple[IntegerColumn, ...]:
        """Of the owners, in the order of the inputs."""
        return integer_columns(self.job, self.schemas)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of categories."""
        return tuple(column.n_values for column in self.columns)

    @cached_property
    def noise(self) -> SharedSkellam:
        """The release of `mpc`."""
        return SharedSkellam(
            prod(self.shape), CELL_SENSITIVITY, self.n_parties, self.job.t, self.party_mu, protected=self.protected
        )

    @cached_property
    def reports(self) -> PatternReports:
        """What is reported by the other methods."""
        return _reports(self.params, self.shape, RandomizedBits(self.bias_units * BIAS_UNIT), self.protected)

    @property
    def opened_bound(self) -> int:
        """Bound on the size of what `mpc` opens."""
        return self.params.max_rows + self.noise.noise_tail_bound(LOG2_WRAP_PROBABILITY)

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The one release of `mpc`; or the reports of all owners, of which each draws flips for each block of slots."""
        if self.params.method == "mpc":
            return (PlannedRelease(self.noise, self.compute_members),)
        return (PlannedRelease(self.reports, self.owners, times=self.reports.n_blocks),)

    def privacy_report(self) -> dict[str, Any]:
        """Return the cost in both views."""
        delta = self.job.privacy.delta
        if self.params.method == "mpc":
            return self.noise.report("counts of all patterns", delta)
        reports = self.reports
        odds = reports.bits.truthful / (1 - reports.bits.truthful)
        known = "which rows are reported is known" if self.params.method == "subsampled" else "as for the coordinator"
        return privacy_report(
            mechanism=f"indicators of each party's categories in {reports.n_reported} of {reports.n_slots} slots, "
            f"each bit true with probability {float(reports.bits.truthful):.6g}",
            sensitivity="a record sets one bit per party (add_or_remove_one), or moves it (replace_one)"
            + self.protected.times,
            n_parties=self.n_parties,
            colluding=self.job.t,
            delta=delta,
            events={view: reports.events(view) for view in VIEWS},
            noise={"coordinator": "all flips of bits and the rows' places are unknown", "coalition": known},
            parameters={
                "method": self.params.method,
                "bias": float(reports.bits.bias),
                "slots": reports.n_slots,
                "reported": reports.n_reported,
                "epsilon_of_one_party_alone": 2 * log(odds) * self.protected.most_rows * (1 + 2.0**-50),
            },
            unit=self.protected.name,
        )

    @property
    def privacy_unit(self) -> str:
        """What the mechanism protects."""
        return self.protected.name


def _reports(
    params: PatternCountParams, shape: tuple[int, ...], bits: RandomizedBits, protected: Protected
) -> PatternReports:
    n_slots = params.max_rows
    n_reported = n_slots if params.share is None else max(2, ceil(Fraction(params.share) * n_slots))
    return PatternReports(shape, n_slots, n_reported, bits, protected)


def plan(job: Job, schemas: Sequence[BlockSchema]) -> PatternCountPlan:
    """Fix everything public: categories, noise, field.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, PatternCountParams)
    shape = tuple(column.n_values for column in integer_columns(job, schemas))
    if len(shape) > MAX_PARTIES:
        raise JobError(f"inputs: patterns of {len(shape)} parties; at most {MAX_PARTIES} can be counted")
    n_cells = prod(shape)
    if n_cells > MAX_CELLS:
        shown = n_cells if n_cells < 1 << 60 else f"some 2^{n_cells.bit_length() - 1}"
        raise JobError(f"inputs: {shown} patterns; at most {MAX_CELLS} are counted. Use coarser categories")
    try:
        made = _calibrated(job, tuple(schemas), params, shape)
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except FieldTooSmallError as error:
        raise JobError(f"parameters.max_rows: {error}") from error
    _check_signal(made)
    return made


def _check_signal(planned: PatternCountPlan) -> None:
    """Refuse a budget so small that noise drowns all there is. Looks at public numbers only.

    Raises:
        JobError: names the epsilon.
    """
    by_mpc, max_rows = planned.params.method == "mpc", planned.params.max_rows
    off = planned.noise.standard_deviation("coordinator") if by_mpc else planned.reports.least_deviation
    if off > max_rows:
        raise JobError(
            f"privacy.epsilon: so small that a count is off by {off:.3g} rows, of {max_rows:.3g} in all (max_rows); "
            "allow a larger one" + ("" if by_mpc else ", or use method 'mpc'")
        )


def _calibrated(
    job: Job, schemas: tuple[BlockSchema, ...], params: PatternCountParams, shape: tuple[int, ...]
) -> PatternCountPlan:
    target, protected = job.privacy, protected_of(job, schemas)
    if params.method == "mpc":
        n_parties = len(job.compute_parties)
        noise = SharedSkellam.calibrate(
            length=prod(shape),
            sensitivities=CELL_SENSITIVITY,
            n_parties=n_parties,
            colluding=job.t,
            view=target.view,
            epsilon=target.epsilon,
            delta=target.delta,
            protected=protected,
        )
        bound = params.max_rows + noise.noise_tail_bound(LOG2_WRAP_PROBABILITY)
        n_primes = len(ResidueField.for_bound(bound).primes)
        return PatternCountPlan(job=job, schemas=schemas, n_primes=n_primes, params=params, party_mu=noise.party_mu)
    if params.max_rows > MAX_SLOTS:
        raise JobError(f"parameters.max_rows: method {params.method!r} reports about at most {MAX_SLOTS} rows")
    if 2 * len(shape) * protected.most_rows > MOST_REPORTED_BITS:
        raise JobError(
            f"parameters.method: {params.method!r} reports more than {MOST_REPORTED_BITS} bits of a person whose "
            f"{protected.most_rows} rows count; take method 'mpc'"
        )

    def epsilon_of(bits: RandomizedBits) -> float:
        events = _reports(params, shape, bits, protected).events(target.view)
        return composed_epsilon(events, target.delta, near=target.epsilon).epsilon

    bits = RandomizedBits.largest_bias(epsilon_of, epsilon=target.epsilon, delta=target.delta)
    units = int(bits.bias / BIAS_UNIT)
    return PatternCountPlan(job=job, schemas=schemas, n_primes=3, params=params, bias_units=units)


async def party(session: Session, plan: PatternCountPlan, table: Table | None) -> LocalReport:
    """Run a party's part: agree on keys, check that rows match, then multiply under shares or report.

    Args:
        session: my end of the job.
        plan: computed by this party itself.
        table: my rows, one column; None for a compute party without columns.

    Returns:
        How many of my values were no categories and became the nearest one (`analyses.rows.integer_column`).

    Raises:
        UnequalValuesError: the tables do not hold the same rows in the same order.
        PeerError: a member is silent, lost or violates the protocol.
    """
    categories, n_mapped = None, 0
    if table is not None:
        column = plan.columns[plan.owners.index(session.me)]
        categories, n_mapped = await session.compute(column.categories, table)
    exchange, n_rows = await meet(session, plan, table)
    counting = await rows_that_count(exchange, plan, table)
    if categories is not None and counting is not None:
        categories = np.where(counting, categories, NO_CATEGORY)
    if plan.params.method == "mpc":
        await _count_under_shares(exchange, plan, categories, n_rows, n_surplus(counting))
    elif categories is not None:
        await _report(exchange, plan, categories)
    names = () if table is None else tuple(c.name for c in table.schema.columns)
    return LocalReport(n_rows, dict.fromkeys(names, 0), 0, dict.fromkeys(names, n_mapped), n_surplus(counting))


async def _count_under_shares(
    exchange: ShareExchange, plan: PatternCountPlan, categories: NDArray[np.int64] | None, n_rows: int, surplus: int
) -> None:
    """Share noise and indicators, count, and open.

    `count_patterns` takes a row without any indicator for one of the last category of every party. So the first owner,
    who knows how many rows do not count, shares their number, and it is subtracted there.
    """
    session, c = exchange.session, Computation(exchange, COMPUTATION)
    session.progress("noise", 0, 1)
    tail = plan.noise.noise_tail_bound(LOG2_WRAP_PROBABILITY)
    mine = None
    if exchange.am_receiver:
        mine = await session.draw(plan.noise)
    noise = await c.inputs(dict.fromkeys(range(1, plan.n_parties + 1), (prod(plan.shape),)), mine, bound=tail)
    shared_surplus = None
    if plan.protected.name == PERSON:
        told = np.array([surplus]) if session.me == plan.owners[0] else None
        shared_surplus = (await c.inputs({plan.owners[0]: (1,)}, told, bound=plan.params.max_rows))[plan.owners[0]]
    counts = await count_patterns(exchange, c, plan.owners, plan.shape, categories, n_rows, plan.params.max_rows)
    if shared_surplus is not None:
        others = c.public(np.zeros(prod(plan.shape) - 1, dtype=np.int64))
        counts = counts - concatenate([others, shared_surplus], 0)
    session.progress(OPENING_STAGE, 0, 1)
    await c.open(_bounded(sum(noise.values(), start=counts), plan))
    session.progress(OPENING_STAGE, 1, 1)


def _bounded(counts: SharedArray, plan: PatternCountPlan) -> SharedArray:
    return SharedArray(counts.field, counts.shape, counts.degree, plan.opened_bound, counts.share)


async def _report(exchange: ShareExchange, plan: PatternCountPlan, categories: NDArray[np.int64]) -> None:
    session, reports = exchange.session, plan.reports
    slots = await place_rows(exchange, plan.owners, len(categories), reports.n_slots, reports.n_reported)
    mine = plan.owners.index(session.me)
    for block in reports.blocks():
        rows = slots[block.start : block.stop]
        in_slots = np.where(rows >= 0, categories[rows], -1)
        flips = await session.draw(reports, mine, len(block))
        message = await session.compute(reports.packed, mine, in_slots, flips)
        await session.send(COORDINATOR, OPENING_STAGE, message)
        session.progress(OPENING_STAGE, 100 * block.stop // reports.n_reported, 100)


async def coordinator(session: Session, plan: PatternCountPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the noisy counts, or estimate them from the reports.

    Returns:
        JSON-able: `columns`; `categories`, per column the smallest and the largest; `counts`, nested lists with one
        level per column, unbiased; `clipped_counts`, negative ones raised to 0; `standard_errors`, of the counts, by
        noise (and, with `subsampled`, by sampling); `wrong_shares_from`, names of parties whose shares were wrong and
        corrected; `privacy`, the report.

    Raises:
        PeerError: too few parties sent their part.
        InconsistentSharesError: wrong shares that cannot be corrected.
    """
    wrong: tuple[int, ...] = ()
    if plan.params.method == "mpc":
        opened = await _open(session, plan)
        counts, wrong = opened.values.reshape(plan.shape).astype(np.float64), opened.wrong
        errors = np.full(plan.shape, plan.noise.standard_deviation("coordinator"))
    else:
        tally = PatternTally(plan.reports)
        for block in plan.reports.blocks():
            sizes = [plan.reports.message_bytes(j, block) for j in range(len(plan.owners))]
            coming = [
                session.receive(owner, OPENING_STAGE, (size,), np.uint8)
                for owner, size in zip(plan.owners, sizes, strict=True)
            ]
            await session.compute(tally.add, block, await asyncio.gather(*coming))
        estimate = tally.estimate()
        counts, errors = estimate.counts, estimate.standard_errors
    return {
        "analysis": "pattern-count",
        "method": plan.params.method,
        "columns": [column.name for column in plan.columns],
        "categories": {column.name: [column.lower, column.upper] for column in plan.columns},
        "counts": counts.tolist(),
        "clipped_counts": np.maximum(counts, 0).tolist(),
        "standard_errors": errors.tolist(),
        "wrong_shares_from": [session.names[member] for member in wrong],
        "privacy": plan.privacy_report(),
    }


async def _open(session: Session, plan: PatternCountPlan) -> OpenedArray:
    field = ResidueField(plan.n_primes)
    exchange = ShareExchange(session, field, plan.n_parties, plan.job.t, {})
    outline = SharedArray(field, (prod(plan.shape),), 2 * plan.job.t, plan.opened_bound, None)
    opened = await Computation(exchange, COMPUTATION).open(outline)
    assert opened is not None
    return opened


def reference(tables: Sequence[Table], plan: PatternCountPlan) -> NDArray[np.int64]:
    """Return the exact counts, shape `plan.shape`, of the categories that values are or become: no privacy.

    Args:
        tables: of the owners, in the order of the inputs.
        plan: as for the job.
    """
    categories = [column.categories(table)[0] for column, table in zip(plan.columns, tables, strict=True)]
    cells = np.ravel_multi_index(categories, plan.shape)
    return np.bincount(cells, minlength=prod(plan.shape)).reshape(plan.shape)


ANALYSIS = Analysis(
    names=("pattern-count",),
    parameters=PatternCountParams,
    plan=plan,
    party=party,
    coordinator=coordinator,
    survival=by_parameter("method"),
    page="analyses/pattern-count.md",
    demo="pattern-count",
    reference=reference,
)
