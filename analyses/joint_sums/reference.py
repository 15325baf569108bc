"""The same where somebody holds all tables: no privacy, no rounding."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from analyses.job.schema import Table
from analyses.joint_sums.bin_estimate import subsets
from analyses.joint_sums.bin_plan import BinPlan
from analyses.joint_sums.plan import JointSumPlan


def reference(tables: Sequence[Table], plan: JointSumPlan) -> dict[str, Any]:
    """Return the exact number of rows and, in the order of the result, the `sum` and `mean` of clipped columns.

    Args:
        tables: tables of the owners, in the order of the joint table; row i of all is about the same person.
        plan: plan of the job.
    """
    n_rows = tables[0].n_rows
    if not plan.widths:
        return {"n_rows": n_rows}
    values = np.hstack([table.values for table in tables])
    clipped = np.clip(values, [c.lower for c in plan.summed], [c.upper for c in plan.summed])
    sums = clipped.sum(axis=0)
    return {"n_rows": n_rows, "sum": sums.tolist(), "mean": (sums / n_rows).tolist() if n_rows else None}


def reference_of_people(tables: Sequence[Table], _plan: BinPlan) -> dict[str, Any]:
    """Return for each set of owners, as in the result, how many are in the `union` of their tables, and in all of them.

    Args:
        tables: tables of the owners, with ids; they hold different people.
    """
    ids = [set(map(bytes, table.ids)) for table in tables if table.ids is not None]
    found = [
        {"union": len(set.union(*some)), "common": len(set.intersection(*some))}
        for some in ([ids[at] for at in of] for of in subsets(len(ids)))
    ]
    return {"n_rows": found[-1]["union"], "people": found}
