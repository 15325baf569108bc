"""`secure-sum`, `secure-mean`, `secure-histogram`: over the rows of all parties' tables, as jobs.

Every party adds up its own rows (`analyses.sums.row_vectors`) and the parties' totals are added as a masked sum
(`analyses.sums.session_sum`): the coordinator learns the survivors' sum, and once every party has committed the cost,
parties may vanish. With a privacy target the members add noise of which exactly the intended amount stays whoever
survives (`analyses.sums.noise`). Without one the answer is exact, and nobody is protected: parties refuse that
unless their owner allows it by name.

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
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from analyses.job.analysis import Analysis
from analyses.job.job import Finite, Job, JobError, PublicModel, explain
from analyses.job.plan import Plan, check_roster, rows_per_person
from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.job.survival import OpeningSurvival, Survival
from analyses.rows.quantise import MOST_PER_UNIT
from analyses.rows.surplus import counting_rows, n_surplus, own_key
from analyses.sums import session_sum
from analyses.sums.noise import SumNoise, SumSensitivity, survivor_levels
from analyses.sums.row_vectors import (
    LARGEST_ENTRY,
    BinnedRows,
    RowVectors,
    ScaledRows,
    VectorBound,
    WeightedRows,
    scales_of,
)
from analyses.sums.secure_sum import LOG2_WRAP_PROBABILITY
from dp.cost.accounting import CalibrationError
from dp.cost.events import PrivacyEvent
from dp.cost.report import no_guarantee_report
from dp.cost.views import PERSON, ROW_OF_PARTY, UNIT, VIEWS, View
from mpc.errors import ProtocolError
from mpc.protocol.session import Session
from mpc.secagg.config import LARGEST_COMPLETE_GRAPH, RosterEntry, RoundConfig, Topology
from mpc.secagg.encoding import VectorEncoding
from mpc.secagg.group import LARGEST_RING_BITS, SMALLEST_RING_BITS, RingGroup
from mpc.secagg.opened_sum import OpenedSum
from mpc.transcript import RoundId

SUM, MEAN, HISTOGRAM = "secure-sum", "secure-mean", "secure-histogram"

STAGES_PER_DEADLINE = 4
"""A stage lasts at most the job's deadline divided by this. A party that has answered waits for a whole deadline: for
the end of the stage, and before it for the last keys, or for a message to somebody who takes none."""

PERSON_AT_PARTY = "person-at-party"

UNITS: Mapping[str, str] = {
    "record": UNIT,
    "row": ROW_OF_PARTY,
    "party": "whole table of one party",
    PERSON: PERSON,
    PERSON_AT_PARTY: "person in one party's table",
}
"""What a job may protect, and how budgets and reports call it."""

SHORTENED = "the whole contribution, by party_norm"
"""Under this name the owner's report counts that the total was shortened."""

Integers = NDArray[np.int64]


class TableSumParams(PublicModel):
    """Parameters of the three analyses.

    Attributes:
        max_rows: public bound of the rows of each party, which sizes the ring. A party with more clips its totals to
            what so many rows can come to; its own report says so.
        units: integer units per 1 of a scaled value, for sums and means: values are divided by the largest size that
            the public bounds of their column allow, and rounded toward zero to whole units.
        row_norm: for sums and means, public bound of the Euclidean norm of a scaled row; longer rows are shortened.
            Default: none is.
        weight: for means, index (from 0) of the column of each row's weight, a whole number; absent: each row weighs 1.
        edges: of the bins of a histogram, ascending; each bin includes its lower edge, the last its upper edge too.
        unit: what is protected; see `UNITS`.
        party_norm: with `unit` party: Euclidean norm to which a party's contribution is shortened, in scaled rows.
        attempts: so many rounds, with fresh keys, before a sum fails that too few parties answer.
    """

    max_rows: Annotated[int, Field(ge=1, le=1 << 40)]
    units: Annotated[int, Field(ge=1, le=1 << 24)] | None = None
    row_norm: Annotated[Finite, Field(gt=0)] | None = None
    weight: Annotated[int, Field(ge=0)] | None = None
    edges: Annotated[tuple[Finite, ...], Field(max_length=1 << 16)] = ()
    unit: Literal["record", "row", "party", "person", "person-at-party"] = "record"
    party_norm: Annotated[Finite, Field(gt=0)] | None = None
    attempts: Annotated[int, Field(ge=1, le=8)] = 2

    @model_validator(mode="after")
    def _fields_belong_together(self) -> Self:
        if (self.unit == "party") != (self.party_norm is not None):
            raise ValueError("party_norm: unit party needs it, and only that")
        if self.edges and (len(self.edges) < 2 or list(self.edges) != sorted(set(self.edges))):
            raise ValueError("edges: a histogram needs at least two, ascending")
        return self


class TableSumPlan(Plan):
    """What all participants agree on before a sum.

    Attributes:
        params: validated parameters.
        mu: Skellam parameter of the noise that stays in the sum; None for an exact answer.
        ring_bits: size of the ring that holds the sum.
    """

    params: TableSumParams
    mu: int | None
    ring_bits: int

    @property
    def is_exact(self) -> bool:
        """Whether the answer has no noise, and so no privacy guarantee."""
        return self.mu is None

    @property
    def topology(self) -> Topology:
        """Who shares with whom: all parties with all others."""
        return Topology.complete(self.n_parties, self.job.t)

    @property
    def rows(self) -> RowVectors:
        """What a row contributes."""
        return _row_vectors(self.job.analysis, self.params, self.schemas)

    @property
    def encoding(self) -> VectorEncoding:
        """What a party contributes, as the round sees it."""
        return _encoding(self.rows, self.params)

    @property
    def most_rows_of(self) -> Mapping[str, int]:
        """Party to the number of rows of one person that count there; empty where all rows count."""
        return _rows_that_count(self.job, self.params, self.schemas)

    @property
    def sensitivities(self) -> dict[View, SumSensitivity]:
        """How far one protected unit moves the sum."""
        return _sensitivities(self.rows, self.params, self.n_parties, self.most_rows_of)

    @property
    def noise(self) -> SumNoise | None:
        """The noise, None for an exact answer."""
        if self.mu is None:
            return None
        topology = self.topology
        return SumNoise(self.mu, self.rows.n_entries, _levels(topology), topology.n_corrupt, self.sensitivities)

    @property
    def privacy_unit(self) -> str:
        """What is protected."""
        return UNITS[self.params.unit]

    def privacy_events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return the one release, with as few survivors as may be; nothing for an exact answer.

        Attempts that fail open nothing, and at most one of a job's attempts is ever opened
        (`analyses.sums.session_sum`).
        """
        noise = self.noise
        return () if noise is None else (noise.event(view),)

    def privacy_report(self) -> dict[str, Any]:
        """Return what the job costs, or that it has no guarantee."""
        noise, job = self.noise, self.job
        if noise is None:
            return no_guarantee_report(
                mechanism=f"{job.analysis}: an exact masked sum", n_parties=self.n_parties, colluding=job.t
            )
        return noise.report(job.analysis, job.privacy.delta)

    def config_of(self, session: Session, attempt: int, identities: Mapping[int, bytes]) -> RoundConfig:
        """Return the configuration of an attempt, the same for all participants."""
        noise, members = self.noise, range(1, self.n_parties + 1)
        return RoundConfig(
            round_id=RoundId(session.job_id, 0, attempt),
            roster=tuple(RosterEntry(i, session.names[i], identities[i]) for i in members),
            topology=self.topology,
            group=RingGroup(self.ring_bits),
            vector=self.job.analysis,
            encoding=self.encoding,
            noise_bound=_noise_bound(noise),
            surplus_levels=() if noise is None or len(noise.levels) < 2 else noise.levels,
        )


def plan(job: Job, schemas: Sequence[BlockSchema]) -> TableSumPlan:
    """Fix everything public: encoding, noise, ring.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    _check_schemas(job, tuple(schemas))
    try:
        params = TableSumParams.model_validate(job.parameters)
    except ValidationError as error:
        raise JobError("\n".join(f"parameters.{line}" for line in explain(error).splitlines())) from error
    _check_params(job.analysis, params, schemas)
    n = len(job.compute_parties)
    try:
        topology = Topology.complete(n, job.t)
        rows = _row_vectors(job.analysis, params, schemas)
        encoding = _encoding(rows, params)
        noise = _calibrated(job, rows, params, topology, _rows_that_count(job, params, tuple(schemas)))
        n_bits = (n * encoding.largest_element + _noise_bound(noise)).bit_length() + 1
        ring = RingGroup(min(LARGEST_RING_BITS, max(SMALLEST_RING_BITS, n_bits)))
        encoding.check_fits(ring, n, _noise_bound(noise))
    except ProtocolError as error:
        raise JobError(f"parameters.max_rows, parameters.units: {error}") from error
    return TableSumPlan(
        job=job,
        schemas=tuple(schemas),
        n_primes=0,
        params=params,
        mu=None if noise is None else noise.mu,
        ring_bits=ring.bits,
    )


def _rows_that_count(job: Job, params: TableSumParams, schemas: tuple[BlockSchema, ...]) -> Mapping[str, int]:
    return rows_per_person(job, schemas) if params.unit in (PERSON, PERSON_AT_PARTY) else {}


def _calibrated(
    job: Job, rows: RowVectors, params: TableSumParams, topology: Topology, most_rows_of: Mapping[str, int]
) -> SumNoise | None:
    target = job.target
    if target is None:
        return None
    try:
        return SumNoise.calibrate(
            _sensitivities(rows, params, topology.n_members, most_rows_of),
            target.view,
            epsilon=target.epsilon,
            delta=target.delta,
            length=rows.n_entries,
            levels=_levels(topology),
            n_corrupt=topology.n_corrupt,
        )
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error


def _check_schemas(job: Job, schemas: tuple[BlockSchema, ...]) -> None:
    parties = tuple(brought.party for brought in job.inputs)
    if set(job.compute_parties) != set(parties):
        raise JobError("compute: the members of a sum are the parties that bring tables, no more and no fewer")
    if len(parties) > LARGEST_COMPLETE_GRAPH:
        raise JobError(f"inputs: at most {LARGEST_COMPLETE_GRAPH} parties; more members are for moiety sum")
    if tuple(schema.party for schema in schemas) != job.members:
        raise JobError("schemas do not belong to the members of the job")
    for schema in schemas:
        if len(schema.columns) != len(schemas[0].columns) or not schema.columns:
            raise JobError(
                f"inputs: {schema.party} brings {len(schema.columns)} columns and {schemas[0].party} "
                f"{len(schemas[0].columns)}; each column is added to the others' in the same place"
            )


def _check_params(analysis: str, params: TableSumParams, schemas: Sequence[BlockSchema]) -> None:
    n_columns = len(schemas[0].columns)
    if (analysis == HISTOGRAM) != bool(params.edges):
        raise JobError("parameters.edges: a histogram needs them, and only a histogram")
    if analysis == HISTOGRAM:
        if n_columns != 1:
            raise JobError("inputs: a histogram is of one column of each party")
        if params.units is not None or params.row_norm is not None:
            raise JobError("parameters.units, parameters.row_norm: a histogram counts rows, it has neither")
    elif params.units is None:
        raise JobError("parameters.units: sums and means need it")
    if params.weight is not None:
        if analysis != MEAN:
            raise JobError("parameters.weight: only a mean has weights")
        if params.weight >= n_columns or n_columns < 2:
            raise JobError(f"parameters.weight: there is no column {params.weight} beside one to average")
        for schema in schemas:
            column = schema.columns[params.weight]
            if column.lower < 0 or column.upper < 1:
                raise JobError(
                    f"parameters.weight: bounds of {schema.party}.{column.name} must reach from 0 or more to 1 or more"
                )
    if analysis != HISTOGRAM and (largest := max(scales_of(schemas))) > MOST_PER_UNIT:
        raise JobError(
            f"inputs: with bounds up to {largest:g} the answer leaves the range of floating-point numbers; give the "
            "column in other units"
        )
    if params.units is not None and n_columns * params.units**2 >= 1 << 62:
        raise JobError("parameters.units: rows of so many columns and units do not fit 64-bit integers")
    if _row_vectors(analysis, params, schemas).largest_entry > LARGEST_ENTRY:
        raise JobError("parameters.units, parameters.weight: units times the largest weight is above 2^30")


def _row_vectors(analysis: str, params: TableSumParams, schemas: Sequence[BlockSchema]) -> RowVectors:
    if analysis == HISTOGRAM:
        return BinnedRows(params.edges)
    assert params.units is not None
    scales, weight, largest_weight = list(scales_of(schemas)), params.weight, 1
    if weight is not None:
        largest_weight = math.floor(scales.pop(weight))
    lowest = min(c.lower for schema in schemas for i, c in enumerate(schema.columns) if i != weight)
    rows = ScaledRows(tuple(scales), params.units, params.row_norm, is_non_negative=lowest >= 0)
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


def _levels(topology: Topology) -> tuple[int, ...]:
    return survivor_levels(topology.fewest_survivors, topology.n_members)


def _noise_bound(noise: SumNoise | None) -> int:
    return 0 if noise is None else noise.tail_bound(LOG2_WRAP_PROBABILITY)


def contribution(plan: TableSumPlan, table: Table, session: Session) -> tuple[Integers, LocalReport]:
    """Return what a party contributes, shape (entries,), and what its owner may know of it. Both are private."""
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
        return (await session.compute(noise.draw, seeds, session.entropy)).values

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
    """Return the answer: it, over whose rows it is, who vanished when, and what it costs.

    Args:
        plan: of the job.
        opened: what the round came to, without noise in excess.
        config: of the round.
    """
    names = {entry.number: entry.name for entry in config.roster}
    return _value_of(plan, opened.integers()) | {
        "analysis": plan.job.analysis,
        "survivors": [names[member] for member in opened.survivors],
        "vanished": {names[member]: str(stage) for member, stage in sorted(opened.vanished.items())},
        "silent_after": {names[member]: str(stage) for member, stage in opened.silent_after.items()},
        "wrong_shares_from": [names[member] for member in opened.liars],
        "attempt": config.round_id.attempt,
        "privacy": plan.privacy_report(),
    }


def _value_of(plan: TableSumPlan, total: Integers) -> dict[str, Any]:
    rows = plan.rows
    if isinstance(rows, BinnedRows):
        return {"edges": list(rows.edges), "counts": [int(count) for count in total]}
    columns = _column_names(plan)
    if isinstance(rows, WeightedRows):
        weight = int(total[-1])
        scales = np.array(rows.rows.scales)
        mean = (total[:-1] / weight * scales).tolist() if weight > 0 else None
        columns = [name for i, name in enumerate(columns) if i != rows.weight_column]
        return {"columns": columns, "mean": mean, "total_weight": weight / rows.rows.units}
    assert isinstance(rows, ScaledRows)
    return {"columns": columns, "sum": (total / rows.units * np.array(rows.scales)).tolist()}


def _column_names(plan: TableSumPlan) -> list[str]:
    """Return one name per place: the common one, or all that are added there."""
    names = []
    for place in range(len(plan.schemas[0].columns)):
        found = [schema.columns[place].name for schema in plan.schemas]
        same = len(set(found)) == 1
        names.append(found[0] if same else " + ".join(f"{s.party}.{s.columns[place].name}" for s in plan.schemas))
    return names


def reference(tables: Sequence[Table], plan: TableSumPlan) -> dict[str, Any]:
    """Return the same answer from all tables in one place, without noise.

    For tests and comparisons where somebody holds all tables.

    Args:
        tables: of the survivors.
        plan: as for the job.
    """
    total = np.zeros(plan.rows.n_entries, dtype=np.int64)
    for table in tables:
        total += plan.rows.total(table, plan.encoding.largest_entry)[0]
    return _value_of(plan, total)


def survival(job: Job) -> Survival:
    """Return how many parties of a sum may drop out: survivors' keys must suffice to take off all masks."""
    n = len(job.compute_parties)
    needed = Topology.complete(n, job.t).fewest_survivors
    opened = OpeningSurvival("a masked sum", needed, n - needed, 0)
    return Survival(n, job.t, len(job.members) - n, (opened,), is_masked_sum=True)


ANALYSIS = Analysis(
    names=(SUM, MEAN, HISTOGRAM),
    parameters=TableSumParams,
    plan=plan,
    party=party,
    coordinator=coordinator,
    survival=survival,
    page="protocols/secure-aggregation.md",
    demo="sum",
    reference=reference,
    may_be_exact=True,
)
