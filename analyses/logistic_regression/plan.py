"""The public part of a logistic regression: parameters, bounds, sampling, noise, field."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from analyses.job.declared_rows import JointRowsParams, parameters_of
from analyses.job.job import Finite, Job, JobError
from analyses.job.plan import Plan, check_roster, check_schemas, protected_of, protects_persons
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.logistic_regression.descent import Optimiser, squared_lattice_bound
from analyses.logistic_regression.taylor_gradient import WRONG_SIGN_BEYOND, Release, TaylorGradient
from analyses.rows.quantise import BlockQuantiser, check_scale, check_units, squared_norm_bound
from dp.cost.accounting import CalibrationError
from dp.mechanism.bounded_sampling import BoundedPoisson
from dp.mechanism.sampled import SampledSkellam
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from dp.mechanism.vector import SharedSkellam
from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldTooSmallError, TooFewPartiesError
from mpc.protocol.session import COORDINATOR

MAX_ITERATIONS = 20_000


class LogisticRegressionParams(JointRowsParams):
    """Parameters of the analysis.

    Attributes:
        label: "party.column", the column to predict: 0 or 1, bounds 0 and 1, named among that party's columns.
        max_rows: see `JointRowsParams`. It sizes the field, and sampling_rate * max_rows divides the
            sum of a batch's gradients: how large a batch is, the coordinator never learns.
        iterations: gradient steps.
        sampling_rate: probability of each record to enter a batch.
        most_participations: how many batches a record enters at most. Default: what 1 % of the records would exceed.
        order: 1 or 3, of the sigmoid's Taylor polynomial. Order 3 needs two more rounds per step and weight_norm below
            sqrt(12).
        release: `gradient`, or the paper's `three-sums` (order 1 only).
        optimiser, learning_rate: of the coordinator; `adam` or `sgd`.
        weight_norm: c_w, radius of the ball that the weights stay in, in units in which rows have norm 1. The noise
            grows with it.
        intercept: whether a constant column of 1 is added; it takes 1 of the squared row_norm.
        gamma: units per 1 in the quantised table. Default 1024; 128 for order 3.
        weight_gamma: units per 1 of the weights sent to the parties. Default 1024; 32 for order 3.
        row_norm: public bound of the Euclidean norm of a row of the joint table after scaling each column to [0, 1],
            the constant included and the label not. Default: clips nothing.
        norm_bounds: party to its share of row_norm; the squares and the intercept's 1 sum up to row_norm^2 at most.
    """

    label: Annotated[str, Field(pattern=r"^[^.]+\..+$")]
    iterations: Annotated[int, Field(ge=1, le=MAX_ITERATIONS)]
    sampling_rate: Annotated[Finite, Field(ge=2.0**-32, le=1)]
    most_participations: Annotated[int, Field(ge=1)] | None = None
    order: Literal[1, 3] = 1
    release: Release = "gradient"
    optimiser: Optimiser = "adam"
    learning_rate: Annotated[Finite, Field(gt=0)] = 0.1
    weight_norm: Annotated[Finite, Field(gt=0, le=1e6)]
    intercept: bool = True
    gamma: Annotated[int, Field(ge=2, le=1 << 20)] | None = None
    weight_gamma: Annotated[int, Field(ge=1, le=1 << 20)] | None = None
    row_norm: Annotated[Finite, Field(gt=0)] | None = None
    norm_bounds: dict[str, Annotated[Finite, Field(gt=0)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _choices_fit_each_other(self) -> Self:
        if self.norm_bounds and self.row_norm is None:
            raise ValueError("norm_bounds: they can only be given together with row_norm")
        if self.order == 3 and self.release == "three-sums":
            raise ValueError("release: 'three-sums' exists for order 1 only; use 'gradient' with order 3")
        if self.order == 3 and self.weight_norm >= WRONG_SIGN_BEYOND:
            raise ValueError(
                f"weight_norm: {self.weight_norm:g} is too large for order 3, whose gradient has the wrong sign "
                "beyond sqrt(12) = 3.46; use order 1 or a smaller norm"
            )
        return self

    @property
    def label_party(self) -> str:
        """The party that brings the label."""
        return self.label.split(".", 1)[0]

    @property
    def label_column(self) -> str:
        """Name of the label among the columns of that party."""
        return self.label.split(".", 1)[1]

    @property
    def row_units(self) -> int:
        """gamma, default filled in."""
        return self.gamma or (1024 if self.order == 1 else 128)

    @property
    def weight_units(self) -> int:
        """weight_gamma, default filled in."""
        return self.weight_gamma or (1024 if self.order == 1 else 32)


class LogisticRegressionPlan(Plan):
    """What all participants agree on before a logistic regression.

    Attributes:
        params: validated parameters.
        row_norm: as in the parameters, default filled in.
        squared_norm_bounds: B_q per owner, in the order of `owners`; 0 for one that brings the label alone.
        intercept_units: the constant column's integer, 0 without one. Its square and all B_q sum up to gamma^2 at most.
        most_participations: default filled in.
        party_mu: Skellam parameter of each party's noise in every entry.
    """

    params: LogisticRegressionParams
    row_norm: float
    squared_norm_bounds: tuple[int, ...]
    intercept_units: int
    most_participations: int
    party_mu: int

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that predict, `party.column`, in the order of the joint table."""
        return tuple(f"{s.party}.{c.name}" for s in map(self.features_of, self.owners) for c in s.columns)

    @cached_property
    def gradient(self) -> TaylorGradient:
        """The function of a batch that is computed."""
        return _gradient(self.params, len(self.feature_names), sum(self.squared_norm_bounds) + self.intercept_units**2)

    @cached_property
    def sampling(self) -> BoundedPoisson:
        """The sampling of records into batches."""
        return _sampling(self.params, self.most_participations)

    @cached_property
    def mechanism(self) -> SampledSkellam:
        """The releases, with their cost."""
        gradient = self.gradient
        step = SharedSkellam(
            length=gradient.n_columns * gradient.n_sums,
            sensitivities=gradient.sensitivities(),
            n_parties=self.n_parties,
            colluding=self.job.t,
            party_mu=self.party_mu,
        )
        return SampledSkellam(step, self.sampling, self.protected)

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The releases of all steps: every compute party draws once for each, before it opens the step."""
        return (PlannedRelease(self.mechanism, self.compute_members, times=self.sampling.n_steps),)

    @property
    def expected_batch(self) -> float:
        """The public divisor of a batch's sum; it does not depend on the batch."""
        return float(self.sampling.rate * self.params.max_rows)

    def privacy_report(self) -> dict[str, Any]:
        """Return the cost of all steps in both views."""
        what = "gradient" if self.params.release == "gradient" else "three sums of the gradient"
        return self.mechanism.report(what, self.job.privacy.delta)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects."""
        return self.protected.name

    @property
    def receivers(self) -> tuple[int, ...]:
        """The coordinator and the compute parties, which receive the weights of every step except the last."""
        return (COORDINATOR, *range(1, self.n_parties + 1))

    def features_of(self, member: int) -> BlockSchema:
        """Return the columns of an owner without the label."""
        return _features(self.schema_of(member), self.params)

    def quantiser_of(self, member: int) -> BlockQuantiser:
        """Return what an owner does to its features."""
        bound = self.squared_norm_bounds[self.owners.index(member)]
        return BlockQuantiser(self.features_of(member), self.params.row_units, self.row_norm, bound)

    @property
    def widths(self) -> Mapping[int, int]:
        """Owner to the number of columns that it shares, the label and a shared constant included."""
        last = self.owners[-1]
        return {o: len(self.schema_of(o).columns) + (o == last and self.shares_constant) for o in self.owners}

    @property
    def shares_constant(self) -> bool:
        """Whether the last owner shares the constant column, after all other columns.

        If all rows count, the column is public and no owner needs to share it. If some rows do not count, the column is
        zero in these rows, and only the owners may know which rows these are.
        """
        return self.params.intercept and protects_persons(self.job)

    @property
    def label_index(self) -> int:
        """Place of the label in the shared table: last in its owner's block, but for a shared constant."""
        names = [s.party for s in map(self.schema_of, self.owners)]
        end = names.index(self.params.label_party) + 1
        return sum(list(self.widths.values())[:end]) - 1 - (end == len(names) and self.shares_constant)


def plan(job: Job, schemas: Sequence[BlockSchema]) -> LogisticRegressionPlan:
    """Fix everything public: bounds, sampling, noise, field.

    The field bound: an entry of a sum over one record is at most max_q sqrt(B_q) times the largest factor; a batch has
    more records than `BoundedPoisson.most_sampled` with negligible probability; to it comes the noise's tail bound.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, LogisticRegressionParams)
    by_party = {s.party: s for s in schemas}
    _check_label(job, params, by_party)
    widths = {i.party: len(_features(by_party[i.party], params).columns) for i in job.inputs}
    n_features = sum(widths.values())
    if n_features == 0:
        raise JobError("inputs: the label is the only column; at least one feature is needed to predict it")
    row_norm = params.row_norm or math.sqrt(n_features + params.intercept)
    check_scale(params.row_units, row_norm)
    check_units((f"{i.party}.{c.name}", c) for i in job.inputs for c in by_party[i.party].columns)
    bounds, intercept_units = _norm_bounds(job, params, row_norm, widths)
    try:
        sampling = _sampling(params, params.most_participations)
    except ValueError as error:
        raise JobError(f"parameters.most_participations: {error}") from error
    gradient = _gradient(params, n_features, sum(bounds) + intercept_units**2)
    if gradient.squared_weight_bound < 1:
        raise JobError("parameters.weight_gamma: it is so small that every weight would be rounded to zero")
    try:
        mechanism = SampledSkellam.calibrate(
            length=gradient.n_columns * gradient.n_sums,
            sensitivities=gradient.sensitivities(),
            sampling=sampling,
            n_parties=len(job.compute_parties),
            colluding=job.t,
            epsilon=job.privacy.epsilon,
            delta=job.privacy.delta,
            view=job.privacy.view,
            protected=protected_of(job, tuple(schemas)),
        )
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    largest_entry = math.isqrt(max(*bounds, intercept_units**2)) * gradient.largest_factor
    _check_that_noise_leaves_something(mechanism, largest_entry, float(sampling.rate * params.max_rows))
    try:
        most_sampled = sampling.most_sampled(params.max_rows, LOG2_WRAP_PROBABILITY)
        bound = most_sampled * largest_entry + mechanism.noise_tail_bound(LOG2_WRAP_PROBABILITY)
        field = ResidueField.for_bound(bound)
    except (FieldTooSmallError, TooFewPartiesError) as error:
        raise JobError(f"parameters.max_rows, parameters.gamma, parameters.weight_gamma: {error}") from error
    return LogisticRegressionPlan(
        job=job,
        schemas=tuple(schemas),
        n_primes=len(field.primes),
        params=params,
        row_norm=row_norm,
        squared_norm_bounds=bounds,
        intercept_units=intercept_units,
        most_participations=sampling.most_participations,
        party_mu=mechanism.step.party_mu,
    )


def _features(schema: BlockSchema, params: LogisticRegressionParams) -> BlockSchema:
    if schema.party != params.label_party:
        return schema
    columns = tuple(c for c in schema.columns if c.name != params.label_column)
    return schema.model_copy(update={"columns": columns})


def _gradient(params: LogisticRegressionParams, n_features: int, squared_row_bound: int) -> TaylorGradient:
    return TaylorGradient(
        n_columns=n_features + params.intercept,
        gamma=params.row_units,
        weight_gamma=params.weight_units,
        squared_row_bound=squared_row_bound,
        squared_weight_bound=squared_lattice_bound(params.weight_units, params.weight_norm),
        order=params.order,
        release=params.release,
    )


def _sampling(params: LogisticRegressionParams, most_participations: int | None) -> BoundedPoisson:
    return BoundedPoisson.with_rate(params.sampling_rate, params.iterations, most_participations)


def _check_label(job: Job, params: LogisticRegressionParams, schemas: Mapping[str, BlockSchema]) -> None:
    party = params.label_party
    if party not in {i.party for i in job.inputs}:
        raise JobError(f"parameters.label: {party} has no input in this job, so it cannot provide the label")
    label = next((c for c in schemas[party].columns if c.name == params.label_column), None)
    if label is None:
        raise JobError(
            f"parameters.label: column {params.label_column!r} is not in the input of {party}; add it to the columns "
            "of that input"
        )
    if (label.lower, label.upper) != (0, 1):
        raise JobError(
            f"parameters.label: {params.label} has the bounds {label.lower:g} and {label.upper:g}; the bounds of a "
            "label must be 0 and 1"
        )


def _norm_bounds(
    job: Job, params: LogisticRegressionParams, row_norm: float, widths: Mapping[str, int]
) -> tuple[tuple[int, ...], int]:
    """Return B_q of all owners and the constant column's integer."""
    gamma, with_features = params.row_units, [p for p, width in widths.items() if width]
    intercept_units = int(gamma / row_norm) if params.intercept else 0
    if params.norm_bounds:
        if set(params.norm_bounds) != set(with_features):
            raise JobError(
                f"parameters.norm_bounds: must have one entry for each of the parties {', '.join(with_features)} and "
                "no other"
            )
        bounds = {p: squared_norm_bound(gamma, params.norm_bounds[p], row_norm) for p in with_features}
    else:
        n_columns = sum(widths.values()) + params.intercept
        bounds = {p: gamma**2 * widths[p] // n_columns for p in with_features}
    if sum(bounds.values()) + intercept_units**2 > gamma**2:
        constant = " and the intercept's 1" if params.intercept else ""
        raise JobError(
            f"parameters.norm_bounds: the sum of their squares{constant} is larger than the square of row_norm"
        )
    for party, bound in bounds.items():
        if bound < 1:
            raise JobError(
                f"parameters.gamma: with {gamma} every value of {party} would be rounded to zero; choose a larger gamma"
            )
    return tuple(bounds.get(i.party, 0) for i in job.inputs), intercept_units


def _check_that_noise_leaves_something(mechanism: SampledSkellam, largest_entry: int, expected_batch: float) -> None:
    """Refuse a job whose answer would be mostly noise, before it costs anything.

    Over all steps an entry sums up to at most steps * batch * largest_entry, and its noise has the standard deviation
    sqrt(steps) * that of a step.
    """
    deviation, n_steps = mechanism.step.standard_deviation("coordinator"), mechanism.sampling.n_steps
    if deviation > largest_entry * expected_batch * math.sqrt(n_steps):
        raise JobError(
            "privacy: epsilon is too small for a useful answer: over all steps, the standard deviation of the noise "
            f"is larger than the gradients of {expected_batch:.4g} records per step can be; use a larger epsilon, "
            "tighter norm bounds, a smaller weight_norm or more rows"
        )
