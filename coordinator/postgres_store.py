"""Jobs and their events in a PostgreSQL database, which several coordinators share and one of them writes.

Each state change is one transaction that is durable when the call returns (synchronous_commit = on), and that is fenced
by the term of the coordinator's lease: nothing is written any more once another coordinator has taken over.

A connection may break while a transaction is being committed, and then nobody knows whether it was. Such a step is
remembered: when it is asked for again and stands in the database, it was, because nobody else writes.
"""

import secrets
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from analyses.job.job import Job
from coordinator.leading.fenced_store import FencedStore
from coordinator.leading.lease import Lease
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
    StoreReadError,
    StoreWriteError,
)
from mpc.public_text import shortened

# The title is the text of a job's first event: from there it need not be found in megabytes of JSON.
_TITLE = (
    "(SELECT text FROM coordinator_events WHERE coordinator_events.job_id = coordinator_jobs.job_id AND sequence = 0)"
)
_COLUMNS = {name: name for name in JobRecord.__dataclass_fields__} | {"title": _TITLE}
_SELECT_RECORD = " ".join(("SELECT", ", ".join(_COLUMNS.values()), "FROM coordinator_jobs"))
_SELECT_EVENT = " ".join(("SELECT", ", ".join(Event.__dataclass_fields__), "FROM coordinator_events"))
_APPEND = """
INSERT INTO coordinator_events (job_id, sequence, at_s, state, stage, member, percent, text)
SELECT job_id, (SELECT COALESCE(MAX(sequence) + 1, 0) FROM coordinator_events WHERE job_id = coordinator_jobs.job_id),
    %s, state, %s, %s, %s, %s FROM coordinator_jobs WHERE job_id = %s
"""


class PostgresJobStore(FencedStore):
    """The jobs of the coordinator that leads. Not for use from several threads. Implements `JobStore`.

    Args:
        lease: by which this coordinator leads; its database is the store.
        clock: Unix time in seconds.

    Raises:
        DatabaseError: the database cannot be used.
        DatabaseAwayError: it does not answer.
    """

    write_failure = StoreWriteError
    read_failure = StoreReadError

    def __init__(self, lease: Lease, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(lease)
        self._clock = clock
        self._doubtful: set[tuple[str, State]] = set()  # steps of which nobody knows whether they were committed

    def submit(self, analyst: str, idempotency_key: str, job: Job) -> tuple[str, bool]:
        """See `JobStore`."""
        job_json, key = job.canonical_json().encode(), idempotency_key.encode()

        def insert(cursor: Any) -> tuple[str, bool]:
            cursor.execute(
                "SELECT job_id, job_json FROM coordinator_jobs WHERE analyst = %s AND idempotency_key = %s",
                (analyst, key),
            )
            if (found := cursor.fetchone()) is not None:
                if found[1] != job_json:
                    raise KeyReusedError(f"the idempotency key of job {found[0]} was used again for a different job")
                return found[0], (found[0], State.SUBMITTED) in self._doubtful
            job_id, now_s = secrets.token_hex(8), self._clock()
            cursor.execute(
                "INSERT INTO coordinator_jobs"
                " (job_id, analyst, idempotency_key, analysis, state, submitted_at_s, job_json)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s)",
                (job_id, analyst, key, job.analysis, State.SUBMITTED, now_s, job_json),
            )
            _append(cursor, [Note(job_id, now_s, "", "", text=job.title)])
            self._doubtful.add((job_id, State.SUBMITTED))
            return job_id, True

        job_id, is_new = self._write(insert)
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
    ) -> None:
        """See `JobStore`."""

        def step(cursor: Any) -> None:
            cursor.execute("SELECT state FROM coordinator_jobs WHERE job_id = %s", (job_id,))
            if (row := cursor.fetchone()) is None:
                raise JobNotFoundError(job_id)
            before = State(row[0])
            if before is state and (job_id, state) in self._doubtful:
                return
            if state not in NEXT[before]:
                raise IllegalStepError(job_id, before, state)
            now_s = self._clock()
            cursor.execute(
                "UPDATE coordinator_jobs SET state = %s, reason = %s, culprit = %s, stage = %s, ended_at_s = %s,"
                " plan_json = CASE WHEN %s THEN %s ELSE plan_json END, result_json = %s WHERE job_id = %s",
                (
                    state,
                    _storable(shortened(reason, MAX_CHARACTERS)),
                    _storable(culprit),
                    _storable(stage),
                    now_s if state.has_ended else 0.0,
                    bool(plan_json),
                    plan_json.encode(),
                    result_json.encode(),
                    job_id,
                ),
            )
            _append(cursor, [Note(job_id, now_s, stage, culprit, text=text or reason)])
            self._doubtful.add((job_id, state))

        self._write(step)
        self._doubtful.discard((job_id, state))

    def record_progress(self, notes: Sequence[Note]) -> None:
        """See `JobStore`."""
        self._write(lambda cursor: _append(cursor, notes))

    def unended(self) -> list[str]:
        """See `JobStore`."""
        unended = [state.value for state in State if not state.has_ended]
        rows = self._read("SELECT job_id FROM coordinator_jobs WHERE state = ANY(%s) ORDER BY number", unended)
        return [str(job_id) for (job_id,) in rows]

    def record(self, job_id: str, *, analyst: str | None = None) -> JobRecord:
        """See `JobStore`."""
        rows = self._read(_SELECT_RECORD + " WHERE job_id = %s", _storable(job_id))
        if not rows or (analyst is not None and _record(rows[0]).analyst != analyst):
            raise JobNotFoundError(job_id)
        return _record(rows[0])

    def records(self, analyst: str | None, *, limit: int = 0) -> list[JobRecord]:
        """See `JobStore`."""
        rows = self._read(
            _SELECT_RECORD + " WHERE analyst = coalesce(%s::text, analyst) ORDER BY number DESC LIMIT %s::bigint",
            analyst,
            limit or None,
        )
        return [_record(row) for row in rows]

    def texts(self, job_id: str) -> Iterator[tuple[str, str]]:
        """See `JobStore`."""
        sizes = ", ".join(f"octet_length({name})" for name in TEXTS)
        rows = self._read(f"SELECT {sizes} FROM coordinator_jobs WHERE job_id = %s", job_id)  # noqa: S608 -- our names
        if not rows:
            raise JobNotFoundError(job_id)
        return self._pieces(job_id, dict(zip(TEXTS, rows[0], strict=True)))

    def _pieces(self, job_id: str, sizes_bytes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        for name, size_bytes in sizes_bytes.items():
            decoder = getincrementaldecoder("utf-8")()  # a piece may end amid a character
            for start in range(0, size_bytes, PIECE_BYTES):
                ((data,),) = self._read(
                    f"SELECT substring({name} FROM %s FOR %s) FROM coordinator_jobs WHERE job_id = %s",  # noqa: S608
                    start + 1,
                    PIECE_BYTES,
                    job_id,
                )
                yield name, decoder.decode(data)

    def events(self, job_id: str, *, after: int = -1) -> list[Event]:
        """See `JobStore`."""
        rows = self._read(_SELECT_EVENT + " WHERE job_id = %s AND sequence > %s ORDER BY sequence", job_id, after)
        return [
            Event(sequence, at_s, State(state), stage, member, percent, text)
            for sequence, at_s, state, stage, member, percent, text in rows
        ]


def _append(cursor: Any, notes: Sequence[Note]) -> None:
    """Add events to jobs, in their present states."""
    for note in notes:
        text = _storable(shortened(note.text, MAX_CHARACTERS))
        values = (note.at_s, _storable(note.stage), _storable(note.member), note.percent, text, note.job_id)
        cursor.execute(_APPEND, values)
        if cursor.rowcount != 1:
            raise JobNotFoundError(note.job_id)


def _storable(text: str) -> str:
    """Return a text without the one character that PostgreSQL keeps in no text."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _record(row: tuple[Any, ...]) -> JobRecord:
    fields = dict(zip(JobRecord.__dataclass_fields__, row, strict=True))
    return JobRecord(**{**fields, "state": State(fields["state"])})
