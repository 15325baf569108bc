"""Horizontal and local setting, form `statistics`: noisy per-item sums, users solved exactly and locally [Chien21].

| line of the specification                                                     | function                     |
| ----------------------------------------------------------------------------- | ---------------------------- |
| unit, round 0: kappa w and w clip(x - mu0 - own shrunk mean, Y)               | `unit_vectors.add_offsets`   |
| coordinator: c, s -> b, shrunk toward a regression on log c and features      | `posterior.offset_posterior` |
| t >= 1: (a, u) = ridge on own ratings                                         | `solve_users`                |
| q = W u cut to 1; per item w clip(x - b - a, Y) q; once h q q'                | `member_vector`              |
| coordinator: M from the pooled q q', v_j = posterior mean                     | `posterior.factor_posterior` |
| V returns on a lattice                                                        | `model.FactorModel`          |
| all rounds                                                                    | `run`                        |
| stage 3: own exact ratings on top of the others' noisy sums, never sent       | `own_choice`                 |

The sum over the members, with its noise, is an argument: whoever runs the rounds (one process, services, devices)
brings it. A user's vectors, means and counts never leave its owner; V and b are all that members receive.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.own_factors import SHAPES, Choice, RowPrior, RowPriors, Shape, chosen, of_nothing
from analyses.matrix_factorization.plan import FactorPlan
from analyses.matrix_factorization.posterior import (
    OffsetPosterior,
    Prior,
    factor_posterior,
    offset_posterior,
    symmetric,
)
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.unit_vectors import add_factors, add_offsets, solve, within_ball
from entropy import KeyStream
from mpc.transcript import digest

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

NoisySum = Callable[[int, FactorModel | None], Integers]
"""Round t and what is broadcast before it (None for round 0) to the opened sum: all survivors' `member_vector`, plus
noise Sk(mu) of the plan's release t. It raises where no attempt of the round had enough survivors."""

_TIGHTNESS = (1.0, 30.0)
"""Ridges of own vectors about released ones, over that of the prior about 0."""


class TooFewSurvivorsError(Exception):
    """No attempt of a round had enough survivors."""


@dataclass(frozen=True)
class FactorResult:
    """What all rounds came to. Public.

    Attributes:
        model: offsets and vectors.
        released: offsets with what stage 3 needs of the opened sums.
        n_rounds: later rounds that were opened: T, or fewer where a round had too few survivors.
    """

    model: FactorModel
    released: OffsetPosterior
    n_rounds: int


@dataclass(frozen=True)
class Estimates:
    """The public choices of what is made of the sums.

    Attributes:
        prior: constants.
        features: public item features, shape (items, features), or None.
        start: an earlier public model, from which the first round starts; None for a random V.
        label: public label of the first, random V.
    """

    prior: Prior
    features: Floats | None = None
    start: FactorModel | None = None
    label: str = "first item vectors"

    @classmethod
    def of(cls, prior: Prior, features: Sequence[Sequence[float]] | None, start: FactorModel | None) -> "Estimates":
        """Return them for the features and the earlier model that a job or a question states."""
        return cls(prior, None if features is None else np.array(features, dtype=np.float64), start)


# -- members -------------------------------------------------------------------------------------------------------


def member_vector(plan: FactorPlan, t: int, model: FactorModel | None, ratings: Ratings, prior: Prior) -> Integers:
    """Return the sum of the certified vectors of a member's users in round t. Private: masked before it leaves.

    Args:
        plan: public.
        t: 0 .. T.
        model: what was broadcast, checked; None for t = 0.
        ratings: the ratings of the member's users; a device has one.
        prior: public constants.
    """
    if t == 0:
        return add_offsets(plan.params.rule, ratings)
    assert model is not None
    solved = solve_users(model, ratings, prior)
    factors = within_ball(solved[:, 1:] / prior.longest(model.rank))
    return add_factors(plan.params.rule, ratings, model.offsets, solved[:, 0].copy(), factors)


def solve_users(model: FactorModel, ratings: Ratings, prior: Prior, features: Floats | None = None) -> Floats:
    """Return each user's own mean, factors and weights of public features: (a, u, g). Local, never sent.

    Args:
        model: public.
        ratings: rows by user.
        prior: public constants.
        features: public, shape (items, features); in the rounds none.

    Returns:
        shape (users, 1 + p + features); zeros for a user without ratings.
    """
    return solve(ratings, model.offsets, item_rows(model, features), user_ridges(model, prior, features))


def item_rows(model: FactorModel, features: Floats | None = None) -> Floats:
    """Return (1, v_j, features_j) per item, which times a user's solution is the rating less b_j and mu0."""
    none = np.zeros((len(model.offsets_q), 0))
    return np.column_stack([np.ones(len(none)), model.vectors, none if features is None else features])


def user_ridges(model: FactorModel, prior: Prior, features: Floats | None = None) -> Floats:
    """Return the ridges of a user's mean, factors and weights of features."""
    n_features = 0 if features is None else features.shape[1]
    factor_ridges = [prior.factor_ridge] * model.rank
    return np.array([prior.mean_ridge, *factor_ridges, *[prior.feature_ridge] * n_features])


# -- coordinator ---------------------------------------------------------------------------------------------------


class HorizontalRounds:
    """What the coordinator makes of the opened sums, round after round.

    Args:
        plan: public.
        estimates: public choices.

    Attributes:
        n_opened: how many rounds have been opened.
    """

    def __init__(self, plan: FactorPlan, estimates: Estimates) -> None:
        self.n_opened = 0
        self._plan, self._estimates = plan, estimates
        self._model: FactorModel | None = None
        self._released: OffsetPosterior | None = None

    @property
    def model(self) -> FactorModel | None:
        """What is broadcast before the next round; None before round 0."""
        return self._model

    def improve(self, opened: Integers) -> None:
        """Take in the sum of the next round, noise in excess removed."""
        if self._released is None:
            self._released = offsets_of(self._plan, self._estimates, opened)
            self._model = first_model(self._plan, self._estimates, self._released)
        else:
            self._model = improved(self._plan, self._estimates, self._released, self.n_opened, opened)
        self.n_opened += 1

    def result(self) -> FactorResult:
        """Return what the rounds so far came to; there is at least one.

        Where only round 0 was opened, the vectors broadcast since then are random, and the result has zeros; after an
        earlier model they are that model's, and stay.
        """
        assert self._model is not None
        assert self._released is not None
        model = self._model
        if self.n_opened == 1 and self._estimates.start is None:
            model = FactorModel(model.offsets_q, np.zeros_like(model.vectors_q), model.units)
        return FactorResult(model, self._released, self.n_opened - 1)


def run(plan: FactorPlan, estimates: Estimates, noisy_sum: NoisySum) -> FactorResult:
    """Ask for the sums of all rounds, one after the other, and improve the model by each.

    Where a later round has too few survivors, the last opened V is the result: the rounds until then are paid.

    Raises:
        TooFewSurvivorsError: in round 0, after which there is nothing yet.
    """
    rounds = HorizontalRounds(plan, estimates)
    for t in range(plan.n_rounds + 1):
        try:
            rounds.improve(noisy_sum(t, rounds.model))
        except TooFewSurvivorsError:
            if t == 0:
                raise
            break
    return rounds.result()


def offsets_of(plan: FactorPlan, estimates: Estimates, opened: Integers) -> OffsetPosterior:
    """Return the offsets that round 0 leads to."""
    counts, sums = opened.reshape(-1, 2).T / float(plan.params.rule.units)
    return offset_posterior(
        counts / float(plan.params.rule.count_weight),
        sums,
        plan.deviation(0),
        ratings_per_user=plan.params.ratings_per_user,
        prior=estimates.prior,
        features=estimates.features,
        start=None if estimates.start is None else estimates.start.offsets,
    )


def first_model(plan: FactorPlan, estimates: Estimates, released: OffsetPosterior) -> FactorModel:
    """Return the offsets of round 0, and V of the earlier model or random: public, uniform of the prior's variance."""
    if estimates.start is not None:
        return FactorModel.nearest(released.offsets, estimates.start.vectors, plan.params.factor_units)
    shape = (plan.params.n_items, plan.rank)
    words = KeyStream(digest("matrix factorization", estimates.label)).words(shape[0] * shape[1])
    uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    vectors = (uniform * (3**0.5 * estimates.prior.factor_deviation)).reshape(shape)
    return FactorModel.nearest(released.offsets, vectors, plan.params.factor_units)


def improved(
    plan: FactorPlan, estimates: Estimates, released: OffsetPosterior, t: int, opened: Integers
) -> FactorModel:
    """Return the model that a later round leads to."""
    m, p, rule = plan.params.n_items, plan.rank, plan.params.rule
    numbers = opened / float(rule.units)
    vectors = factor_posterior(
        numbers[: m * p].reshape(m, p),
        symmetric(numbers[m * p :] / (float(rule.moment_weight) * plan.params.n_users), p),
        released.counts,
        plan.deviation(t),
        ratings_per_user=plan.params.ratings_per_user,
        prior=estimates.prior,
    )
    return FactorModel.nearest(released.offsets, vectors, plan.params.factor_units)


# -- stage 3: at a party, never sent -------------------------------------------------------------------------------


def others_priors(
    plan: FactorPlan, result: FactorResult, ratings: Ratings, prior: Prior, *, is_included: bool = True
) -> RowPriors:
    """Return what the others say of each item's offset, for a party's own fit (`own_factors`).

    The opened sums less the party's own exact part are the others', with all of the noise. So with the others' count
    c, sum s and variance sigma^2 + c r^2 / sqrt k, an offset has

        precision 1 / tau^2 + c^2 / var,     mean (g_j / tau^2 + c s / var) / precision,

    and the ridge of a regression whose residuals have variance r^2 is r^2 times the precision. Private to the party,
    and never sent.

    Args:
        plan: public.
        result: the result of all rounds.
        ratings: the ratings of the party's users.
        prior: public constants.
        is_included: whether the party's own part is in the opened sums: whether it survived round 0.
    """
    rule, k = plan.params.rule, plan.params.ratings_per_user
    own = add_offsets(rule, ratings).reshape(-1, 2).T / float(rule.units) * float(is_included)
    counts = np.maximum(result.released.opened_counts - own[0] / float(rule.count_weight), 0.0)
    sums = result.released.opened_sums - own[1]
    variance = result.released.deviation**2 + counts * prior.residual_variance / k**0.5
    tau2 = result.released.variance
    precision = 1 / tau2 + counts**2 / variance
    means = (result.released.expected / tau2 + counts * sums / variance) / precision
    items = RowPrior.of_offsets(means, prior.residual_variance * precision)
    return RowPriors(RowPrior.of_nothing(ratings.n_rows, prior.mean_ridge), items)


def own_choice(
    plan: FactorPlan,
    result: FactorResult,
    ratings: Ratings,
    prior: Prior,
    bounds: tuple[float, float],
    *,
    is_included: bool = True,
) -> tuple[FactorModel, Choice]:
    """Return the items that a party keeps, on the lattice, and why: the best of joint and alone. Never sent.

    Joint are own factors on top of the offsets of `others_priors`, and, where vectors were released, own vectors about
    these, held more or less tightly. Vectors are scaled so that users are solved with `prior`'s ridges, as ever.

    Args:
        plan: public.
        result: the result of all rounds.
        ratings: the ratings of the party's users.
        prior: public constants.
        bounds: the bounds of a rating less the centre.
        is_included: see `others_priors`.
    """
    others = others_priors(plan, result, ratings, prior, is_included=is_included)
    joint = [(others, SHAPES)]
    vectors, p = result.model.vectors, result.model.rank
    if p and vectors.any():
        user_ridges_ = np.tile(user_ridges(result.model, prior), (ratings.n_rows, 1))
        users = RowPrior.of_vectors(np.zeros((ratings.n_rows, 1 + p)), user_ridges_)
        for tightness in _TIGHTNESS:
            ridge = tightness * prior.residual_variance / prior.factor_deviation**2
            items = others.items.with_factors(vectors, ridge)
            joint.append((RowPriors(users, items), (Shape(p),)))
    choice = chosen(ratings, joint, of_nothing(ratings, prior), bounds)
    rows, scale = choice.fitted.items, 1.0
    if choice.shape.rank and not choice.has_factor_priors:
        scale = (prior.factor_ridge / choice.shape.ridge) ** 0.5
    return FactorModel.nearest(rows[:, 0], rows[:, 1:] * scale, result.model.units), choice
