"""Transactions of SQLite files."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress


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
