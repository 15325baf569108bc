"""Describes a table from the owner's configuration, and reads its columns from its source.

The description asks no source: policy, plan and budget are asked with it, and only then is anything read. What is found
in the source is the owner's business. Where it rules the table out, the coordinator and the analyst read the same words
whatever it is (`UnusableTableError`), and the owner's log says what. That names columns, and never a path, a row
number, a value or a count. Errors of readers, which quote values, are not chained.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.job import JobInput
from analyses.job.row_ids import Persons, digest_of_ids
from analyses.job.schema import BlockSchema, Table
from party.tables.config import TableConfig, TableOwner
from party.tables.ratings import read_ratings
from party.tables.ratings_config import RatingsTableConfig
from party.tables.source import SourceError

LARGEST = float(np.finfo(np.float64).max)


class TableError(ValueError):
    """The table cannot be used for a job; the text is public."""


class UnusableTableError(TableError):
    """A table whose source is missing, or holds what no job can use. The text is public, and the same for all of that.

    Attributes:
        detail: what it is, for the owner.
    """

    def __init__(self, label: str, detail: str) -> None:
        super().__init__(f"{label} cannot be used; its owner finds the reason in the log of the service")
        self.detail = detail


@dataclass(frozen=True)
class _Named:
    """One table, and how to speak of it in public."""

    table: TableConfig
    label: str

    def refusal(self, what: str) -> TableError:
        """Return the public error for a request that the configuration does not allow."""
        return TableError(f"{self.label}: {what}")

    @contextmanager
    def used(self) -> Iterator[None]:
        """Tell the public of whatever is wrong with the source the same, and the owner what it is."""
        try:
            yield
        except SourceError as error:
            raise UnusableTableError(self.label, str(error)) from None


class TableReader:
    """Reads a party's tables. Remembers the last one read, for the next job on the same columns.

    One table is remembered, not all, because it may fill half of the memory. It is read again when its source has
    another version, or none. May be called from several threads.
    """

    def __init__(self, owner: TableOwner) -> None:
        self._owner = owner
        self._lock = threading.Lock()
        self._last: tuple[object, Table] | None = None

    def describe(self, brought: JobInput) -> BlockSchema:
        """As `describe_table`."""
        return describe_table(self._owner, brought)

    def load(self, brought: JobInput) -> Table:
        """As `load_table`; the values are shared between jobs and read-only."""
        named = _named(self._owner, brought)
        with named.used():
            version = named.table.make_source().version()
        wanted = (brought, version)
        with self._lock:
            if version is None or self._last is None or self._last[0] != wanted:
                self._last = None  # frees the old table before the new one is read
                self._last = (wanted, load_table(self._owner, brought))
            return self._last[1]


def describe_table(owner: TableOwner, brought: JobInput) -> BlockSchema:
    """Return the public part of what a job asks for: from the configuration alone, no source is asked.

    Args:
        owner: the party's configuration.
        brought: table and columns. No columns means all that have public bounds and need not be named, in the
            order of the configuration.

    Raises:
        TableError: there is no such table; a column is asked for twice, identifies the rows or has no public bounds.
    """
    named = _named(owner, brought)
    table = named.table
    if isinstance(table, RatingsTableConfig):
        if brought.columns:
            raise named.refusal("it holds ratings, of which a job gets all or none; the job must name no columns")
        return BlockSchema(party=owner.name, rows=table.rows, ratings=table.schema_of_ratings)
    names = brought.columns or table.usual_columns
    for name in names:
        if names.count(name) > 1:
            raise named.refusal(f"column {name!r} is requested more than once")
        if name in table.key_columns:
            what = "rows" if name == table.id_column else "persons"
            raise named.refusal(f"column {name!r} identifies the {what} and cannot be used as a feature")
        if name not in table.bounds:
            raise named.refusal(f"column {name!r} has no public bounds, so it cannot be used")
    return BlockSchema(
        party=owner.name,
        columns=tuple(map(table.column, names)),
        has_ids=table.id_column is not None,
        rows=table.rows,
        most_rows_per_person=table.most_rows_per_person,
    )


def load_table(owner: TableOwner, brought: JobInput) -> Table:
    """Read the columns that a job asks for.

    Values outside the public bounds are no error: analyses clip and count them. So is an infinite one, which is read
    as the largest float64 of its sign.

    Memory: at the peak the float64 values, the ids and the persons, and what the source holds beside them.

    Args:
        owner: the party's configuration.
        brought: table and columns, as for `describe_table`.

    Returns:
        float64 values, row-major and read-only, with the digest of the ids in row order, and whose the rows are.

    Raises:
        TableError: as `describe_table`.
        UnusableTableError: the source is missing, unreadable or of an unknown format; a column is missing in it or
            stands there twice, is not numeric, has an empty value or one that is no number (NaN); ids are empty or
            repeated; persons are empty; there are no rows, fewer or more than are declared; or the source is changed
            meanwhile.
    """
    schema = describe_table(owner, brought)
    named = _named(owner, brought)
    table = named.table
    if isinstance(table, RatingsTableConfig):
        with named.used():
            ratings = read_ratings(table)
            if not schema.admits(len(ratings.values)):
                raise SourceError("its number of rows is outside the range that its owner declares")
        return Table(schema, np.empty((len(ratings.values), 0)), ratings=ratings)
    with named.used():
        values, keys = _read(table, [column.name for column in schema.columns])
        if not schema.admits(len(values)):
            raise SourceError("its number of rows is outside the range that its owner declares")
        for key in keys.values():
            _check_key(table, key)
    digest = b"" if table.id_column is None else digest_of_ids(keys[table.id_column])
    persons = None if table.person_column is None else Persons.of(keys[table.person_column])
    values.setflags(write=False)
    return Table(schema, values, digest, persons)


def count_rows(owner: TableOwner, table: str) -> int:
    """Return the number of rows of a table. For its owner only.

    Raises:
        TableError: there is no such table.
        UnusableTableError: its source cannot be read.
    """
    named = _named(owner, JobInput(party=owner.name, table=table))
    with named.used():
        return named.table.make_source().count_rows()


def is_there(table: TableConfig) -> bool:
    """Return whether the source of a table can be found; no row is read."""
    try:
        return table.make_source().is_there()
    except SourceError:
        return False


def _named(owner: TableOwner, brought: JobInput) -> _Named:
    for table in owner.tables:
        if table.name == brought.table:
            return _Named(table, f"table {brought.table!r} of party {owner.name!r}")
    raise TableError(f"party {owner.name!r} has no table {brought.table!r}")


def _read(table: TableConfig, names: Sequence[str]) -> tuple[NDArray[np.float64], Mapping[str, pl.Series]]:
    """Return values, and ids and persons as text, as far as there are any.

    Raises:
        SourceError: the source raises it, or a column is not what its place asks for.
    """
    values: NDArray[np.float64] | None = None
    keys: dict[str, pl.Series] = {}
    wanted = (*names, *table.key_columns)
    columns = table.make_source().read(names, table.key_columns)
    for place, (name, column) in enumerate(zip(wanted, columns, strict=True)):
        if values is None:
            values = np.empty((len(column), len(names)))
        if column.name != name or len(column) != len(values):
            raise SourceError(f"column {name!r} was asked for, and another one or another number of rows came")
        if place < len(names):
            values[:, place] = _as_numbers(column).to_numpy()
        else:
            keys[name] = _as_text(table, column)
    assert values is not None, "a schema has at least one column"
    return values, keys


def _as_numbers(column: pl.Series) -> pl.Series:
    """Return a column as float64, infinite values as the largest of their sign.

    An infinite value lies outside all bounds, and is clipped like any other that does. NaN is no value at all.

    Raises:
        SourceError: it is not numeric, there are no rows, or a value is missing or NaN.
    """
    if column.is_empty():
        raise SourceError("it has no rows")
    if not (column.dtype.is_numeric() or column.dtype in {pl.Boolean, pl.Null}):
        raise SourceError(f"column {column.name!r} is not numeric")
    if column.has_nulls():
        raise SourceError(f"column {column.name!r} has an empty value; fill it in or leave the row out at every party")
    column = column.cast(pl.Float64)
    if column.is_nan().any():
        raise SourceError(f"column {column.name!r} has a value that is not a number (NaN)")
    return column.clip(-LARGEST, LARGEST) if column.is_infinite().any() else column


def _as_text(table: TableConfig, column: pl.Series) -> pl.Series:
    if not (column.dtype.is_integer() or column.dtype == pl.String):
        role = _role(table, column.name)
        raise SourceError(f"{role} column {column.name!r} holds neither text nor whole numbers")
    return column.cast(pl.String)


def _role(table: TableConfig, name: str) -> str:
    return "id" if name == table.id_column else "person"


def _check_key(table: TableConfig, key: pl.Series) -> None:
    if key.has_nulls() or (key == "").any():
        raise SourceError(f"{_role(table, key.name)} column {key.name!r} has an empty value")
    if key.name == table.id_column and key.n_unique() != len(key):
        raise SourceError(f"id column {key.name!r} names a row twice")
