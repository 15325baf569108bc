"""A device's lasting memory of masked sums, in SQLite files that are written before anything leaves.

It holds which rounds the device was in; and, of series of rounds about samples, what its coins are thrown with, and for
how many vectors they were.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from mpc.secagg.errors import RoundReusedError
from mpc.secagg.journal import ShareKind, check_release
from mpc.transcript import RoundId
from service.database.database import Run, Tables
from service.database.sqlite import SqliteDatabase
from service.errors import ServiceError


class SumJournalError(ServiceError):
    """The journal cannot be used, so nothing may leave the member. The text is for the owner."""

    code = "sum-journal-unusable"


_ROUNDS = Tables(
    what="the journal of rounds",
    failure=SumJournalError,
    schema="""\
CREATE TABLE rounds (
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    released TEXT,
    PRIMARY KEY (session, number, attempt)
) /*STRICT, WITHOUT ROWID*/""",
)

_SERIES = Tables(
    what="the journal of samples",
    failure=SumJournalError,
    schema="""\
CREATE TABLE series (
    series BYTEA PRIMARY KEY,
    key BYTEA NOT NULL,
    n_begun INTEGER NOT NULL
) /*STRICT, WITHOUT ROWID*/""",
)


class SqliteSumJournal:
    """Implements `mpc.secagg.journal.MemberJournal`. May be called from several threads, and by several processes.

    What a call says is on disk when it returns (write-ahead log, synchronous = FULL). It holds which rounds there were
    and which kind of share of whom was released, and no secret.

    Args:
        path: path of the file; made, readable by its owner only, where absent.

    Raises:
        SumJournalError: here and in every call: the file cannot be read or written. What was to be written is not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = SqliteDatabase(path, _ROUNDS, alone=False, patience_s=5.0)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def open_round(self, round_id: RoundId) -> None:
        """See `MemberJournal`."""
        with self._db.transaction() as run:
            if _released(run, round_id) is not None:
                raise RoundReusedError(f"this member has already taken part in {round_id}; a retry is a new attempt")
            _check_no_other_attempt(run, round_id)
            query = "INSERT INTO rounds (session, number, attempt) VALUES (%s, %s, %s)"
            run(query, round_id.session, round_id.number, round_id.attempt)

    def record_release(self, round_id: RoundId, kinds: Mapping[int, ShareKind]) -> None:
        """See `MemberJournal`."""
        with self._db.transaction() as run:
            row = _released(run, round_id)
            if row is None:
                raise RoundReusedError(f"this member has not opened {round_id}")
            check_release(self._kinds(row[0] or "{}"), kinds)
            if row[0] is not None:
                raise RoundReusedError(f"this member has already released shares in {round_id}")
            _check_no_other_attempt(run, round_id)
            text = json.dumps({str(owner): str(kind) for owner, kind in kinds.items()})
            query = "UPDATE rounds SET released = %s WHERE session = %s AND number = %s AND attempt = %s"
            run(query, text, round_id.session, round_id.number, round_id.attempt)

    def _kinds(self, released: str) -> dict[int, ShareKind]:
        try:
            return {int(owner): ShareKind(kind) for owner, kind in json.loads(released).items()}
        except ValueError:
            raise SumJournalError(
                f"the journal of rounds {self._path} cannot be used: it was edited or damaged"
            ) from None


def _released(run: Run, round_id: RoundId) -> tuple[str | None] | None:
    query = "SELECT released FROM rounds WHERE session = %s AND number = %s AND attempt = %s"
    row: tuple[str | None] | None = run(query, round_id.session, round_id.number, round_id.attempt).fetchone()
    return row


def _check_no_other_attempt(run: Run, round_id: RoundId) -> None:
    query = "SELECT attempt FROM rounds WHERE session = %s AND number = %s AND released IS NOT NULL"
    row = run(query, round_id.session, round_id.number).fetchone()
    if row is not None:
        other = RoundId(round_id.session, round_id.number, row[0])
        raise RoundReusedError(
            f"this member has already released shares in {other}, so the sum of that attempt may have been opened"
        )


_FOUND = "SELECT key, n_begun FROM series WHERE series = %s"


class SqliteSampleJournal:
    """What a device's coins are thrown with in each series of rounds about samples, and for how many vectors they were.

    A vector counts before it leaves, and stays counted: a device that is killed then never throws the same coin for
    another vector, so it is in no more of them than the series allows. The key is a secret: who had it would know in
    which rounds the device was sampled. It is deleted when the series is over.

    Args:
        path: path of the file; made, readable by its owner only, where absent.

    Raises:
        SumJournalError: here and in every call: the file cannot be read or written. What was to be written is not.
    """

    def __init__(self, path: Path) -> None:
        self._db = SqliteDatabase(path, _SERIES, alone=False, patience_s=5.0)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def n_begun(self, series: bytes) -> int:
        """Return for how many vectors of a series coins were thrown."""
        rows = self._db.read(_FOUND, series)
        return rows[0][1] if rows else 0

    def begin(self, series: bytes, new_key: bytes) -> tuple[bytes, int]:
        """Count one vector more; only then it may leave.

        Args:
            series: names it.
            new_key: fresh, of a series that is not known yet.

        Returns:
            The key of the series, and how many vectors were counted before.
        """
        with self._db.transaction() as run:
            key, n_begun = run(_FOUND, series).fetchone() or (new_key, 0)
            query = "INSERT INTO series (series, key, n_begun) VALUES (%s, %s, %s)"
            run(query + " ON CONFLICT (series) DO UPDATE SET n_begun = excluded.n_begun", series, key, n_begun + 1)
        return key, n_begun

    def forget(self, series: bytes) -> None:
        """Delete a series that is over; whoever is asked for it again begins, and pays, anew."""
        self._db.write(lambda run: run("DELETE FROM series WHERE series = %s", series))
