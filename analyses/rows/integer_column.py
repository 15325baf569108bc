"""One column of integers per party (categories or counts), and how values that are not valid are mapped to valid ones.

A value that is not a valid category, label or count never fails a job: the failure would be a bit of information about
the data that the coordinator and the analyst see, and that no budget covers. Such a value is mapped by a public rule
that depends on this value alone, and only its owner learns how many were mapped (docs/decisions/018-public-mapping.md):

    categories, labels   the nearest integer within the public bounds; of two equally near ones, the even one
    counts               rounded toward zero, then clipped to 0 .. the largest value that counts

Privacy: let f be such a rule. An analysis of table D computes A(f(D)), f applied value by value. Tables that differ in
one record, added, removed or replaced, are mapped to tables that differ in the same record at most, and in the same
way. So what bounds A for all neighbouring tables of valid values bounds A after f for all tables. For one *event*, a
count that changes by 1, the second rule is what is needed: it moves no two values that differ by 1 further apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, Table

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
        """Number of integers within the bounds."""
        return self.upper - self.lower + 1

    def categories(self, table: Table) -> tuple[Integers, int]:
        """Return the place of each value among lower .. upper; one that is no category becomes the nearest.

        Returns:
            shape (rows,), 0 .. n_values - 1; and how many values were no category. Both private.
        """
        return nearest_places(table.values[:, 0], self.lower, self.upper)

    def clipped(self, table: Table, most: int) -> tuple[Integers, int, int]:
        """Return the values of a column of counts, rounded toward zero, and how many were not valid counts.

        Args:
            table: mine.
            most: largest value kept; larger ones become it.

        Returns:
            shape (rows,), 0 .. most; how many were clipped to that; how many were rounded, as they are no integers. All
            private.
        """
        return clipped_counts(table.values[:, 0], most)


def nearest_places(values: NDArray[np.float64], lower: int, upper: int) -> tuple[Integers, int]:
    """Return the place of the nearest integer among lower .. upper for each value, by the rule of this module.

    Args:
        values: shape (rows,), finite.
        lower: least integer; float64 holds it exactly, as the next.
        upper: largest integer, less than 2^53 above `lower`.

    Returns:
        shape (rows,), 0 .. upper - lower; and how many values were no integers within the bounds. Both private.
    """
    nearest = np.rint(np.clip(values, lower, upper))
    # Exact: both are multiples of the smaller one's last place, and their difference is below 2^53 of these.
    return (nearest - lower).astype(np.int64), int(np.count_nonzero(nearest != values))


def clipped_counts(values: NDArray[np.float64], most: int) -> tuple[Integers, int, int]:
    """Return counts by the rule of this module, how many were clipped and how many rounded; see `clipped`."""
    whole = np.trunc(values)
    clipped = np.clip(whole, 0, most)
    n_rounded = int(np.count_nonzero(whole != values))
    return clipped.astype(np.int64), int(np.count_nonzero(clipped != whole)), n_rounded


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
                f"inputs: {brought.party} must bring exactly one column, not {len(schema.columns)}; select it with "
                "`columns`"
            )
        column = schema.columns[0]
        if column.lower != round(column.lower) or column.upper != round(column.upper):
            raise JobError(
                f"inputs: the bounds {column.lower:g}..{column.upper:g} of {brought.party}.{column.name} are not "
                "integers, but this analysis needs a column of integers"
            )
        columns.append(IntegerColumn(f"{brought.party}.{column.name}", int(column.lower), int(column.upper)))
    return tuple(columns)
