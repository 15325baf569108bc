"""What the noise of a matrix factorization leaves to be seen, before it is asked for."""

from dataclasses import replace
from math import sqrt

from analyses.job.forecast import Forecast, Quantity, Signal
from analyses.matrix_factorization.job_plan import FactorJobPlan
from analyses.matrix_factorization.jobs.series_plan import SeriesPlan
from analyses.matrix_factorization.plan import FactorPlan
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.vertical import VerticalPrior

_LEAST_COUNT = 3.0
"""Deviations of its noise above which an item's count must lie, or its offset is more prior than rating."""

OF_A_DESCENT = "Errors of a descent's embeddings depend on the way that its steps take; none are forecast."
OFFSETS_ALONE = (
    "Rank 0: no vectors are released, only offsets, which put items into the same order for all users; each party fits "
    "vectors of its own to its own ratings, and keeps them."
)
"""What a job says whose result has no vectors."""

_BY_THE_RULE = 'rank = "auto" gave it, as noise would hide vectors of so few users or ratings; a job may state its own.'
_VECTORS = "Errors of vectors depend on the ratings and on how rounds build on each other."


def signal(plan: SeriesPlan) -> Signal | None:
    """Return the noise of the first release beside an item that all users rate; None for steps of a descent.

    In the first sum an item has of each user a weighted count of at most kappa, and a residual of at most Y times the
    length of a vector: see `analyses.matrix_factorization.unit_vectors`.
    """
    if not isinstance(plan, FactorJobPlan):
        return None
    params = plan.factors.params
    longest = sqrt(params.squared_length) if plan.is_vertical else 1.0
    largest = params.n_users * max(float(params.rule.count_weight), float(params.rule.residual_bound) * longest)
    noise = plan.factors.deviation(0)
    return Signal("the noise of an item's sum", noise, "the sum of an item that all users rate", largest, "ratings")


def forecast(plan: SeriesPlan, prior: Prior | None = None) -> Forecast:
    """Return the error of an offset: of an item in the horizontal setting, of a user in the vertical without vectors.

    An item that is rated as often as the others has the count c = users sqrt(k) / items, in weights of 1 / sqrt(k) for
    the k ratings of a user. Its offset is c tau^2 / (sigma^2 + c r^2 / sqrt(k) + c^2 tau^2) times its sum, whose noise
    has the deviation sigma (`analyses.matrix_factorization.posterior.offset_posterior`).
    """
    if not isinstance(plan, FactorJobPlan):
        return Forecast(not_forecast=(OF_A_DESCENT,))
    rank = () if plan.rank else (OFFSETS_ALONE, *([_BY_THE_RULE] if plan.params.rank == "auto" else []))
    if plan.is_vertical:
        if plan.rank:
            why = "Errors of users' offsets depend on what the owners' own items, noisy too, have taken off them."
            return Forecast(not_forecast=(why, _VECTORS))
        found = _of_users(plan.factors, plan.bounds, VerticalPrior(prior or Prior()))
    else:
        declared = "There are as many users as are declared at most, and each rates as many items as is declared."
        found = forecast_of_offsets(plan.factors, plan.bounds, declared, prior)
    return replace(found, assumptions=(*found.assumptions, *rank))


def _of_users(factors: FactorPlan, bounds: tuple[float, float], prior: VerticalPrior) -> Forecast:
    """Return the error of a user's offset in the vertical setting, where no vectors are released.

    A user's sum has noise of its own, and that of its k items' offsets, which were taken off its ratings: an item that
    is rated as often as the others has c = users k / items ratings (`analyses.matrix_factorization.vertical`).
    """
    params, sigma = factors.params, factors.deviation(2 * factors.n_rounds - 1)
    k, chance = params.ratings_per_user, prior.items.residual_variance
    if k < _LEAST_COUNT * sigma:
        why = f"A user has {k} ratings, beside noise of {sigma:.3g}: its offset is more prior than rating."
        return Forecast(not_forecast=(why,))
    c, of_items = params.n_users * k / params.n_items, factors.deviation(2 * factors.n_rounds - 2)
    taken_off = _gain(c, of_items, c * chance, prior.items.offset_variance) * of_items
    offset = Quantity(
        "offset of a user who rates as much as the others",
        "units of a rating",
        _gain(k, sigma, k * chance, prior.user_variance) * sqrt(sigma**2 + k * taken_off**2),
        least=bounds[0] - bounds[1],
        largest=bounds[1] - bounds[0],
    )
    declared = (
        "All owners together have as many ratings of each user as is declared, and as many of each item as of others."
    )
    return Forecast((offset,), (declared,))


def _gain(count: float, noise: float, of_chance: float, variance: float) -> float:
    """Return what a row's sum is multiplied with: its posterior mean under a prior of this variance."""
    return count * variance / (noise**2 + of_chance + count**2 * variance)


def about_offsets(plan: FactorJobPlan) -> str:
    """Return how far noise moves an offset as was forecast, or why that is not known, as a sentence of the result."""
    found = forecast(plan)
    if not found.quantities:
        return found.not_forecast[0]
    (offset, *_) = found.quantities
    return f"Noise moves the {offset.name} by {offset.half_width:.3g} or less in 19 of 20 cases."


def forecast_of_offsets(
    factors: FactorPlan, bounds: tuple[float, float], assumption: str, prior: Prior | None = None
) -> Forecast:
    """Return the error of an item's offset where units hold all ratings of their users; see `forecast`.

    Args:
        factors: the plan of the rounds.
        bounds: a rating's bounds.
        assumption: a sentence about users and ratings.
        prior: the prior of the offsets.
    """
    params, prior, sigma = factors.params, prior or Prior(), factors.deviation(0)
    count = params.n_users * sqrt(params.ratings_per_user) / params.n_items
    if count < _LEAST_COUNT * sigma:
        why = (
            f"An item that is rated as often as the others has a weighted count of {count:.3g}, beside noise of "
            f"{sigma:.3g}: its offset is more prior than rating."
        )
        return Forecast(not_forecast=(why, *([_VECTORS] if factors.rank else [])))
    of_chance = count * prior.residual_variance / sqrt(params.ratings_per_user)
    lower, upper = bounds
    offset = Quantity(
        "offset of an item that is rated as often as the others",
        "units of a rating",
        _gain(count, sigma, of_chance, prior.offset_variance) * sigma,
        least=lower - upper,
        largest=upper - lower,
    )
    return Forecast((offset,), (assumption,), (_VECTORS,) if factors.rank else ())
