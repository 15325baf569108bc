"""SQLite files: their transactions, and what stores that belong to one process have in common."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from service.errors import ServiceError


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit on leaving without an error, else roll back; no other process writes meanwhile."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite ends it by itself where the disk fails
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


class SqliteFile:
    """The base of a store in one SQLite file. It may be called from several threads.

    Args:
        path: of the file; made, readable by its owner only, where absent.

    Attributes:
        what: it is, for error texts.
        failure: the error that is raised, here and in every call, where the file cannot be used. What was to be written
            is not.
        pragmas: that are set when it is opened; by default those of a file of one process, whose writes are on disk
            when the call returns.
        version, schema: of its tables; another version of the program made a file with another version.
        busy_s: so long another process is waited for that has it open.
    """

    what: ClassVar[str]
    failure: ClassVar[type[ServiceError]]
    pragmas: ClassVar[tuple[str, ...]] = (
        "locking_mode = EXCLUSIVE",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
    )
    version: ClassVar[int]
    schema: ClassVar[str]
    busy_s: ClassVar[float] = 1.0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        with self._explained():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, timeout=self.busy_s, check_same_thread=False)
            try:
                for pragma in self.pragmas:
                    self._db.execute(f"PRAGMA {pragma}")
                self._make_tables()
            except BaseException:
                self._db.close()
                raise

    def _make_tables(self) -> None:
        """Make the tables of a new file; refuse a file that another version of the program has made."""
        with self._transaction():
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            if found == self.version:
                return
            if found != 0:
                raise self.failure(f"{self.what} {self._path} have version {found}, this program {self.version}")
            for statement in self.schema.split(";\n"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {self.version}")

    def close(self) -> None:
        """Release the file."""
        with self._turn:
            self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._turn, self._explained():
            yield self._db

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._reading() as db, transaction(db):
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self.failure(f"{self.what} {self._path} cannot be used: {error.strerror}") from error
        except sqlite3.Error as error:
            raise self.failure(f"{self.what} {self._path} cannot be used: {error}") from error
