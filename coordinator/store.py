"""The seam for stores of jobs and their events: `JobStore`.

`coordinator.sql_store` keeps them in a database: a file of one coordinator, or a server that several share.

A store is the truth about jobs: each state change is durable when the call returns, and only one process writes to a
store at a time. What becomes of jobs after a restart: see `coordinator.resumption`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from analyses.job.job import Job
from coordinator.state import State
from service.codes.coded_text import coded
from service.errors import AlreadyExistsError, NotFoundError, RemoteFailureError, ServiceError

TEXTS = ("job_json", "plan_json", "result_json")
"""The texts of a job that have no length limit: the JSON of the job, of its plan and of its result."""

PIECE_BYTES = 1 << 20
"""Size of the pieces in which a text is read: a quarter of what gRPC accepts in one message."""

MAX_CHARACTERS = 10_000
"""Longest reason or event text; longer ones are truncated, because they are listed together with other jobs and
events."""


class StoreError(ServiceError):
    """The file cannot be used: it is not a job store, has another version, or is locked by another process."""

    code = "job-store-unusable"


class StoreWriteError(RemoteFailureError):
    """The store cannot be written now: the disk is full or fails, or a database is away. Earlier writes are intact."""

    code = "job-store-unwritable"

    def __init__(self, cause: object) -> None:
        super().__init__(f"the job store cannot be written: {cause}")


class StoreReadError(RemoteFailureError):
    """The store cannot be read now: its database is away."""

    code = "job-store-unreadable"

    def __init__(self, cause: object) -> None:
        super().__init__(f"the job store cannot be read: {cause}")


class JobNotFoundError(NotFoundError):
    """There is no such job, or it belongs to another analyst; the two cases are not distinguished."""

    code = "job-unknown"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"there is no job {job_id!r} of yours")


class KeyReusedError(AlreadyExistsError):
    """The idempotency key was used before for another job."""

    code = "submission-key-reused"


def stopped(reason: str) -> str:
    """Return the reason of jobs that ended because the coordinator did, with its code."""
    return coded(reason, code="coordinator-stopped")


@dataclass(frozen=True)
class JobRecord:
    """The stored facts of a job except its TEXTS. Times are Unix seconds; `ended_at_s` is 0 while it has not ended."""

    job_id: str
    analyst: str
    analysis: str
    state: State
    reason: str
    culprit: str
    stage: str
    submitted_at_s: float
    ended_at_s: float
    title: str


@dataclass(frozen=True)
class Event:
    """Something that happened to a job: a step (`state`) or a member's progress within a stage."""

    sequence: int
    at_s: float
    state: State
    stage: str
    member: str
    percent: int
    text: str


@dataclass(frozen=True)
class Note:
    """A member's progress within a stage of a job, or an event at it. `at_s` is when, in Unix seconds."""

    job_id: str
    at_s: float
    stage: str
    member: str
    percent: int = 0
    text: str = ""


class JobStore(Protocol):
    """The jobs of one coordinator. Methods block, and come from one thread.

    After a `StoreWriteError` the same call may be made again: where the first had been written after all, it is not
    written twice.

    The steps that a store lets a job take are those of `coordinator.state.NEXT`. Reasons and texts of events are
    shortened to MAX_CHARACTERS.
    """

    def submit(self, analyst: str, idempotency_key: str, job: Job) -> tuple[str, bool]:
        """Store a job as SUBMITTED, with a first event whose text is its title.

        Returns:
            Its identifier, and whether it is new: False where the analyst submitted the same job with this key before.

        Raises:
            KeyReusedError: the analyst used this key for another job.
            StoreWriteError: it was not stored, as far as anybody knows.
        """

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
        """Take one step of a job's life, and add its event; before it, in the same transaction, record notes.

        Args:
            job_id: which job.
            state: the new state.
            reason: public text of why it failed or was cancelled.
            culprit: name of the member at fault, if any.
            stage: where it failed.
            text: text for the event of this step; the reason where absent.
            plan_json: the plan, with the step to RUNNING; later steps leave it.
            result_json: the result, with the step to DONE.
            notes: notes of any jobs, as `record_progress` takes them.

        Raises:
            IllegalStepError: `coordinator.state.NEXT` does not have this step.
            JobNotFoundError: no such job, or no such job as a note names.
            StoreWriteError: the state of the job is unchanged, as far as anybody knows.
        """

    def record_progress(self, notes: Sequence[Note]) -> None:
        """Record notes of any jobs, in order, all of them or none; the states of the jobs do not change.

        Raises:
            JobNotFoundError: there is no such job as one of them names.
            StoreWriteError: nothing was recorded.
        """

    def unended(self) -> list[str]:
        """Return the identifiers of all jobs that have not ended, oldest first."""

    def record(self, job_id: str, *, analyst: str | None = None) -> JobRecord:
        """Return one job.

        Args:
            job_id: which.
            analyst: who asks; absent means the coordinator itself.

        Raises:
            JobNotFoundError: no such job, or another analyst's.
        """

    def records(self, analyst: str | None, *, limit: int = 0) -> list[JobRecord]:
        """Return an analyst's jobs, or for None those of all analysts, newest first; `limit` 0 means all."""

    def texts(self, job_id: str) -> Iterator[tuple[str, str]]:
        """Return the TEXTS of a job as they stand now, in order and in pieces: (name, at most PIECE_BYTES in UTF-8).

        A piece is read when it is asked for, so that whoever takes them slowly keeps no more than one in memory. What
        has been written of a text never changes. A text that has not been written has no piece.

        Raises:
            JobNotFoundError: no such job; raised by this call, not by the iterator.
        """

    def events(self, job_id: str, *, after: int = -1) -> list[Event]:
        """Return the events of a job whose sequence number, counted from 0, is above `after`, in order."""

    def close(self) -> None:
        """Release it."""
