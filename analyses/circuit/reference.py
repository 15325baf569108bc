"""The same where somebody holds all tables: no privacy, no noise."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from analyses.circuit.functions import FUNCTIONS, Function
from analyses.circuit.plan import CircuitPlan, ColumnRows
from analyses.circuit.program import Program
from analyses.job.schema import Table

Rows = Any
"""Integers of Python, or what functions make of them, `Fraction`, shape (rows,), or one of them."""

PLACES = 20
"""Places behind the point, of two, to which the results of functions are rounded."""


def _of_each(function: Function) -> Callable[..., Rows]:
    def rounded(*operands: Fraction | int) -> Fraction:
        return Fraction(round(function.exact(*operands) * (1 << PLACES)), 1 << PLACES)

    return np.frompyfunc(rounded, function.n_operands, 1)


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
    "floor_shift": lambda a, k: a // (1 << k),
    **{name: _of_each(function) for name, function in FUNCTIONS.items()},
}


def reference(tables: Sequence[Table], plan: CircuitPlan) -> dict[str, int | float]:
    """Return the exact sums by their names: integers, but where functions have been used.

    Args:
        tables: tables of the owners, in the order of the joint table; row i of all is about the same person.
        plan: plan of the job.
    """
    columns: dict[str, Rows] = {}
    for member, table in zip(plan.owners, tables, strict=True):
        integers = ColumnRows(plan, member, table, None)(slice(0, table.n_rows))
        for place, column in enumerate(table.schema.columns):
            columns[f"{table.schema.party}.{column.name}"] = integers[:, place].astype(object)
    values = values_of(plan.program, columns)
    sums = {step.name: np.sum(values[str(step.operands[0])]) for step in plan.program.opened}
    return {name: float(total) if isinstance(total, Fraction) else int(total) for name, total in sums.items()}


def values_of(program: Program, columns: Mapping[str, Rows]) -> dict[str, Rows]:
    """Return what each step is in each row, from columns of integers of Python."""
    values: dict[str, Rows] = {}
    for step in program.steps:
        if step.operation == "column":
            values[step.name] = columns[str(step.operands[0])]
            continue
        operands = [values[o] if isinstance(o, str) else o for o in step.operands]
        values[step.name] = np.asarray(OPERATIONS[step.operation](*operands)).astype(object) * 1
    return values
