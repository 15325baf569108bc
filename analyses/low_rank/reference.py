"""The same where somebody holds all tables, and what an approximation loses: no privacy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import Table
from analyses.low_rank.plan import LowRankPlan
from analyses.rows.row_plan import clipped_rows
from analyses.second_moments.spectrum import leading_components


def residual(rows: NDArray[np.float64], components: NDArray[np.float64]) -> float:
    """Return ||X - X V V^T||_F / ||X||_F for rows X and orthonormal rows V^T: what the approximation loses."""
    lost = rows - rows @ components.T @ components
    return float(np.linalg.norm(lost) / np.linalg.norm(rows))


def reference(tables: Sequence[Table], plan: LowRankPlan) -> NDArray[np.float64]:
    """Return the top k right singular vectors of the clipped table, in plain NumPy, as rows; no privacy.

    Args:
        tables: all parties' tables, in the order of the joint table.
        plan: plan of the job.
    """
    rows = clipped_rows(tables, plan)
    return leading_components(rows.T @ rows, plan.params.rank)[1]
