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
        tables: tables of the survivors.
        plan: plan of the job.
    """
    total = np.zeros(plan.rows.n_entries, dtype=np.int64)
    for table in tables:
        total += plan.rows.total(table, plan.encoding.largest_entry)[0]
    return value_of(plan, total)


def value_of(plan: TableSumPlan, total: Integers) -> dict[str, Any]:
    """Return what a sum of all survivors' integers says, in the units of the columns; shape (entries,)."""
    rows = plan.rows
    if isinstance(rows, BinnedRows):
        return {"edges": list(rows.edges), **rows.parts(total), "n_rows": int(total.sum())}
    columns = names_of_answer(plan)
    if isinstance(rows, WeightedRows):
        weight = int(total[-1])
        scales = np.array(rows.rows.scales)
        mean = (total[:-1] / weight * scales).tolist() if weight > 0 else None
        found = {"columns": columns, "mean": mean, "total_weight": weight / rows.rows.units}
        return found | ({"n_rows": found["total_weight"]} if rows.weight_column is None else {})
    assert isinstance(rows, ScaledRows)
    return {"columns": columns, "sum": (total / rows.units * np.array(rows.scales)).tolist()}


def names_of_answer(plan: TableSumPlan) -> list[str]:
    """Return the names of what is summed or averaged, by column position, without that of weights.

    It is the common name, or what the job says of the place.
    """
    weight = plan.rows.weight_column if isinstance(plan.rows, WeightedRows) else None
    names = plan.params.names or [column.name for column in plan.schemas[0].columns]
    return [name for place, name in enumerate(names) if place != weight]
