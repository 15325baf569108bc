"""From second moments to the line of least squares in the units of the columns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyses.least_squares.plan import LeastSquaresPlan
from analyses.rows.reach import zeros_of
from analyses.rows.row_plan import RowPlan
from analyses.second_moments.ridge import RidgeSolution, solve

Floats = NDArray[np.float64]


def feature_names(plan: LeastSquaresPlan) -> tuple[str, ...]:
    """Return the names of all columns but the label, in the order of the joint table."""
    return tuple(name for name in plan.column_names if name != plan.params.label)


def solve_moments(matrix: Floats, noise_level: float, plan: LeastSquaresPlan) -> RidgeSolution:
    """Solve for the label, given second moments of the joint table's columns and the constant, in scaled units."""
    return solve(moments_in_order(matrix, plan), plan.constant * plan.unit, noise_level, plan.params.ridge)


def moments_in_order(matrix: Floats, plan: LeastSquaresPlan) -> Floats:
    """Return second moments of the joint table's columns and the constant in the order features, label, constant."""
    label = plan.column_names.index(plan.params.label)
    order = [i for i in range(len(matrix) - 1) if i != label] + [label, len(matrix) - 1]
    return matrix[np.ix_(order, order)]


@dataclass(frozen=True)
class Line:
    """label = intercept + features @ coefficients, in the units of the columns."""

    coefficients: Floats
    intercept: float

    def predict(self, features: Floats) -> Floats:
        """Return the label of rows, shape (rows, features)."""
        return np.asarray(features @ self.coefficients + self.intercept, dtype=np.float64)


def in_units_of_columns(solution: RidgeSolution, plan: LeastSquaresPlan) -> Line | None:
    """Undo the public scaling of features and label.

    A column x with origin o and width w (upper less lower bound) is scaled to (x - o) / w. So label = o_y + w_y (sum
    b_i (x_i - o_i) / w_i + b_0).
    """
    if solution.coefficients is None or solution.intercept is None:
        return None
    return line_of_scaled(solution.coefficients, solution.intercept, plan)


def line_of_scaled(scaled_coefficients: Floats, scaled_intercept: float, plan: LeastSquaresPlan) -> Line:
    """Return the line in the units of the columns, of coefficients and an intercept in scaled units."""
    origins, widths = _scales(plan)
    is_label = np.array(plan.column_names) == plan.params.label
    coefficients = scaled_coefficients * widths[is_label] / widths[~is_label]
    intercept = scaled_intercept * widths[is_label][0] + origins[is_label][0]
    return Line(coefficients, float(intercept - coefficients @ origins[~is_label]))


def _scales(plan: RowPlan) -> tuple[Floats, Floats]:
    blocks = [plan.schema_of(owner).columns for owner in plan.owners]
    widths = np.array([c.upper - c.lower for columns in blocks for c in columns])
    return np.concatenate([zeros_of(columns, plan.params.origin) for columns in blocks]), widths
