"""Columns of integers of a party (categories or counts), and how values that are not valid are mapped to valid ones.

A value that is not a valid category, label or count never fails a job: the failure would be a bit of information about
the data that the coordinator and the analyst see, and that no budget covers. Such a value is mapped by a public rule
that depends on this value alone, and only its owner learns how many were mapped (docs/decisions/018-public-mapping.md):

    categories, labels   the nearest integer within the public bounds; of two equally near ones, the even one
    encoded categories   of the columns of a category, the first of the largest
    counts               rounded toward zero, then clipped to 0 .. the largest value that counts

Several columns of one owner are one: the place of a row is that of its values together, or of their sum, each mapped
by itself.

Privacy: let f be such a rule. An analysis of table D computes A(f(D)), f applied row by row. Tables that differ in
one record, added, removed or replaced, are mapped to tables that differ in the same record at most, and in the same
way. So what bounds A for all neighbouring tables of valid values bounds A after f for all tables. For one *event*, a
count that changes by 1, the second rule is what is needed: it moves no two values that differ by 1 further apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.rows.own_values import zeros_if_raised

Integers = NDArray[np.int64]


NO_PLACE = -1
"""Place of a value that is not counted."""


@dataclass(frozen=True)
class IntegerColumn:
    """A column of integers of a party, or the columns that one category was encoded as.

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

    @property
    def n_encoded(self) -> int:
        """Number of columns of the table that it is encoded as."""
        return max(1, len(self.labels))

    def places(self, values: NDArray[np.float64]) -> tuple[Integers, int]:
        """Return the place of each value among lower .. upper; one that is no category becomes the nearest.

        Args:
            values: values of some rows, shape (rows, n_encoded).

        Returns:
            shape (rows,), 0 .. n_values - 1; and how many values were no category. Both private.
        """
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


@dataclass(frozen=True)
class JoinedColumns:
    """All columns that a party brings to a count: their values together, or the sum of these, are one category.

    Attributes:
        parts: the columns, in the order of the job.
        adds: whether their values are added up.
    """

    parts: tuple[IntegerColumn, ...]
    adds: bool = False

    @property
    def n_values(self) -> int:
        """Number of combinations of values, or of sums."""
        if self.adds:
            return 1 + sum(part.n_values - 1 for part in self.parts)
        return prod(part.n_values for part in self.parts)

    def places(self, values: NDArray[np.float64]) -> tuple[Integers, Integers]:
        """Return the place of each row among all combinations, of which the last column's value moves fastest, or sums.

        Args:
            values: shape (rows, encoded columns).

        Returns:
            shape (rows,), 0 .. n_values - 1; and per encoded column how many values were no category. Both private.
        """
        joined, mapped, at = np.zeros(len(values), dtype=np.int64), [], 0
        for part in self.parts:
            places, n_mapped = part.places(values[:, at : at + part.n_encoded])
            joined, at = (1 if self.adds else part.n_values) * joined + places, at + part.n_encoded
            mapped += [n_mapped] * part.n_encoded
        return joined, np.array(mapped, dtype=np.int64)

    def categories(self, table: Table) -> tuple[Integers, Integers]:
        """Return the same of a table; `NO_PLACE` where nothing counts."""
        n_encoded = sum(part.n_encoded for part in self.parts)
        nothing = np.full(table.n_rows, NO_PLACE), np.zeros(n_encoded, dtype=np.int64)
        return zeros_if_raised(table, lambda: self.places(table.values), lambda: nothing)


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


def integer_columns(job: Job, schemas: Sequence[BlockSchema]) -> tuple[IntegerColumn, ...]:
    """Return the columns of the owners, one of each, in the order of the inputs.

    Args:
        job: what is asked for.
        schemas: schemas of its members.

    Raises:
        JobError: fewer than two owners, an owner with more than one column, or bounds that are no integers.
    """
    columns = []
    for schema in _owners(job, schemas):
        if len(schema.columns) != 1:
            raise JobError(
                f"inputs: {schema.party} must bring exactly one column, not {len(schema.columns)} "
                f"({_first_of(schema.columns)}); name one of them in `columns`"
            )
        columns.append(_integers(schema.party, schema.columns[0]))
    return tuple(columns)


def joined_columns(job: Job, schemas: Sequence[BlockSchema], *, adds: bool = False) -> tuple[JoinedColumns, ...]:
    """Return all columns of each owner as one, in the order of the inputs: integers, and categories.

    Args:
        job: what is asked for.
        schemas: schemas of its members.
        adds: whether values of one owner's columns are added up.

    Raises:
        JobError: fewer than two owners, an owner without a column, a part of a category, a column that is encoded as
            several that are no category, or bounds that are no integers.
    """
    found = []
    for brought, schema in zip(job.inputs, _owners(job, schemas), strict=True):
        if not schema.columns:
            raise JobError(f"inputs: {schema.party} must bring a column")
        parts, named = [], {*brought.columns}
        sources = [source for source, _ in groupby(column.source for column in schema.columns)]
        for source, of in groupby(schema.columns, key=lambda column: column.source):
            columns, is_once = tuple(of), sources.count(source) == 1
            if len(columns) == 1 and is_once:
                parts.append(_integers(schema.party, columns[0]))
                continue
            # Columns of another kind with a column for gaps are a group, too, in which no column says "no gap"; so are
            # products of categories.
            if is_once and not all(column.is_value for column in columns):
                raise JobError(
                    f"inputs: {schema.party}.{source} is encoded as {len(columns)} columns ({_first_of(columns)}) "
                    "that are no category; name categories and columns of integers in `columns`"
                )
            if not is_once or (named and (source not in named or any(column.name in named for column in columns))):
                raise JobError(  # rows of the values left out would count as the first one's
                    f"inputs: {schema.party} must bring a category whole: name {source!r} in `columns`, not the "
                    "columns of some of its values"
                )
            labels = tuple(column.name.removeprefix(f"{source}=") for column in columns)
            parts.append(IntegerColumn(f"{schema.party}.{source}", 0, len(labels) - 1, labels))
        found.append(JoinedColumns(tuple(parts), adds))
    return tuple(found)


def _owners(job: Job, schemas: Sequence[BlockSchema]) -> list[BlockSchema]:
    if len(job.inputs) < 2:
        raise JobError("inputs: at least two parties must bring a column")
    return [schemas[job.members.index(brought.party)] for brought in job.inputs]


def _integers(party: str, column: ColumnSchema) -> IntegerColumn:
    if column.lower != round(column.lower) or column.upper != round(column.upper):
        raise JobError(
            f"inputs: the bounds {column.lower:g}..{column.upper:g} of {party}.{column.name} are not "
            "integers, but this analysis needs a column of integers"
        )
    return IntegerColumn(f"{party}.{column.name}", int(column.lower), int(column.upper))


def _first_of(columns: Sequence[ColumnSchema]) -> str:
    return ", ".join(one.name for one in columns[:4]) + (", ..." if len(columns) > 4 else "")
