"""What a sum over all parties' rows says, and the same from all tables in one place."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import Table
from analyses.sums.plan import TableSumPlan
from analyses.sums.row_vectors import BinnedRows, ScaledRows, WeightedRows

Integers = NDArray[np.int64]


def reference(tables: Sequence[Table], plan: TableSumPlan) -> dict[str, Any]:
    """Return the same answer from all tables in one place, without noise.

    For tests and comparisons where somebody holds all tables.

    Args:
        tables: of the survivors.
        plan: as for the job.
    """
    total = np.zeros(plan.rows.n_entries, dtype=np.int64)
    for table in tables:
        total += plan.rows.total(table, plan.encoding.largest_entry)[0]
    return value_of(plan, total)


def value_of(plan: TableSumPlan, total: Integers) -> dict[str, Any]:
    """Return what a sum of all survivors' integers says, in the units of the columns; shape (entries,)."""
    rows = plan.rows
    if isinstance(rows, BinnedRows):
        return {"edges": list(rows.edges), "counts": [int(count) for count in total]}
    columns = names_of_answer(plan)
    if isinstance(rows, WeightedRows):
        weight = int(total[-1])
        scales = np.array(rows.rows.scales)
        mean = (total[:-1] / weight * scales).tolist() if weight > 0 else None
        return {"columns": columns, "mean": mean, "total_weight": weight / rows.rows.units}
    assert isinstance(rows, ScaledRows)
    return {"columns": columns, "sum": (total / rows.units * np.array(rows.scales)).tolist()}


def names_of_answer(plan: TableSumPlan) -> list[str]:
    """Return the names of what is summed or averaged, by column position, without that of weights.

    It is the common name, or all names of the columns that are added there.
    """
    names = []
    weight = plan.rows.weight_column if isinstance(plan.rows, WeightedRows) else None
    for place in range(len(plan.schemas[0].columns)):
        if place == weight:
            continue
        found = [schema.columns[place].name for schema in plan.schemas]
        same = len(set(found)) == 1
        names.append(found[0] if same else " + ".join(f"{s.party}.{s.columns[place].name}" for s in plan.schemas))
    return names
