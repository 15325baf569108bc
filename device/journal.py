"""A member's persistent journal of the masked sums that it took part in: one SQLite file, written before it answers."""

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
        with _mapped(path):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, timeout=5.0, check_same_thread=False)
            try:
                for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", _SCHEMA):
                    self._db.execute(statement)
            except BaseException:
                self._db.close()
                raise

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
