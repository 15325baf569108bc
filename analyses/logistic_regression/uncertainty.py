"""How far the weights of a logistic regression may be off, after a release and before it: by noise, and by chance."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analyses.job.forecast import Forecast, Quantity, Signal
from analyses.logistic_regression.gradient_plan import GradientPlan
from analyses.logistic_regression.link import RIDGE_PART, LabelledMoments, LogisticFit, fit
from analyses.logistic_regression.moments_plan import LabelledMomentsPlan
from analyses.logistic_regression.weights import in_own_units, weights_of
from analyses.rows.reach import group_sizes
from analyses.second_moments.forecast import (
    EVEN,
    EVEN_VARIANCE,
    LEAST_VARIANCE,
    MOST_VARIANCE,
    OF_GROUPS,
    OF_RANGE,
    noise_level,
)
from analyses.second_moments.gram_plan import deviation_of, rows_of
from analyses.second_moments.spectrum import SimulatedNoise, n_draws
from entropy.stream import KEY_BYTES

Floats = NDArray[np.float64]

N_DRAWS = 200
"""A standard deviation of so many values is itself off by a twentieth."""

_PUBLIC_KEY = bytes(KEY_BYTES)
"""The random numbers are public: they decide nothing that is secret."""


def standard_errors(
    plan: LabelledMomentsPlan, moments: LabelledMoments, found: LogisticFit
) -> tuple[list[float], float] | None:
    """Return the standard errors of all weights and of the intercept, in the units of the columns.

    A weight is off by less than 1.96 of them in about 95 of 100 jobs.

    Returns:
        None where there are no weights, and where a ridge shrinks them: the moments do not tell how much.
    """
    if not found.weights.any() or found.ridge > 0:
        return None
    own = [weights_of(plan, draw) for draw in redrawn(moments, found)]
    spread = np.std([[*weights, intercept] for weights, intercept in own], axis=0)
    return spread[:-1].tolist(), float(spread[-1])


def redrawn(moments: LabelledMoments, found: LogisticFit) -> list[LogisticFit]:
    """Return the fits of N_DRAWS, or of many columns `n_draws`, further releases about further tables like this one.

    A parametric bootstrap: to the released moments come, independently,

    * noise of the release's own law, a symmetric matrix of the same standard deviations;
    * chance: given features x, the sums of (x, 1) y vary with the residuals of the line, so with the covariance of
      ordinary least squares, (variance of the residuals) sum (x, 1) (x, 1)^T.

    Each is fitted with the ridge that was used. So the spread is about the weights that the same ridge gives for the
    whole population and without noise; what a ridge takes from the weights is no part of it. Public arithmetic on what
    was released, with public random numbers: the same release always has the same standard errors.

    Args:
        moments: released moments.
        found: their fit.
    """
    n, c, simulated = moments.n_features, moments.constant, SimulatedNoise(_PUBLIC_KEY)
    with_constant = [*range(n), n + 1]
    values, vectors = np.linalg.eigh(moments.matrix[np.ix_(with_constant, with_constant)])
    residuals = vectors * np.sqrt(found.residual_variance * np.maximum(values, 0.0))
    fits = []
    for _ in range(n_draws(N_DRAWS, n)):
        matrix = moments.matrix + moments.deviation * simulated.symmetric(n + 2)
        chance = 2 * c * (residuals @ simulated.normal(n + 1))
        matrix[n, with_constant] += chance
        matrix[with_constant, n] += chance
        fits.append(fit(replace(moments, matrix=matrix), found.ridge))
    return fits


# -- before the release --------------------------------------------------------------------------------------------

_STEEPEST = 60.0
"""Slope of the log odds in the predictor of least squares in the bad case: 15 times that of a label hard to tell."""

_TOLD = "In the bad case the features tell the label of nearly all rows besides: log odds are 15 times as steep."

_SPREAD = (
    "Each feature is spread evenly over its bounds, and depends little on the others and on the label, which is 1 in "
    "half of the rows. Errors are about in inverse proportion to a feature's variance. Beside the noise, chance is "
    "counted: weights are those of the population that the rows come from."
)


def signal_of_gradients(plan: GradientPlan) -> Signal:
    """Return the noise of all gradients beside what they can come to.

    Over all steps an entry of the gradient sums up to at most steps * batch * the largest entry of one record, and its
    noise has the standard deviation sqrt(steps) * that of a step.
    """
    n_steps, batch = plan.mechanism.sampling.n_steps, float(plan.sampling.rate) * rows_of(plan)[1]
    largest = math.isqrt(max(*plan.squared_norm_bounds, plan.constant**2)) * plan.gradient.largest_factor
    unit = float(plan.gradient.opened_units)
    return Signal(
        "the standard deviation of the noise of all steps together",
        math.sqrt(n_steps) * plan.mechanism.step.standard_deviation("coordinator") / unit,
        f"the largest gradient of {batch:.4g} records per step",
        n_steps * (batch * largest / unit),
        "scaled units",
    )


def forecast_of_gradients(plan: GradientPlan) -> Forecast:
    """Say why there is none."""
    why = (
        "Errors of weights by gradients depend on the way that the steps take; those of a step's gradient are what the "
        "privacy report says."
    )
    return Forecast(not_forecast=(why,))


def forecast(plan: LabelledMomentsPlan) -> Forecast:
    """Return the standard errors of the weights by moments.

    For rows x of norm at most 1, S = n v in every feature, v its variance; r, the moments with the label, has noise of
    variance s^2 (1 + m^2 / c^2) / (4 c^2), m a feature's mean and c the constant (`analyses.logistic_regression.link`),
    and chance of variance n v / 4. A weight is 4 r / S: where the label is 1 in half of the rows, that is the slope of
    the log odds in a small predictor.
    """
    fewest, most = rows_of(plan)
    c, variance = plan.constant / plan.params.gamma, EVEN_VARIANCE / plan.row_norm**2
    deviation, level = (x / plan.row_norm**2 for x in (deviation_of(plan), noise_level(plan)))
    if RIDGE_PART * level >= most * variance:
        why = (
            "Even features that are spread evenly over their bounds do not rise above the noise of this epsilon, so a "
            "ridge shrinks the weights, by an amount that depends on the features."
        )
        return Forecast(not_forecast=(why,))
    mean = 0.5 / plan.row_norm if plan.params.origin == "lower" else 0.0
    noise = deviation**2 * (1 + mean**2 / c**2) / (4 * c**2)

    def error(n_rows: int, spread: float = variance) -> float:
        return 4 * math.sqrt(noise + n_rows * spread / 4) / (n_rows * spread)

    least = RIDGE_PART * level  # a ridge leaves no direction of S below it
    hidden = _STEEPEST * math.sqrt(noise + least / 4) / least
    bad = max(error(most), min(hidden, _STEEPEST / 4 * error(most, LEAST_VARIANCE / EVEN_VARIANCE * variance)))

    is_seen = 0 < fewest < most and RIDGE_PART * level < fewest * variance
    names = plan.feature_names
    units, _ = in_own_units(plan, np.append(np.ones(len(names)), 0.0))
    sizes = [size for owner in plan.owners for size in group_sizes(plan.features_of(owner).columns)]
    weights = tuple(
        Quantity(
            f"weight of {name}",
            "log odds per unit of the column",
            error(most) * float(unit),
            best_case=error(most, MOST_VARIANCE / EVEN_VARIANCE * variance) * float(unit),
            bad_case=bad * float(unit),
            at_fewest_rows=error(fewest) * float(unit) if is_seen else None,
        )
        for name, unit, size in zip(names, units, sizes, strict=True)
        if size == 1
    )
    return Forecast(weights, (EVEN, _SPREAD, OF_RANGE, _TOLD), (OF_GROUPS,) if len(weights) < len(names) else ())
