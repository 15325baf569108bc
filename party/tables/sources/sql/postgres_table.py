"""Tables in a PostgreSQL database: a table, a view or a query.

psycopg reads them, which a ledger in PostgreSQL uses already, by COPY, PostgreSQL's own way to send many rows, in its
binary form (docs/decisions/136-postgres-by-binary-copy.md). All that a job reads is one statement in one read-only
transaction: one snapshot, whatever others write meanwhile.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, SecretStr, model_validator

from party.tables.sources.file import check_names
from party.tables.sources.source import SourceError
from party.tables.sources.sql.binary_copy import Column, frames_of
from party.tables.sources.sql.selection import Selection, check_numeric, quoted
from service.settings import FilePath

if TYPE_CHECKING:
    import polars as pl

CONNECT_S = 10
CHUNK_BYTES = 1 << 24
"""Bytes of a COPY that are turned into columns at once."""

_BOOLEAN, _DAYS, _POINT_IN_TIME = 16, (1082, 1114), 1184
_TEXTS = (19, 25, 1042, 1043)
_NUMBERS = (20, 21, 23, 700, 701, 1700)
"""Object ids of PostgreSQL's own types, which are the same everywhere (`pg_type.dat`)."""

_REASONS: Mapping[str, str] = {
    "25006": "its query writes, and a table is read in a transaction that may only read",
    "28P01": "its database refuses the user or the password",
    "28000": "its database refuses the user or the password",
    "3D000": "its database does not exist on the server",
    "42501": "its database lets this user not read it",
    "42601": "its query is not a single SELECT that the database understands",
    "42703": "its query names a column that the database does not have",
    "42P01": "its database has no such table",
    "0A000": "its query is not a SELECT that can be read from, or one that writes",
    "57014": "reading it took longer than timeout_s",
    "57P01": "its database went away while it was read",
}
"""SQLSTATE to what the owner's log says: never the database's own text, which quotes values, names and passwords."""

_NAMES_A_DATABASE = ("host", "hostaddr", "port", "dbname", "options")
"""Parameters of a URL that say which database it is, and where in it a relation is looked for."""

GONE = "its database does not answer, or went away while it was read"


class PostgresTable(Selection):
    """The rows of a table or of a query in a PostgreSQL database.

    Attributes:
        url: `postgresql://user@host:port/database`. It may hold a password, which no text repeats; better give that by
            one of the next two. A user who may do nothing but read is best.
        password_file: a file whose first line is the password.
        password_variable: the environment variable that holds the password.
        timeout_s: a statement that takes longer is broken off.
    """

    url: SecretStr
    password_file: FilePath | None = None
    password_variable: Annotated[str, Field(min_length=1)] | None = None
    timeout_s: Annotated[int, Field(ge=1, le=86_400)] = 600

    @model_validator(mode="after")
    def _names_one_password(self) -> Self:
        if self.password_file is not None and self.password_variable is not None:
            raise ValueError("password_file, password_variable: only one of them may be given")
        return self

    def is_there(self) -> bool:
        """See `TableSource`."""
        try:
            with self._reading():
                return True
        except SourceError:
            return False

    def version(self) -> None:
        """Nobody can tell, so the table is read for each job."""

    def data(self) -> frozenset[str]:
        """See `TableSource`: the relation or the query, and its database, whoever reads it."""
        at = urlsplit(self.url.get_secret_value())
        host = re.sub(r"^(127\.0\.0\.1|\[::1\]|localhost|)(?=:|$)", "localhost", at.netloc.rpartition("@")[2])
        port = "" if re.search(r":\d+$", host) else ":5432"
        more = sorted(one for one in parse_qsl(at.query) if one[0] in _NAMES_A_DATABASE)
        if self.query is not None:
            read = f"query {' '.join(self.query.split()).removesuffix(';').rstrip()}"
        else:
            assert self.table is not None, "a source names one of the two"
            read = f"table {self.table if '.' in self.table else f'public.{self.table}'}"
        return frozenset((f"postgres {host}{port}{at.path} {more} {read}",))

    def batches(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `TableSource`.

        Memory: some times `CHUNK_BYTES`.
        """
        with self._reading() as cursor:
            types = self._types(cursor, (*numbers, *texts, *self.order_by))
            check_numeric(numbers, lambda name: types[name] in (*_NUMBERS, _BOOLEAN))
            yield from self._copied(cursor, numbers, texts, types)

    def count_rows(self) -> int:
        """See `TableSource`."""
        with self._reading() as cursor:
            cursor.execute(self._select("count(*)"))
            return int(cursor.fetchone()[0])

    def _types(self, cursor: Any, wanted: Sequence[str]) -> dict[str, int]:
        """Return the object id of the type of each column, of which some are wanted; no row is read."""
        cursor.execute(self._select("*", "LIMIT 0"))
        described = [(column.name, column.type_code) for column in cursor.description]
        check_names([name for name, _ in described], wanted)
        return dict(described)

    def _order(self, types: Mapping[str, int]) -> str:
        terms = [quoted(one) + (' COLLATE "C"' if types[one] in _TEXTS else "") for one in self.order_by]
        return f"ORDER BY {', '.join(terms)}" if terms else ""

    def _copied(
        self, cursor: Any, numbers: Sequence[str], texts: Sequence[str], types: Mapping[str, int]
    ) -> Iterator["pl.DataFrame"]:
        """Yield all rows of one COPY: numbers as float64, days, times and truth values as such, all else as text."""
        import polars as pl  # the configuration of a table is read without

        columns = [
            Column(one, f"{quoted(one)}{'::int' if types[one] == _BOOLEAN else ''}::float8", pl.Float64, pl.Float64)
            for one in numbers
        ]
        for name in texts:
            term, kind = quoted(name), types[name]
            if kind in _DAYS:
                columns.append(Column(name, f"({term}::date - DATE '1970-01-01')::int8", pl.Int64, pl.Date))
            elif kind == _POINT_IN_TIME:  # a number, of which each column's kind finds the day in its own zone
                since = f"floor(extract(epoch from {term}) * 1000000)::int8"
                columns.append(Column(name, since, pl.Int64, pl.Datetime("us", "UTC")))
            elif kind == _BOOLEAN:
                columns.append(Column(name, f"{term}::int::int8", pl.Int64, pl.Boolean))
            else:
                columns.append(Column(name, f"{term}::text", pl.String, pl.String))
        columns.sort(key=lambda column: column.sent == pl.String)
        selected = self._select(", ".join(column.term for column in columns), self._order(types))
        with cursor.copy(f"COPY ({selected}) TO STDOUT (FORMAT binary)") as copy:
            for frame in frames_of(copy, columns, CHUNK_BYTES):
                yield frame.select(*numbers, *texts)

    def _password(self) -> dict[str, str]:
        if self.password_variable is not None:
            if self.password_variable not in os.environ:
                raise SourceError("the environment variable of its password is not set")
            return {"password": os.environ[self.password_variable]}
        if self.password_file is not None:
            try:
                return {"password": self.password_file.read_text().partition("\n")[0]}
            except (OSError, UnicodeDecodeError):
                raise SourceError("the file of its password is missing or unreadable") from None
        return {}

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """Yield a cursor in a transaction that may only read, and sees one state of the database.

        Raises:
            SourceError: whatever the database says, in words of our own.
        """
        try:
            import psycopg
        except ImportError:
            raise SourceError("a table in PostgreSQL needs psycopg: pip install 'moiety[postgres]'") from None
        try:
            with psycopg.connect(
                self.url.get_secret_value(), connect_timeout=CONNECT_S, autocommit=True, **self._password()
            ) as connection:
                connection.execute(f"SET statement_timeout = {self.timeout_s * 1000}")
                connection.execute("SET DateStyle = 'ISO'")
                connection.execute("SET client_encoding = 'UTF8'")
                connection.execute("SET TimeZone = 'UTC'")
                connection.execute("SET default_transaction_read_only = on")
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                connection.read_only = True
                with connection.transaction(), connection.cursor() as cursor:
                    yield cursor
        except psycopg.Error as error:
            raise SourceError(_reason(error)) from None


def _reason(error: Any) -> str:
    if error.sqlstate is None and "authentication failed" in str(error):  # libpq gives no SQLSTATE while it connects
        return _REASONS["28P01"]
    return _REASONS.get(error.sqlstate, GONE if error.sqlstate is None else f"its database refuses ({error.sqlstate})")
