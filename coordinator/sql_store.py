"""Jobs and their events in a database: a file of one coordinator, or a server that several coordinators share.

A connection may break while a transaction is being committed, and then nobody knows whether it was. Such a step is
remembered: when it is asked for again and stands in the database, it was, because nobody else writes.
"""

import secrets
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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
    StoreReadError,
    StoreWriteError,
)
from mpc.public_text import shortened
from service.database.database import Database, LongText, Run, Tables

TABLES = Tables(
    what="the job store",
    failure=StoreError,
    write_failure=StoreWriteError,
    read_failure=StoreReadError,
    prefix="coordinator_",
    schema="""\
CREATE TABLE coordinator_jobs (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id TEXT NOT NULL UNIQUE,
    analyst TEXT NOT NULL,
    idempotency_key LONGTEXT NOT NULL,
    analysis TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    culprit TEXT NOT NULL DEFAULT '',
    stage TEXT NOT NULL DEFAULT '',
    submitted_at_s DOUBLE PRECISION NOT NULL,
    ended_at_s DOUBLE PRECISION NOT NULL DEFAULT 0,
    job_json LONGTEXT NOT NULL,
    plan_json LONGTEXT NOT NULL DEFAULT '',
    result_json LONGTEXT NOT NULL DEFAULT '',
    UNIQUE (analyst, idempotency_key)
) /*STRICT*/;
CREATE TABLE coordinator_events (
    job_id TEXT NOT NULL REFERENCES coordinator_jobs (job_id),
    sequence INTEGER NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    state TEXT NOT NULL,
    stage TEXT NOT NULL,
    member TEXT NOT NULL,
    percent INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job_id, sequence)
) /*STRICT, WITHOUT ROWID*/""",
    # A piece of a value is read without the rest only where the value is not compressed.
    only_postgres="ALTER TABLE coordinator_jobs " + ", ".join(f"ALTER {name} SET STORAGE EXTERNAL" for name in TEXTS),
)

# The title is the text of a job's first event: from there it need not be found in megabytes of JSON.
_TITLE = (
    "(SELECT text FROM coordinator_events WHERE coordinator_events.job_id = coordinator_jobs.job_id AND sequence = 0)"
)
_COLUMNS = {name: name for name in JobRecord.__dataclass_fields__} | {"title": _TITLE}
_SELECT_RECORD = " ".join(("SELECT", ", ".join(_COLUMNS.values()), "FROM coordinator_jobs"))
_SELECT_EVENT = " ".join(("SELECT", ", ".join(Event.__dataclass_fields__), "FROM coordinator_events"))
_ENDED = ", ".join(f"'{state}'" for state in State if state.has_ended)
_SELECT_UNENDED = f"SELECT job_id FROM coordinator_jobs WHERE state NOT IN ({_ENDED}) ORDER BY number"  # noqa: S608  # our names
_ALL = 2**62
"""More jobs than any store holds."""

_APPEND = """
INSERT INTO coordinator_events (job_id, sequence, at_s, state, stage, member, percent, text)
SELECT job_id, (SELECT COALESCE(MAX(sequence) + 1, 0) FROM coordinator_events WHERE job_id = coordinator_jobs.job_id),
    %s, state, %s, %s, %s, %s FROM coordinator_jobs WHERE job_id = %s
"""


class SqlJobStore:
    """The jobs of one coordinator, or of the one that leads. Implements `JobStore`.

    Args:
        database: database with `TABLES`.
        clock: Unix time in seconds.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._db = database
        self._clock = clock
        self._doubtful: set[tuple[str, State]] = set()  # steps of which nobody knows whether they were committed

    def close(self) -> None:
        """See `JobStore`."""
        self._db.close()

    def submit(self, analyst: str, idempotency_key: str, job: Job) -> tuple[str, bool]:
        """See `JobStore`."""
        job_json, key = LongText(job.canonical_json()), LongText(idempotency_key)

        def insert(run: Run) -> tuple[str, bool]:
            query = "SELECT job_id, job_json = %s FROM coordinator_jobs WHERE analyst = %s AND idempotency_key = %s"
            if (found := run(query, job_json, analyst, key).fetchone()) is not None:
                job_id, is_the_same = found
                if not is_the_same:
                    raise KeyReusedError(f"the idempotency key of job {job_id} was used again for a different job")
                return job_id, (job_id, State.SUBMITTED) in self._doubtful
            job_id, now_s = secrets.token_hex(8), self._clock()
            run(
                "INSERT INTO coordinator_jobs"
                " (job_id, analyst, idempotency_key, analysis, state, submitted_at_s, job_json)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s)",
                *(job_id, analyst, key, job.analysis, State.SUBMITTED, now_s, job_json),
            )
            _append(run, Note(job_id, now_s, "", "", text=job.title))
            self._doubtful.add((job_id, State.SUBMITTED))
            return job_id, True

        job_id, is_new = self._db.write(insert)
        self._doubtful.discard((job_id, State.SUBMITTED))
        return job_id, is_new

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
        notes: Sequence[Note] = (),
    ) -> None:
        """See `JobStore`."""

        def step(run: Run) -> None:
            if (row := run("SELECT state FROM coordinator_jobs WHERE job_id = %s", job_id).fetchone()) is None:
                raise JobNotFoundError(job_id)
            before = State(row[0])
            if before is state and (job_id, state) in self._doubtful:
                return
            if state not in NEXT[before]:
                raise IllegalStepError(job_id, before, state)
            for note in notes:
                _append(run, note)
            now_s = self._clock()
            run(
                "UPDATE coordinator_jobs SET state = %s, reason = %s, culprit = %s, stage = %s, ended_at_s = %s,"
                " plan_json = coalesce(%s, plan_json), result_json = %s WHERE job_id = %s",
                *(state, shortened(reason, MAX_CHARACTERS), culprit, stage, now_s if state.has_ended else 0.0),
                *(LongText(plan_json) if plan_json else None, LongText(result_json), job_id),
            )
            _append(run, Note(job_id, now_s, stage, culprit, text=text or reason))
            self._doubtful.add((job_id, state))

        self._db.write(step)
        self._doubtful.discard((job_id, state))

    def record_progress(self, notes: Sequence[Note]) -> None:
        """See `JobStore`."""

        def append(run: Run) -> None:
            for note in notes:
                _append(run, note)

        self._db.write(append)

    def unended(self) -> list[str]:
        """See `JobStore`."""
        return [str(job_id) for (job_id,) in self._db.read(_SELECT_UNENDED)]

    def record(self, job_id: str, *, analyst: str | None = None) -> JobRecord:
        """See `JobStore`."""
        rows = self._db.read(_SELECT_RECORD + " WHERE job_id = %s", job_id)
        if not rows or (analyst is not None and _record(rows[0]).analyst != analyst):
            raise JobNotFoundError(job_id)
        return _record(rows[0])

    def records(self, analyst: str | None, *, limit: int = 0) -> list[JobRecord]:
        """See `JobStore`."""
        where = " WHERE analyst = coalesce(CAST(%s AS TEXT), analyst) ORDER BY number DESC LIMIT %s"
        return [_record(row) for row in self._db.read(_SELECT_RECORD + where, analyst, limit or _ALL)]

    def texts(self, job_id: str) -> Iterator[tuple[str, str]]:
        """See `JobStore`."""
        sizes = ", ".join(f"length(CAST({name} AS BYTEA))" for name in TEXTS)
        rows = self._db.read(f"SELECT number, {sizes} FROM coordinator_jobs WHERE job_id = %s", job_id)  # noqa: S608  # our names
        if not rows:
            raise JobNotFoundError(job_id)
        number, *sizes_bytes = rows[0]
        return self._pieces(number, dict(zip(TEXTS, sizes_bytes, strict=True)))

    def _pieces(self, number: int, sizes_bytes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        for name, size_bytes in sizes_bytes.items():
            decoder = getincrementaldecoder("utf-8")()  # a piece may end amid a character
            for start in range(0, size_bytes, PIECE_BYTES):
                yield name, decoder.decode(self._db.piece("coordinator_jobs", name, number, start, PIECE_BYTES))

    def events(self, job_id: str, *, after: int = -1) -> list[Event]:
        """See `JobStore`."""
        rows = self._db.read(_SELECT_EVENT + " WHERE job_id = %s AND sequence > %s ORDER BY sequence", job_id, after)
        return [
            Event(sequence, at_s, State(state), stage, member, percent, text)
            for sequence, at_s, state, stage, member, percent, text in rows
        ]


def _append(run: Run, note: Note) -> None:
    """Add an event to a job, in its present state."""
    text = shortened(note.text, MAX_CHARACTERS)
    if run(_APPEND, note.at_s, note.stage, note.member, note.percent, text, note.job_id).rowcount != 1:
        raise JobNotFoundError(note.job_id)


def _record(row: tuple[Any, ...]) -> JobRecord:
    fields = dict(zip(JobRecord.__dataclass_fields__, row, strict=True))
    return JobRecord(**{**fields, "state": State(fields["state"])})
