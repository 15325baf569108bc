"""A party's jobs: what it agrees to, and what it does from the proposal to the end. `party.server` speaks gRPC."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from analyses.job.job import Job, JobError, JobInput
from analyses.job.plan import Plan, check_roster
from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.registry import analysis_of
from mpc.errors import LocalFaultError, PeerError, PeerLostError, PeerSilentError, PeerSlowError, ProtocolError
from mpc.protocol.session import COORDINATOR, Session
from party.admission import Admission, Applicant, RefusalError
from party.config import PartyConfig
from party.gate import GatedSession
from party.ledger.books import ChargeError
from party.ledger.entry import LedgerError
from party.reading import TableReading
from party.tables.table import TableError, UnusableTableError
from service.errors import AlreadyExistsError

HEARTBEATS_PER_DEADLINE = 8
READ_STAGE = "reading"
"""The stage in which a party reads its table: the first of a job that runs."""

MAX_JOBS = 8
"""Jobs that may be proposed or running at once; further proposals are refused."""

log = structlog.get_logger()


class OverLimitError(Exception):
    """A job runs longer than our owner allows, by our own work; the text is public."""


@dataclass(frozen=True)
class ProgressEvent:
    """A stage has come so far, in quarters: an exact fraction would tell the number of rows.

    Every quarter that a stage passes is told, one by one: were the last one alone told after each block, which quarters
    are left out would tell how many blocks of rows there are.
    """

    stage: str
    percent: int
    waits_for: str = ""
    """The member for whom we have waited for half of the deadline; who waits for us should blame it and not us."""


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
    """A session that can be ended, and says for whom it waits."""

    def waits_for(self, least_s: float) -> int | None:
        """Return the member for whom we have waited longest without a break; None if for nobody so long."""

    def waited_most_for(self) -> int | None:
        """Return the member for whom we have waited most in all; None if for nobody half of the time."""

    async def finish(self) -> None:
        """Wait until every message was received."""

    async def abort(self, reason: str) -> None:
        """Stop at once."""


SessionOpener = Callable[[str, bytes, int, Mapping[int, str], float, Callable[[str, int, int], None]], JobSession]
"""Given the job's id, its terms, my number, names by number, the deadline in seconds and a callback for progress."""


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
    session: JobSession | None = None  # while it runs
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
        describe_table: says what is public about columns of one of our tables; reads no file.
        load_table: reads the columns of one of our tables; may take seconds and runs off the event loop. Called only
            for a job that policy, plan, budget and, if need be, the owner have admitted.
        open_session: makes our end of a job's session.
        close_session: forgets everything about a job's messages.
        write_report: keeps the party-local report of a job.
    """

    def __init__(
        self,
        config: PartyConfig,
        admission: Admission,
        *,
        describe_table: Callable[[JobInput], BlockSchema],
        load_table: Callable[[JobInput], Table],
        accept_messages: Callable[[str, Mapping[int, str]], None],
        open_session: SessionOpener,
        close_session: Callable[[str, str | None], None],
        write_report: Callable[[str, Plan, LocalReport, float], None],
    ) -> None:
        self._config = config
        self._admission = admission
        self._describe_table = describe_table
        self._tables = TableReading(config, admission, load_table)
        self._accept_messages = accept_messages
        self._open_session = open_session
        self._close_session = close_session
        self._write_report = write_report
        self._jobs: dict[str, _AcceptedJob] = {}
        self._releases: set[asyncio.Task[None]] = set()

    async def propose(self, job_id: str, job_json: str, roster: Mapping[int, str], analyst: str) -> BlockSchema:
        """Look at a job, and at no table; from then on its messages are accepted. `reserve` is next.

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
            schema = BlockSchema(party=self._config.name) if brought is None else self._describe_table(brought)
        except (JobError, TableError) as error:
            raise RefusalError(str(error)) from error
        self._admission.check_proposal(job, analyst, schema)
        names = {COORDINATOR: self._config.coordinator.name, **roster}
        applicant = Applicant(job_id, analyst, job, brought)
        try:
            self._accept_messages(job_id, names)  # first: an id that was used before must leave nothing behind
        except AlreadyExistsError as error:
            raise RefusalError(str(error)) from error
        self._jobs[job_id] = _AcceptedJob(applicant, names, schema, self._expire(job_id, job))
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
                if not isinstance(event, ProgressEvent):
                    yield event
                    return
                yield replace(event, waits_for=self._whom_it_waits_for(accepted))
                latest = event
        finally:  # also when the coordinator went away in the middle
            accepted.task.cancel()
            await asyncio.gather(accepted.task, return_exceptions=True)
            self.end(job_id, accepted.failure)

    @staticmethod
    def _whom_it_waits_for(accepted: _AcceptedJob) -> str:
        """Return the member for whom we have waited for half of the deadline; empty where there is none."""
        session = accepted.session
        member = None if session is None else session.waits_for(accepted.job.deadline_s / 2)
        return "" if member is None else accepted.roster[member]

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

        bound = log.bind(job=job_id)
        try:
            terms = plan.terms(accepted.applicant.analyst)
            session = self._open_session(job_id, terms, number, accepted.roster, accepted.job.deadline_s, on_progress)
        except Exception as error:  # whoever reads the events waits for the last one
            accepted.failure = text = self._public_text(error, bound.bind(stage=stage))
            accepted.events.put_nowait(FailedEvent(stage, text))
            return
        accepted.session = session
        try:
            async with self._within_limit(session, accepted.roster):
                gated = GatedSession.of_plan(session, plan, commit=lambda: self._admission.commit(accepted.applicant))
                table = None
                if accepted.applicant.brought is not None:
                    on_progress(READ_STAGE, 0, 1)
                    table = await self._tables.read(accepted.applicant.brought)
                report = await analysis_of(accepted.job).party(gated, plan, table)
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
            is_finding = isinstance(error, PeerSlowError) or not isinstance(error, PeerLostError | PeerSilentError)
            accepted.events.put_nowait(FailedEvent(error.stage, error.what, member, is_finding))
        except Exception as error:
            accepted.failure = text = self._public_text(error, bound.bind(stage=stage))
            await session.abort(text)
            accepted.events.put_nowait(FailedEvent(stage, text))
        else:
            bound.info("job finished", stage=stage)
            accepted.events.put_nowait(FinishedEvent())

    @asynccontextmanager
    async def _within_limit(self, session: JobSession, names: Mapping[int, str]) -> AsyncIterator[None]:
        """End a job that runs longer than our owner allows.

        Raises:
            PeerSilentError: it does, and we waited most of the time for one member: that one is slow.
            OverLimitError: it does, and that is our own work.
        """
        limit = asyncio.timeout(self._config.max_job_s)
        try:
            async with limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            me = self._config.name
            what = f"the job ran longer than the owner of {me} allows ({self._config.max_job_s:g} s, max_job_s)"
            slow = session.waited_most_for()
            if slow is None:
                raise OverLimitError(what) from error
            raise PeerSilentError(slow, "", f"{what}; {me} waited most of the time for {names[slow]}") from error

    def _public_text(self, error: Exception, bound: structlog.stdlib.BoundLogger) -> str:
        """Log why a job failed here, and return what others may read of it.

        What nobody foresaw, and shapes that do not fit, may depend on data, even by the kind of error.
        """
        if isinstance(error, LedgerError):
            return self._admission.explain(error)
        if isinstance(error, UnusableTableError):
            bound.warning("table cannot be used", reason=error.detail)
            return str(error)
        if isinstance(error, ProtocolError | ChargeError | OverLimitError) and not isinstance(error, LocalFaultError):
            bound.warning("job failed", reason=str(error))
            return str(error)
        bound.error("job failed unexpectedly", exc_info=error)
        return f"internal error; the log of {self._config.name} has the details"

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
