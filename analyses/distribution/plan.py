"""What all participants agree on before the distribution of a number is estimated from the rows of all parties."""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from analyses.distribution.masked import MaskedTree, TreeCounts
from analyses.job.job import Finite, Job, JobError, PrivacyTarget, PublicModel, explain
from analyses.job.plan import Plan, check_roster
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.sums import session_sum
from dp.cost.accounting import CalibrationError
from dp.cost.composition import composed_epsilon
from dp.cost.report import privacy_report
from dp.cost.views import ROW_UNIT, VIEWS
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse, frequency_oracle
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse
from dp.local_mechanism.odds import MAX_INPUTS, Odds
from dp.local_mechanism.wave import Wave
from mpc.errors import ProtocolError
from mpc.secagg.config import MAX_COMPLETE_GRAPH_MEMBERS, Topology

Integers = NDArray[np.int64]

Mechanism = Wave | DirectResponse | HashedResponse | HierarchicalResponse | HaarResponse

SLOTS_PER_MESSAGE = 1 << 16

MAX_SLOTS = 1 << 25
"""Of one party: placing rows takes 16 bytes each."""

MAX_RANGES = 64

Range = tuple[Finite, Finite]

MASKED = "masked"
"""The method in which no row answers."""

WAVES = ("wave", "trapezoid", "triangle")
"""The methods whose responses lie near the truth, of which there is a finer grid."""


class DistributionParams(PublicModel):
    """Parameters of the analysis.

    Attributes:
        range: of the number; values outside it count as its nearer end. By default the bounds of the columns, which
            then have to agree.
        buckets: into how many parts of equal length the range is divided.
        method: how a row answers: by a wave, by a frequency oracle about bins, about a level of a tree, or about a Haar
            coefficient; or `masked`: rows do not answer, the parties' counts are added up under masks.
        bins: of method `bins`; it divides the buckets.
        fine: of waves: rows are randomized on a grid of so many inputs, a multiple of `buckets`, which are estimated.
            By default the grid is that of the buckets.
        smoothing: passes per map of the estimate from a wave; `auto` chooses by prediction.
        queries: ranges (lower end, upper end) whose probability the result states.
    """

    range: Range | None = None
    buckets: Annotated[int, Field(ge=2, le=MAX_INPUTS)] = 256
    method: Literal["wave", "trapezoid", "triangle", "bins", "tree", "haar", "masked"] = "wave"
    bins: Literal[16, 32, 64] = 32
    fine: Annotated[int, Field(ge=2, le=MAX_INPUTS)] | None = None
    smoothing: Annotated[int, Field(ge=1, le=100)] | Literal["auto"] = "auto"
    queries: Annotated[tuple[Range, ...], Field(max_length=MAX_RANGES)] = ()

    @property
    def n_inputs(self) -> int:
        """Number of parts of the range that rows are told apart by, before they are randomized or counted."""
        return self.bins if self.method == "bins" else self.fine or self.buckets


class DistributionPlan(Plan):
    """What all participants agree on.

    Attributes:
        params: validated, with the range.
        favoured: A, the larger weight of a response; B is `dp.local_mechanism.odds.UNIT_WEIGHT`. None where no
            row answers.
        mu, ring_bits: of the masked sum (`analyses.distribution.masked.MaskedTree`); None where rows answer.
    """

    params: DistributionParams
    favoured: int | None = None
    mu: int | None = None
    ring_bits: int | None = None

    @property
    def odds(self) -> Odds:
        """A and B."""
        assert self.favoured is not None
        return Odds(self.favoured)

    @cached_property
    def mechanism(self) -> Mechanism | None:
        """How a slot answers; None where the parties' counts are added up under masks."""
        return None if self.favoured is None else _mechanism(self.params, self.odds)

    @cached_property
    def tree(self) -> MaskedTree:
        """The masked sum of a job in which no row answers."""
        assert self.mu is not None
        assert self.ring_bits is not None
        return MaskedTree(_counts(self.params, self.schemas), _topology(self.job), self.mu, self.ring_bits)

    @property
    def empty(self) -> int:
        """The input of a slot that holds no row."""
        return self.params.n_inputs

    @property
    def n_outputs(self) -> int:
        """Every response is below it."""
        mechanism = self.mechanism
        match mechanism:
            case None:
                raise ValueError("nothing answers")
            case Wave():
                return mechanism.n_outputs
            case DirectResponse() | HashedResponse():
                return _outputs_of(mechanism)
            case HierarchicalResponse():
                return max(_outputs_of(oracle) for oracle in mechanism.oracles)
        return 2

    @property
    def edges(self) -> NDArray[np.float64]:
        """Of the buckets, shape (buckets + 1,)."""
        assert self.params.range is not None
        return np.linspace(*self.params.range, self.params.buckets + 1)

    def n_slots(self, member: int) -> int:
        """Return how many responses a member sends: the most rows that its owner declares."""
        rows = self.schema_of(member).rows
        assert rows is not None
        return rows[1]

    def inputs_of(self, values: NDArray[np.float64]) -> tuple[Integers, int]:
        """Return the input of each value, and how many values lay outside the range. Private.

        Args:
            values: shape (rows,).
        """
        assert self.params.range is not None
        lower, upper = self.params.range
        clipped = np.clip(values, lower, upper)
        grid = np.linspace(lower, upper, max(self.params.n_inputs, self.params.buckets) + 1)
        places = np.searchsorted(grid[1:-1], clipped, side="right")
        if self.params.method == "bins":
            places = places * self.params.bins // self.params.buckets
        return places.astype(np.int64), int(np.count_nonzero(clipped != values))

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The one release: a response per row, or the masked sum with as few survivors as may be.

        The noise of the response that a row gives is its owner's alone, so it costs the same in both views.

        Rows are answered for by slots in a uniformly random order that only their owner knows; an empty slot answers
        too. Two tables that differ in one row, present or absent, are coupled by an order that puts their common rows
        into the same slots: then they differ in the input of one slot. Responses are independent, and a mixture over
        orders costs no more than its worst component.

        A party draws once, for all messages with its responses. For a masked sum it draws for each attempt, before its
        masked vector; at most one attempt is ever opened (`analyses.sums.session_sum`).
        """
        if self.mechanism is None:
            return (
                PlannedRelease(
                    self.tree.noise,
                    self.compute_members,
                    times=session_sum.MAX_ATTEMPTS,
                    earlier=session_sum.STAGES_BEFORE_VECTORS,
                    messages_per_draw=session_sum.MESSAGES_FROM_VECTOR,
                ),
            )
        n_messages = max(-(-self.n_slots(member) // SLOTS_PER_MESSAGE) for member in self.owners)
        return (PlannedRelease(self.mechanism, self.owners, messages_per_draw=n_messages),)

    def privacy_report(self) -> dict[str, Any]:
        """Return the cost in both views."""
        if self.mechanism is None:
            return self.tree.noise.report("rows at each node of a tree", self.job.privacy.delta)
        return privacy_report(
            mechanism=f"one randomized response per row, method {self.params.method}",
            sensitivity="one row is the input of one response",
            n_parties=self.n_parties,
            colluding=self.job.t,
            delta=self.job.privacy.delta,
            events={view: self.privacy_events(view) for view in VIEWS},
            noise=dict.fromkeys(VIEWS, "each response's noise is its owner's alone"),
            parameters={"favoured": self.favoured, "other": self.odds.other, "buckets": self.params.buckets},
            unit=ROW_UNIT,
        )

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects."""
        return ROW_UNIT


def _outputs_of(oracle: DirectResponse | HashedResponse) -> int:
    return oracle.response.n_options


def _mechanism(params: DistributionParams, odds: Odds) -> Mechanism:
    match params.method:
        case "bins":
            return frequency_oracle(params.bins + 1, odds)
        case "tree":
            return HierarchicalResponse(params.n_inputs + 1, odds)
        case "haar":
            return HaarResponse(params.n_inputs + 1, odds)
        case "trapezoid" | "triangle":
            return Wave.of_shape(params.method, params.n_inputs, odds, has_empty=True)
    return Wave.square(params.n_inputs, odds, has_empty=True)


def _odds(target: PrivacyTarget) -> Odds:
    """Return the largest odds whose charge meets a target: bounds of losses may round up past ln(A / B)."""
    odds, step = Odds.of_epsilon(target.epsilon), 1
    while composed_epsilon((odds.event(),), target.delta).epsilon > target.epsilon:
        odds, step = Odds(odds.favoured - step), 2 * step
    return odds


def _counts(params: DistributionParams, schemas: Sequence[BlockSchema]) -> TreeCounts:
    return TreeCounts(params.buckets, max(schema.rows[1] for schema in schemas if schema.rows is not None))


def _topology(job: Job) -> Topology:
    return Topology.complete(len(job.compute_parties), job.t)


def plan(job: Job, schemas: Sequence[BlockSchema]) -> DistributionPlan:
    """Fix everything public: range, buckets, weights.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    _check_schemas(job, tuple(schemas))
    try:
        params = DistributionParams.model_validate(job.parameters)
    except ValidationError as error:
        raise JobError("\n".join(f"parameters.{line}" for line in explain(error).splitlines())) from error
    columns = [schema.columns[0] for schema in schemas]
    if params.range is None:
        bounds = {(column.lower, column.upper) for column in columns}
        if len(bounds) > 1:
            raise JobError("parameters.range: the columns have different bounds, so say which range is asked about")
        params = params.model_copy(update={"range": bounds.pop()})
    assert params.range is not None
    if not params.range[0] < params.range[1] or not np.isfinite(params.range[1] - params.range[0]):
        raise JobError("parameters.range: the lower end must be below the upper one, and not too far from it")
    _check_grid(params)
    fixed: dict[str, int] = {}
    if params.method == MASKED:
        try:
            tree = MaskedTree.calibrate(_counts(params, schemas), _topology(job), job.privacy)
        except ProtocolError as error:
            raise JobError(f"parameters.buckets, inputs: {error}") from error
        fixed = {"mu": tree.mu, "ring_bits": tree.ring_bits}
    else:
        try:
            odds = _odds(job.privacy)
            _mechanism(params, odds)
        except CalibrationError as error:
            raise JobError(f"privacy, parameters: {error}") from error
        fixed = {"favoured": odds.favoured}
    return DistributionPlan(job=job, schemas=tuple(schemas), n_primes=1, params=params, **fixed)


def _check_grid(params: DistributionParams) -> None:
    assert params.range is not None
    if params.method == "bins" and params.buckets % params.bins:
        raise JobError(f"parameters.bins: {params.bins} bins do not divide {params.buckets} buckets")
    if params.fine is not None:
        if params.method not in WAVES:
            raise JobError("parameters.fine: only waves are drawn on a finer grid than that of the buckets")
        if params.fine % params.buckets:
            raise JobError(f"parameters.fine: {params.fine} is no multiple of {params.buckets} buckets")
    if not np.all(np.diff(np.linspace(*params.range, max(params.buckets, params.n_inputs) + 1)) > 0):
        raise JobError("parameters.range, parameters.buckets: the buckets are too narrow for floating-point numbers")
    for lower, upper in params.queries:
        if not params.range[0] <= lower < upper <= params.range[1]:
            raise JobError(f"parameters.queries: {lower:g} to {upper:g} is no range within the one asked about")


def _check_schemas(job: Job, schemas: tuple[BlockSchema, ...]) -> None:
    if set(job.compute_parties) != {brought.party for brought in job.inputs}:
        raise JobError("compute: the members are the parties that bring tables, no more and no fewer")
    if len(job.inputs) > MAX_COMPLETE_GRAPH_MEMBERS:
        raise JobError(f"inputs: at most {MAX_COMPLETE_GRAPH_MEMBERS} parties")
    if tuple(schema.party for schema in schemas) != job.members:
        raise JobError("the schemas are not those of the members of the job")
    for schema in schemas:
        if len(schema.columns) != 1:
            raise JobError(f"inputs: {schema.party} must bring exactly one column; name it in `columns`")
        if schema.rows is None or schema.rows[1] > MAX_SLOTS:
            raise JobError(f"inputs: the table of {schema.party} must declare its rows, at most {MAX_SLOTS} of them")
