"""The same where somebody holds all tables: no privacy, no rounding."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import Table
from analyses.pca.plan import PcaPlan
from analyses.rows.row_plan import clipped_rows as clipped_rows


def reference(tables: Sequence[Table], plan: PcaPlan) -> NDArray[np.float64]:
    """Return the exact matrix that a PCA decomposes, shape (columns, columns): no privacy, no rounding.

    Of the clipped table: the sum over rows of (x - mean)(x - mean)^T, of x x^T where the job does not centre; with
    `scale`, of columns divided by their standard deviations, zeros for those that do not vary.

    For tests and for comparisons where somebody holds all tables, as in the demo.

    Args:
        tables: the owners' tables, in the order of the joint table.
        plan: the job's plan.
    """
    rows = clipped_rows(tables, plan)
    if plan.params.center:
        rows = rows - rows.mean(axis=0)
    if plan.params.scale:
        deviations = rows.std(axis=0)
        rows = np.where(deviations > 0, rows / np.where(deviations > 0, deviations, 1.0), 0.0)
    return np.asarray(rows.T @ rows, dtype=np.float64)


def captured_variance(moment: NDArray[np.float64], components: NDArray[np.float64]) -> float:
    """Return ||X V||_F^2 / ||X||_F^2 for X^T X = moment and orthonormal rows V: the fraction of the variance captured.

    It is a fraction of the variance where X is centred, of the sum of squares where it is not.
    """
    return float(np.einsum("ki,ij,kj->", components, moment, components) / np.trace(moment))
