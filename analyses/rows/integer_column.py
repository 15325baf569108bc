"""One column of integers per party (categories or counts), and how values that are not valid are mapped to valid ones.

A value that is not a valid category, label or count never fails a job: the failure would be a bit of information about
the data that the coordinator and the analyst see, and that no budget covers. Such a value is mapped by a public rule
that depends on this value alone, and only its owner learns how many were mapped (docs/decisions/018-public-mapping.md):

    categories, labels   the nearest integer within the public bounds; of two equally near ones, the even one
    encoded categories   of the columns of a category, the first of the largest
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
from analyses.rows.own_values import zeros_if_raised

Integers = NDArray[np.int64]


NO_PLACE = -1
"""Place of a value that is not counted."""


@dataclass(frozen=True)
class IntegerColumn:
    """The one column that a party brings, or the columns that one category was encoded as.

    Attributes:
        name: `party.column`.
        lower, upper: its public bounds, integers; of an encoded category 0 and the number of its columns less 1.
        labels: names of the values of an encoded category, in the order of its columns; empty for a column of integers.
    """

    name: str
    lower: int
    upper: int
    labels: tuple[str, ...] = ()

    @property
    def n_values(self) -> int:
        """Number of integers within the bounds."""
        return self.upper - self.lower + 1

    def categories(self, table: Table) -> tuple[Integers, int]:
        """Return the place of each value among lower .. upper; one that is no category becomes the nearest.

        Returns:
            shape (rows,), 0 .. n_values - 1, or `NO_PLACE` where nothing counts; and how many values were no category.
            Both private.
        """
        return zeros_if_raised(table, lambda: self.places(table.values), lambda: (np.full(table.n_rows, NO_PLACE), 0))

    def places(self, values: NDArray[np.float64]) -> tuple[Integers, int]:
        """Return the same of some rows, shape (rows, columns)."""
        if self.labels:
            return largest_indicators(values)
        return nearest_places(values[:, 0], self.lower, self.upper)

    def clipped(self, table: Table, most: int) -> tuple[Integers, int, int]:
        """Return the values of a column of counts, rounded toward zero, and how many were not valid counts.

        Args:
            table: mine.
            most: largest value kept; larger ones become it.

        Returns:
            shape (rows,), 0 .. most; how many were clipped to that; how many were rounded, as they are no integers. All
            private.
        """
        return zeros_if_raised(
            table,
            lambda: clipped_counts(table.values[:, 0], most),
            lambda: (np.zeros(table.n_rows, dtype=np.int64), 0, 0),
        )


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


def largest_indicators(values: NDArray[np.float64]) -> tuple[Integers, int]:
    """Return the category of each row of encoded columns, by the rule of this module.

    Args:
        values: shape (rows, categories), finite.

    Returns:
        shape (rows,), 0 .. categories - 1; and in how many rows not exactly one column was 1 and all others 0. Private.
    """
    within = np.clip(values, 0.0, 1.0)
    places = within.argmax(axis=1)
    is_one = (within == values).all(axis=1) & (within.max(axis=1) == 1.0) & (within.sum(axis=1) == 1.0)
    return places.astype(np.int64), int(np.count_nonzero(~is_one))


def clipped_counts(values: NDArray[np.float64], most: int) -> tuple[Integers, int, int]:
    """Return counts by the rule of this module, how many were clipped and how many rounded; see `clipped`."""
    whole = np.trunc(values)
    clipped = np.clip(whole, 0, most)
    n_rounded = int(np.count_nonzero(whole != values))
    return clipped.astype(np.int64), int(np.count_nonzero(clipped != whole)), n_rounded


def integer_columns(
    job: Job, schemas: Sequence[BlockSchema], *, takes_categories: bool = False
) -> tuple[IntegerColumn, ...]:
    """Return the columns of the owners, in the order of the inputs.

    Args:
        job: what is asked for.
        schemas: schemas of its members.
        takes_categories: whether an owner may bring a category, which its table encodes as a column for each value.

    Raises:
        JobError: fewer than two owners, an owner with more than one column or a part of a category, or bounds that are
            no integers.
    """
    if len(job.inputs) < 2:
        raise JobError("inputs: at least two parties must bring a column")
    columns = []
    for brought in job.inputs:
        schema = schemas[job.members.index(brought.party)]
        if takes_categories and (category := _category_of(schema)) is not None:
            source = schema.columns[0].source
            if brought.columns not in ((), (source,)):  # rows of the values left out would count as the first one's
                raise JobError(
                    f"inputs: {brought.party} must bring a category whole: name {source!r} in `columns`, not the "
                    "columns of some of its values"
                )
            columns.append(category)
            continue
        if len(schema.columns) != 1:
            raise JobError(
                f"inputs: {brought.party} must bring exactly one column, not {len(schema.columns)} "
                f"({', '.join(one.name for one in schema.columns[:4])}{', ...' if len(schema.columns) > 4 else ''}); "
                "name one of them in `columns`"
            )
        column = schema.columns[0]
        if column.lower != round(column.lower) or column.upper != round(column.upper):
            raise JobError(
                f"inputs: the bounds {column.lower:g}..{column.upper:g} of {brought.party}.{column.name} are not "
                "integers, but this analysis needs a column of integers"
            )
        columns.append(IntegerColumn(f"{brought.party}.{column.name}", int(column.lower), int(column.upper)))
    return tuple(columns)


def _category_of(schema: BlockSchema) -> IntegerColumn | None:
    """Return the category that all columns of an owner were encoded as; None where they are something else."""
    source = schema.columns[0].group if schema.columns else None
    names = [column.name for column in schema.columns]
    # Columns of another kind with a column for gaps are a group, too, in which no column of its own says "no gap".
    if source is None or len(names) < 2 or not all(name.startswith(f"{source}=") for name in names):
        return None
    labels = tuple(name.removeprefix(f"{source}=") for name in names)
    return IntegerColumn(f"{schema.party}.{source}", 0, len(labels) - 1, labels)
