"""Jobs and their events in one SQLite file.

Each state change is one transaction that is on disk when the call returns (write-ahead log, synchronous = FULL). The
file belongs to one process at a time.
"""

import os
import secrets
import sqlite3
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from analyses.job.job import Job
from coordinator.state import NEXT, IllegalStepError, State
from coordinator.store import (
    MAX_CHARACTERS,
    PIECE_BYTES,
    TEXTS,
    Event,
    JobNotFoundError,
    JobRecord,
    KeyReusedError,
    Note,
    StoreError,
    StoreWriteError,
)
from mpc.public_text import shortened

_VERSION = 1
_SCHEMA = """
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL UNIQUE,
    analyst TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    analysis TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    culprit TEXT NOT NULL DEFAULT '',
    stage TEXT NOT NULL DEFAULT '',
    submitted_at_s REAL NOT NULL,
    ended_at_s REAL NOT NULL DEFAULT 0,
    job_json TEXT NOT NULL,
    plan_json TEXT NOT NULL DEFAULT '',
    result_json TEXT NOT NULL DEFAULT '',
    UNIQUE (analyst, idempotency_key)
) STRICT;
CREATE TABLE events (
    job_id TEXT NOT NULL REFERENCES jobs (job_id),
    sequence INTEGER NOT NULL,
    at_s REAL NOT NULL,
    state TEXT NOT NULL,
    stage TEXT NOT NULL,
    member TEXT NOT NULL,
    percent INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job_id, sequence)
) STRICT, WITHOUT ROWID;
"""


# The title is the text of a job's first event: from there it need not be found in megabytes of JSON.
_TITLE = "(SELECT text FROM events WHERE events.job_id = jobs.job_id AND sequence = 0)"
_COLUMNS = {name: name for name in JobRecord.__dataclass_fields__} | {"title": _TITLE}
_SELECT_RECORD = " ".join(("SELECT", ", ".join(_COLUMNS.values()), "FROM jobs"))
_SELECT_EVENT = " ".join(("SELECT", ", ".join(Event.__dataclass_fields__), "FROM events"))


class SqliteJobStore:
    """The jobs of one coordinator. Not for use from several threads.

    Args:
        path: of the SQLite file; made, readable by its owner only, where absent.
        clock: Unix time in seconds.

    Raises:
        StoreError: the file cannot be used.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, timeout=1.0)
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise
        except OSError as error:
            raise StoreError(f"the job store {path} cannot be opened: {error.strerror}") from error
        except sqlite3.OperationalError as error:
            raise StoreError(
                f"the job store {path} cannot be opened: {error}; does another coordinator run?"
            ) from error
        except sqlite3.DatabaseError as error:
            raise StoreError(f"the job store {path} cannot be opened: {error}") from error

    def _open(self) -> None:
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            self._db.execute(f"PRAGMA {pragma}")
        with self._transaction():
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == _VERSION:
                return
            if version != 0:
                raise StoreError(f"the job store has version {version}; this program reads version {_VERSION}")
            for statement in _SCHEMA.split(";\n"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {_VERSION}")

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._transaction():
                yield
        except sqlite3.Error as error:
            raise StoreWriteError(error) from error

    def submit(self, analyst: str, idempotency_key: str, job: Job) -> tuple[str, bool]:
        """See `JobStore`."""
        job_json = job.canonical_json()
        with self._writing():
            found = self._db.execute(
                "SELECT job_id, job_json FROM jobs WHERE analyst = ? AND idempotency_key = ?",
                (analyst, idempotency_key),
            ).fetchone()
            if found is not None:
                if found[1] != job_json:
                    raise KeyReusedError(f"the idempotency key of job {found[0]} was used again for a different job")
                return str(found[0]), False
            job_id = secrets.token_hex(8)
            now_s = self._clock()
            self._db.execute(
                "INSERT INTO jobs (job_id, analyst, idempotency_key, analysis, state, submitted_at_s, job_json)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (job_id, analyst, idempotency_key, job.analysis, State.SUBMITTED, now_s, job_json),
            )
            self._append(job_id, State.SUBMITTED, now_s, text=job.title)
        return job_id, True

    def advance(
        self,
        job_id: str,
        state: State,
        *,
        reason: str = "",
        culprit: str = "",
        stage: str = "",
        text: str = "",
        plan_json: str = "",
        result_json: str = "",
    ) -> None:
        """See `JobStore`."""
        with self._writing():
            before = self._state(job_id)
            if state not in NEXT[before]:
                raise IllegalStepError(job_id, before, state)
            now_s = self._clock()
            self._db.execute(
                "UPDATE jobs SET state = :state, reason = :reason, culprit = :culprit, stage = :stage,"
                " ended_at_s = :ended_at_s, result_json = :result_json,"
                " plan_json = CASE WHEN :plan_json = '' THEN plan_json ELSE :plan_json END WHERE job_id = :job_id",
                {
                    "job_id": job_id,
                    "state": state,
                    "reason": shortened(reason, MAX_CHARACTERS),
                    "culprit": culprit,
                    "stage": stage,
                    "ended_at_s": now_s if state.has_ended else 0.0,
                    "plan_json": plan_json,
                    "result_json": result_json,
                },
            )
            self._append(job_id, state, now_s, stage=stage, member=culprit, text=text or reason)

    def record_progress(self, notes: Sequence[Note]) -> None:
        """See `JobStore`."""
        with self._writing():
            for note in notes:
                state = self._state(note.job_id)
                self._append(
                    note.job_id,
                    state,
                    note.at_s,
                    stage=note.stage,
                    member=note.member,
                    percent=note.percent,
                    text=note.text,
                )

    def unended(self) -> list[str]:
        """See `JobStore`."""
        rows = self._db.execute("SELECT job_id, state FROM jobs ORDER BY number")
        return [str(job_id) for job_id, state in rows if not State(state).has_ended]

    def record(self, job_id: str, *, analyst: str | None = None) -> JobRecord:
        """See `JobStore`."""
        row = self._db.execute(_SELECT_RECORD + " WHERE job_id = ?", (job_id,)).fetchone()
        if row is None:
            raise JobNotFoundError(job_id)
        found = _record(row)
        if analyst is not None and found.analyst != analyst:
            raise JobNotFoundError(job_id)
        return found

    def records(self, analyst: str | None, *, limit: int = 0) -> list[JobRecord]:
        """See `JobStore`."""
        rows = self._db.execute(
            _SELECT_RECORD + " WHERE analyst = coalesce(?, analyst) ORDER BY number DESC LIMIT ?",
            (analyst, limit or -1),
        )
        return [_record(row) for row in rows]

    def texts(self, job_id: str) -> Iterator[tuple[str, str]]:
        """See `JobStore`."""
        sizes = ", ".join(f"length(CAST({name} AS BLOB))" for name in TEXTS)
        row = self._db.execute(f"SELECT number, {sizes} FROM jobs WHERE job_id = ?", (job_id,)).fetchone()  # noqa: S608
        if row is None:
            raise JobNotFoundError(job_id)
        return self._pieces(row[0], dict(zip(TEXTS, row[1:], strict=True)))

    def _pieces(self, number: int, sizes_bytes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        for name, size_bytes in sizes_bytes.items():
            decoder = getincrementaldecoder("utf-8")()  # a piece may end amid a character
            for start in range(0, size_bytes, PIECE_BYTES):
                # SQL's substr() would read the whole text for each piece. A blob left open would break with a step.
                with self._db.blobopen("jobs", name, number, readonly=True) as blob:
                    blob.seek(start)
                    data = blob.read(PIECE_BYTES)
                yield name, decoder.decode(data)

    def events(self, job_id: str, *, after: int = -1) -> list[Event]:
        """See `JobStore`."""
        rows = self._db.execute(_SELECT_EVENT + " WHERE job_id = ? AND sequence > ? ORDER BY sequence", (job_id, after))
        return [
            Event(sequence, at_s, State(state), stage, member, percent, text)
            for sequence, at_s, state, stage, member, percent, text in rows
        ]

    def _state(self, job_id: str) -> State:
        row = self._db.execute("SELECT state FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        if row is None:
            raise JobNotFoundError(job_id)
        return State(row[0])

    def _append(
        self,
        job_id: str,
        state: State,
        at_s: float,
        *,
        stage: str = "",
        member: str = "",
        percent: int = 0,
        text: str = "",
    ) -> None:
        (sequence,) = self._db.execute(
            "SELECT COALESCE(MAX(sequence) + 1, 0) FROM events WHERE job_id = ?", (job_id,)
        ).fetchone()
        self._db.execute(
            "INSERT INTO events (job_id, sequence, at_s, state, stage, member, percent, text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (job_id, sequence, at_s, state, stage, member, percent, shortened(text, MAX_CHARACTERS)),
        )


def _record(row: tuple[str, ...]) -> JobRecord:
    fields = dict(zip(JobRecord.__dataclass_fields__, row, strict=True))
    return JobRecord(**{**fields, "state": State(fields["state"])})  # type: ignore[arg-type]
