"""The same where somebody holds all tables: no privacy, no noise."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from analyses.circuit.plan import CircuitPlan, ColumnRows
from analyses.job.schema import Table

Rows = Any
"""Integers of Python, shape (rows,), or one integer."""

OPERATIONS: dict[str, Callable[..., Rows]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "select": lambda bit, a, b: np.where(bit == 1, a, b),
    "minimum": np.minimum,
    "maximum": np.maximum,
    "low_bits": lambda a, k: a % (1 << k),
    "floor_shift": lambda a, k: a >> k,
}


def reference(tables: Sequence[Table], plan: CircuitPlan) -> dict[str, int]:
    """Return the exact sums by their names.

    Args:
        tables: tables of the owners, in the order of the joint table; row i of all is about the same person.
        plan: plan of the job.
    """
    values: dict[str, Rows] = {}
    for member, table in zip(plan.owners, tables, strict=True):
        integers = ColumnRows(plan, member, table, None)(slice(0, table.n_rows))
        for place, column in enumerate(table.schema.columns):
            values[f"{table.schema.party}.{column.name}"] = integers[:, place].astype(object)
    for step in plan.program.steps:
        if step.operation == "column":
            values[step.name] = values[str(step.operands[0])]
            continue
        operands = [values[o] if isinstance(o, str) else o for o in step.operands]
        values[step.name] = np.asarray(OPERATIONS[step.operation](*operands)).astype(object) * 1
    return {step.name: int(np.sum(values[str(step.operands[0])])) for step in plan.program.opened}
