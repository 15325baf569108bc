"""The entries of a ledger in a PostgreSQL database."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from party.ledger.entry import LedgerError
from party.ledger.sql_entries import SqlEntries
from party.ledger.store import BUSY_S, Entries

_POSTGRES_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (sequence BIGINT PRIMARY KEY, text TEXT NOT NULL, digest TEXT NOT NULL);
CREATE OR REPLACE FUNCTION entries_stay() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'entries are never changed or deleted'; END $$;
CREATE OR REPLACE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION entries_stay();
"""
_SCHEMA_LOCK = 0x6D6F69657479  # any number that others do not use: two processes may start at once


class PostgresEntryStore:
    """The table `entries` of a PostgreSQL database: one ledger per database or schema. Implements `EntryStore`.

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
                yield SqlEntries(cursor.execute, cursor.executemany, "%s")
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
