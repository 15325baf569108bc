"""Where the entries of a ledger lie: one SQLite file, or a PostgreSQL database. Append-only in both.

A transaction is exclusive: nobody else reads or writes the entries between its beginning and its end, and what it
appended is on disk when it has ended. The database itself refuses to change or delete an entry, which keeps out slips,
not owners of the database: those are found by the chain and the counter.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from party.ledger.entry import Entry, LedgerDamagedError, LedgerError

Row = tuple[int, str, str]
"""Sequence number, text, digest."""

BUSY_S = 30.0
"""How long to wait for another process to end its transaction."""

_VERSION = 2
"""Of files that are written now. Files of version 1 have the same tables, and their entries are read. As programs of
that version cannot read what is appended, the number goes up when such a file is opened."""


class Entries(Protocol):
    """The stored entries during a transaction."""

    def digest_of(self, sequence: int) -> str | None:
        """Return the digest of an entry, None where it is missing."""

    def after(self, sequence: int) -> list[Row]:
        """Return the entries with higher numbers, in order."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries; they are there, durably, only if the transaction ends well."""


class EntryStore(Protocol):
    """A place for the entries of one ledger. One object is for one thread at a time."""

    def transaction(self) -> AbstractContextManager[Entries]:
        """Begin; an exception from within takes everything back.

        Raises:
            LedgerError: the store cannot be read or written; the text says why.
        """

    def close(self) -> None:
        """Release it."""


class _Table:
    """The table `entries` behind a connection of either kind; `mark` is its placeholder of a value."""

    def __init__(self, execute: Any, executemany: Any, mark: str) -> None:
        self._execute = execute
        self._executemany = executemany
        self._mark = mark

    def digest_of(self, sequence: int) -> str | None:
        found = self._execute(f"SELECT digest FROM entries WHERE sequence = {self._mark}", (sequence,)).fetchone()  # noqa: S608
        return None if found is None else str(found[0])

    def after(self, sequence: int) -> list[Row]:
        query = f"SELECT sequence, text, digest FROM entries WHERE sequence > {self._mark} ORDER BY sequence"  # noqa: S608
        return [(int(number), str(text), str(digest)) for number, text, digest in self._execute(query, (sequence,))]

    def append(self, entries: Sequence[Entry]) -> None:
        marks = ", ".join([self._mark] * 3)
        rows = [(entry.sequence, entry.text, entry.digest) for entry in entries]
        self._executemany(f"INSERT INTO entries (sequence, text, digest) VALUES ({marks})", rows)  # noqa: S608


_SQLITE_SCHEMA = (
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, text TEXT NOT NULL, digest TEXT NOT NULL) STRICT",
    "CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END",
    "CREATE TRIGGER entries_last BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END",
)


_DAMAGE = frozenset((sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_NOTADB))
"""What SQLite says of a file that is none or not whole. The first is for statements that do not fit the tables of the
file: ours fit those that we make."""


class SqliteStore:
    """One SQLite file: write-ahead log, synchronous = FULL.

    Args:
        path: made, readable by its owner only, where absent.

    Raises:
        LedgerError: it cannot be opened for writing, or is no ledger of this version.
        LedgerDamagedError: it is no SQLite file, or not whole.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._explained():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_S, check_same_thread=False)
            self._db.text_factory = lambda text: text.decode("utf-8", "replace")  # a replaced letter breaks the chain
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise

    def _open(self) -> None:
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self._db.execute(f"PRAGMA {pragma}")
        with self._begun():
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version not in range(_VERSION + 1):
                raise LedgerError(
                    f"the ledger {self._path} has version {version}; this program reads up to version {_VERSION}"
                )
            if version == 0:
                for statement in _SQLITE_SCHEMA:
                    self._db.execute(statement)
            if version != _VERSION:
                self._db.execute(f"PRAGMA user_version = {_VERSION}")

    @contextmanager
    def transaction(self) -> Iterator[Entries]:
        """See `EntryStore.transaction`."""
        with self._explained(), self._begun():
            yield _Table(self._db.execute, self._db.executemany, "?")

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    @contextmanager
    def _begun(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # SQLite ends it by itself where the disk fails
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LedgerError(f"the ledger {self._path} cannot be opened: {error.strerror}") from error
        except UnicodeDecodeError as error:  # the names in its tables, which SQLite quotes
            raise LedgerDamagedError(f"the ledger {self._path} is damaged: its tables cannot be read") from error
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:
                raise LedgerDamagedError(f"the ledger {self._path} is damaged: {error}") from error
            raise LedgerError(f"the ledger {self._path} cannot be used: {error}") from error


_POSTGRES_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (sequence BIGINT PRIMARY KEY, text TEXT NOT NULL, digest TEXT NOT NULL);
CREATE OR REPLACE FUNCTION entries_stay() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'entries are never changed or deleted'; END $$;
CREATE OR REPLACE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION entries_stay();
"""
_SCHEMA_LOCK = 0x6D6F69657479  # any number that others do not use: two processes may start at once


class PostgresStore:
    """The table `entries` of a PostgreSQL database: one ledger per database or schema.

    Args:
        url: `postgresql://...`. It may hold a password, so no text repeats it. `?options=-csearch_path%3Dnorth`
            chooses a schema.

    Raises:
        LedgerError: psycopg is not installed, or the database cannot be used.
    """

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise LedgerError("a ledger in PostgreSQL needs psycopg: pip install 'moiety[postgres]'") from error
        self._url = url
        self._psycopg = psycopg
        self._db: Any = None
        with self.transaction():
            pass

    @contextmanager
    def transaction(self) -> Iterator[Entries]:
        """See `EntryStore.transaction`. A connection that was lost between transactions is made anew."""
        try:
            connection = self._connected()
            with connection.transaction(), connection.cursor() as cursor:
                cursor.execute("LOCK TABLE entries IN EXCLUSIVE MODE")
                yield _Table(cursor.execute, cursor.executemany, "%s")
        except self._psycopg.Error as error:
            if self._db is not None and self._db.broken:
                self._db = None
            reason = error.diag.message_primary or type(error).__name__  # its whole text may quote the connection
            raise LedgerError(f"the ledger's PostgreSQL database cannot be used: {reason}") from error

    def close(self) -> None:
        """Release the connection."""
        if self._db is not None:
            self._db.close()

    def _connected(self) -> Any:
        if self._db is None or self._db.closed:
            self._db = self._psycopg.connect(self._url, autocommit=True, connect_timeout=int(BUSY_S))
            self._db.execute("SET synchronous_commit = on")
            self._db.execute(f"SET lock_timeout = '{int(BUSY_S)}s'")
            with self._db.transaction():
                self._db.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                self._db.execute(_POSTGRES_SCHEMA)
        return self._db
