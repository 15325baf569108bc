"""The same where somebody holds all tables: no privacy, no rounding."""

from collections.abc import Sequence

import numpy as np

from analyses.job.schema import Table
from analyses.least_squares.line import Line, line_of_scaled
from analyses.least_squares.plan import LeastSquaresPlan
from analyses.rows.row_plan import clipped_rows


def reference(tables: Sequence[Table], plan: LeastSquaresPlan) -> Line:
    """Return the line of least squares of the clipped table, in plain NumPy, without privacy.

    The shortest of all such coefficients where the design matrix is singular; with the plan's ridge where it has one.

    Args:
        tables: all parties' tables, in the order of the joint table.
        plan: plan of the job.
    """
    rows = clipped_rows(tables, plan)
    is_label = np.array(plan.column_names) == plan.params.label
    means = rows.mean(axis=0)
    features, label = (rows - means)[:, ~is_label], (rows - means)[:, is_label]
    penalty = np.sqrt(plan.params.ridge or 0.0) * np.eye(features.shape[1])
    zeros = np.zeros((len(penalty), 1))
    b = np.linalg.lstsq(np.vstack([features, penalty]), np.vstack([label, zeros]))[0][:, 0]
    intercept = float(means[is_label][0] - means[~is_label] @ b)
    return line_of_scaled(b, intercept, plan)
