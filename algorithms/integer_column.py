"""Analyses of one column of integers per party: categories, or counts of something."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.job import Job, JobError
from algorithms.schema import BlockSchema, Table

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class IntegerColumn:
    """The one column that a party brings.

    Attributes:
        name: `party.column`.
        lower, upper: its public bounds, integers.
    """

    name: str
    lower: int
    upper: int

    @property
    def n_values(self) -> int:
        """How many integers lie within the bounds."""
        return self.upper - self.lower + 1

    def categories(self, table: Table) -> Integers:
        """Return the place of each value among lower .. upper, shape (rows,), 0 .. n_values - 1.

        Raises:
            JobError: a value is no integer between the bounds. The text is public: no row, value or count.
        """
        values = table.values[:, 0]
        if np.any(values != np.rint(values)) or np.any((values < self.lower) | (values > self.upper)):
            raise JobError(
                f"inputs: column {self.name} holds a value that is no category {self.lower}..{self.upper}; "
                "its owner must correct the table or its bounds"
            )
        return values.astype(np.int64) - self.lower

    def clipped(self, table: Table, most: int) -> tuple[Integers, int]:
        """Return the values of a column of counts, rounded toward zero, and how many lay outside 0 .. most.

        Args:
            table: mine.
            most: largest value kept; larger ones become it.

        Returns:
            shape (rows,), 0 .. most; and the number of those that were clipped. Both private.
        """
        values = np.trunc(table.values[:, 0])
        clipped = np.clip(values, 0, most)
        return clipped.astype(np.int64), int(np.count_nonzero(clipped != values))


def integer_columns(job: Job, schemas: Sequence[BlockSchema]) -> tuple[IntegerColumn, ...]:
    """Return the columns of the owners, in the order of the inputs.

    Raises:
        JobError: fewer than two owners, an owner with more than one column, or bounds that are no integers.
    """
    if len(job.inputs) < 2:
        raise JobError("inputs: at least two parties must bring a column")
    columns = []
    for brought in job.inputs:
        schema = schemas[job.members.index(brought.party)]
        if len(schema.columns) != 1:
            raise JobError(
                f"inputs: {brought.party} must bring exactly one column, not {len(schema.columns)}; "
                "name it in `columns`"
            )
        column = schema.columns[0]
        if column.lower != round(column.lower) or column.upper != round(column.upper):
            raise JobError(
                f"inputs: the bounds {column.lower:g}..{column.upper:g} of {brought.party}.{column.name} "
                "are no integers, so its values are none that can be counted"
            )
        columns.append(IntegerColumn(f"{brought.party}.{column.name}", int(column.lower), int(column.upper)))
    return tuple(columns)
