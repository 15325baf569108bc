"""What all participants agree on before the distribution of a number is estimated from the rows of all parties."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from analyses.distribution.inquiry import DistributionParams, Inquiry, mechanism_of
from analyses.distribution.masked import MaskedTree
from analyses.distribution.methods import MASKED, Mechanism
from analyses.distribution.shuffled import analyst_view
from analyses.job.job import Job, JobError, PrivacyTarget, parameters_error
from analyses.job.plan import Plan, check_roster
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.rows.traffic import traffic_of
from analyses.sums.round import topology_of_parties
from analyses.sums.sessions import session_sum
from analyses.sums.tree_counts import TreeCounts
from dp.cost.accounting import CalibrationError
from dp.cost.composition import composed_epsilon
from dp.cost.report import privacy_report
from dp.cost.views import ROW_UNIT, VIEWS
from dp.local_mechanism.odds import Odds
from mpc.errors import ProtocolError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import MAX_COMPLETE_GRAPH_MEMBERS, Topology
from mpc.traffic.sums import masked_sum
from mpc.traffic.walk import Sent, Traffic, confirm, greet

Integers = NDArray[np.int64]

SLOTS_PER_MESSAGE = 1 << 16

FEWEST_PARTIES = 2
"""Nothing is multiplied: rows answer for themselves, or counts are added under masks."""

MAX_SLOTS = 1 << 25
"""Largest number of slots of one party: placing rows takes 16 bytes each."""


class DistributionPlan(Plan):
    """What all participants agree on.

    Attributes:
        params: validated, with the range.
        favoured: A, the larger weight of a response; B is `dp.local_mechanism.odds.UNIT_WEIGHT`. None where no
            row answers.
        mu, ring_bits: fields of the masked sum (`analyses.distribution.masked.MaskedTree`); None where rows answer.
    """

    params: DistributionParams
    favoured: int | None = None
    mu: int | None = None
    ring_bits: int | None = None

    @cached_property
    def inquiry(self) -> Inquiry:
        """What is asked, and how a slot answers."""
        return Inquiry(self.params, self.favoured)

    @property
    def mechanism(self) -> Mechanism | None:
        """How a slot answers; None where the parties' counts are added up under masks."""
        return self.inquiry.mechanism

    @cached_property
    def tree(self) -> MaskedTree:
        """The masked sum of a job in which no row answers."""
        assert self.mu is not None
        assert self.ring_bits is not None
        return MaskedTree(_counts(self.params, self.schemas), _topology(self.job), self.job.t, self.mu, self.ring_bits)

    def n_slots(self, member: int) -> int:
        """Return how many responses a member sends: the most rows that its owner declares."""
        rows = self.schema_of(member).rows
        assert rows is not None
        return rows[1]

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan`: a response for each row that an owner declares at most, or a masked sum; no rows are joined."""
        traffic, parties = traffic_of(self), self.compute_members
        if self.mechanism is None:
            return masked_sum(traffic, self.n_parties, self.tree.config_of)
        greet(traffic, parties, self.n_parties)
        confirm(traffic, parties, self.n_parties)
        traffic.pass_gate(parties)
        n_bytes = self.inquiry.response_bytes
        traffic.step(Sent(party, COORDINATOR, self.n_slots(party) * n_bytes) for party in parties)
        traffic.end()
        return traffic

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The one release: a response per row, or the masked sum with as few survivors as may be.

        The noise of the response that a row gives is its owner's alone, so it costs the same in both views.

        Rows are answered for by slots in a uniformly random order that only their owner knows; an empty slot answers
        too. Two tables that differ in one row, present or absent, are coupled by an order that puts their common rows
        into the same slots: then they differ in the input of one slot. Responses are independent, and a mixture over
        orders costs no more than its worst component.

        A party draws once, for all messages with its responses. For a masked sum it draws for each attempt, before its
        masked vector; at most one attempt is ever opened (`analyses.sums.sessions.session_sum`).
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

    def report_of_releases(self) -> dict[str, Any]:
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
            parameters={"favoured": self.favoured, "other": self.inquiry.odds.other, "buckets": self.params.buckets},
            unit=ROW_UNIT,
        )

    def report_of_result(self) -> dict[str, Any]:
        """Return the cost in both views, and as `analyst` in the third one (`analyst_view`) where it is proven.

        That one leaves out the responses of the t parties with the most of them, who may tell an onlooker theirs.
        """
        slots = sorted(self.n_slots(member) for member in self.owners)
        n_unknown = sum(slots[: len(slots) - self.job.t])
        third = analyst_view(self.mechanism, n_unknown - 1, self.job.privacy.delta)
        return self.privacy_report() | ({} if third is None else {"analyst": third})

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects."""
        return ROW_UNIT


def _odds(target: PrivacyTarget) -> Odds:
    """Return the largest odds whose charge meets a target: bounds of losses may round up past ln(A / B)."""
    odds, step = Odds.of_epsilon(target.epsilon), 1
    while composed_epsilon((odds.event(),), target.delta).epsilon > target.epsilon:
        odds, step = Odds(odds.favoured - step), 2 * step
    return odds


def _counts(params: DistributionParams, schemas: Sequence[BlockSchema]) -> TreeCounts:
    return TreeCounts(params.buckets, max(schema.rows[1] for schema in schemas if schema.rows is not None))


def _topology(job: Job) -> Topology:
    return topology_of_parties(len(job.compute_parties), job.t)


def plan(job: Job, schemas: Sequence[BlockSchema]) -> DistributionPlan:
    """Fix everything public: range, buckets, weights.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job, FEWEST_PARTIES)
    _check_schemas(job, tuple(schemas))
    try:
        params = DistributionParams.model_validate(job.parameters)
    except ValidationError as error:
        raise parameters_error(error, DistributionParams) from None
    _check_columns(schemas, params.n_values)
    for at, name in enumerate(("range", "second")[: params.n_values]):
        if getattr(params, name) is None:
            bounds = {(schema.columns[at].lower, schema.columns[at].upper) for schema in schemas}
            if len(bounds) > 1:
                raise JobError(
                    f"parameters.{name}: the columns have different bounds, so say which range is asked about"
                )
            params = params.model_copy(update={name: bounds.pop()})
    try:
        params.check_grid()
    except ValueError as error:
        raise JobError(f"parameters.{error}") from error
    fixed: dict[str, int] = {}
    if params.method == MASKED:
        try:
            tree = MaskedTree.calibrate(_counts(params, schemas), _topology(job), job.t, job.privacy)
        except ProtocolError as error:
            raise JobError(f"parameters.buckets, inputs: {error}") from error
        fixed = {"mu": tree.mu, "ring_bits": tree.ring_bits}
    else:
        try:
            odds = _odds(job.privacy)
            params = params.with_cells(odds, sum(schema.rows[1] for schema in schemas if schema.rows is not None))
            mechanism_of(params, odds)
        except CalibrationError as error:
            raise JobError(f"privacy, parameters: {error}") from error
        fixed = {"favoured": odds.favoured}
    return DistributionPlan(job=job, schemas=tuple(schemas), n_primes=1, params=params, **fixed)


def _check_schemas(job: Job, schemas: tuple[BlockSchema, ...]) -> None:
    if set(job.compute_parties) != {brought.party for brought in job.inputs}:
        raise JobError("compute: the members are the parties that bring tables, no more and no fewer")
    if len(job.inputs) > MAX_COMPLETE_GRAPH_MEMBERS:
        raise JobError(f"inputs: at most {MAX_COMPLETE_GRAPH_MEMBERS} parties")
    if tuple(schema.party for schema in schemas) != job.members:
        raise JobError("the schemas are not those of the members of the job")
    for schema in schemas:
        if schema.rows is None or schema.rows[1] > MAX_SLOTS:
            raise JobError(f"inputs: the table of {schema.party} must declare its rows, at most {MAX_SLOTS} of them")


def _check_columns(schemas: Sequence[BlockSchema], n_values: int) -> None:
    for schema in schemas:
        if len(schema.columns) != n_values:
            what = "one column; name it" if n_values == 1 else f"{n_values} columns; name them"
            raise JobError(f"inputs: {schema.party} must bring exactly {what} in `columns`")
    first, *others = ([column.name for column in schema.columns] for schema in schemas)
    for schema, names in zip(schemas[1:], others, strict=True):
        if names != first and sorted(names) == sorted(first):
            raise JobError(
                f"inputs: {schema.party} names {' and '.join(names)}, {schemas[0].party} the same in another order; "
                "the first number of all parties is one, and so is the second"
            )
