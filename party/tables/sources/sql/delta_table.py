"""Tables in Delta Lake: a folder of Parquet files with a log that says which of them are the table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from party.tables.sources.apart import ReadApart
from party.tables.sources.file import DELTA_LOG, UNREADABLE, TableFile, check_names, leads_somewhere
from party.tables.sources.source import SourceError
from party.tables.sources.sql.selection import check_numeric, ordered_by, quoted, rows_of

if TYPE_CHECKING:
    import polars as pl

NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal", "boolean")
"""Beginnings of the names of the format's own types that are numbers or truth values."""


class DeltaTable(ReadApart, TableFile):
    """The rows of the newest version of a table of Delta Lake in a local folder.

    Attributes:
        order_by: columns of the rows' order, which parties of a joint table must have in common: the log gives rows
            none. Text is ordered by its bytes. Absent: some order, which serves a table whose rows are matched by ids.
    """

    order_by: tuple[str, ...] = ()

    def is_there(self) -> bool:
        """See `TableSource`."""
        return leads_somewhere(self.path / DELTA_LOG)

    def version(self) -> tuple[tuple[str, int, int], ...]:
        """See `TableSource`: every change adds to the log."""
        try:
            entries = [(one.name, one.stat()) for one in sorted((self.path / DELTA_LOG).iterdir())]
        except (OSError, ValueError):
            raise SourceError(UNREADABLE) from None
        return tuple((name, status.st_size, status.st_mtime_ns) for name, status in entries)

    def rows_here(self, start: int, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `ReadApart`."""
        with self._opened() as (table, engine):
            types = {one.name: str(getattr(one.type, "type", one.type)) for one in table.schema().fields}
            check_names(list(types), (*numbers, *texts, *self.order_by))
            check_numeric(numbers, lambda name: types[name].startswith(NUMBERS))
            terms = [f"CAST({quoted(name)} AS DOUBLE) AS {quoted(name)}" for name in numbers]
            terms += [quoted(name) for name in texts]
            query = f"SELECT {', '.join(terms)} FROM source {ordered_by(self.order_by)}"  # noqa: S608, quoted names
            yield from rows_of(engine.execute(query), start)

    def count_here(self) -> int:
        """See `ReadApart`."""
        with self._opened() as (table, _):
            return int(table.count())

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Any]]:
        """Yield the table at its newest version, and an engine that knows it as `source`.

        Raises:
            SourceError: whatever the library says, in words of our own.
        """
        try:
            import deltalake
            from deltalake.exceptions import DeltaError
        except ImportError:
            raise SourceError("a table of Delta Lake needs deltalake: pip install 'moiety[lake]'") from None
        try:
            table = deltalake.DeltaTable(self.path.resolve())
            yield table, deltalake.QueryBuilder().register("source", table)
        except (OSError, DeltaError):
            raise SourceError("its folder cannot be read as a table of Delta Lake") from None
