"""A store's database on a PostgreSQL server, which other stores and other processes share."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from service.database.database import LongText, Run, Tables
from service.errors import ServiceError

T = TypeVar("T")

_SPELLINGS = {
    "LONGTEXT": "BYTEA",
    "CREATE TABLE ": "CREATE TABLE IF NOT EXISTS ",
    "ADD COLUMN ": "ADD COLUMN IF NOT EXISTS ",
}
"""What is spelt otherwise in schemas."""

_SCHEMA_LOCK = 0x6D6F69657479  # any number that others do not use: two processes may start at once


class PostgresDatabase(ABC):
    """Implements `Database`. The tables are made, or brought up to date, when it is opened.

    Args:
        tables: tables that it holds.

    Attributes:
        connection: psycopg connection, in which each statement is a transaction of its own. One that broke is made
            anew.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._turn = threading.Lock()
        self.connection = self._connect()
        import psycopg

        self._error = psycopg.Error
        schema = ";\n".join((tables.schema, *tables.upgrades.values(), tables.only_postgres))
        for word, ours in _SPELLINGS.items():
            schema = schema.replace(word, ours)
        try:
            with self.connection.transaction():
                self.connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                self.connection.execute(schema)
        except psycopg.Error as error:
            self.connection.close()
            raise self._reason(error) from None
        except BaseException:
            self.connection.close()
            raise

    @abstractmethod
    def _connect(self) -> Any:
        """Return a connection of psycopg with autocommit.

        Raises:
            ServiceError: it cannot be had.
        """

    @abstractmethod
    def _fence(self, cursor: Any) -> None:
        """Begin a transaction that may write."""

    @abstractmethod
    def _reason(self, error: Any) -> ServiceError:
        """Return psycopg's error in words of ours, which quote neither the URL nor a value."""

    def read(self, statement: str, *values: object) -> list[Any]:
        """See `Database`."""
        stored = _stored(values)
        return self._twice(
            lambda: list(self.connection.execute(statement, stored, binary=True)), self._tables.read_failure
        )

    def write(self, work: Callable[[Run], T]) -> T:
        """See `Database`."""

        def once() -> T:
            with self._begun() as run:
                return work(run)

        return self._twice(once, self._tables.write_failure)

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        """See `Database`."""
        with self._turn:
            try:
                self._connect_again()
                with self._begun() as run:
                    yield run
            except self._error as error:
                failure = self._tables.write_failure or self._tables.failure
                raise failure(str(self._reason(error))) from None

    def piece(self, table: str, column: str, number: int, start: int, n_bytes: int) -> bytes:
        """See `Database`."""
        query = f"SELECT substring({column} FROM %s FOR %s) FROM {table} WHERE number = %s"  # noqa: S608  # our names
        ((data,),) = self.read(query, start + 1, n_bytes, number)
        return bytes(data)

    def close(self) -> None:
        """See `Database`."""
        with self._turn:
            self.connection.close()

    @contextmanager
    def _begun(self) -> Iterator[Run]:
        with self.connection.transaction(), self.connection.cursor() as cursor:
            self._fence(cursor)
            yield lambda statement, *values: cursor.execute(statement, _stored(values))

    def _connect_again(self) -> None:
        if self.connection.closed:
            self.connection = self._connect()

    def _twice(self, work: Callable[[], T], failure: Callable[[object], ServiceError] | None) -> T:
        """Do some work, once more where the connection had broken."""
        failed: Callable[[Any], ServiceError] = failure or self._tables.failure
        with self._turn:
            for is_last in (False, True):
                try:
                    self._connect_again()
                except ServiceError as error:
                    raise failed(error) from None
                try:
                    return work()
                except self._error as error:
                    if is_last or not self.connection.closed:
                        raise failed(self._reason(error)) from None
        raise AssertionError("the last attempt returns or raises")


def _stored(values: tuple[object, ...]) -> list[object]:
    """Return values as PostgreSQL stores them."""
    return [
        value.encode() if isinstance(value, LongText)
        else value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str)
        else value
        for value in values
    ]  # fmt: skip
