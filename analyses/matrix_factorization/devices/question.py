"""A matrix factorization as a question to devices, of whom each holds the ratings of one user: a series of masked sums.

All members read the same question, and everything public about every round follows from it: how many rounds, noise,
encoding, ring. It stands in the public input of each round, beside the model that the round starts from, so it is
bound into every key of every round.
"""

import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, model_validator

from analyses.job.job import Finite, JobError, Name, PrivacyTarget, PublicModel, explain, tree_of_toml
from analyses.job.ratings import MAX_RATINGS_PER_USER, Features, check_features, digest_of_features, digest_of_items
from analyses.matrix_factorization.descent.descent_plan import MAX_ROUNDS_OF_STEPS
from analyses.matrix_factorization.jobs.earlier import EarlierModel
from analyses.matrix_factorization.plan import MAX_RANK, MAX_ROUNDS
from mpc.transcript import decode_fields, encode_fields

NAME = "matrix-factorization"

MAX_DEVICE_ITEMS = 1 << 20
LABEL = "moiety matrix factorization over devices"

STATISTICS_ONLY = ("rounds", "centre", "features", "start")
SGD_ONLY = ("steps", "theta", "sampling_rate", "most_participations", "noise", "learning_rate")
"""Fields that one form has and the other has not."""


class FactorQuestion(PublicModel):
    """The question of an analyst to devices.

    Attributes:
        analysis: "matrix-factorization".
        record: the name under which members keep their ratings.
        items: how many items the public list holds.
        items_digest: `digest_of_items` of it. Default: of the list 0, 1, 2, ...
        form: statistics: noisy sums of least squares. sgd: noisy projected gradient descent [SGDMF22], corrected.
        ratings_per_user: k, about as many as a user has; only estimates and sizes of steps depend on it.
        lower, upper: bounds of a rating.
        centre: statistics: mu0, which is taken off every rating. Default: the middle of the bounds. The form sgd takes
            off the lower bound.
        features: statistics: a row of public features of each item, in the order of the list; members declare the same.
        start: statistics: the model of an earlier public result (`jobs.earlier`), so that new ratings are enough.
        rank: p, the length of an item's vector; 0 for offsets only; "auto" takes what the public rule expects to pay.
            The form sgd has at least 1, and 4 for "auto".
        rounds: statistics: T: rounds after the first one. Default: what goes with the rank.
        steps: sgd: T, rounds, of one step each. Default 20.
        theta: sgd: most ratings of a user that are used. Default 10.
        sampling_rate: sgd: with which each member enters a step, by a coin of its own that nobody else sees. Default
            0.3.
        most_participations: sgd: of a member, over all rounds. Default: what 1 % of them would exceed.
        noise: sgd: once, on the masked sum of each step, in every case.
        learning_rate: sgd: of a step, relative to a public rule. Default 0.5.
        members: names of those to be asked; empty means all that the coordinator knows.
        colluding: members that may collude with the coordinator without learning more than the sums.
        vanishing: number of members that may drop out of a round, for more than 128 members. With up to 128 it follows
            from `colluding`.
        stage_s: deadline of each of the five stages of a round.
        grace_s: once enough members have answered a stage, it is over when for so long nobody else has. Default: a
            third of `stage_s`.
        attempts: attempts at each round, with fresh keys, if too few members answer.
        privacy: what all rounds together cost one member.
    """

    kind: ClassVar[str] = "sum"

    analysis: Literal["matrix-factorization"]
    record: Name
    form: Literal["statistics", "sgd"] = "statistics"
    items: Annotated[int, Field(ge=1, le=MAX_DEVICE_ITEMS)]
    items_digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    ratings_per_user: Annotated[int, Field(ge=1, le=MAX_RATINGS_PER_USER)]
    lower: Finite
    upper: Finite
    centre: Finite | None = None
    features: Annotated[Features | None, Field(exclude_if=lambda features: features is None)] = None
    start: Annotated[EarlierModel | None, Field(exclude_if=lambda start: start is None)] = None
    rank: Annotated[int, Field(ge=0, le=MAX_RANK)] | Literal["auto"] = "auto"
    rounds: Annotated[int, Field(ge=0, le=MAX_ROUNDS)] | None = None
    steps: Annotated[int, Field(ge=1, le=MAX_ROUNDS_OF_STEPS)] | None = None
    theta: Annotated[int, Field(ge=1, le=100_000)] | None = None
    sampling_rate: Annotated[Finite, Field(ge=2.0**-32, le=1)] | None = None
    most_participations: Annotated[int, Field(ge=1)] | None = None
    noise: Literal["once", "party"] | None = None
    learning_rate: Annotated[Finite, Field(gt=0, le=1e6)] | None = None
    members: tuple[Name, ...] = ()
    colluding: Annotated[int, Field(ge=0)] = 0
    vanishing: Annotated[int, Field(ge=0)] = 0
    stage_s: Annotated[Finite, Field(gt=0, le=3600)] = 30.0
    grace_s: Annotated[Finite | None, Field(ge=0, le=3600, exclude_if=lambda grace_s: grace_s is None)] = None
    attempts: Annotated[int, Field(ge=1, le=8)] = 2
    privacy: PrivacyTarget

    @model_validator(mode="after")
    def _bounds_are_ordered(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError("lower, upper: the lower bound of a rating must be below its upper bound")
        if not math.isfinite(self.upper - self.lower):
            raise ValueError("lower, upper: the range of a rating is too wide")
        if self.centre is not None and not self.lower <= self.centre <= self.upper:
            raise ValueError("centre: must lie within the bounds of a rating")
        return self

    @model_validator(mode="after")
    def _fields_are_those_of_the_form(self) -> Self:
        for name in SGD_ONLY if self.form == "statistics" else STATISTICS_ONLY:
            if getattr(self, name) is not None:
                raise ValueError(f'{name}: the form "{self.form}" has no such parameter')
        check_features(self.features, self.items, "features")
        return self

    @cached_property
    def features_digest(self) -> str | None:
        """Digest of the public features; None for none."""
        return digest_of_features(self.features)

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of a rating."""
        return self.lower, self.upper

    @property
    def middle(self) -> float:
        """mu0; of the form sgd the lower bound."""
        if self.form == "sgd":
            return self.lower
        return self.lower + (self.upper - self.lower) / 2 if self.centre is None else self.centre

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read a question's file, in which `items` may be the public list itself.

        Raises:
            JobError: not TOML, or as `from_json`.
        """
        return cls.from_tree(tree_of_toml(text))

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """Read a question's fields, in which `items` may be the public list itself; raises as `from_json`."""
        items = tree.get("items")
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            if len(set(items)) < len(items):
                raise JobError("items: the same item appears more than once")
            tree = {**tree, "items": len(items), "items_digest": digest_of_items(items)}
        elif isinstance(items, int) and 1 <= items <= MAX_DEVICE_ITEMS:
            tree = {"items_digest": digest_of_items(items), **tree}
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            raise JobError(explain(error, cls)) from None


def read_public_input(public_input: bytes) -> tuple[FactorQuestion, bytes] | None:
    """Return the question and the written model of a round's public input; None where it is of another question.

    Raises:
        JobError: it is one of this kind, and cannot be read.
    """
    if not public_input.startswith(encode_fields(LABEL)):
        return None
    try:
        _, question, written = decode_fields(public_input, 3)
    except ValueError:
        raise JobError("the public input of the round cannot be read") from None
    return FactorQuestion.from_json(question), written


def question_of(text: str) -> FactorQuestion | None:
    """Return the question that canonical JSON states; None where it is of another analysis.

    Raises:
        JobError: see `FactorQuestion.from_json`.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(tree, dict) and tree.get("analysis") == NAME
    return FactorQuestion.from_json(text) if is_ours else None
