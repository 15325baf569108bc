"""The same where somebody holds all tables: the exact moment, no privacy."""

from collections.abc import Sequence

import numpy as np

from analyses.job.schema import Table
from analyses.power_moments.plan import MomentsPlan


def reference(tables: Sequence[Table], plan: MomentsPlan) -> float:
    """Return the exact moment of the clipped columns: no privacy.

    Args:
        tables: tables of the owners, in the order of the inputs.
        plan: plan of the job.
    """
    clipped = [c.clipped(t, most)[0] for c, t, most in zip(plan.columns, tables, plan.largest, strict=True)]
    rows = np.sum(clipped, axis=0, dtype=np.int64).astype(object)
    return float((rows**plan.params.order).sum())
