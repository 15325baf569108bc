"""The errors of coefficients before they are asked for."""

from math import sqrt

import numpy as np

from analyses.job.forecast import Forecast, Quantity
from analyses.least_squares.line import feature_names, line_of_scaled
from analyses.least_squares.plan import LeastSquaresPlan
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
from analyses.second_moments.gram_plan import GramPlan, deviation_of, rows_of
from analyses.second_moments.ridge import RIDGE_FRACTION

_SPREAD = (
    "Each feature is spread evenly over its bounds, and depends neither on the others nor on the label. Errors are in "
    "inverse proportion to a feature's variance: a third of this where half of the rows lie at either bound, far more "
    "where values are close to each other or features depend on each other."
)
HIDDEN = 2.0
"""Factor by which coefficients may err more than the noise of the moments with the label alone makes them."""

_NOT_R_SQUARED = "Errors of `r_squared` depend on the label's own variance, which is not known before."


def forecast(plan: LeastSquaresPlan) -> Forecast:
    """Return the standard errors of all coefficients, for features of which nobody has looked at.

    The centred moments S, r of n rows have S = n / 12 in every feature. A small b = r / S errs as r does, whose noise
    is that of an entry off the diagonal after centring: with m the mean of every column and c the constant, of variance
    s^2 ((1 + m^2 / c^2)^2 + m^4 / c^4) (`analyses.second_moments.centred`).
    """
    if not isinstance(plan, GramPlan):
        why = "Errors of coefficients from sketches depend on how far the columns determine the label."
        return Forecast(not_forecast=(why, _NOT_R_SQUARED))
    fewest, most = rows_of(plan)
    if plan.params.ridge is not None and plan.params.ridge < RIDGE_FRACTION * noise_level(plan):
        why = "With a ridge of less than half of the noise level nothing bounds the errors of coefficients."
        return Forecast(not_forecast=(why, _NOT_R_SQUARED))
    if noise_level(plan) >= EVEN_VARIANCE * most:
        why = (
            "Even features that are spread evenly over their bounds do not rise above the noise of this epsilon, so a "
            "ridge shrinks the coefficients, by an amount that depends on the features."
        )
        return Forecast(not_forecast=(why, _NOT_R_SQUARED))
    lifted = (0.5 / (plan.constant * plan.unit)) ** 2 if plan.params.origin == "lower" else 0.0
    error = deviation_of(plan) * sqrt((1 + lifted) ** 2 + lifted**2) / EVEN_VARIANCE
    # A ridge leaves no direction of S below `least`; there b errs by r's noise and by that of S times b, over `least`.
    least = RIDGE_FRACTION * noise_level(plan)
    bad = max(error / most, min(HIDDEN * EVEN_VARIANCE * error / least, EVEN_VARIANCE / LEAST_VARIANCE * error / most))
    names = feature_names(plan)
    is_seen = 0 < fewest < most and noise_level(plan) < EVEN_VARIANCE * fewest
    units = line_of_scaled(np.ones(len(names)), 0.0, plan).coefficients
    sizes = [size for owner in plan.owners for size in group_sizes(plan.schema_of(owner).columns)]
    alone = {name for name, size in zip(plan.column_names, sizes, strict=True) if size == 1}
    coefficients = tuple(
        Quantity(
            f"coefficient of {name}",
            "label per unit of the column",
            error / most * float(unit),
            best_case=error * EVEN_VARIANCE / MOST_VARIANCE / most * abs(float(unit)),
            bad_case=bad * abs(float(unit)),
            at_fewest_rows=error / fewest * float(unit) if is_seen else None,
        )
        for name, unit in zip(names, units, strict=True)
        if name in alone
    )
    not_forecast = (_NOT_R_SQUARED,) if alone.issuperset(names) else (OF_GROUPS, _NOT_R_SQUARED)
    return Forecast(coefficients, (EVEN, _SPREAD, OF_RANGE), not_forecast)
