"""A party's jobs: what it agrees to, and what it does from the proposal to the end. `party.server` speaks gRPC."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from algorithms.job import Job, JobError, JobInput
from algorithms.plan import Plan, check_roster
from algorithms.registry import analysis_of
from algorithms.schema import BlockSchema, LocalReport, Table
from mpc.errors import LocalFaultError, PeerError, PeerLostError, PeerSilentError, ProtocolError
from mpc.session import COORDINATOR, Session
from party.admission import Admission, Applicant, RefusalError
from party.books import ChargeError
from party.config import PartyConfig
from party.gate import GatedSession
from party.ledger_entry import LedgerError
from party.table import TableError

HEARTBEATS_PER_DEADLINE = 8
MAX_JOBS = 8
"""Jobs that may be proposed or running at once; further proposals are refused."""

log = structlog.get_logger()


@dataclass(frozen=True)
class ProgressEvent:
    """A stage has come so far, in quarters: an exact fraction would tell the number of rows.

    Every quarter that a stage passes is told, one by one: were the last one alone told after each block, which quarters
    are left out would tell how many blocks of rows there are.
    """

    stage: str
    percent: int


@dataclass(frozen=True)
class FinishedEvent:
    """Our part is done and every message was received."""


@dataclass(frozen=True)
class FailedEvent:
    """We gave up; the text is public.

    Attributes:
        stage: where.
        reason: why.
        culprit: name of the member at fault; empty if it is ourselves.
        is_finding: whether the culprit was caught at something, rather than missed.
    """

    stage: str
    reason: str
    culprit: str = ""
    is_finding: bool = False


JobEvent = ProgressEvent | FinishedEvent | FailedEvent


class JobSession(Session, Protocol):
    """A session that can be ended."""

    async def finish(self) -> None:
        """Wait until every message was received."""

    async def abort(self, reason: str) -> None:
        """Stop at once."""


@dataclass
class _AcceptedJob:
    applicant: Applicant
    roster: dict[int, str]
    schema: BlockSchema
    expiry: asyncio.TimerHandle
    is_reserving: bool = False
    left: asyncio.Event = field(default_factory=asyncio.Event)  # it runs, or has ended
    plan: Plan | None = None  # once budget is reserved for it
    task: asyncio.Task[None] | None = None
    failure: str | None = None
    events: asyncio.Queue[JobEvent] = field(default_factory=asyncio.Queue)

    @property
    def job(self) -> Job:
        return self.applicant.job


class PartyJobs:
    """The jobs of one party.

    Args:
        config: the owner's file: who we are, with whom we compute, our tables.
        admission: decides about jobs and keeps the privacy budget.
        load_table: reads the columns of one of our tables; may take seconds and runs off the event loop.
        open_session: makes our end of a job's session (job id, my number, names by number, deadline, progress
        callback).
        close_session: forgets everything about a job's messages.
        write_report: keeps the party-local report of a job.
    """

    def __init__(
        self,
        config: PartyConfig,
        admission: Admission,
        *,
        load_table: Callable[[JobInput], Table],
        accept_messages: Callable[[str, Mapping[int, str]], None],
        open_session: Callable[[str, int, Mapping[int, str], float, Callable[[str, int, int], None]], JobSession],
        close_session: Callable[[str, str | None], None],
        write_report: Callable[[str, Plan, LocalReport, float], None],
    ) -> None:
        self._config = config
        self._admission = admission
        self._load_table = load_table
        self._accept_messages = accept_messages
        self._open_session = open_session
        self._close_session = close_session
        self._write_report = write_report
        self._jobs: dict[str, _AcceptedJob] = {}
        self._releases: set[asyncio.Task[None]] = set()

    async def propose(self, job_id: str, job_json: str, roster: Mapping[int, str], analyst: str) -> BlockSchema:
        """Look at a job; from then on its messages are accepted. `reserve` is next.

        Args:
            job_id: chosen by the coordinator.
            job_json: the job as the analyst submitted it.
            roster: member number to name, without the coordinator.
            analyst: who submitted it; we have the coordinator's word for that.

        Returns:
            Our public columns.

        Raises:
            RefusalError: with the reason.
        """
        if job_id in self._jobs:
            raise RefusalError(f"job {job_id} was proposed before")
        if len(self._jobs) >= MAX_JOBS:
            raise RefusalError(f"{self._config.name} already holds {MAX_JOBS} jobs; try again later")
        try:
            job = Job.from_json(job_json)
            analysis_of(job)
            check_roster(job)
            self._check_members(job, roster)
            brought = next((i for i in job.inputs if i.party == self._config.name), None)
            table = None if brought is None else await asyncio.to_thread(self._load_table, brought)
        except (JobError, TableError) as error:
            raise RefusalError(str(error)) from error
        if job_id in self._jobs or len(self._jobs) >= MAX_JOBS:  # another proposal arrived while the table was read
            raise RefusalError(f"{self._config.name} already holds job {job_id} or {MAX_JOBS} others")
        schema = BlockSchema(party=self._config.name) if table is None else table.schema
        self._admission.check_proposal(job, analyst, schema)
        names = {COORDINATOR: self._config.coordinator.name, **roster}
        applicant = Applicant(job_id, analyst, job, table)
        self._jobs[job_id] = _AcceptedJob(applicant, names, schema, self._expire(job_id, job))
        self._accept_messages(job_id, names)
        log.info("job accepted", job=job_id, analysis=job.analysis, stage="propose")
        return schema

    def _check_members(self, job: Job, roster: Mapping[int, str]) -> None:
        me = self._config.name
        if tuple(roster.get(number) for number in range(1, len(roster) + 1)) != job.members:
            raise RefusalError("the roster does not match the members that the job names")
        if me not in job.members:
            raise RefusalError(f"{me} is not a member of this job")
        strangers = [name for name in job.members if name != me and name not in self._config.peers]
        if strangers:
            raise RefusalError(f"{me} does not compute with {', '.join(strangers)} (not among its peers)")

    def _expire(self, job_id: str, job: Job) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        return loop.call_later(2 * job.deadline_s, self.end, job_id, "it was proposed and never started")

    async def reserve(
        self, job_id: str, schemas: Sequence[BlockSchema], plan_digest: bytes
    ) -> AsyncGenerator[str, None]:
        """Agree to the plan of an accepted job and set privacy budget aside for it; then it may run. `hold` is next.

        Args:
            job_id: accepted before.
            schemas: of all members in the order of the roster.
            plan_digest: of the coordinator's plan.

        Yields:
            Public text, while our owner is asked.

        Raises:
            RefusalError: unknown job, the plan that we compute ourselves is another one, the policy or the owner says
                no, or the budget does not cover the job. The job has ended here.
        """
        accepted = self._known(job_id)
        if accepted.is_reserving:
            raise RefusalError(f"job {job_id} is or was being reserved already")
        accepted.is_reserving = True
        accepted.expiry.cancel()
        failure = "it was called off while it was being reserved"
        try:
            plan = await asyncio.to_thread(self._own_plan, accepted, schemas, plan_digest)
            async with aclosing(self._admission.admit(accepted.applicant, plan)) as waiting:
                async for text in waiting:
                    yield text
            if self._jobs.get(job_id) is not accepted:
                raise RefusalError(failure)
            accepted.plan = plan
            accepted.expiry = self._expire(job_id, accepted.job)
            log.info("job reserved", job=job_id, stage="reserve")
        except RefusalError as error:
            failure = str(error)
            raise
        finally:
            if accepted.plan is None:
                if self._jobs.get(job_id) is accepted:
                    self.end(job_id, failure)
                else:  # it was ended while the ledger was still reserving
                    self._release(job_id, failure)

    async def hold(self, job_id: str) -> None:
        """Keep what was reserved for a job until it runs or ends, however long other owners are asked.

        Whoever asked for the reservation waits here. When it leaves first, the job is soon forgotten.
        """
        accepted = self._jobs.get(job_id)
        if accepted is None or accepted.plan is None:
            return
        accepted.expiry.cancel()
        try:
            await accepted.left.wait()
        finally:
            if not accepted.left.is_set():
                accepted.expiry = self._expire(job_id, accepted.job)

    async def run(self, job_id: str) -> AsyncIterator[JobEvent]:
        """Run a reserved job; yields its progress and at last how it ended.

        Raises:
            RefusalError: unknown job, not reserved, or already running.
        """
        accepted = self._known(job_id)
        if accepted.plan is None:
            raise RefusalError(f"job {job_id} holds no privacy budget here yet")
        if accepted.task is not None:
            raise RefusalError(f"job {job_id} runs already")
        accepted.expiry.cancel()
        accepted.left.set()
        accepted.task = asyncio.create_task(self._run(job_id, accepted, accepted.plan))
        try:
            latest = ProgressEvent("start", 0)
            while True:
                try:
                    async with asyncio.timeout(accepted.job.deadline_s / HEARTBEATS_PER_DEADLINE):
                        event = await accepted.events.get()
                except TimeoutError:
                    event = latest  # a long computation is no silence
                yield event
                if not isinstance(event, ProgressEvent):
                    return
                latest = event
        finally:  # also when the coordinator went away in the middle
            accepted.task.cancel()
            await asyncio.gather(accepted.task, return_exceptions=True)
            self.end(job_id, accepted.failure)

    def _known(self, job_id: str) -> _AcceptedJob:
        accepted = self._jobs.get(job_id)
        if accepted is None:
            raise RefusalError(f"job {job_id} was not accepted here, or has ended")
        return accepted

    def _own_plan(self, accepted: _AcceptedJob, schemas: Sequence[BlockSchema], plan_digest: bytes) -> Plan:
        me = self._config.name
        try:
            plan = analysis_of(accepted.job).plan(accepted.job, schemas)
        except JobError as error:
            raise RefusalError(str(error)) from error
        if accepted.schema not in plan.schemas:
            raise RefusalError(f"the coordinator shows other columns of {me} than {me} offered")
        if plan.digest() != plan_digest:
            raise RefusalError(f"{me} computes another plan than the coordinator: do both run the same version?")
        return plan

    async def _run(self, job_id: str, accepted: _AcceptedJob, plan: Plan) -> None:
        started_s = time.monotonic()
        number = accepted.job.members.index(self._config.name) + 1
        stage, reported = "start", ("", -25)

        def on_progress(now_at: str, done: int, total: int) -> None:
            nonlocal stage, reported
            stage = now_at
            percent = done * 4 // total * 25
            before = reported[1] if reported[0] == stage else -25
            for quarter in range(before + 25, percent + 1, 25):  # none is left out, however few blocks the rows fill
                reported = (stage, quarter)
                accepted.events.put_nowait(ProgressEvent(stage, quarter))

        session = self._open_session(job_id, number, accepted.roster, accepted.job.deadline_s, on_progress)
        bound = log.bind(job=job_id)
        try:
            gated = GatedSession(
                session,
                commit=lambda: self._admission.commit(accepted.applicant),
                owners=plan.owners,
                openers=range(1, plan.n_parties + 1),
                receivers=plan.receivers,
            )
            report = await analysis_of(accepted.job).party(gated, plan, accepted.applicant.table)
            await gated.open()
            await asyncio.to_thread(self._write_report, job_id, plan, report, time.monotonic() - started_s)
            await self._finish(session, job_id)
        except asyncio.CancelledError:
            await session.abort("the job was cancelled")
            raise
        except PeerError as error:
            notes = "; ".join(getattr(error, "__notes__", ()))  # of rows that differ, for our eyes only
            member = accepted.roster[error.member]
            bound.warning("job failed", stage=error.stage, reason=error.what, member=member, notes=notes)
            accepted.failure = error.what
            await session.abort(error.what)
            is_finding = not isinstance(error, PeerLostError | PeerSilentError)
            accepted.events.put_nowait(FailedEvent(error.stage, error.what, member, is_finding))
        except LocalFaultError:
            # Its text may state shapes, and with them the number of rows: it stays in this party's log.
            bound.exception("job failed by our own fault", stage=stage)
            accepted.failure = text = f"the protocol was misused; the log of {self._config.name} has the details"
            await session.abort(text)
            accepted.events.put_nowait(FailedEvent(stage, text))
        except (ProtocolError, JobError, ChargeError, LedgerError) as error:
            text = self._admission.explain(error) if isinstance(error, LedgerError) else str(error)
            bound.warning("job failed", stage=stage, reason=text)
            accepted.failure = text
            await session.abort(text)
            accepted.events.put_nowait(FailedEvent(stage, text))
        except Exception as error:
            # An unforeseen error may quote data: its text stays in this party's log.
            bound.exception("job failed unexpectedly", stage=stage)
            await session.abort("internal error")
            accepted.failure = text = (
                f"internal error ({type(error).__name__}); the log of {self._config.name} has the details"
            )
            accepted.events.put_nowait(FailedEvent(stage, text))
        else:
            bound.info("job finished", stage=stage)
            accepted.events.put_nowait(FinishedEvent())

    async def _finish(self, session: JobSession, job_id: str) -> None:
        """Wait until the others have taken all. A party that has vanished meanwhile needs nothing more of us."""
        try:
            await session.finish()
        except (PeerLostError, PeerSilentError) as error:
            if error.member == COORDINATOR:
                raise
            log.warning("a party vanished before the end", job=job_id, reason=error.what)

    def end(self, job_id: str, reason: str | None) -> None:
        """Forget a job and stop it if it runs; unknown jobs are ignored. No reason: it has simply ended."""
        accepted = self._jobs.pop(job_id, None)
        if accepted is None:
            return
        accepted.expiry.cancel()
        accepted.left.set()
        if accepted.task is not None and not accepted.task.done():
            accepted.events.put_nowait(FailedEvent("", reason or "the job has ended"))
            accepted.task.cancel()
        self._close_session(job_id, reason)
        self._release(job_id, reason or "it ended without opening anything")
        log.info("job ended", job=job_id, reason=reason or "done")

    def _release(self, job_id: str, reason: str) -> None:
        """Give back what was reserved and not committed, in the background."""
        task = asyncio.create_task(self._admission.release(job_id, reason))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def end_all(self, reason: str) -> None:
        """End every job, because the service stops, and wait until the ledger knows."""
        for job_id in list(self._jobs):
            self.end(job_id, reason)
        await asyncio.gather(*self._releases)
