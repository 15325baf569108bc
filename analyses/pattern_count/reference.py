"""The same where somebody holds all tables: exact counts, no privacy."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import Table
from analyses.pattern_count.plan import PatternCountPlan


def reference(tables: Sequence[Table], plan: PatternCountPlan) -> NDArray[np.int64]:
    """Return the exact counts, shape `plan.counted_shape`, of the categories that values are or become: no privacy.

    Args:
        tables: tables of the owners, in the order of the inputs.
        plan: plan of the job.
    """
    categories = [column.categories(table)[0] for column, table in zip(plan.brought, tables, strict=True)]
    if plan.params.counted == "sums":
        return np.bincount(np.sum(categories, axis=0), minlength=prod(plan.counted_shape))
    cells = np.ravel_multi_index(categories, plan.shape)
    return np.bincount(cells, minlength=prod(plan.shape)).reshape(plan.counted_shape)
