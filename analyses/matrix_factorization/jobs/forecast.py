"""What the noise of a matrix factorization leaves to be seen, before it is asked for."""

from math import sqrt

from analyses.job.forecast import Forecast, Quantity, Signal
from analyses.matrix_factorization.job_plan import FactorJobPlan
from analyses.matrix_factorization.jobs.series_plan import SeriesPlan
from analyses.matrix_factorization.plan import FactorPlan
from analyses.matrix_factorization.posterior import Prior

_LEAST_COUNT = 3.0
"""Deviations of its noise above which an item's count must lie, or its offset is more prior than rating."""

OF_A_DESCENT = "Errors of a descent's embeddings depend on the way that its steps take; none are forecast."
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
    """Return the error of an item's offset in the horizontal setting, form `statistics`.

    An item that is rated as often as the others has the count c = users sqrt(k) / items, in weights of 1 / sqrt(k) for
    the k ratings of a user. Its offset is c tau^2 / (sigma^2 + c r^2 / sqrt(k) + c^2 tau^2) times its sum, whose noise
    has the deviation sigma (`analyses.matrix_factorization.posterior.offset_posterior`).
    """
    if not isinstance(plan, FactorJobPlan):
        return Forecast(not_forecast=(OF_A_DESCENT,))
    if plan.is_vertical:
        why = "Errors of users' offsets depend on what the owners' own items, noisy too, have taken off them."
        return Forecast(not_forecast=(why, _VECTORS))
    declared = "There are as many users as are declared at most, and each rates as many items as is declared."
    return forecast_of_offsets(plan.factors, plan.bounds, declared, prior)


def forecast_of_offsets(
    factors: FactorPlan, bounds: tuple[float, float], assumption: str, prior: Prior | None = None
) -> Forecast:
    """Return the error of an item's offset where units hold all ratings of their users; see `forecast`.

    Args:
        factors: the plan of the rounds.
        bounds: of a rating.
        assumption: about users and ratings, in a sentence.
        prior: of the offsets.
    """
    params, prior, sigma = factors.params, prior or Prior(), factors.deviation(0)
    count = params.n_users * sqrt(params.ratings_per_user) / params.n_items
    if count < _LEAST_COUNT * sigma:
        why = (
            f"An item that is rated as often as the others has a weighted count of {count:.3g}, beside noise of "
            f"{sigma:.3g}: its offset is more prior than rating."
        )
        return Forecast(not_forecast=(why, _VECTORS))
    of_chance = count * prior.residual_variance / sqrt(params.ratings_per_user)
    gain = count * prior.offset_variance / (sigma**2 + of_chance + count**2 * prior.offset_variance)
    lower, upper = bounds
    offset = Quantity(
        "offset of an item that is rated as often as the others",
        "units of a rating",
        gain * sigma,
        least=lower - upper,
        largest=upper - lower,
    )
    return Forecast((offset,), (assumption,), (_VECTORS,) if factors.rank else ())
