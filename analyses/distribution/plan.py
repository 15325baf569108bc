"""What all participants agree on before the distribution of a number is estimated from the rows of all parties."""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from analyses.job.job import Finite, Job, JobError, PublicModel, explain
from analyses.job.plan import Plan, check_roster
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from dp.cost.accounting import CalibrationError
from dp.cost.report import privacy_report
from dp.cost.views import ROW_UNIT, VIEWS
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse, frequency_oracle
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse
from dp.local_mechanism.odds import MAX_INPUTS, Odds
from dp.local_mechanism.wave import Wave

Integers = NDArray[np.int64]

Mechanism = Wave | DirectResponse | HashedResponse | HierarchicalResponse | HaarResponse

SLOTS_PER_MESSAGE = 1 << 16

MAX_SLOTS = 1 << 25
"""Of one party: placing rows takes 16 bytes each."""


class DistributionParams(PublicModel):
    """Parameters of the analysis.

    Attributes:
        range: of the number; values outside it count as its nearer end. By default the bounds of the columns, which
            then have to agree.
        buckets: into how many parts of equal length the range is divided.
        method: how a row answers: by a wave, by a frequency oracle about bins, about a level of a tree, or about a Haar
            coefficient.
        bins: of method `bins`; it divides the buckets.
        smoothing: passes per map of the estimate from a wave; `auto` chooses by prediction.
    """

    range: tuple[Finite, Finite] | None = None
    buckets: Annotated[int, Field(ge=2, le=MAX_INPUTS)] = 256
    method: Literal["wave", "trapezoid", "triangle", "bins", "tree", "haar"] = "wave"
    bins: Literal[16, 32, 64] = 32
    smoothing: Annotated[int, Field(ge=1, le=100)] | Literal["auto"] = "auto"


class DistributionPlan(Plan):
    """What all participants agree on.

    Attributes:
        params: validated, with the range.
        favoured: A, the larger weight of a response; B is `dp.local_mechanism.odds.UNIT_WEIGHT`.
    """

    params: DistributionParams
    favoured: int

    @property
    def odds(self) -> Odds:
        """A and B."""
        return Odds(self.favoured)

    @cached_property
    def mechanism(self) -> Mechanism:
        """How a slot answers."""
        return _mechanism(self.params, self.odds)

    @property
    def empty(self) -> int:
        """The input of a slot that holds no row."""
        return self.params.bins if self.params.method == "bins" else self.params.buckets

    @property
    def n_outputs(self) -> int:
        """Every response is below it."""
        mechanism = self.mechanism
        match mechanism:
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
        places = np.searchsorted(self.edges[1:-1], clipped, side="right")
        if self.params.method == "bins":
            places = places * self.params.bins // self.params.buckets
        return places.astype(np.int64), int(np.count_nonzero(clipped != values))

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The one response that a row gives: its noise is its owner's alone, so it costs the same in both views.

        Rows are answered for by slots in a uniformly random order that only their owner knows; an empty slot answers
        too. Two tables that differ in one row, present or absent, are coupled by an order that puts their common rows
        into the same slots: then they differ in the input of one slot. Responses are independent, and a mixture over
        orders costs no more than its worst component.

        A party draws once, for all messages with its responses.
        """
        n_messages = max(-(-self.n_slots(member) // SLOTS_PER_MESSAGE) for member in self.owners)
        return (PlannedRelease(self.mechanism, self.owners, messages_per_draw=n_messages),)

    def privacy_report(self) -> dict[str, Any]:
        """Return the cost in both views."""
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
            return HierarchicalResponse(params.buckets + 1, odds)
        case "haar":
            return HaarResponse(params.buckets + 1, odds)
        case "wave":
            return Wave.square(params.buckets, odds, has_empty=True)
    return Wave.of_shape(params.method, params.buckets, odds, has_empty=True)


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
    edges = np.linspace(*params.range, params.buckets + 1)
    if not np.all(np.diff(edges) > 0):
        raise JobError("parameters.range, parameters.buckets: the buckets are too narrow for floating-point numbers")
    if params.method == "bins" and params.buckets % params.bins:
        raise JobError(f"parameters.bins: {params.bins} bins do not divide {params.buckets} buckets")
    try:
        odds = Odds.of_epsilon(job.privacy.epsilon)
        _mechanism(params, odds)
    except CalibrationError as error:
        raise JobError(f"privacy, parameters: {error}") from error
    return DistributionPlan(job=job, schemas=tuple(schemas), n_primes=1, params=params, favoured=odds.favoured)


def _check_schemas(job: Job, schemas: tuple[BlockSchema, ...]) -> None:
    if set(job.compute_parties) != {brought.party for brought in job.inputs}:
        raise JobError("compute: the members are the parties that bring tables, no more and no fewer")
    if tuple(schema.party for schema in schemas) != job.members:
        raise JobError("the schemas are not those of the members of the job")
    for schema in schemas:
        if len(schema.columns) != 1:
            raise JobError(f"inputs: {schema.party} must bring exactly one column; name it in `columns`")
        if schema.rows is None or schema.rows[1] > MAX_SLOTS:
            raise JobError(f"inputs: the table of {schema.party} must declare its rows, at most {MAX_SLOTS} of them")
