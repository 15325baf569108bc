"""A store's database in one SQLite file: the only place that opens one for writing."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from service.database.database import Run, Tables
from service.errors import ServiceError

T = TypeVar("T")

_SPELLINGS = {
    "%s": "?",
    "BIGINT GENERATED ALWAYS AS IDENTITY": "INTEGER",
    "BIGINT": "INTEGER",
    "BOOLEAN": "INTEGER",
    "BYTEA": "BLOB",
    "DOUBLE PRECISION": "REAL",
    "LONGTEXT": "TEXT",
    ' COLLATE "C"': "",
    "/*": "",
    "*/": "",
    "CREATE TABLE ": "CREATE TABLE IF NOT EXISTS ",
}
"""PostgreSQL's spelling to SQLite's."""


class Spelt(dict[str, str]):
    """Statements as they are given, each to how SQLite spells it, with names of tables without a prefix."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __missing__(self, statement: str) -> str:
        spelt = statement
        for theirs, ours in _SPELLINGS.items():
            spelt = spelt.replace(theirs, ours)
        self[statement] = spelt = spelt.replace(self._prefix, "") if self._prefix else spelt
        return spelt


class _Begun:
    """A transaction: commits on leaving without an error, else rolls back. Faster than a generator."""

    def __init__(self, connection: sqlite3.Connection, run: Run) -> None:
        self._connection, self._run = connection, run

    def __enter__(self) -> Run:
        self._connection.execute("BEGIN IMMEDIATE")
        return self._run

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            try:
                self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        else:
            self._roll_back()

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # SQLite ends it by itself where the disk fails
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")


class SqliteDatabase:
    """Implements `Database`. What a call writes is on disk when it returns (write-ahead log, synchronous = FULL).

    Args:
        path: path of the file; created, readable by its owner only, where absent.
        tables: tables that it holds.
        alone: whether the file belongs to this process as long as it is open. Otherwise other processes may use it,
            and what is deleted is overwritten: a secret must not stay on the disk.
        patience_s: seconds to wait for another process that writes, or has the file for itself.

    Attributes:
        connection: connection to the file, without transactions of its own.

    Raises:
        ServiceError: the failure of the tables: the file cannot be used, or a later version of the program made it.
    """

    def __init__(self, path: Path, tables: Tables, *, alone: bool = True, patience_s: float = 1.0) -> None:
        self._path, self._tables = path, tables
        self._turn = threading.Lock()
        self._spelt = Spelt(tables.prefix)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self.connection = sqlite3.connect(path, isolation_level=None, timeout=patience_s, check_same_thread=False)
        except OSError as error:
            raise tables.failure(f"{self._named} cannot be opened: {error.strerror}") from error
        except sqlite3.Error as error:
            raise self._failed(error) from error
        try:
            own = "locking_mode = EXCLUSIVE" if alone else "secure_delete = ON"
            for pragma in (own, "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self.connection.execute(f"PRAGMA {pragma}")
            with _Begun(self.connection, self._run) as run:
                self._make_tables(run)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.connection.close()
            is_held = alone and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            raise self._failed(error, hint="; does another process use it?" if is_held else "") from error
        except BaseException:
            self.connection.close()
            raise

    def _make_tables(self, run: Run) -> None:
        tables = self._tables
        (found,) = run("PRAGMA user_version").fetchone()
        if found == tables.version:
            return
        missing = found and any(version not in tables.upgrades for version in range(found, tables.version))
        if missing or found > tables.version:
            raise tables.failure(
                f"{tables.what} {self._path} has version {found}; this program reads up to version {tables.version}"
            )
        steps = [tables.schema, tables.only_sqlite]
        if found:
            steps = [tables.upgrades[version] for version in range(found, tables.version)]
        for statement in ";\n".join(steps).split(";\n"):
            run(statement)
        run(f"PRAGMA user_version = {tables.version}")

    def read(self, statement: str, *values: object) -> list[Any]:
        """See `Database`."""
        with self._turn:
            try:
                return self._run(statement, *values).fetchall()  # type: ignore[no-any-return]
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise self._failed(error, self._tables.read_failure) from error

    def write(self, work: Callable[[Run], T]) -> T:
        """See `Database`."""
        with self._turn:
            try:
                with _Begun(self.connection, self._run) as run:
                    return work(run)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise self._failed(error, self._tables.write_failure) from error

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        """See `Database`. No other process writes meanwhile."""
        with self._turn:
            try:
                with _Begun(self.connection, self._run) as run:
                    yield run
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise self._failed(error, self._tables.write_failure) from error

    def piece(self, table: str, column: str, number: int, start: int, n_bytes: int) -> bytes:
        """See `Database`. SQL's substr() would read the whole text for each piece."""
        with self._turn:
            try:
                # A blob left open would break with the next change of its row.
                with self.connection.blobopen(self._spelt[table], column, number, readonly=True) as blob:
                    blob.seek(start)
                    return blob.read(n_bytes)
            except sqlite3.Error as error:
                raise self._failed(error, self._tables.read_failure) from error

    def erase_log(self) -> None:
        """Empty the write-ahead log, where a secret that was deleted is stored as well."""
        self.read("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """See `Database`."""
        with self._turn:
            self.connection.close()

    def _run(self, statement: str, *values: object) -> Any:
        return self.connection.execute(self._spelt[statement], values)

    @property
    def _named(self) -> str:
        return f"{self._tables.what} {self._path}"

    def _failed(
        self, error: Exception, failure: Callable[[object], ServiceError] | None = None, hint: str = ""
    ) -> ServiceError:
        """Return what is raised for an error of SQLite."""
        if failure is not None:
            return failure(error)
        return self._tables.failure(f"{self._named} cannot be used: {error}{hint}")
