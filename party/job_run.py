"""One job that runs: its session, the owner's table, the analysis behind its gate, and the events that tell of it."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial

import structlog

from analyses.job.plan import Plan
from analyses.job.schema import LocalReport
from analyses.registry import analysis_of
from ledger.books import ChargeError
from ledger.entry import LedgerError
from mpc.errors import LocalFaultError, PeerError, PeerLostError, PeerSilentError, ProtocolError
from mpc.progress import Quarters
from mpc.protocol.session import COORDINATOR
from party.admission import Admission, Applicant
from party.config import PartyConfig
from party.engine.engine import Engine, workers_of_job
from party.events import FailedEvent, FinishedEvent, JobEvent, ProgressEvent, events_together
from party.gate import GatedSession
from party.job_sessions import JobSession, OverLimitError, SessionOpener
from party.reading import TableReading, words_for_shares
from party.tables.match_of_job import MatchOfJob
from party.tables.sources.source import SourceError
from party.tables.table import UnusableTableError
from service.codes.coded_text import INTERNAL_CODE, coded, told
from transport.calls.peers import NoWayError, TryWays, no_ways

HEARTBEATS_PER_DEADLINE = 8
READ_STAGE = "reading"
"""The stage in which a party reads its table: the first of a job that runs."""

LEFT_EARLY = coded(
    "the coordinator asks for no more of the job: it has gone away, or has ended the job for all",
    code="coordinator-left",
)

KEPT_S = 86_400.0
"""Seconds that a party which has done its part keeps what it sent to a coordinator that has gone away: by then its
result is paid for, and nobody else can give it again."""

log = structlog.get_logger()


ReportWriter = Callable[[PartyConfig, str, Plan, LocalReport, float], None]
"""Given the owner's file as it was when the job began, the job's id, its plan,
the report of the analysis and the seconds that the job took."""


class JobRun:
    """The run of one job, from its start to its last event. It starts when it is made.

    Args:
        config: the owner's file.
        admission: commits the cost and explains refusals of the ledger.
        tables: reads the owner's tables.
        open_session: makes our end of the session.
        write_report: keeps the party-local report.
        applicant: the job and who brings it.
        plan: the plan that budget is reserved for.
        roster: member number to name, with the coordinator.
        on_stage: told each stage, at its first report and later ones.
        on_left: called when the coordinator went away and did not return in time.
        engine: our workers; None where this process does all work itself.
        try_ways: reaches the other members before anything leaves us.

    Attributes:
        failure: the public text of why it failed; None as long as it has not.
    """

    def __init__(
        self,
        config: PartyConfig,
        admission: Admission,
        tables: TableReading,
        *,
        open_session: SessionOpener,
        write_report: ReportWriter,
        applicant: Applicant,
        plan: Plan,
        roster: Mapping[int, str],
        on_stage: Callable[[str], None] = lambda stage: None,
        on_left: Callable[[], None] = lambda: None,
        engine: Engine | None = None,
        try_ways: TryWays = no_ways,
    ) -> None:
        self.failure: str | None = None
        self._done = asyncio.Event()
        self._config = config
        self._admission = admission
        self._tables = tables
        self._open_session = open_session
        self._write_report = write_report
        self._applicant = applicant
        self._plan = plan
        self._roster = roster
        self._on_stage = on_stage
        self._number = applicant.job.members.index(config.name) + 1
        self._on_left = on_left
        self._engine = engine
        self._try_ways = try_ways
        self._latest = ProgressEvent("start", 0)
        self._last: JobEvent | None = None  # how it ended
        self._listener: asyncio.Queue[JobEvent | None] | None = None
        self._has_listened = False
        self._present = asyncio.Event()
        self._absence: asyncio.TimerHandle | None = None
        self._again: asyncio.Task[None] | None = None
        self._session: JobSession | None = None
        self._stage, self._quarters = "start", Quarters()
        self._log = log.bind(job=applicant.job_id)
        self._task = asyncio.create_task(self._work())

    @property
    def is_done(self) -> bool:
        """Whether our part is done; what we sent is kept until the coordinator has stored its result."""
        return self._done.is_set()

    async def until_done(self) -> bool:
        """Wait until our part is done, or cannot be any more; return which."""
        done = asyncio.create_task(self._done.wait())
        await asyncio.wait((done, self._task), return_when=asyncio.FIRST_COMPLETED)
        done.cancel()
        return self.is_done

    async def events(self) -> AsyncGenerator[list[JobEvent], None]:
        """Yield the job's progress and at last how it ended, to a coordinator that begins or returns.

        See `events_together` for what is in one list.

        Who leaves early may return, until the job's deadline has passed; where we have done our part, for KEPT_S. Who
        comes while another call listens takes its place: it is the same coordinator, whose connection broke unnoticed.
        """
        deadline_s = self._applicant.job.deadline_s
        mine = self._listener = self._begin_listening()
        told_at_s = -math.inf
        try:
            while True:
                events = await events_together(mine, deadline_s / HEARTBEATS_PER_DEADLINE, told_at_s)
                if not events:
                    events = [self._latest]  # a long computation is no silence
                if None in events:
                    return
                told_at_s = asyncio.get_running_loop().time()
                waits_for = self._whom_it_waits_for(deadline_s / 2)
                yield [replace(e, waits_for=waits_for) if isinstance(e, ProgressEvent) else e for e in events if e]
                if not isinstance(events[-1], ProgressEvent):
                    return
        finally:  # also when the coordinator went away in the middle
            if self._listener is mine:
                self._begin_absence()
            if isinstance(self._last, FailedEvent):
                await asyncio.gather(self._task, return_exceptions=True)

    def _begin_listening(self) -> "asyncio.Queue[JobEvent | None]":
        events: asyncio.Queue[JobEvent | None] = asyncio.Queue()
        if self._listener is not None:
            self._listener.put_nowait(None)
        if self._absence is not None:
            self._absence.cancel()
            self._absence = None
        if self._has_listened:
            events.put_nowait(self._latest)
            if self._again is not None:
                self._again.cancel()
            if not isinstance(self._last, FailedEvent):  # after a failure nothing leaves us any more
                self._again = asyncio.create_task(self._begin_again())
        if self._last is not None:
            events.put_nowait(self._last)
        self._has_listened = True
        self._present.set()
        return events

    def _begin_absence(self) -> None:
        """Wait for the coordinator to come back: it has gone away, or needs no more."""
        self._listener = None
        if isinstance(self._last, FailedEvent):
            return
        if self._absence is not None:
            self._absence.cancel()
        self._present.clear()
        if self._session is not None:
            self._session.hold(COORDINATOR)
        wait_s = KEPT_S if self.is_done else self._applicant.job.deadline_s
        self._absence = asyncio.get_running_loop().call_later(wait_s, self._give_up)

    def _give_up(self) -> None:
        if not self.is_done:
            self.failure = LEFT_EARLY
            self._log.warning("job failed", stage=self._stage, reason=LEFT_EARLY)
        self._on_left()

    async def _begin_again(self) -> None:
        """Send the coordinator all again, which has restarted, or lost its connection to us."""
        if self._session is None:
            return
        self._log.info("the coordinator is back, and is sent all again", stage=self._stage)
        try:
            await self._session.begin_again(COORDINATOR)
        except ProtocolError as error:
            self.failure = told(error)
            self.cancel(self.failure)

    def _tell(self, event: JobEvent) -> None:
        if isinstance(event, ProgressEvent):
            self._latest = event
        elif self._last is None:
            self._last = event
        if self._listener is not None:
            self._listener.put_nowait(event)

    def cancel(self, reason: str) -> None:
        """Stop it, unless it has ended by itself; the reason is public."""
        for waiting in (self._absence, self._again):
            if waiting is not None:
                waiting.cancel()
        if not self._task.done():
            self._tell(FailedEvent("", reason))
            self._task.cancel()

    def _begin_to_keep(self) -> None:
        """Our part is done: from now on it counts what the coordinator needs, and no more what we still do."""
        self._done.set()
        if self._absence is not None:
            self._begin_absence()

    def _whom_it_waits_for(self, least_s: float) -> str:
        """Return the member for whom we have waited for so long; empty where there is none."""
        member = None if self._session is None else self._session.waits_for(least_s)
        return "" if member is None else self._roster[member]

    def _on_progress(self, stage: str, done: int, total: int) -> None:
        self._stage = stage
        self._on_stage(stage)
        for percent in self._quarters.passed(stage, done, total):
            self._tell(ProgressEvent(stage, percent))

    async def _work(self) -> None:
        started_s = time.monotonic()
        job_id, job, plan = self._applicant.job_id, self._applicant.job, self._plan
        try:
            terms = plan.terms(self._applicant.analyst)
            session = self._open_session(job_id, terms, self._number, self._roster, job.deadline_s, self._on_progress)
        except Exception as error:  # readers of the events wait for the last one
            self.failure = self._public_text(error)
            self._tell(FailedEvent(self._stage, self.failure))
            return
        self._session = session
        session.on_violation(self._fail_by)
        try:
            async with self._within_limit(session):
                ways = {self._config.coordinator.name, *job.peers_of(self._config.name)}
                await self._try_ways(ways, job.deadline_s / 2)
                report = await self._compute(session)
                await asyncio.to_thread(self._keep_report, report, time.monotonic() - started_s)
            self._begin_to_keep()
            await self._finish(session)
        except asyncio.CancelledError:
            await session.abort(self.failure or "the job was cancelled")
            raise
        except (KeyboardInterrupt, SystemExit):
            raise
        except PeerError as error:
            await self._abort(session, self._failure_by(error))
        except BaseException as error:  # libraries panic with errors that are no `Exception`
            is_finding = isinstance(error, ProtocolError) and error.is_finding
            await self._abort(session, FailedEvent(self._stage, self._public_text(error), is_finding=is_finding))
        else:
            self._log.info("job finished", stage=self._stage)
            self._tell(FinishedEvent())

    async def _compute(self, session: JobSession) -> LocalReport:
        """Read our table, run our part of the analysis behind the gate, and let the others open."""
        plan, brought, job = self._plan, self._applicant.brought, self._applicant.job
        try:  # before the table is read, so that what workers read is of the same version
            workers = workers_of_job(self._engine, self._config, plan, self._number, brought, session.count_traffic)
        except SourceError as error:
            raise UnusableTableError(f"the table of party {self._config.name!r}", str(error)) from None
        table, match = None, None
        if brought is not None:
            self._on_progress(READ_STAGE, 0, 1)
            match = None if job.matching is None else await asyncio.to_thread(MatchOfJob.begin, self._config, job)
            table = await self._tables.read(self._config, brought)
            table = table if match is None else await asyncio.to_thread(match.given_to, table)
            table = replace(table, failures=Counter())  # of this job alone

        def commit() -> None:
            job_id = self._applicant.job_id
            # Before anything is opened, so that whoever sees the result can name the match.
            with nullcontext() if match is None or table is None else match.kept_with(job_id, table):
                self._admission.commit(self._applicant)

        gated = GatedSession.of_plan(
            session,
            plan,
            commit=commit,
            until_wanted=self._present.wait,
            row_workers=workers,
            keep_words=partial(words_for_shares, self._config),
        )
        report = await analysis_of(job).party(gated, plan, table)
        if table is not None:
            report = replace(
                report,
                gaps=table.gaps,
                others=table.others,
                filtered=table.filtered,
                left_out=table.left_out,
                merged=table.merged,
                failures=dict(table.failures),
            )
            if table.failures:
                self._log.error("own values raised errors, and zeros stood for them", classes=sorted(table.failures))
        await gated.open()
        return report

    def _keep_report(self, report: LocalReport, elapsed_s: float) -> None:
        """Store the report. An error does not fail the job, because it may depend on what the report holds."""
        try:
            self._write_report(self._config, self._applicant.job_id, self._plan, report, elapsed_s)
        except (OSError, ValueError) as error:
            reason = str(error) if isinstance(error, OSError) else type(error).__name__
            self._log.error("report not kept", reason=reason)

    def _failure_by(self, error: PeerError) -> FailedEvent:
        """Log that another member has failed, and return what others may read of it."""
        notes = "; ".join(getattr(error, "__notes__", ()))  # of rows that differ, for our eyes only
        member = self._roster[error.member]
        self._log.warning("job failed", stage=error.stage, reason=error.what, member=member, notes=notes)
        return FailedEvent(error.stage, coded(error.what, code=error.code), member, error.is_finding)

    def _fail_by(self, error: PeerError) -> None:
        """End the job at once, whomever it waits for: the coordinator has broken the protocol."""
        if self.failure is None and not self._task.done():
            event = self._failure_by(error)
            self.failure = event.reason
            self._tell(event)
            self._task.cancel()

    async def _abort(self, session: JobSession, event: FailedEvent) -> None:
        self.failure = event.reason
        await session.abort(event.reason)
        self._tell(event)

    @asynccontextmanager
    async def _within_limit(self, session: JobSession) -> AsyncIterator[None]:
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
            text = f"{what}; {me} waited most of the time for {self._roster[slow]}"
            raise PeerSilentError(slow, "", text) from error

    def _public_text(self, error: BaseException) -> str:
        """Log why a job failed here, and return the text that others may read.

        Unforeseen errors and shape errors may depend on data, even in their type, so they get a fixed text.
        """
        bound = self._log.bind(stage=self._stage)
        if isinstance(error, LedgerError):
            return self._admission.explain(error)
        if isinstance(error, UnusableTableError):
            bound.warning("table cannot be used", reason=error.detail, see="moiety doctor")
            return told(error)
        if isinstance(error, ProtocolError | ChargeError | OverLimitError | NoWayError) and not isinstance(
            error, LocalFaultError
        ):
            bound.warning("job failed", reason=told(error))
            return told(error)
        bound.error("job failed unexpectedly", exc_info=error)
        return coded(f"internal error; the log of {self._config.name} has the details", code=INTERNAL_CODE)

    async def _finish(self, session: JobSession) -> None:
        """Wait until the others have received everything. A party that has dropped out meanwhile needs nothing more."""
        try:
            await session.finish()
        except (PeerLostError, PeerSilentError) as error:
            if error.member == COORDINATOR:
                raise
            self._log.warning("a party dropped out before the end", reason=error.what)
