"""A matrix factorization as a question to devices, of whom each holds the ratings of one user: a series of masked sums.

All members read the same question, and everything public about every round follows from it: how many rounds, noise,
encoding, ring. It stands in the public input of each round, beside the model that the round starts from, so it is
bound into every key of every round.
"""

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from analyses.job.job import Finite, JobError, Name, PrivacyTarget, PublicModel, explain
from analyses.job.ratings import MAX_RATINGS_PER_USER, digest_of_items
from analyses.matrix_factorization.broadcast import ModelFormat
from analyses.matrix_factorization.job_plan import RULE
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.plan import MAX_RANK, MAX_ROUNDS, FactorParams, FactorPlan, Members, plan_factors
from analyses.sums.noise import SumNoise
from analyses.sums.round import RING_EXCESS, configure, ring_for
from dp.cost.report import privacy_report
from dp.cost.views import VECTOR_UNIT, VIEWS
from mpc.errors import PeerViolationError, ProtocolError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import MAX_COMPLETE_GRAPH_MEMBERS, RoundConfig, Topology
from mpc.secagg.vector.encoding import VectorEncoding
from mpc.secagg.vector.group import RingGroup
from mpc.transcript import RoundId, decode_fields, encode_fields

NAME = "matrix-factorization"

MAX_DEVICE_ITEMS = 1 << 20
MAX_MODEL_BYTES = 4 << 20
"""Largest model that is sent to devices before a round; `transport.aggregation` admits invitations of twice that."""

_LABEL = "moiety matrix factorization over devices"


class FactorQuestion(PublicModel):
    """The question of an analyst to devices.

    Attributes:
        analysis: "matrix-factorization".
        record: the name under which members keep their ratings.
        items: how many items the public list holds.
        items_digest: `digest_of_items` of it. Default: of the list 0, 1, 2, ...
        ratings_per_user: k, about as many as a user has; only estimates depend on it.
        lower, upper: bounds of a rating.
        centre: mu0, which is taken off every rating. Default: the middle of the bounds.
        rank: p, the length of an item's vector; 0 for offsets only; "auto" takes what the public rule expects to pay.
        rounds: T: rounds after the first one. Default: what goes with the rank.
        members: names of those to be asked; empty means all that the coordinator knows.
        colluding: members that may collude with the coordinator without learning more than the sums.
        vanishing: number of members that may drop out of a round, for more than 128 members. With up to 128 it follows
            from `colluding`.
        stage_s: deadline of each of the five stages of a round.
        attempts: of each round, with fresh keys, if too few members answer.
        privacy: what all rounds together cost one member.
    """

    analysis: Literal["matrix-factorization"]
    record: Name
    items: Annotated[int, Field(ge=1, le=MAX_DEVICE_ITEMS)]
    items_digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    ratings_per_user: Annotated[int, Field(ge=1, le=MAX_RATINGS_PER_USER)]
    lower: Finite
    upper: Finite
    centre: Finite | None = None
    rank: Annotated[int, Field(ge=0, le=MAX_RANK)] | Literal["auto"] = "auto"
    rounds: Annotated[int, Field(ge=0, le=MAX_ROUNDS)] | None = None
    members: tuple[Name, ...] = ()
    colluding: Annotated[int, Field(ge=0)] = 0
    vanishing: Annotated[int, Field(ge=0)] = 0
    stage_s: Annotated[Finite, Field(gt=0, le=3600)] = 30.0
    attempts: Annotated[int, Field(ge=1, le=8)] = 2
    privacy: PrivacyTarget

    @model_validator(mode="after")
    def _bounds_are_ordered(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError("lower, upper: the lower bound of a rating must be below its upper bound")
        if self.centre is not None and not self.lower <= self.centre <= self.upper:
            raise ValueError("centre: must lie within the bounds of a rating")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Of a rating."""
        return self.lower, self.upper

    @property
    def middle(self) -> float:
        """mu0."""
        return self.lower + (self.upper - self.lower) / 2 if self.centre is None else self.centre

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read a question's file, in which `items` may be the public list itself.

        Raises:
            JobError: not TOML, or as `from_json`.
        """
        try:
            tree = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise JobError(f"the question is not valid TOML: {error}") from error
        items = tree.get("items")
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            if len(set(items)) < len(items):
                raise JobError("items: the same item appears more than once")
            tree |= {"items": len(items), "items_digest": digest_of_items(items)}
        elif isinstance(items, int) and 1 <= items <= MAX_DEVICE_ITEMS:
            tree.setdefault("items_digest", digest_of_items(items))
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            raise JobError(explain(error)) from error


@dataclass(frozen=True)
class DeviceRounds:
    """All that is public about the rounds of a question, for a number of members.

    Attributes:
        question: as asked.
        plan: rank, rounds and noise.
        topology: who shares with whom, in every round.
    """

    question: FactorQuestion
    plan: FactorPlan
    topology: Topology

    @property
    def n_rounds(self) -> int:
        """How many masked sums there are: T + 1."""
        return self.plan.n_rounds + 1

    @property
    def broadcast(self) -> ModelFormat:
        """How a model crosses the network."""
        return ModelFormat(self.question.items, self.plan.rank, self.plan.params.factor_units)

    def noise(self, number: int) -> SumNoise:
        """Return the noise of a round."""
        return self.plan.releases[number]

    def encoding(self, number: int) -> VectorEncoding:
        """Return how large a member's vector may be in a round.

        A member's vector z of integers has |z|^2 <= B by `unit_vectors`, so no entry is above sqrt(B).
        """
        noise = self.noise(number)
        return VectorEncoding(noise.length, float(math.isqrt(noise.sensitivities["coordinator"].squared_l2)))

    def ring(self, number: int) -> RingGroup:
        """Return the ring of a round.

        Raises:
            EncodingOverflowError: no ring holds the sum.
        """
        return ring_for(self.topology.n_members, self.encoding(number), self.noise(number))

    def public_input(self, number: int, model: FactorModel | None) -> bytes:
        """Return what all members of a round start from: the question, and the model; none before round 0."""
        written = b"" if model is None else self.broadcast.write(number, model)
        return encode_fields(_LABEL, self.question.canonical_json(), written)

    def model_before(self, number: int, written: bytes) -> FactorModel | None:
        """Return the model that a round starts from, checked; None for round 0.

        Raises:
            PeerViolationError: it is of another round, of another shape, or off the lattice. Shows no value.
        """
        stage = f"round {number}"
        if number > 0:
            return self.broadcast.read(written, number, stage)
        if written:
            raise PeerViolationError(COORDINATOR, stage, "broadcast offsets and vectors before there are any")
        return None

    def privacy_report(self) -> dict[str, Any]:
        """Return what all rounds cost together, with as few survivors in each as may be. Public."""
        plan, topology = self.plan, self.topology
        last = plan.releases[-1].sensitivities
        least = {
            view: min(math.sqrt(2 * noise.least_unknown_mu(view)) / RULE.units for noise in plan.releases)
            for view in VIEWS
        }
        return privacy_report(
            mechanism=f"{NAME}, local: {self.n_rounds} masked sums plus Skellam noise, components in excess removed",
            sensitivity="of the last sum in integer units, "
            + "; ".join(
                f"{last[view].adjacency.value}: L2 {math.sqrt(last[view].squared_l2):.6g}, L1 {last[view].l1}"
                for view in VIEWS
            ),
            n_parties=topology.n_members,
            colluding=topology.n_corrupt,
            delta=plan.delta,
            events={view: tuple(chain.from_iterable(noise.events(view) for noise in plan.releases)) for view in VIEWS},
            noise={
                view: f"unknown noise of standard deviation at least {least[view]:.4g} on each number" for view in VIEWS
            },
            parameters={
                "rank": plan.rank,
                "rounds": plan.n_rounds,
                "mu": [noise.mu for noise in plan.releases],
                "numbers": [noise.length for noise in plan.releases],
                "fewest_survivors": topology.fewest_survivors,
            },
            unit=VECTOR_UNIT,
        )


@lru_cache(maxsize=16)  # a member asks for the same rounds several times
def rounds_of(question: FactorQuestion, n_members: int) -> DeviceRounds:
    """Fix the rounds of a question that is put to so many members, or refuse it before anything costs.

    Raises:
        JobError: names the field that cannot be met.
    """
    target = question.privacy
    params = FactorParams(
        setting="local",
        n_users=n_members,
        n_items=question.items,
        ratings_per_user=question.ratings_per_user,
        rank=question.rank,
        n_rounds=question.rounds,
        rule=RULE,
    )
    try:
        if n_members <= MAX_COMPLETE_GRAPH_MEMBERS:
            topology, excess = Topology.complete(n_members, question.colluding), Fraction(0)
        else:
            topology, excess = Topology.ring(n_members, question.colluding, question.vanishing), RING_EXCESS
        members = Members(n_members, topology.n_corrupt, topology.fewest_survivors, excess)
        plan = plan_factors(params, members, epsilon=target.epsilon, delta=target.delta, view=target.view)
        rounds = DeviceRounds(question, plan, topology)
        if rounds.broadcast.n_bytes > MAX_MODEL_BYTES:
            raise JobError(f"items, rank: a model of {rounds.broadcast.n_bytes} bytes; at most {MAX_MODEL_BYTES}")
        for number in range(rounds.n_rounds):
            rounds.ring(number)
    except ProtocolError as error:
        raise JobError(f"members, colluding, items: {error}") from error
    return rounds


def factor_round_config(rounds: DeviceRounds, round_id: RoundId, identities: Mapping[str, bytes]) -> RoundConfig:
    """Fix everything public about one attempt of a round.

    Args:
        rounds: of the question.
        round_id: of the attempt.
        identities: of all members of the round, name to Ed25519 key, in the order of their numbers.

    Raises:
        JobError: there is no such round or attempt, or these do not fit each other.
    """
    question = rounds.question
    if not (0 <= round_id.number < rounds.n_rounds and 0 <= round_id.attempt < question.attempts):
        raise JobError(
            f"the question has {rounds.n_rounds} rounds and {question.attempts} attempts of each, and no attempt "
            f"number {round_id.attempt} of round number {round_id.number}, counted from 0"
        )
    number = round_id.number
    try:
        return configure(
            round_id,
            tuple(identities.items()),
            rounds.topology,
            rounds.ring(number),
            question.record,
            rounds.encoding(number),
            rounds.noise(number),
        )
    except ProtocolError as error:
        raise JobError(f"members, colluding, items: {error}") from error


def read_public_input(public_input: bytes) -> tuple[FactorQuestion, bytes] | None:
    """Return the question and the written model of a round's public input; None where it is of another question.

    Raises:
        JobError: it is one of this kind, and cannot be read.
    """
    if not public_input.startswith(encode_fields(_LABEL)):
        return None
    try:
        _, question, written = decode_fields(public_input, 3)
    except ValueError:
        raise JobError("the public input of the round cannot be read") from None
    return FactorQuestion.from_json(question), written


def question_of(text: str) -> FactorQuestion | None:
    """Return the question that canonical JSON states; None where it is of another analysis.

    Raises:
        JobError: as `FactorQuestion.from_json`.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(tree, dict) and tree.get("analysis") == NAME
    return FactorQuestion.from_json(text) if is_ours else None
