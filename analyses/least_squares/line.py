"""From second moments to the line of least squares in the units of the columns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analyses.second_moments.ridge import RidgeSolution, solve

if TYPE_CHECKING:
    from analyses.least_squares.plan import LeastSquaresPlan

Floats = NDArray[np.float64]


def feature_names(plan: "LeastSquaresPlan") -> tuple[str, ...]:
    """Return the names of all columns but the label, in the order of the joint table."""
    return tuple(name for name in plan.column_names if name != plan.params.label)


def feature_bounds(plan: "LeastSquaresPlan") -> list[list[float]]:
    """Return the public bounds of all columns but the label, in the order of `feature_names`."""
    columns = {f"{schema.party}.{column.name}": column for schema in plan.schemas for column in schema.columns}
    return [[columns[name].lower, columns[name].upper] for name in feature_names(plan)]


def solve_moments(matrix: Floats, noise_level: float, plan: "LeastSquaresPlan") -> RidgeSolution:
    """Solve for the label, given second moments of the joint table's columns and the constant, in scaled units."""
    return solve(moments_in_order(matrix, plan), plan.constant * plan.unit, noise_level, plan.params.ridge)


def moments_in_order(matrix: Floats, plan: "LeastSquaresPlan") -> Floats:
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


def in_units_of_columns(solution: RidgeSolution, plan: "LeastSquaresPlan") -> Line | None:
    """Undo the public scaling of features and label.

    A column x with origin o and width w (upper less lower bound) is scaled to (x - o) / w. So label = o_y + w_y (sum
    b_i (x_i - o_i) / w_i + b_0).
    """
    if solution.coefficients is None or solution.intercept is None:
        return None
    return line_of_scaled(solution.coefficients, solution.intercept, plan)


def line_of_scaled(scaled_coefficients: Floats, scaled_intercept: float, plan: "LeastSquaresPlan") -> Line:
    """Return the line in the units of the columns, of coefficients and an intercept in scaled units."""
    columns = [column for owner in plan.owners for column in plan.schema_of(owner).columns]
    widths = np.array([column.upper - column.lower for column in columns])
    is_label = np.array(plan.column_names) == plan.params.label
    order = np.append(np.flatnonzero(~is_label), np.flatnonzero(is_label))
    return line_of_units(scaled_coefficients, scaled_intercept, plan.zeros[order], widths[order])


def line_of_units(scaled_coefficients: Floats, scaled_intercept: float, zeros: Floats, widths: Floats) -> Line:
    """Return the line in the units of the columns.

    Args:
        scaled_coefficients: in scaled units, shape (features,).
        scaled_intercept: intercept in scaled units.
        zeros: values that are scaled to 0, of features, then label.
        widths: values per scaled unit, likewise.
    """
    coefficients = scaled_coefficients * widths[-1] / widths[:-1]
    intercept = scaled_intercept * widths[-1] + zeros[-1]
    return Line(coefficients, float(intercept - coefficients @ zeros[:-1]))
