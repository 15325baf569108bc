"""The public part of a logistic regression by gradients: bounds, sampling, noise, field."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from analyses.job.job import Job, JobError
from analyses.job.norm_bounds import Bounds, by_owner, fitted, with_proofs
from analyses.job.plan import matches_in_secret, protected_of, protects_persons
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.logistic_regression.descent import squared_lattice_bound
from analyses.logistic_regression.labelled_plan import (
    LabelledRowPlan,
    reaches_of_features,
    squared_norm_bounds_of,
    widths_of_features,
)
from analyses.logistic_regression.parameters import LogisticRegressionParams
from analyses.logistic_regression.taylor_gradient import TaylorGradient
from analyses.rows.quantise import check_scale
from analyses.rows.reach import FURTHEST
from analyses.rows.traffic import JointTraffic
from dp.cost.accounting import CalibrationError
from dp.mechanism.bounded_sampling import BoundedPoisson
from dp.mechanism.sampled import SampledSkellam
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from dp.mechanism.vector import SharedSkellam
from mpc.errors import FieldTooSmallError, TooFewPartiesError
from mpc.proofs.norm_bound import NormBound
from mpc.proofs.norm_proof import PROJECTIONS_STAGE
from mpc.protocol.echo import ECHO_BYTES
from mpc.protocol.session import COORDINATOR
from mpc.traffic.shares import WORD_BYTES
from mpc.traffic.walk import Sent, Traffic, agree_on_key, pairwise

MAX_ROWS_AT_ONCE = 1 << 16
"""Largest number of rows of a batch whose shares are copied for a product."""


class GradientPlan(LabelledRowPlan):
    """What all participants agree on before noisy gradients are opened one after the other.

    Attributes:
        row_norm: norm in the parameters, default filled in. The squared constant and all B_q sum up to gamma^2 at most.
        most_participations: default filled in.
        party_mu: Skellam parameter of each party's noise in every entry.
    """

    most_participations: int
    party_mu: int

    @cached_property
    def gradient(self) -> TaylorGradient:
        """The function of a batch that is computed."""
        return _gradient(self.params, len(self.feature_names), sum(self.squared_norm_bounds) + self.constant**2)

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
        """The releases of all steps: every compute party draws once for each, before it opens the step.

        What owners' proofs show comes before all of them.
        """
        steps = PlannedRelease(
            self.mechanism, self.compute_members, times=self.sampling.n_steps, earlier=frozenset({PROJECTIONS_STAGE})
        )
        return (steps, *self.proof_releases)

    @cached_property
    def norm_bounds(self) -> Bounds:
        """See `Plan`: features keep their norm, and a label is 0 or 1."""
        n_features = {
            i.party: len(self.features_of(o).columns) for i, o in zip(self.job.inputs, self.owners, strict=True)
        }
        constant = self.constant if self.shares_constant else 0
        proven = _proven_bounds(self.job, self.params, n_features, self.squared_norm_bounds, constant)
        return fitted(proven, self.n_primes)

    @property
    def proves_products(self) -> bool:
        """See `Plan`."""
        return bool(self.norm_bounds)

    @property
    def binds_weights(self) -> bool:
        """Whether what is opened is masked by the weights that a party was told, so that no echo has to come before it.

        Only where all parties are needed for an opening, and nothing is computed with a product before it.
        """
        return self.n_parties == 2 * self.job.t + 1 and self.params.order == 1 and not self.proves_products

    def parts_of(self, n_rows: int) -> list[slice]:
        """Return a batch in parts, at least one, of which each is copied from the held shares by itself.

        Products of the first order are sums that each party adds up alone. Those of the third are reduced in messages,
        so there a batch stays whole.
        """
        height = max(1, n_rows) if self.params.order == 3 else MAX_ROWS_AT_ONCE
        return [slice(start, min(start + height, n_rows)) for start in range(0, max(1, n_rows), height)]

    @property
    def expected_batch(self) -> float:
        """The public divisor of a batch's sum; it does not depend on the batch."""
        return float(self.sampling.rate * self.params.max_rows)

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost of all steps in both views."""
        what = "gradient" if self.params.release == "gradient" else "three sums of the gradient"
        return self.mechanism.report(what, self.job.privacy.delta)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects."""
        return self.protected.name

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan` and `analyses.logistic_regression.gradient_steps`. Batches are as large as one is in practice."""
        joint, gradient, parties = JointTraffic(self, n_rows), self.gradient, self.compute_members
        walk, n_opened = joint.traffic, gradient.n_columns * gradient.n_sums
        n_batch = min(joint.n_rows, self.sampling.most_sampled(joint.n_rows, LOG2_WRAP_PROBABILITY))

        def weights_come() -> None:
            walk.step(Sent(COORDINATOR, party, WORD_BYTES * gradient.n_columns) for party in parties)
            if not self.binds_weights:
                echo()

        def echo() -> None:
            walk.step(pairwise(parties, ECHO_BYTES))

        def noise() -> None:
            joint.noise_of(n_opened, self.mechanism.noise_tail_bound(LOG2_WRAP_PROBABILITY))

        def opened() -> None:
            if gradient.order == 3:
                joint.reduce(n_batch)
                joint.reduce(n_batch)
            total = joint.product_sum(n_opened)
            for part in self.parts_of(n_batch):
                n_part = part.stop - part.start
                total.add(n_part, n_part * (gradient.n_columns + gradient.n_sums))
            total.total()
            joint.check_products()
            joint.open_noisy(n_opened)

        def step() -> None:
            walk.together(weights_come, noise)
            if self.binds_weights:
                walk.together(echo, opened)
            else:
                opened()

        joint.join()
        joint.rows(self.widths, joint.n_rows, completes_input=False)
        agree_on_key(walk, parties)
        noise()
        opened()
        if self.params.iterations > 1:
            joint.traffic.repeat(self.params.iterations - 1, step)
        if (gradient.order == 3 or self.norm_bounds) and self.sampling.rate < 1:
            walk.not_known.append("the rows of a batch, which are drawn: as many are counted as there may be")
        return joint.ended()

    @property
    def receivers(self) -> tuple[int, ...]:
        """The coordinator and the compute parties, which receive the weights of every step except the last."""
        return (COORDINATOR, *range(1, self.n_parties + 1))

    @property
    def shares_constant(self) -> bool:
        """Whether the last owner shares the constant column, after all other columns.

        If all rows count, the column is public and no owner needs to share it. If some rows do not count, the column is
        zero in these rows, and only the owners may know which rows these are; or nobody, where rows are matched under
        shares.
        """
        return _shares_constant(self.job, self.params)

    @property
    def label_values(self) -> tuple[int, int]:
        """Labels are shared as they are."""
        return 0, 1


def plan_gradients(job: Job, schemas: Sequence[BlockSchema], params: LogisticRegressionParams) -> GradientPlan:
    """Fix everything public: bounds, sampling, noise, field.

    The field bound: an entry of a sum over one record is at most max_q sqrt(B_q) times the largest factor; a batch has
    more records than `BoundedPoisson.most_sampled` with negligible probability; to it comes the noise's tail bound.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    if matches_in_secret(job) and params.sampling_rate < 1:
        # Batches are drawn by slot. Where one row is added, others may move to other slots, and so to other batches,
        # which a coalition knows: for it, neighbouring tables would differ in more than one row.
        raise JobError(
            "parameters.sampling_rate: of rows that are matched in secret one can change the places of others, so what "
            "parties who know the batches may learn of a row has no bound; leave it out, and every row is in every step"
        )
    widths = widths_of_features(job, params, schemas)
    n_features, furthest = sum(widths.values()), FURTHEST[params.origin]
    reaches = reaches_of_features(job, params, schemas)
    row_norm = params.row_norm or math.sqrt(sum(reaches.values()) + Fraction(furthest) ** 2 * params.intercept)
    check_scale(params.gamma, row_norm)
    constant = int(params.gamma * furthest / row_norm) if params.intercept else 0
    bounds = squared_norm_bounds_of(params, row_norm, reaches, constant=constant)
    try:
        sampling = _sampling(params, params.most_participations)
    except ValueError as error:
        raise JobError(f"parameters.most_participations: {error}") from error
    gradient = _gradient(params, n_features, sum(bounds) + constant**2)
    if gradient.squared_weight_bound < 1:
        raise JobError("parameters.weight_gamma: it is so small that every weight would be rounded to zero")
    protected = protected_of(job, tuple(schemas))
    proven = _proven_bounds(job, params, widths, bounds, constant if _shares_constant(job, params) else 0)
    largest_entry = math.isqrt(max(*bounds, constant**2)) * gradient.largest_factor

    def calibrated(epsilon: float) -> SampledSkellam:
        return SampledSkellam.calibrate(
            length=gradient.n_columns * gradient.n_sums,
            sensitivities=gradient.sensitivities(),
            sampling=sampling,
            n_parties=len(job.compute_parties),
            colluding=job.t,
            epsilon=epsilon,
            delta=job.privacy.delta,
            view=job.privacy.view,
            protected=protected,
        )

    def bound_of(mechanism: SampledSkellam) -> int:
        most_sampled = sampling.most_sampled(params.max_rows, LOG2_WRAP_PROBABILITY)
        return most_sampled * largest_entry + mechanism.noise_tail_bound(LOG2_WRAP_PROBABILITY)

    try:
        n_noises = len(job.compute_parties) * sampling.n_steps
        mechanism, n_primes = with_proofs(calibrated, bound_of, proven, job.privacy, protected, n_noises)
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except (FieldTooSmallError, TooFewPartiesError) as error:
        raise JobError(f"parameters.max_rows, parameters.gamma, parameters.weight_gamma: {error}") from error
    return GradientPlan(
        job=job,
        schemas=tuple(schemas),
        n_primes=n_primes,
        params=params,
        row_norm=row_norm,
        squared_norm_bounds=bounds,
        constant=constant,
        most_participations=sampling.most_participations,
        party_mu=mechanism.step.party_mu,
    )


def _shares_constant(job: Job, params: LogisticRegressionParams) -> bool:
    return params.intercept and (protects_persons(job) or matches_in_secret(job))


def _proven_bounds(
    job: Job, params: LogisticRegressionParams, n_features: Mapping[str, int], norms: Sequence[int], constant: int
) -> Bounds:
    """Return what owners prove, with the smallest masks: just what `TaylorGradient.sensitivities` takes.

    That is |x_q|^2 <= B, x_q the features of all owners and the constant, and y in {0, 1}. The features of an owner,
    with the constant that the last one shares, have the squared norm B_q at most (B_q + c^2); these add up to B, with
    the public constant where nobody shares it. A label beside them is a bit of the same row (`mpc.proofs.norm_bound`):
    one norm of features and label together would let the label be as long as the features may be. A label that stands
    alone is an indicator. So R bounds the residual, 2 G (1 - 2 y) + v and of order 3 24 G^3 (1 - 2 y) + 12 G^2 v - v^3,
    for |v| <= U, whatever owners deal; what parties compute from x_q and y is proven by `mpc.proofs.products`.

    Args:
        job: with the owners in order.
        params: parameters of the job.
        n_features: owner to the number of its features, in that order.
        norms: squared norm of the features of each.
        constant: integer of the constant column that the last owner shares; 0 if nobody does.
    """
    *_, last = n_features
    bounds = []
    for (party, n), norm in zip(n_features.items(), norms, strict=True):
        has_constant, has_label = constant > 0 and party == last, party == params.label_party
        if n or has_constant:
            width, squared = n + has_label + has_constant, norm + constant**2 * has_constant
            bounds.append(NormBound(width, squared, params.max_rows, bit=n if has_label else None))
        else:
            bounds.append(NormBound(1, 1, params.max_rows, is_one_hot=True))
    return by_owner(job, bounds)


def _gradient(params: LogisticRegressionParams, n_features: int, squared_row_bound: int) -> TaylorGradient:
    return TaylorGradient(
        n_columns=n_features + params.intercept,
        gamma=params.gamma,
        weight_gamma=params.weight_gamma,
        squared_row_bound=squared_row_bound,
        squared_weight_bound=squared_lattice_bound(params.weight_gamma, params.weight_norm),
        order=params.order,
        release=params.release,
    )


def _sampling(params: LogisticRegressionParams, most_participations: int | None) -> BoundedPoisson:
    return BoundedPoisson.with_rate(params.sampling_rate, params.iterations, most_participations)
