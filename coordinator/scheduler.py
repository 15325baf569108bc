"""Which jobs run now and which wait: first come, first served, a bounded number at a time."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from algorithms.job import Job, JobError
from algorithms.plan import check_roster
from algorithms.registry import analysis_of
from coordinator.journal import Journal
from coordinator.runner import JobRunner
from coordinator.state import State
from coordinator.store import JobRecord, StoreWriteError
from transport.errors import InvalidRequestError, TooMuchError, WrongStateError

MOST_WAITING = 1000

MOST_ASKING = 6
"""While so many jobs wait for owners of data no other is started: a party holds at most 8 jobs at a time."""

MOST_KEY_CHARACTERS = 100
MOST_JOB_BYTES = 3 << 20
"""Of a job's canonical JSON: parties are sent it in one message, of which gRPC takes 4 MiB."""

_log = structlog.get_logger(__name__)


class Scheduler:
    """Takes jobs from analysts and runs them.

    Args:
        journal: of all jobs.
        make_runner: makes the runner of a stored job.
        roster: names of the parties that jobs may name.
        most_running: so many run at a time. Jobs that wait for owners of data do not count; a moment after they were
            approved there may be more.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        make_runner: Callable[[str, Job], JobRunner],
        roster: frozenset[str],
        most_running: int,
    ) -> None:
        self._journal = journal
        self._make_runner = make_runner
        self._roster = roster
        self._most_running = most_running
        self._waiting: deque[tuple[str, Job]] = deque()
        self._running: dict[str, tuple[JobRunner, asyncio.Task[None]]] = {}
        self._stopping = False

    def submit(self, analyst: str, idempotency_key: str, job_json: str) -> str:
        """Check and store a job, and run it as soon as there is room.

        Returns:
            Its identifier; that of the earlier job where the key came before.

        Raises:
            InvalidRequestError: the job cannot be run as written, whoever answers, or has more than MOST_JOB_BYTES; or
                the key is missing or too long.
            KeyReusedError: the key came before with another job.
            TooMuchError: too many jobs wait.
            WrongStateError: the coordinator is stopping.
        """
        if self._stopping:
            raise WrongStateError("the coordinator is stopping")
        if not 1 <= len(idempotency_key) <= MOST_KEY_CHARACTERS:
            raise InvalidRequestError(f"idempotency_key: must have 1 to {MOST_KEY_CHARACTERS} characters")
        job = self._checked(job_json)
        if len(self._waiting) >= MOST_WAITING:
            raise TooMuchError(f"{MOST_WAITING} jobs are waiting; try again later")
        job_id, is_new = self._journal.store.submit(analyst, idempotency_key, job)
        if is_new:
            _log.info("job is SUBMITTED", job=job_id, analyst=analyst, analysis=job.analysis)
            self._waiting.append((job_id, job))
            self._start_waiting()
        return job_id

    def _checked(self, job_json: str) -> Job:
        try:
            job = Job.from_json(job_json)
            analysis_of(job)
        except JobError as error:
            raise InvalidRequestError(str(error)) from error
        if (n_bytes := len(job.canonical_json())) > MOST_JOB_BYTES:  # of ASCII
            raise InvalidRequestError(
                f"the job has {n_bytes} bytes as JSON; at most {MOST_JOB_BYTES} can be sent to parties"
            )
        for name in job.members:
            if name not in self._roster:
                known = ", ".join(sorted(self._roster))
                raise InvalidRequestError(f"inputs: there is no party {name!r} in the roster; there are {known}")
        try:
            check_roster(job)
        except JobError as error:
            raise InvalidRequestError(str(error)) from error
        return job

    async def cancel(self, analyst: str, job_id: str) -> JobRecord:
        """Cancel a job that waits or runs; cancelling a cancelled one changes nothing.

        Returns:
            The job, CANCELLED; or as it ended if it was faster.

        Raises:
            JobNotFoundError: no such job of this analyst.
            WrongStateError: it is DONE or FAILED.
            StoreWriteError: a job that waits stays where it is; one that runs is stopped, and that is written later.
        """
        record = self._journal.store.record(job_id, analyst=analyst)
        if record.state in (State.DONE, State.FAILED):
            raise WrongStateError(f"job {job_id} has ended: it is {record.state}")
        reason = f"cancelled by {analyst}"
        if job_id in self._running:
            runner, running = self._running[job_id]
            runner.stop(State.CANCELLED, reason)
            await _first_of(self._ended(job_id), runner.unwritten.wait(), asyncio.wait((running,)))
        elif not record.state.has_ended:
            self._journal.step(job_id, State.CANCELLED, reason=reason)
            self._waiting = deque(waiting for waiting in self._waiting if waiting[0] != job_id)
        record = self._journal.store.record(job_id)
        if not record.state.has_ended:
            raise StoreWriteError(f"the job has ended, but stays {record.state} until that can be written")
        return record

    async def _ended(self, job_id: str) -> None:
        async for event in self._journal.follow(job_id):
            if event.state.has_ended:
                return

    async def stop(self) -> None:
        """End all jobs, because the process ends: those that run are told to their parties. Takes no new ones."""
        self._stopping = True
        running = list(self._running.values())
        for runner, _ in running:
            runner.stop(State.FAILED, "the coordinator was stopped while the job was running")
        waiting, self._waiting = self._waiting, deque()
        for job_id, _ in waiting:
            with suppress(StoreWriteError):  # else the next start says it
                self._journal.step(job_id, State.FAILED, reason="the coordinator was stopped before the job started")
        for runner, task in running:
            await _first_of(runner.unwritten.wait(), asyncio.wait((task,)))
            task.cancel()

    def _start_waiting(self) -> None:
        while self._waiting and self._has_room():
            job_id, job = self._waiting.popleft()
            runner = self._make_runner(job_id, job)
            runner.on_waiting = self._start_waiting
            task = asyncio.create_task(runner.run())
            self._running[job_id] = (runner, task)
            task.add_done_callback(partial(self._has_ended, job_id))

    def _has_room(self) -> bool:
        n_asking = sum(runner.waits_for_owners for runner, _ in self._running.values())
        return n_asking < MOST_ASKING and len(self._running) - n_asking < self._most_running

    def _has_ended(self, job_id: str, task: "asyncio.Task[None]") -> None:
        del self._running[job_id]
        if not task.cancelled() and task.exception() is not None:
            _log.error("runner broke", job=job_id, exc_info=task.exception())
        self._start_waiting()


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one is over, and give up the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
