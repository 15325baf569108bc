"""The entries of a ledger in one SQLite file."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from party.ledger.entry import LedgerDamagedError, LedgerError
from party.ledger.sql_entries import SqlEntries
from party.ledger.store import BUSY_S, Entries
from service.files.sqlite import transaction

_VERSION = 2
"""Version of the files that this program writes. Files of version 1 have the same tables and can be read. When such a
file is opened, its version is raised, because programs of version 1 cannot read the new entries."""

_SQLITE_SCHEMA = (
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, text TEXT NOT NULL, digest TEXT NOT NULL) STRICT",
    "CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END",
    "CREATE TRIGGER entries_last BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END",
)


_DAMAGE = frozenset((sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_NOTADB))
"""SQLite's error texts for a file that is not a database or is incomplete. The first is for statements that do not fit
the tables of the file: ours fit those that we make."""


class SqliteEntryStore:
    """One SQLite file: write-ahead log, synchronous = FULL. Implements `EntryStore`.

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
        with transaction(self._db):
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
        with self._explained(), transaction(self._db):
            yield SqlEntries(self._db.execute, self._db.executemany, "?")

    def close(self) -> None:
        """Release the file."""
        self._db.close()

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
