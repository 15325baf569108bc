"""A store of jobs of its own: a file of JSON lines, one per change, replayed at the start. See docs/recipes.md.

python examples/job_store.py     submits a job, ends it, and finds it again after another start
"""

import fcntl
import json
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
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
    StoreWriteError,
)
from mpc.public_text import shortened


@dataclass
class _Stored:
    record: JobRecord
    key: str
    texts: dict[str, str]
    events: list[Event] = field(default_factory=list)


class LineJobStore:
    """Implements `JobStore`. All jobs are in memory; what the file misses has not happened.

    Args:
        path: of the file; made where absent.
        clock: Unix time in seconds.

    Raises:
        StoreError: another process uses the file.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._jobs: dict[str, _Stored] = {}
        self._file = os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600), "r+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(f"another process uses the job store {path}") from error
        lines = self._file.read().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]  # the last one may have been cut by a crash
        self._file.truncate(sum(map(len, whole)))
        for line in whole:
            self._apply(**json.loads(line))

    def submit(self, analyst: str, idempotency_key: str, job: Job) -> tuple[str, bool]:
        """See `JobStore`."""
        job_json = job.canonical_json()
        for job_id, stored in self._jobs.items():
            if (stored.record.analyst, stored.key) == (analyst, idempotency_key):
                if stored.texts["job_json"] != job_json:
                    raise KeyReusedError(f"the idempotency key of job {job_id} was sent again with a different job")
                return job_id, False
        job_id = secrets.token_hex(8)
        new = {"analyst": analyst, "key": idempotency_key, "analysis": job.analysis}
        self._append([self._line(job_id, State.SUBMITTED, new=new, texts={"job_json": job_json}, text=job.title)])
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
        notes: Sequence[Note] = (),
    ) -> None:
        """See `JobStore`. Notes are lines before that of the step: a crash between them keeps them alone."""
        before = self.record(job_id).state
        if state not in NEXT[before]:
            raise IllegalStepError(job_id, before, state)
        texts = {"plan_json": plan_json, "result_json": result_json}
        told = shortened(reason, MAX_CHARACTERS)
        step = self._line(job_id, state, texts=texts, reason=told, stage=stage, member=culprit, text=text or told)
        self._append([*self._lines_of(notes), step])

    def record_progress(self, notes: Sequence[Note]) -> None:
        """See `JobStore`."""
        self._append(self._lines_of(notes))

    def unended(self) -> list[str]:
        """See `JobStore`."""
        return [job_id for job_id, stored in self._jobs.items() if not stored.record.state.has_ended]

    def record(self, job_id: str, *, analyst: str | None = None) -> JobRecord:
        """See `JobStore`."""
        stored = self._jobs.get(job_id)
        if stored is None or analyst not in (None, stored.record.analyst):
            raise JobNotFoundError(job_id)
        return stored.record

    def records(self, analyst: str | None, *, limit: int = 0) -> list[JobRecord]:
        """See `JobStore`."""
        newest_first = [s.record for s in reversed(self._jobs.values()) if analyst in (None, s.record.analyst)]
        return newest_first[: limit or None]

    def texts(self, job_id: str) -> Iterator[tuple[str, str]]:
        """See `JobStore`. A piece is short of PIECE_BYTES where that would be amid a character."""
        self.record(job_id)
        written = dict(self._jobs[job_id].texts)
        return ((name, piece) for name in TEXTS for piece in _pieces(written.get(name, "")))

    def events(self, job_id: str, *, after: int = -1) -> list[Event]:
        """See `JobStore`."""
        return self._jobs[job_id].events[after + 1 :] if job_id in self._jobs else []

    def close(self) -> None:
        """See `JobStore`."""
        self._file.close()

    def _line(self, job_id: str, state: State, *, text: str = "", **what: Any) -> dict[str, Any]:
        told = {"job_id": job_id, "state": state, "at_s": self._clock(), "text": shortened(text, MAX_CHARACTERS)}
        return told | what

    def _lines_of(self, notes: Sequence[Note]) -> list[dict[str, Any]]:
        states = [self.record(note.job_id).state for note in notes]
        told = [asdict(note) | {"text": shortened(note.text, MAX_CHARACTERS), "is_note": True} for note in notes]
        return [note | {"state": state} for note, state in zip(told, states, strict=True)]

    def _append(self, changes: list[dict[str, Any]]) -> None:
        try:
            self._file.write(b"".join(json.dumps(change).encode() + b"\n" for change in changes))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StoreWriteError(error.strerror) from error
        for change in changes:
            self._apply(**change)

    def _apply(
        self,
        *,
        job_id: str,
        state: str,
        at_s: float,
        text: str,
        new: dict[str, str] | None = None,
        is_note: bool = False,
        texts: dict[str, str] | None = None,
        reason: str = "",
        stage: str = "",
        member: str = "",
        percent: int = 0,
    ) -> None:
        now = State(state)
        if new is not None:
            record = JobRecord(job_id, new["analyst"], new["analysis"], now, "", "", "", at_s, 0.0, text)
            self._jobs[job_id] = _Stored(record, new["key"], {})
        stored = self._jobs[job_id]
        stored.texts |= {name: one for name, one in (texts or {}).items() if one}
        stored.events.append(Event(len(stored.events), at_s, now, stage, member, percent, text))
        if not is_note:
            ended_at_s = at_s if now.has_ended else 0.0
            what: dict[str, Any] = {"reason": reason, "culprit": member, "stage": stage, "ended_at_s": ended_at_s}
            stored.record = replace(stored.record, state=now, **what)


def _pieces(text: str) -> Iterator[str]:
    data, start = text.encode(), 0
    while start < len(data):
        piece = data[start : start + PIECE_BYTES].decode(errors="ignore")
        yield piece
        start += len(piece.encode())


def main() -> None:
    """Submit a job, end it, and look for it after another start."""
    job = Job.model_validate({"analysis": "secure-sum", "inputs": [{"party": p, "table": "t"} for p in ("a", "b")]})
    with tempfile.TemporaryDirectory() as folder:
        store = LineJobStore(Path(folder) / "jobs")
        job_id, _ = store.submit("ada", "key", job)
        store.advance(job_id, State.FAILED, reason="this was an example")
        store.close()
        again = LineJobStore(Path(folder) / "jobs")
        print(again.record(job_id).state, again.record(job_id).reason)
        again.close()


if __name__ == "__main__":
    main()
