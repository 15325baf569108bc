"""The public plan of `analyses.sums.protocol`: parameters, what a row contributes, the noise, and what that costs.

What the noise protects is the job's choice, and a budget is kept per unit, so the owners decide which they accept:

| unit | one of them moves the sum by |
| --- | --- |
| `record` | the rows of all N parties together, at most one at each: N times what a row can |
| `row` | one row of one party |
| `party` | one party's whole contribution, shortened to `party_norm` |
| `person` | its rows that count at all parties: the sum of all `most_rows_per_person` times what a row can |
| `person-at-party` | its rows that count at one party: the largest `most_rows_per_person` times what a row can |

Of a person's rows at a party no more than it declares are added up: which, a keyed hash says that looks at no other
person (`analyses.job.row_ids.Persons`), under a key that the party draws for the job. Nobody sees how many rows count,
so the others are left out. k rows of vectors v move the sum by at most k |v|, in each norm, and equal ones by that
much.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from analyses.job.declared_rows import largest_declared
from analyses.job.job import Job, JobError, parameters_error
from analyses.job.plan import Plan, check_roster, rows_per_person
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.rows.reach import most_nonzero
from analyses.rows.traffic import traffic_of
from analyses.sums.noise import SumNoise, SumSensitivity
from analyses.sums.parameters import MAX_UNITS, TableSumParams, check_params, check_schemas
from analyses.sums.round import HISTOGRAM, SUM, calibrated, configure, levels_of, ring_for
from analyses.sums.row_vectors import MAX_ENTRY, BinnedRows, RowVectors, ScaledRows, WeightedRows, scales_of
from analyses.sums.sessions import session_sum
from analyses.sums.vector_bound import VectorBound
from dp.cost.report import no_guarantee_report
from dp.cost.views import PERSON, PERSON_AT_PARTY_UNIT, ROW_UNIT, TABLE_UNIT, UNIT, VIEWS, View
from mpc.errors import ProtocolError
from mpc.protocol.session import Session
from mpc.secagg.config import RoundConfig, Topology
from mpc.secagg.vector.encoding import VectorEncoding
from mpc.secagg.vector.group import RingGroup
from mpc.traffic.sums import masked_sum
from mpc.traffic.walk import Traffic
from mpc.transcript import RoundId

PERSON_AT_PARTY = "person-at-party"

UNITS: Mapping[str, str] = {
    "record": UNIT,
    "row": ROW_UNIT,
    "party": TABLE_UNIT,
    PERSON: PERSON,
    PERSON_AT_PARTY: PERSON_AT_PARTY_UNIT,
}
"""The privacy units that a job may choose, and their names in budgets and reports."""

_UNITS_TO_MEASURE = 1 << 10


class TableSumPlan(Plan):
    """What all participants agree on before a sum.

    Attributes:
        params: validated parameters.
        mu: Skellam parameter of the noise that stays in the sum, 0 where it is of another kind; None for an exact
            answer.
        ring_bits: size of the ring that holds the sum.
        mean_units: parameter of shares of discrete Laplace noise (`analyses.sums.noise.SumNoise`), else 0.
    """

    params: TableSumParams
    mu: int | None
    ring_bits: int
    mean_units: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether the answer has no noise, and so no privacy guarantee."""
        return self.mu is None

    @property
    def topology(self) -> Topology:
        """The graph of the round: the complete graph."""
        return Topology.complete(self.n_parties, self.job.t)

    @cached_property
    def rows(self) -> RowVectors:
        """The rule that makes the vector of a row."""
        return _row_vectors(self.job.analysis, self.params, self.schemas)

    @cached_property
    def encoding(self) -> VectorEncoding:
        """The encoding of a party's contribution in the round."""
        return _encoding(self.rows, self.params)

    @cached_property
    def most_rows_of(self) -> Mapping[str, int]:
        """Party to the number of rows of one person that count there; empty where all rows count."""
        return _rows_that_count(self.job, self.params, self.schemas)

    @cached_property
    def sensitivities(self) -> dict[View, SumSensitivity]:
        """The sensitivity of the sum to one protected unit."""
        return _sensitivities(self.rows, self.params, self.n_parties, self.most_rows_of)

    @property
    def worst_rounding(self) -> float:
        """Bound of how far rounding moves an entry of the sum of all rows, whatever they hold, in units."""
        return _worst_rounding(self.params, self.rows, self.n_parties)

    @cached_property
    def noise(self) -> SumNoise | None:
        """The noise, None for an exact answer."""
        if self.mu is None:
            return None
        topology = self.topology
        return SumNoise(
            self.mu,
            self.rows.n_entries,
            levels_of(topology),
            topology.n_corrupt,
            self.sensitivities,
            self.mean_units,
        )

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that is protected."""
        return UNITS[self.params.unit]

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The one release, with as few survivors as may be; nothing for an exact answer.

        Noise is drawn for each attempt, before the masked vector. Attempts that fail open nothing, and at most one of a
        job's attempts is ever opened (`analyses.sums.sessions.session_sum`).
        """
        if self.noise is None:
            return ()
        return (
            PlannedRelease(
                self.noise,
                self.compute_members,
                times=session_sum.MAX_ATTEMPTS,
                earlier=session_sum.STAGES_BEFORE_VECTORS,
                messages_per_draw=session_sum.MESSAGES_FROM_VECTOR,
            ),
        )

    def report_of_releases(self) -> dict[str, Any]:
        """Return what the job costs, or that it has no guarantee."""
        noise, job = self.noise, self.job
        if noise is None:
            return no_guarantee_report(
                mechanism=f"{job.analysis}: an exact masked sum", n_parties=self.n_parties, colluding=job.t
            )
        return noise.report(job.analysis, job.privacy.delta)

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan`; rows stay with their owners."""
        return masked_sum(traffic_of(self), self.n_parties, self.config_of)

    def config_of(self, session: Session, attempt: int, identities: Mapping[int, bytes]) -> RoundConfig:
        """Return the configuration of an attempt, the same for all participants."""
        return configure(
            RoundId(session.job_id, 0, attempt),
            [(session.names[i], identities[i]) for i in range(1, self.n_parties + 1)],
            self.topology,
            RingGroup(self.ring_bits),
            self.job.analysis,
            self.encoding,
            self.noise,
        )


def plan(job: Job, schemas: Sequence[BlockSchema]) -> TableSumPlan:
    """Fix everything public: encoding, noise, ring.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    try:
        params = TableSumParams.model_validate(largest_declared(schemas) | job.parameters)
    except ValidationError as error:
        raise parameters_error(error, TableSumParams) from None
    check_params(job.analysis, params, schemas, is_noisy=job.target is not None)
    n = len(job.compute_parties)
    try:
        if params.units is None and not params.edges:
            params = params.model_copy(update={"units": planned_units(job, params, tuple(schemas))})
        topology = Topology.complete(n, job.t)
        rows = _row_vectors(job.analysis, params, schemas)
        if rows.largest_entry > MAX_ENTRY:
            raise JobError("parameters.units, parameters.weight: units times the largest weight must not exceed 2^30")
        encoding = _encoding(rows, params)
        noise = None
        if job.target is not None:
            moved = _sensitivities(rows, params, n, _rows_that_count(job, params, tuple(schemas)))
            noise = calibrated(moved, job.target, rows.n_entries, topology)
        ring = ring_for(n, encoding, noise)
    except ProtocolError as error:
        raise JobError(f"parameters.max_rows, parameters.units: {error}") from error
    return TableSumPlan(
        job=job,
        schemas=tuple(schemas),
        n_primes=0,
        params=params,
        mu=None if noise is None else noise.mu,
        ring_bits=ring.bits,
        mean_units=0 if noise is None else noise.mean_units,
    )


def _worst_rounding(params: TableSumParams, rows: RowVectors, n_parties: int) -> float:
    if params.units is None:
        return 0.0
    return n_parties * params.max_rows * (rows.largest_entry // params.units) * rounding_of_entry(params)


def rounding_of_entry(params: TableSumParams) -> float:
    """Return how far rounding moves an entry of a row at worst, in units: rows near their norm go toward zero."""
    return 0.5 if params.row_norm is None else 1.0


def planned_units(job: Job, params: TableSumParams, schemas: tuple[BlockSchema, ...]) -> int:
    """Return the least power of two of units with which rounding errs by a tenth of the noise at most, or the largest.

    Noise is in proportion to the units; it is measured at `_UNITS_TO_MEASURE`.

    Raises:
        JobError: no noise on offer meets the target.
    """
    assert job.target is not None, "units without noise are asked for"
    measured = params.model_copy(update={"units": _UNITS_TO_MEASURE})
    n, rows = len(job.compute_parties), _row_vectors(job.analysis, measured, schemas)
    moved = _sensitivities(rows, measured, n, _rows_that_count(job, params, schemas))
    topology = Topology.complete(n, job.t)
    noise = calibrated(moved, job.target, rows.n_entries, topology)
    deviation = math.sqrt(noise.variance(topology.fewest_survivors)) / _UNITS_TO_MEASURE
    units, n_columns, weight = _UNITS_TO_MEASURE, len(schemas[0].columns), rows.largest_entry // _UNITS_TO_MEASURE
    while (
        _worst_rounding(measured, rows, n) > deviation * units / 10
        and 2 * units <= MAX_UNITS
        and n_columns * (2 * units) ** 2 < 1 << 62
        and weight * 2 * units <= MAX_ENTRY
        and params.max_rows * weight * 2 * units <= 1 << 53
    ):
        units *= 2
    return units


def _rows_that_count(job: Job, params: TableSumParams, schemas: tuple[BlockSchema, ...]) -> Mapping[str, int]:
    return rows_per_person(job, schemas) if params.unit in (PERSON, PERSON_AT_PARTY) else {}


def _row_vectors(analysis: str, params: TableSumParams, schemas: Sequence[BlockSchema]) -> RowVectors:
    if analysis == HISTOGRAM:
        return BinnedRows(
            params.edges,
            any(schema.columns[0].lower < params.edges[0] for schema in schemas),
            any(schema.columns[0].upper > params.edges[-1] for schema in schemas),
        )
    assert params.units is not None
    scales, weight, largest_weight = list(scales_of(schemas)), params.weight, 1
    if weight is not None:
        largest_weight = math.floor(scales.pop(weight))
    lowest = min(c.lower for schema in schemas for i, c in enumerate(schema.columns) if i != weight)
    summed = ([c for i, c in enumerate(schema.columns) if i != weight] for schema in schemas)
    most = max(most_nonzero(columns) for columns in summed)
    rows = ScaledRows(tuple(scales), params.units, params.row_norm, is_non_negative=lowest >= 0, most_nonzero=most)
    return rows if analysis == SUM else WeightedRows(rows, weight, largest_weight)


def _encoding(rows: RowVectors, params: TableSumParams) -> VectorEncoding:
    norm = None if params.party_norm is None else params.party_norm * (params.units or 1)
    return VectorEncoding(rows.n_entries, float(params.max_rows * rows.largest_entry), norm_clip=norm)


def _sensitivities(
    rows: RowVectors, params: TableSumParams, n_parties: int, most_rows_of: Mapping[str, int]
) -> dict[View, SumSensitivity]:
    unit, bound, times = UNITS[params.unit], rows.bound, 1
    if params.unit == "party":
        encoding = _encoding(rows, params)
        width = encoding.largest_entry * (1 if bound.is_non_negative else 2)
        bound = VectorBound((width,) * rows.n_entries, encoding.squared_norm_bound, bound.is_non_negative)
    elif params.unit == "record":
        times = n_parties  # N vectors move at once: the norms add up, by the triangle inequality
    elif params.unit == PERSON:
        times = sum(most_rows_of.values())
    elif params.unit == PERSON_AT_PARTY:
        times = max(most_rows_of.values())
    found = {view: bound.sensitivity(view, unit) for view in VIEWS}
    return {
        view: SumSensitivity(times**2 * moved.squared_l2, times * moved.l1, moved.adjacency, unit)
        for view, moved in found.items()
    }
