"""Tables in a DuckDB database file: a table, a view or a query."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from party.tables.sources.apart import ReadApart
from party.tables.sources.file import TableFile, check_names, check_regular, fingerprint, leads_somewhere
from party.tables.sources.source import SourceError
from party.tables.sources.sql.selection import Selection, check_numeric, ordered_by, quoted, rows_of

if TYPE_CHECKING:
    import polars as pl

MEMORY = "1GiB"
"""Largest memory of the engine. It writes nothing to the disk instead: what it would write are values."""

SETTINGS: Mapping[str, str] = {
    "access_mode": "READ_ONLY",
    "enable_external_access": "false",  # a view must not read other files, nor load code
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
    "memory_limit": MEMORY,
    "threads": "1",  # sums of a query are added in one order
    "preserve_insertion_order": "true",
    "lock_configuration": "true",
}

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")  # fmt: skip
_AS_THEY_ARE = ("BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "BIGINT", "INTEGER", "SMALLINT", "TINYINT")

_REASONS: Mapping[str, str] = {
    "BinderException": "its query names a column that the database does not have",
    "CatalogException": "its database has no such table",
    "ConversionException": "its query casts a value to a type that it does not fit",
    "IOException": "its database cannot be opened: it is damaged, of a newer version, or another process writes to it",
    "InvalidInputException": "its query is not a single SELECT",
    "OutOfMemoryException": f"its query needs more than {MEMORY} of memory",
    "ParserException": "its query is not a single SELECT that the database understands",
    "PermissionException": "its query reads other files, which it may not",
    "SerializationException": "its file is no DuckDB database, or of a newer version",
}
"""Class of an error to what the owner's log says: never the library's own text, which quotes values and paths."""


class DuckdbTable(ReadApart, Selection, TableFile):
    """The rows of a table, a view or a query in a DuckDB database file. It is opened for reading alone.

    A table's rows have the order in which they were written, where no other is declared.
    """

    def version(self) -> tuple[tuple[int, int, int], ...]:
        """See `TableSource`: also of the log, which holds what was written last."""
        log = self.path.with_name(f"{self.path.name}.wal")
        return (fingerprint(self.path), *([fingerprint(log)] if leads_somewhere(log) else []))

    def rows_here(self, start: int, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `ReadApart`."""
        with self._opened() as connection:
            types = self._types(connection, (*numbers, *texts, *self.order_by))
            check_numeric(numbers, lambda name: types[name].startswith(_NUMBERS))
            terms = [f"{quoted(name)}::DOUBLE AS {quoted(name)}" for name in numbers]
            for name in texts:
                plain = types[name] in _AS_THEY_ARE
                terms.append(quoted(name) if plain else f"{quoted(name)}::VARCHAR AS {quoted(name)}")
            yield from rows_of(connection.sql(self._select(", ".join(terms), ordered_by(self.order_by))), start)

    def count_here(self) -> int:
        """See `ReadApart`."""
        with self._opened() as connection:
            return int(connection.execute(self._select("count(*)")).fetchall()[0][0])

    def _types(self, connection: Any, wanted: Sequence[str]) -> dict[str, str]:
        """Return the type of each column, of which some are wanted; no row is read."""
        described = connection.execute(self._select("*", "LIMIT 0")).description
        check_names([name for name, *_ in described], wanted)
        return {name: str(kind) for name, kind, *_ in described}

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Yield a connection that may only read this one file.

        Raises:
            SourceError: whatever the library says, in words of our own.
        """
        try:
            import duckdb
        except ImportError:
            raise SourceError("a table in DuckDB needs duckdb: pip install 'moiety[lake]'") from None
        check_regular(self.path)
        try:
            with duckdb.connect(str(self.path), config=dict(SETTINGS)) as connection:
                yield connection
        except duckdb.Error as error:
            raise SourceError(_REASONS.get(type(error).__name__, "its database refuses the query")) from None
