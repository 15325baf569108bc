"""A device's lasting memory of masked sums, in SQLite files that are written before anything leaves.

It holds which rounds the device was in; and, of series of rounds about samples, what its coins are thrown with, and for
how many vectors they were.
"""

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mpc.secagg.errors import RoundReusedError
from mpc.secagg.journal import ShareKind, check_release
from mpc.transcript import RoundId
from service.errors import ServiceError
from service.files.sqlite import transaction

_SCHEMA = """
CREATE TABLE IF NOT EXISTS rounds (
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    released TEXT,
    PRIMARY KEY (session, number, attempt)
) STRICT, WITHOUT ROWID;
"""


_SERIES_SCHEMA = """
CREATE TABLE IF NOT EXISTS series (
    series BLOB PRIMARY KEY,
    key BLOB NOT NULL,
    n_begun INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""


class SumJournalError(ServiceError):
    """The journal cannot be used, so nothing may leave the member. The text is for the owner."""

    code = "sum-journal-unusable"


class SqliteSumJournal:
    """Implements `mpc.secagg.journal.MemberJournal`. May be called from several threads, and by several processes.

    What a call says is on disk when it returns (write-ahead log, synchronous = FULL). It holds which rounds there were
    and which kind of share of whom was released, and no secret.

    Args:
        path: of the file; made, readable by its owner only, where absent.

    Raises:
        SumJournalError: here and in every call: the file cannot be read or written. What was to be written is not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        self._db = _open(path, _SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def open_round(self, round_id: RoundId) -> None:
        """See `MemberJournal`."""
        with self._transaction():
            if self._released(round_id) is not None:
                raise RoundReusedError(f"this member has already taken part in {round_id}; a retry is a new attempt")
            self._check_no_other_attempt(round_id)
            key = (round_id.session, round_id.number, round_id.attempt)
            self._db.execute("INSERT INTO rounds (session, number, attempt) VALUES (?, ?, ?)", key)

    def record_release(self, round_id: RoundId, kinds: Mapping[int, ShareKind]) -> None:
        """See `MemberJournal`."""
        with self._transaction():
            row = self._released(round_id)
            if row is None:
                raise RoundReusedError(f"this member has not opened {round_id}")
            before = {int(owner): ShareKind(kind) for owner, kind in json.loads(row[0] or "{}").items()}
            check_release(before, kinds)
            if row[0] is not None:
                raise RoundReusedError(f"this member has already released shares in {round_id}")
            self._check_no_other_attempt(round_id)
            text = json.dumps({str(owner): str(kind) for owner, kind in kinds.items()})
            key = (text, round_id.session, round_id.number, round_id.attempt)
            self._db.execute("UPDATE rounds SET released = ? WHERE session = ? AND number = ? AND attempt = ?", key)

    def _released(self, round_id: RoundId) -> tuple[str | None] | None:
        key = (round_id.session, round_id.number, round_id.attempt)
        query = "SELECT released FROM rounds WHERE session = ? AND number = ? AND attempt = ?"
        row: tuple[str | None] | None = self._db.execute(query, key).fetchone()
        return row

    def _check_no_other_attempt(self, round_id: RoundId) -> None:
        query = "SELECT attempt FROM rounds WHERE session = ? AND number = ? AND released IS NOT NULL"
        row = self._db.execute(query, (round_id.session, round_id.number)).fetchone()
        if row is not None:
            other = RoundId(round_id.session, round_id.number, row[0])
            raise RoundReusedError(
                f"this member has already released shares in {other}, so the sum of that attempt may have been opened"
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit on leaving without an error; nobody else writes meanwhile."""
        with self._turn, _mapped(self._path), transaction(self._db):
            yield


class SqliteSampleJournal:
    """What a device's coins are thrown with in each series of rounds about samples, and for how many vectors they were.

    A vector counts before it leaves, and stays counted: a device that is killed then never throws the same coin for
    another vector, so it is in no more of them than the series allows. The key is a secret: who had it would know in
    which rounds the device was sampled. It is deleted when the series is over.

    Args:
        path: of the file; made, readable by its owner only, where absent.

    Raises:
        SumJournalError: here and in every call: the file cannot be read or written. What was to be written is not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        self._db = _open(path, _SERIES_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def n_begun(self, series: bytes) -> int:
        """Return for how many vectors of a series coins were thrown."""
        with self._transaction():
            found = self._found(series)
        return 0 if found is None else found[1]

    def begin(self, series: bytes, new_key: bytes) -> tuple[bytes, int]:
        """Count one vector more; only then it may leave.

        Args:
            series: names it.
            new_key: fresh, of a series that is not known yet.

        Returns:
            The key of the series, and how many vectors were counted before.
        """
        with self._transaction():
            key, n_begun = self._found(series) or (new_key, 0)
            query = "INSERT OR REPLACE INTO series (series, key, n_begun) VALUES (?, ?, ?)"
            self._db.execute(query, (series, key, n_begun + 1))
        return key, n_begun

    def forget(self, series: bytes) -> None:
        """Delete a series that is over; whoever is asked for it again begins, and pays, anew."""
        with self._transaction():
            self._db.execute("DELETE FROM series WHERE series = ?", (series,))

    def _found(self, series: bytes) -> tuple[bytes, int] | None:
        query = "SELECT key, n_begun FROM series WHERE series = ?"
        row: tuple[bytes, int] | None = self._db.execute(query, (series,)).fetchone()
        return row

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._turn, _mapped(self._path), transaction(self._db):
            yield


def _open(path: Path, schema: str) -> sqlite3.Connection:
    with _mapped(path):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        db = sqlite3.connect(path, isolation_level=None, timeout=5.0, check_same_thread=False)
        try:
            # What was deleted is overwritten: a key must not stay on the disk.
            pragmas = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA secure_delete = ON")
            for statement in (*pragmas, schema):
                db.execute(statement)
        except BaseException:
            db.close()
            raise
        return db


@contextmanager
def _mapped(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SumJournalError(f"the journal of rounds {path} cannot be used: {error.strerror}") from error
    except sqlite3.Error as error:
        raise SumJournalError(f"the journal of rounds {path} cannot be used: {error}") from error
    except ValueError:
        raise SumJournalError(f"the journal of rounds {path} cannot be used: it was edited or damaged") from None
