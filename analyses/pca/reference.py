"""The same where somebody holds all tables: no privacy, no rounding."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import Table
from analyses.pca.plan import PcaPlan
from analyses.rows.row_plan import clipped_rows as clipped_rows


def reference(tables: Sequence[Table], plan: PcaPlan) -> NDArray[np.float64]:
    """Return the exact second-moment matrix of the clipped table, shape (columns, columns): no privacy, no rounding.

    For tests and for comparisons where somebody holds all tables, as in the demo.

    Args:
        tables: of the owners, in the order of the joint table.
        plan: as for the job.
    """
    rows = clipped_rows(tables, plan)
    return rows.T @ rows
