"""Describes a table from the owner's configuration, and reads its columns from its source.

The description asks no source: policy, plan and budget are asked with it, and only then is anything read. What is found
in the source is the owner's business. Where it rules the table out, the coordinator and the analyst read the same words
whatever it is (`UnusableTableError`), and the owner's log says what. That names columns, and never a path, a row
number, a value or a count. Errors of readers, which quote values, are not chained.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from analyses.job.job import JobInput
from analyses.job.schema import BlockSchema, Table, columns_called
from party.tables.config import TableConfig, TableOwner
from party.tables.filters import filter_in_words
from party.tables.ratings_config import RatingsTableConfig
from party.tables.sources.source import SourceError


class TableError(ValueError):
    """The table cannot be used for a job; the text is public."""

    code: str = "table-unknown"


class UnusableTableError(TableError):
    """A table whose source is missing, or holds what no job can use. The text is public, and the same for all of that.

    Attributes:
        detail: what it is, for the owner.
    """

    code = "table-unusable"

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
    another version, or none, or its owner declares it otherwise. May be called from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[object, Table] | None = None

    def load(self, owner: TableOwner, brought: JobInput) -> Table:
        """Return the table, see `load_table`; the values are shared between jobs and read-only."""
        named = _named(owner, brought)
        with named.used():
            version = named.table.make_source().version()
        wanted = (brought, named.table, version)
        with self._lock:
            if version is None or self._last is None or self._last[0] != wanted:
                self._last = None  # frees the old table before the new one is read
                self._last = (wanted, load_table(owner, brought))
            return self._last[1]


def describe_table(owner: TableOwner, brought: JobInput) -> BlockSchema:
    """Return the public part of what a job asks for: from the configuration alone, no source is asked.

    Args:
        owner: the party's configuration.
        brought: table and columns, each a column of the table, which stands for all that it is encoded as, or one
            encoded column. No columns means all that have public bounds and need not be named, in the order of the
            configuration.

    Raises:
        TableError: there is no such table; a column is asked for twice, identifies the rows or has no public bounds;
            none is asked for, and all are given on request only.
    """
    named = _named(owner, brought)
    table = named.table
    if isinstance(table, RatingsTableConfig):
        if brought.where is not None:
            raise named.refusal(f"it has no filter {brought.where!r}")
        if brought.columns:
            raise named.refusal("it holds ratings, of which a job gets all or none; the job must name no columns")
        return BlockSchema(party=owner.name, rows=table.rows, ratings=table.schema_of_ratings)
    times = Counter(brought.columns)
    for name in brought.columns:
        if times[name] > 1:
            raise named.refusal(f"column {name!r} is requested more than once")
        if name in table.key_columns:
            what = "persons" if name == table.person_column else "rows"
            raise named.refusal(f"column {name!r} identifies the {what} and cannot be used as a feature")
    usual = set(table.usual_columns)
    columns = tuple(column for column in table.encoded if column.name in usual)
    if brought.columns:
        try:
            columns = columns_called(table.encoded, brought.columns)
        except KeyError as error:
            what = f"column {error.args[0]!r} has no public bounds, so it cannot be used"
            raise named.refusal(f"{what}; `moiety tables` lists those that can") from None
    elif not columns:  # a block without columns would be that of a party that only computes
        raise named.refusal("its columns are given on request only: the job must name those that it uses")
    if brought.where is not None and brought.where not in table.filters:
        known = f"; it has {', '.join(sorted(table.filters))}" if table.filters else ""
        raise named.refusal(f"it has no filter {brought.where!r}{known}")
    where = None if brought.where is None else filter_in_words(table.filters[brought.where])
    return BlockSchema(
        party=owner.name,
        columns=columns,
        has_ids=table.id_column is not None,
        rows=table.rows,
        most_rows_per_person=table.most_rows_per_person,
        matching=None if table.matching is None else table.matching.schema_of_matching,
        where=where,
    )


def load_table(owner: TableOwner, brought: JobInput) -> Table:
    """Read the columns that a job asks for.

    Values outside the public bounds are no error: analyses clip and count them. So is an infinite one, which is read
    as the largest float64 of its sign.

    Memory: 8 bytes of each id that is only compared, what rows are matched by, the persons, a few batches of the
    source, and the float64 values up to `table_memory_mib` of the owner; more values are kept in a file.

    Args:
        owner: the party's configuration.
        brought: table and columns, as for `describe_table`.

    Returns:
        float64 values, row-major and read-only, with the digest of the ids in row order, and whose the rows are. Where
        the owner says what identifies a row, one row for each id, with its digest.

    Raises:
        TableError: see `describe_table`.
        UnusableTableError: the source is missing, unreadable or of an unknown format; a column is missing in it or
            stands there twice, is not numeric, has an empty value or one that is no number (NaN); ids are empty or
            repeated, and that is refused; persons are empty; there are no rows, fewer or more than are declared; or the
            source is changed meanwhile.
    """
    from party.tables.contents import read_contents  # brings polars, 22 MB that a service at rest does without

    schema = describe_table(owner, brought)
    named = _named(owner, brought)
    with named.used():
        return read_contents(named.table, schema, brought.where, owner)


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
