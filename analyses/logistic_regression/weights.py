"""From the weights of scaled rows to those of the columns in their own units."""

import numpy as np
from numpy.typing import NDArray

from analyses.logistic_regression.plan import LogisticRegressionPlan


def in_own_units(plan: LogisticRegressionPlan, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return weights per unit of each column and the intercept, from those of scaled rows.

    A column of bounds [l, u] enters as (value - l) / (u - l) / row_norm, the constant as its integer over gamma.
    """
    columns = [c for owner in plan.owners for c in plan.features_of(owner).columns]
    lower = np.array([c.lower for c in columns])
    width = np.array([c.upper for c in columns]) - lower
    per_unit = weights[: len(columns)] / (plan.row_norm * width)
    constant = float(weights[-1]) * plan.intercept_units / plan.params.row_units if plan.params.intercept else 0.0
    return per_unit, constant - float(per_unit @ lower)
