"""The entries of a ledger in a database: a SQLite file, or a schema of a PostgreSQL server."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledger.entry import Entry, LedgerDamagedError, LedgerError
from ledger.store import BUSY_S, Entries, Row
from service.database.database import Database, Run, Tables
from service.database.postgres import PostgresDatabase
from service.database.sqlite import SqliteDatabase
from service.errors import ServiceError

_TABLES = Tables(
    what="the ledger",
    failure=LedgerError,
    version=2,
    upgrades={1: ""},  # the same tables, but programs of version 1 cannot read the new entries
    schema="CREATE TABLE entries (sequence BIGINT PRIMARY KEY, text TEXT NOT NULL, digest TEXT NOT NULL) /*STRICT*/",
    only_sqlite="""\
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END;
CREATE TRIGGER entries_last BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END""",
    only_postgres="""\
CREATE OR REPLACE FUNCTION entries_stay() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'entries are never changed or deleted'; END $$;
CREATE OR REPLACE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION entries_stay()""",
)

_DAMAGE = frozenset((sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_NOTADB))
"""SQLite's codes for a file that is not a database or is incomplete. The first is for statements that do not fit the
tables of the file: ours fit those that we make."""


class LedgerFile(SqliteDatabase):
    """The SQLite file at a path; made, readable by its owner only, where absent.

    Raises:
        LedgerError: it cannot be opened for writing, or a later version of the program made it.
        LedgerDamagedError: it is no SQLite file, or not whole.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _TABLES, alone=False, patience_s=BUSY_S)
        # A replaced letter breaks the chain.
        self.connection.text_factory = lambda text: text.decode("utf-8", "replace")

    def _failed(
        self, error: Exception, failure: Callable[[object], ServiceError] | None = None, hint: str = ""
    ) -> ServiceError:
        if isinstance(error, UnicodeDecodeError):  # the names in its tables, which SQLite quotes
            return LedgerDamagedError(f"{self._named} is damaged: its tables cannot be read")
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:
            return LedgerDamagedError(f"{self._named} is damaged: {error}")
        return super()._failed(error, failure, hint)


class LedgerSchema(PostgresDatabase):
    """The table `entries` of a PostgreSQL database: one ledger per database or schema.

    Args:
        url: `postgresql://...`. It may hold a password, so no text repeats it. `?options=-csearch_path%3Dnorth`
            chooses a schema.

    Raises:
        LedgerError: psycopg is not installed, or the database cannot be used.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        super().__init__(_TABLES)

    def _connect(self) -> Any:
        try:
            import psycopg
        except ImportError as error:
            raise LedgerError("a ledger in PostgreSQL needs psycopg: pip install 'moiety[postgres]'") from error
        try:
            connection = psycopg.connect(self._url, autocommit=True, connect_timeout=int(BUSY_S))
            connection.execute(f"SET synchronous_commit = on; SET lock_timeout = '{int(BUSY_S)}s'")
        except psycopg.Error as error:
            raise self._reason(error) from None
        return connection

    def _fence(self, cursor: Any) -> None:
        cursor.execute("LOCK TABLE entries IN EXCLUSIVE MODE")

    def _reason(self, error: Any) -> ServiceError:
        reason = error.diag.message_primary or type(error).__name__  # its whole text may quote the connection
        return LedgerError(f"the ledger's PostgreSQL database cannot be used: {reason}")


class SqlEntryStore:
    """Implements `EntryStore`.

    Args:
        database: a `LedgerFile` or `LedgerSchema`.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    @contextmanager
    def transaction(self) -> Iterator[Entries]:
        """See `EntryStore.transaction`. A connection that was lost between transactions is made anew."""
        with self._db.transaction() as run:
            yield _SqlEntries(run)

    def close(self) -> None:
        """Release the database."""
        self._db.close()


class _SqlEntries:
    """The table `entries` during a transaction. Implements `Entries`."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def digest_of(self, sequence: int) -> str | None:
        """See `Entries`."""
        found = self._run("SELECT digest FROM entries WHERE sequence = %s", sequence).fetchone()
        return None if found is None else str(found[0])

    def after(self, sequence: int) -> list[Row]:
        """See `Entries`."""
        query = "SELECT sequence, text, digest FROM entries WHERE sequence > %s ORDER BY sequence"
        return [(int(number), str(text), str(digest)) for number, text, digest in self._run(query, sequence)]

    def append(self, entries: Sequence[Entry]) -> None:
        """See `Entries`."""
        for entry in entries:
            query = "INSERT INTO entries (sequence, text, digest) VALUES (%s, %s, %s)"
            self._run(query, entry.sequence, entry.text, entry.digest)
