"""Scheduling of jobs: analysts take turns, running jobs are limited in number, and slow parties block no others."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from analyses.job.job import Job, JobError
from analyses.job.plan import check_roster
from analyses.registry import analysis_of
from coordinator.journal import Journal
from coordinator.resumption import LeftBehind
from coordinator.runner import JobRunner
from coordinator.state import State
from coordinator.store import JobRecord, StoreWriteError, stopped
from service.codes.coded_text import told
from service.errors import InvalidRequestError, TooMuchError, WrongStateError

MAX_WAITING = 1000

MAX_WAITING_EACH = 200
"""Largest number of jobs of one analyst that may wait."""

MAX_HELD = 8
"""Number of jobs that a party holds at a time (`party.jobs.MAX_JOBS`); no further job that names it is started."""

MAX_ASKING = 6
"""Number of jobs waiting for one party's owner at which no further job that names the party is started."""

MAX_SLOW = 2
"""Number of jobs past their turn that wait for one slow party at which no further job that names it is started."""

TICK_S = 1.0
"""How often to look whether a job has had its turn, while others wait."""

MAX_KEY_CHARACTERS = 100
MAX_JOB_BYTES = 3 << 20
"""Largest size of a job's canonical JSON: parties receive it in one request, which is limited to 4 MiB."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Waiting:
    job_id: str
    job: Job
    analyst: str


class Scheduler:
    """Accepts jobs from analysts and runs them.

    The next job is one of the analyst with the fewest running jobs, and among several such analysts, of the one who was
    served least recently; an analyst's own jobs keep their order, but one whose parties have no room lets the next
    pass.

    A job that has run for `turn_s` has had its turn. If the others wait for a slow party in it, it keeps nobody else
    waiting any more: it computes nothing. Up to `most_running` other such jobs go on beside those that take their
    places. So at most twice `most_running` jobs compute at a time.

    Args:
        journal: journal of all jobs.
        make_runner: makes the runner of a stored job, which an earlier process may have left behind.
        roster: names of the parties that jobs may name.
        most_running: maximum number of jobs that run at a time. Jobs that wait for owners of data do not count; a
            moment after they were approved there may be more.
        turn_s: see above.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        make_runner: Callable[[str, Job, LeftBehind | None], JobRunner],
        roster: frozenset[str],
        most_running: int,
        turn_s: float = 300.0,
    ) -> None:
        self._journal = journal
        self._make_runner = make_runner
        self._roster = roster
        self._most_running = most_running
        self._turn_s = turn_s
        self._waiting: list[_Waiting] = []
        self._served: Counter[str] = Counter()  # analyst to the number of the start that was last theirs
        self._n_started = 0
        self._tick: asyncio.TimerHandle | None = None
        self._running: dict[str, tuple[JobRunner, asyncio.Task[None]]] = {}
        self._analysts: dict[str, str] = {}  # of the jobs that run
        self._stopping = False

    def use(self, *, roster: frozenset[str], most_running: int, turn_s: float) -> None:
        """Take over other values; jobs that were accepted before keep their parties."""
        self._roster, self._most_running, self._turn_s = roster, most_running, turn_s
        self._start_waiting()

    def submit(self, analyst: str, idempotency_key: str, job_json: str) -> str:
        """Check and store a job, and run it as soon as there is room.

        Returns:
            Its identifier; that of the earlier job where the key came before.

        Raises:
            InvalidRequestError: the job cannot be run as written, or is larger than MAX_JOB_BYTES; or the key is
                missing or too long.
            KeyReusedError: the key came before with another job.
            TooMuchError: too many jobs wait.
            WrongStateError: the coordinator is stopping.
        """
        if self._stopping:
            raise WrongStateError("the coordinator is stopping")
        if not 1 <= len(idempotency_key) <= MAX_KEY_CHARACTERS:
            raise InvalidRequestError(f"idempotency_key: must be 1 to {MAX_KEY_CHARACTERS} characters long")
        job = self._checked(job_json)
        if len(self._waiting) >= MAX_WAITING:
            raise TooMuchError(f"{MAX_WAITING} jobs are waiting; try again later")
        if sum(waiting.analyst == analyst for waiting in self._waiting) >= MAX_WAITING_EACH:
            raise TooMuchError(f"{MAX_WAITING_EACH} jobs of {analyst} are waiting; try again later")
        job_id, is_new = self._journal.store.submit(analyst, idempotency_key, job)
        if is_new:
            _log.info("job is SUBMITTED", job=job_id, analyst=analyst, analysis=job.analysis)
            self._waiting.append(_Waiting(job_id, job, analyst))
            self._start_waiting()
        return job_id

    def take_up(self, jobs: Sequence[LeftBehind]) -> None:
        """Go on with jobs that an earlier process left behind: those that ran at once, the others in their turn."""
        for left in jobs:
            if left.state is State.SUBMITTED:
                self._waiting.append(_Waiting(left.job_id, left.job, left.analyst))
            else:
                self._start(_Waiting(left.job_id, left.job, left.analyst), left)
        self._start_waiting()

    def _checked(self, job_json: str) -> Job:
        try:
            job = Job.from_json(job_json)
            analysis_of(job)
        except JobError as error:
            raise InvalidRequestError(told(error)) from error
        if (n_bytes := len(job.canonical_json())) > MAX_JOB_BYTES:  # of ASCII
            raise InvalidRequestError(
                f"the job is {n_bytes} bytes long as JSON; at most {MAX_JOB_BYTES} bytes can be sent to parties"
            )
        for name in job.members:
            if name not in self._roster:
                known = ", ".join(sorted(self._roster))
                raise InvalidRequestError(f"inputs: there is no party {name!r} in the roster; the roster has {known}")
        try:
            check_roster(job, analysis_of(job).fewest_parties)
        except JobError as error:
            raise InvalidRequestError(told(error)) from error
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
            self._waiting = [waiting for waiting in self._waiting if waiting.job_id != job_id]
        record = self._journal.store.record(job_id)
        if not record.state.has_ended:
            raise StoreWriteError(
                f"the job has ended, but its state stays {record.state} until the end can be written to the store"
            )
        return record

    def counts(self) -> dict[str, int]:
        """Return how many jobs wait for their turn, for owners' approval, and how many run otherwise."""
        asking = sum(runner.waits_for_owners for runner, _ in self._running.values())
        return {"waiting": len(self._waiting), "asking": asking, "running": len(self._running) - asking}

    def waiting_parties(self, job_id: str) -> frozenset[str]:
        """Return the parties whose owners a job waits for; none where it does not run."""
        running = self._running.get(job_id)
        return frozenset() if running is None else running[0].asked_parties

    async def _ended(self, job_id: str) -> None:
        async for event in self._journal.follow(job_id):
            if event.state.has_ended:
                return

    async def stop(self) -> None:
        """End all jobs, because the process ends: those that run are told to their parties. Takes no new ones."""
        self._stopping = True
        running = list(self._running.values())
        for runner, _ in running:
            runner.stop(State.FAILED, stopped("the coordinator was stopped while the job was running"))
        waiting, self._waiting = self._waiting, []
        if self._tick is not None:
            self._tick.cancel()
        for one in waiting:
            with suppress(StoreWriteError):  # else the next start says it
                self._journal.step(
                    one.job_id, State.FAILED, reason=stopped("the coordinator was stopped before the job started")
                )
        for runner, task in running:
            await _first_of(runner.unwritten.wait(), asyncio.wait((task,)))
            task.cancel()

    def leave(self) -> None:
        """Leave all jobs as they are to another process, and tell nobody. Takes no new ones."""
        self._stopping = True
        self._waiting = []
        if self._tick is not None:
            self._tick.cancel()
        for _, task in self._running.values():
            task.cancel()

    def _start_waiting(self) -> None:
        while (waiting := self._next()) is not None:
            self._waiting.remove(waiting)
            self._n_started += 1
            self._served[waiting.analyst] = self._n_started
            self._start(waiting)
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        if self._waiting and not self._stopping:
            self._tick = asyncio.get_running_loop().call_later(min(TICK_S, self._turn_s), self._start_waiting)

    def _start(self, one: _Waiting, left: LeftBehind | None = None) -> None:
        runner = self._make_runner(one.job_id, one.job, left)
        runner.on_waiting = self._start_waiting
        task = asyncio.create_task(runner.run())
        self._running[one.job_id] = (runner, task)
        self._analysts[one.job_id] = one.analyst
        task.add_done_callback(partial(self._has_ended, one.job_id))

    def _next(self) -> "_Waiting | None":
        """Return the job that may start now; None if none may."""
        if not self._waiting or not self._has_room():
            return None
        full = self._full_parties()
        n_running = Counter(self._analysts.values())
        fit = [waiting for waiting in self._waiting if full.isdisjoint(waiting.job.members)]
        # Of equals, min takes the first: the analyst's own jobs keep their order.
        return min(fit, key=lambda one: (n_running[one.analyst], self._served[one.analyst]), default=None)

    def _has_room(self) -> bool:
        computing = [runner for runner, _ in self._running.values() if not runner.waits_for_owners]
        had_turn = [runner for runner in computing if runner.runs_for_s >= self._turn_s]
        n_held_up = sum(bool(runner.slow_party) for runner in had_turn)
        n_beside = min(len(had_turn) - n_held_up, self._most_running)
        return len(computing) - n_held_up - n_beside < self._most_running

    def _full_parties(self) -> set[str]:
        """Return the parties that no further job may name now."""
        held, asked, slow = Counter[str](), Counter[str](), Counter[str]()
        for runner, _ in self._running.values():
            held.update(runner.members)
            asked.update(runner.asked_parties)
            if runner.slow_party and runner.runs_for_s >= self._turn_s:
                slow[runner.slow_party] += 1
        limits = ((held, MAX_HELD), (asked, MAX_ASKING), (slow, MAX_SLOW))
        return {party for counts, most in limits for party, n in counts.items() if n >= most}

    def _has_ended(self, job_id: str, task: "asyncio.Task[None]") -> None:
        del self._running[job_id]
        del self._analysts[job_id]
        if not task.cancelled() and task.exception() is not None:
            _log.error("runner broke", job=job_id, exc_info=task.exception())
        self._start_waiting()


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of the awaitables is done, and cancel the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
