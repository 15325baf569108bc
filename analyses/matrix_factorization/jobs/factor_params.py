"""The parameters of a matrix factorization as a job, of both forms, and what is checked of owners' declarations."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from analyses.job.job import Finite, Job, JobError, PublicModel, parameters_error
from analyses.job.plan import check_roster
from analyses.job.ratings import Features, RatingsSchema, check_features, digest_of_features
from analyses.job.schema import BlockSchema
from analyses.matrix_factorization.descent.descent_plan import MAX_ROUNDS_OF_STEPS
from analyses.matrix_factorization.jobs.earlier import EarlierModel
from analyses.matrix_factorization.plan import MAX_RANK, MAX_ROUNDS, Members
from analyses.sums.round import topology_of_parties
from dp.cost.views import PERSON_AT_PARTY_UNIT, RATING_UNIT
from mpc.secagg.config import MAX_COMPLETE_GRAPH_MEMBERS, Topology

UNITS: Mapping[str, str] = {"user": PERSON_AT_PARTY_UNIT, "rating": RATING_UNIT}
"""The protected units, and their names in budgets and reports."""

FEWEST_PARTIES = 2
"""Nothing is multiplied: each party adds noisy sums of its own ratings."""

STATISTICS_ONLY = ("rounds", "centre", "features", "start")
SGD_ONLY = (
    "steps",
    "local_steps",
    "final_steps",
    "theta",
    "sampling_rate",
    "most_participations",
    "noise",
    "pre_train",
    "learning_rate",
)
"""Parameters that one form has and the other has not."""


class FactorJobParams(PublicModel):
    """Parameters of the analysis.

    Attributes:
        setting: horizontal: each party holds all ratings of its users. vertical: each party holds all ratings of its
            items, of the same users.
        form: statistics: noisy sums of least squares. sgd: noisy projected gradient descent [SGDMF22], corrected.
        unit: what is protected: a user in the horizontal setting, a rating in the vertical one, which is the default.
            The form sgd offers a user in the vertical setting too, with noise "party": it costs as much as all parties.
        rank: p, the length of an item's vector; 0 for offsets only; "auto" takes what the public rule expects to pay.
            The form sgd has at least 1, and 4 for "auto".
        rounds: statistics: T: rounds after the first one, or sweeps in the vertical setting. Default: what goes with
            the rank.
        centre: statistics: mu0, which is taken off every rating. Default: the middle of the bounds. The form sgd takes
            off the lower bound.
        features: statistics, in the horizontal setting: a row of public features of each item, in the order of the
            list. All owners declare the same. They move offsets of items with few ratings, and give new ones theirs.
        start: statistics: the model of an earlier public result (`jobs.earlier`), so that new ratings are enough.
        publish_items: vertical: whether the result holds the model of each owner's items, which is made of noisy sums
            that are paid for in every case. Default false: an owner keeps it.
        attempts: attempts at each round, with fresh keys, if too few parties answer.
        steps: sgd: T, rounds. Default 20.
        local_steps: sgd: T', steps between two rounds; more than 1 with noise "party" only. Default 1.
        final_steps: sgd: in the vertical setting, steps at the end that move items alone. Default there 5.
        theta: sgd: most ratings of a user at one party that are used, where a user is protected. Default 10.
        sampling_rate: sgd: with which each protected unit enters a step, by a coin of its own. Default 0.3.
        most_participations: sgd: of a unit, over all rounds. Default: what 1 % of the units would exceed.
        noise: sgd: once: on the masked sum of each step. party: each party noises its own steps, and averages are
            summed. Default once.
        pre_train: sgd: in the horizontal setting, whether users are fitted before the first step and then stay; else
            each step moves those that it samples. Default true.
        learning_rate: sgd: of a step, relative to a public rule. Default 0.5, in the vertical setting 1.5.
    """

    setting: Literal["horizontal", "vertical"] = "horizontal"
    form: Literal["statistics", "sgd"] = "statistics"
    unit: Literal["user", "rating"] | None = None
    rank: Annotated[int, Field(ge=0, le=MAX_RANK)] | Literal["auto"] = "auto"
    rounds: Annotated[int, Field(ge=0, le=MAX_ROUNDS)] | None = None
    centre: Finite | None = None
    features: Annotated[Features | None, Field(exclude_if=lambda features: features is None)] = None
    start: Annotated[EarlierModel | None, Field(exclude_if=lambda start: start is None)] = None
    publish_items: Annotated[bool, Field(exclude_if=lambda publish_items: not publish_items)] = False
    attempts: Annotated[int, Field(ge=1, le=8)] = 2
    steps: Annotated[int, Field(ge=1, le=MAX_ROUNDS_OF_STEPS)] | None = None
    local_steps: Annotated[int, Field(ge=1, le=1000)] | None = None
    final_steps: Annotated[int, Field(ge=0, le=1000)] | None = None
    theta: Annotated[int, Field(ge=1, le=100_000)] | None = None
    sampling_rate: Annotated[Finite, Field(ge=2.0**-32, le=1)] | None = None
    most_participations: Annotated[int, Field(ge=1)] | None = None
    noise: Literal["once", "party"] | None = None
    pre_train: bool | None = None
    learning_rate: Annotated[Finite, Field(gt=0, le=1e6)] | None = None

    @model_validator(mode="after")
    def _fields_are_those_of_the_form(self) -> Self:
        others = SGD_ONLY if self.form == "statistics" else STATISTICS_ONLY
        for name in others:
            if getattr(self, name) is not None:
                raise ValueError(f'{name}: the form "{self.form}" has no such parameter')
        if self.features is not None and self.setting == "vertical":
            raise ValueError("features: are of items that all owners have; in the vertical setting each has its own")
        if self.publish_items and self.setting != "vertical":
            raise ValueError("publish_items: in the horizontal setting the result is the model of the items")
        return self


def params_of(job: Job) -> FactorJobParams:
    """Return the parameters of a job.

    Raises:
        JobError: names each field that is wrong.
    """
    try:
        return FactorJobParams.model_validate(job.parameters)
    except ValidationError as error:
        raise parameters_error(error, FactorJobParams) from None


def ratings_of(schema: BlockSchema) -> RatingsSchema:
    """Return what a party declares of its ratings.

    Raises:
        JobError: it brings a table of something else.
    """
    if schema.ratings is None:
        raise JobError(f'inputs: the table of {schema.party} holds no ratings (kind = "ratings")')
    return schema.ratings


def check_schemas(job: Job, schemas: tuple[BlockSchema, ...]) -> None:
    """Refuse members that bring no table, too many of them, and schemas of others.

    Raises:
        JobError: there are such.
    """
    if set(job.compute_parties) != {brought.party for brought in job.inputs}:
        raise JobError("compute: exactly the parties that bring ratings must be the members of the sums")
    if len(job.inputs) > MAX_COMPLETE_GRAPH_MEMBERS:
        raise JobError(f"inputs: at most {MAX_COMPLETE_GRAPH_MEMBERS} parties are supported")
    if tuple(schema.party for schema in schemas) != job.members:
        raise JobError("the schemas are not those of the members of the job")


def declared_ratings(job: Job, schemas: Sequence[BlockSchema]) -> tuple[FactorJobParams, tuple[RatingsSchema, ...]]:
    """Return the parameters of a job and what its members declare of their ratings, checked against each other.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job, FEWEST_PARTIES)
    check_schemas(job, tuple(schemas))
    params = params_of(job)
    declared = tuple(map(ratings_of, schemas))
    check_declared(params, declared, schemas)
    return params, declared


def check_declared(params: FactorJobParams, declared: Sequence[RatingsSchema], schemas: Sequence[BlockSchema]) -> None:
    """Refuse declarations that do not fit each other: bounds, items, in the vertical setting users.

    Raises:
        JobError: names the parties.
    """
    first, name = declared[0], schemas[0].party
    check_features(params.features, first.items, "parameters.features")
    features_digest = digest_of_features(params.features)
    for one, schema in zip(declared, schemas, strict=True):
        if (one.lower, one.upper) != (first.lower, first.upper):
            raise JobError(f"inputs: {schema.party} and {name} declare different bounds of a rating")
        if params.setting == "horizontal" and one.items_digest != first.items_digest:
            raise JobError(
                f"inputs: {schema.party} and {name} have different lists of items; all must declare the same list in "
                "the same order"
            )
        if features_digest is not None and one.features_digest != features_digest:
            what = "no public features" if one.features_digest is None else "other public features"
            raise JobError(f"inputs: {schema.party} declares {what} of items, and the job states some in features")
        if params.setting == "vertical" and one.users != first.users:
            raise JobError(
                f"inputs: {schema.party} and {name} declare different numbers of users; in the vertical setting all "
                "hold ratings of the same users"
            )


def n_users_of(params: FactorJobParams, declared: Sequence[RatingsSchema]) -> int:
    """Return how many users there are at most: the same at all parties in the vertical setting, else of each others."""
    return declared[0].users if params.setting == "vertical" else sum(one.users for one in declared)


def n_items_of(params: FactorJobParams, declared: Sequence[RatingsSchema]) -> int:
    """Return how many items there are: each party's own in the vertical setting, else the same at all."""
    return sum(one.items for one in declared) if params.setting == "vertical" else declared[0].items


def topology_of(job: Job) -> Topology:
    """Return who shares with whom in each masked sum: all with all."""
    return topology_of_parties(len(job.compute_parties), job.t)


def members_of(job: Job) -> Members:
    """Return who takes part in the masked sums, and with how few survivors one still counts."""
    topology = topology_of(job)
    return Members(topology.n_members, job.t, topology.fewest_survivors)
