"""The seam for places where jobs and their events lie: `JobStore`. The one that we have is `coordinator.sqlite_store`.

A store is the truth about jobs: each state change is durable when the call returns, and only one process uses a store
at a time. After a restart no job is left running: see `JobStore.fail_unended`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from analyses.job.job import Job
from coordinator.state import State
from service.errors import AlreadyExistsError, NotFoundError, RemoteFailureError, ServiceError

TEXTS = ("job_json", "plan_json", "result_json")
"""What a job has of text without a limit: JSON of the job, of its plan, of its result."""

PIECE_BYTES = 1 << 20
"""A text is read in pieces of so many: a quarter of what gRPC takes in one message."""

MAX_CHARACTERS = 10_000
"""Of a reason or of an event's text; what is longer is cut. They are told together with other jobs and events."""


class StoreError(ServiceError):
    """The file cannot be used: not ours, of another version, or held by another process."""


class StoreWriteError(RemoteFailureError):
    """Nothing can be written now: the disk is full, or fails. What was written before stands."""

    def __init__(self, cause: object) -> None:
        super().__init__(f"the job store cannot be written: {cause}")


class JobNotFoundError(NotFoundError):
    """No such job, or it belongs to another analyst: the two are not told apart."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"there is no job {job_id!r} of yours")


class KeyReusedError(AlreadyExistsError):
    """The idempotency key came before with another job."""


@dataclass(frozen=True)
class JobRecord:
    """What is known of one job but for its TEXTS. Times are Unix seconds; `ended_at_s` is 0 while it has not ended."""

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


class JobStore(Protocol):
    """The jobs of one coordinator. Methods block, and come from one thread.

    The steps that a store lets a job take are those of `coordinator.state.NEXT`. Reasons and texts of events are
    shortened to MAX_CHARACTERS.
    """

    def submit(self, analyst: str, idempotency_key: str, job: Job) -> tuple[str, bool]:
        """Store a job as SUBMITTED, with a first event whose text is its title.

        Returns:
            Its identifier, and whether it is new: False where the analyst submitted the same job with this key before.

        Raises:
            KeyReusedError: the analyst used this key for another job.
            StoreWriteError: nothing was stored.
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
    ) -> None:
        """Take one step of a job's life, and add its event.

        Args:
            job_id: which job.
            state: the new state.
            reason: public text of why it failed or was cancelled.
            culprit: name of the member at fault, if any.
            stage: where it failed.
            text: for the event of this step; the reason where absent.
            plan_json: the plan, with the step to RUNNING; later steps leave it.
            result_json: the result, with the step to DONE.

        Raises:
            IllegalStepError: `coordinator.state.NEXT` does not have this step.
            JobNotFoundError: no such job.
            StoreWriteError: the job is where it was.
        """

    def note(self, job_id: str, *, stage: str, member: str, percent: int = 0, text: str = "") -> None:
        """Record that a member got on within a stage, or what befell it; the job's state stays.

        Raises:
            JobNotFoundError: no such job.
            StoreWriteError: nothing was recorded.
        """

    def fail_unended(self) -> list[str]:
        """Mark every job that has not ended as FAILED, because the process that ran it is gone. Call once at start.

        Returns:
            The identifiers of those jobs, oldest first.
        """

    def record(self, job_id: str, *, analyst: str | None = None) -> JobRecord:
        """Return one job.

        Args:
            job_id: which.
            analyst: who asks; absent means the coordinator itself.

        Raises:
            JobNotFoundError: no such job, or another analyst's.
        """

    def records(self, analyst: str, *, limit: int = 0) -> list[JobRecord]:
        """Return an analyst's jobs, newest first; `limit` 0 means all."""

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
