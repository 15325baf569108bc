"""A party's jobs, from the proposal to the end: what it agrees to, holds and forgets. `party.server` speaks gRPC."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

import structlog

from analyses.job.job import Job, JobError, JobInput
from analyses.job.listing import Listing
from analyses.job.plan import Plan, check_roster
from analyses.job.schema import BlockSchema, Table
from analyses.registry import analysis_of
from mpc.protocol.session import COORDINATOR
from party.admission import Admission, Applicant, RefusalError
from party.config import PartyConfig
from party.consent import BusyError, PlansDifferError, StrangersError, TableChangedError
from party.engine.engine import Engine
from party.events import FailedEvent, JobEvent
from party.job_run import LEFT_EARLY, JobRun, ReportWriter
from party.job_sessions import SessionOpener
from party.outcome.receipts import FinishedJob
from party.reading import TableReading
from party.tables.match_of_job import check_kept_match
from party.tables.table import TableError
from service.codes.coded_text import INTERNAL_CODE, coded, told
from service.errors import AlreadyExistsError, WrongStateError
from service.watch.meter import Meter
from transport.calls.peers import NoWayError, TryWays, no_ways

MAX_JOBS = 8
"""Jobs that may be proposed or running at once; further proposals are refused."""

MAX_KEPT = 2 * MAX_JOBS
"""Jobs whose part is done and that are kept until the coordinator has stored their results; the oldest of more are
forgotten."""

log = structlog.get_logger()


@dataclass
class _AcceptedJob:
    applicant: Applicant
    roster: dict[int, str]
    schema: BlockSchema
    expiry: asyncio.TimerHandle
    is_reserving: bool = False
    left: asyncio.Event = field(default_factory=asyncio.Event)  # it runs, or has ended
    plan: Plan | None = None  # once budget is reserved for it
    run: JobRun | None = None  # once it was started

    @property
    def job(self) -> Job:
        return self.applicant.job

    @property
    def is_done(self) -> bool:
        return self.run is not None and self.run.is_done


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
        meter: metrics of the service.
        engine: our workers; None where this process does all work itself.
        try_ways: reaches members before anybody pays (`PeerChannels.reach`).
    """

    def __init__(
        self,
        config: PartyConfig,
        admission: Admission,
        *,
        describe_table: Callable[[PartyConfig, JobInput], BlockSchema],
        load_table: Callable[[PartyConfig, JobInput], Table],
        accept_messages: Callable[[str, Mapping[int, str]], None],
        open_session: SessionOpener,
        close_session: Callable[[str, str | None], None],
        write_report: ReportWriter,
        meter: Meter | None = None,
        engine: Engine | None = None,
        try_ways: TryWays = no_ways,
    ) -> None:
        self._config = config
        self._admission = admission
        self._try_ways = try_ways
        self._describe_table = describe_table
        self._tables = TableReading(admission, load_table)
        self._accept_messages = accept_messages
        self._open_session = open_session
        self._close_session = close_session
        self._write_report = write_report
        self._meter = meter or Meter()
        self._engine = engine
        self._jobs: dict[str, _AcceptedJob] = {}
        self._releases: set[asyncio.Task[None]] = set()

    def use(self, config: PartyConfig) -> None:
        """Take over another configuration; jobs that run keep the one that they began with."""
        self._config = config
        self._admission.use(config)

    def listing(self, analyst: str) -> Listing:
        """Return what an analyst is told of our tables; may take a moment and runs off the event loop."""
        return self._admission.listing(analyst)

    async def propose(self, job_id: str, job_json: str, roster: Mapping[int, str], analyst: str) -> BlockSchema:
        """Check a proposed job without reading any table; its messages are accepted from then on. `reserve` is next.

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
        self._check_room(job_id)
        try:
            job = Job.from_json(job_json)
            check_roster(job, analysis_of(job).fewest_parties)
            self._check_members(job, roster)
            brought = next((i for i in job.inputs if i.party == self._config.name), None)
            schema = self._with_workers(
                BlockSchema(party=self._config.name)
                if brought is None
                else self._describe_table(self._config, brought),
                brought,
            )
        except (JobError, TableError) as error:
            raise RefusalError(told(error)) from error
        self._admission.check_proposal(job, analyst, schema)
        try:  # after the policy: whom it excludes is told nothing of what is kept
            check_kept_match(self._config, job, schema)
        except TableError as error:
            raise RefusalError(told(error)) from error
        table = None if brought is None else self._config.table_called(brought.table)
        await self._find_ways(job)
        self._check_room(job_id)  # others may have come meanwhile
        names = {COORDINATOR: self._config.coordinator.name, **roster}
        applicant = Applicant(job_id, analyst, job, brought, table)
        try:
            self._accept_messages(job_id, names)  # first, so that an id that was used before leaves nothing behind
        except AlreadyExistsError as error:
            raise RefusalError(told(error)) from error
        self._jobs[job_id] = _AcceptedJob(applicant, names, schema, self._expire(job_id, job))
        self._forget_oldest()  # here too: a coordinator that reads no further ends no call
        log.info("job accepted", job=job_id, analysis=job.analysis, stage="propose")
        return schema

    def _check_room(self, job_id: str) -> None:
        if job_id in self._jobs:
            raise RefusalError(f"job {job_id} was proposed before")
        if sum(not accepted.is_done for accepted in self._jobs.values()) >= MAX_JOBS:
            raise BusyError(f"{self._config.name} already holds {MAX_JOBS} jobs; try again later")

    async def _find_ways(self, job: Job) -> None:
        """Refuse a job whose members we do not reach, before any owner is asked."""
        try:
            await self._try_ways({self._config.coordinator.name, *job.peers_of(self._config.name)}, job.deadline_s / 2)
        except NoWayError as error:
            raise RefusalError(told(error)) from error

    def _with_workers(self, schema: BlockSchema, brought: JobInput | None) -> BlockSchema:
        """Say in our schema how many workers we have for what we bring."""
        n_workers = None if self._engine is None else self._engine.offered(self._config, brought)
        return schema if n_workers is None else schema.model_copy(update={"workers": n_workers})

    def _check_members(self, job: Job, roster: Mapping[int, str]) -> None:
        me = self._config.name
        if tuple(roster.get(number) for number in range(1, len(roster) + 1)) != job.members:
            raise RefusalError("the roster does not match the members of the job")
        if me not in job.members:
            raise RefusalError(f"{me} is not a member of this job")
        strangers = [name for name in job.members if name != me and name not in self._config.peers]
        if strangers:
            raise StrangersError(f"{me} does not compute with {', '.join(strangers)} (not among its peers)")

    def _expire(self, job_id: str, job: Job) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        return loop.call_later(2 * job.deadline_s, self.end, job_id, "it was proposed and never started")

    async def reserve(
        self, job_id: str, schemas: Sequence[BlockSchema], plan_digest: bytes
    ) -> AsyncGenerator[str, None]:
        """Agree to the plan of an accepted job and reserve privacy budget for it; then it may run. `hold` is next.

        Args:
            job_id: accepted before.
            schemas: schemas of all members in the order of the roster.
            plan_digest: digest of the coordinator's plan.

        Yields:
            Public text, while our owner is asked.

        Raises:
            RefusalError: unknown job, the plan that we compute ourselves is another one, the policy or the owner says
                no, or the budget does not cover the job. The job has ended here.
        """
        accepted = self._known(job_id)
        if accepted.is_reserving:
            raise RefusalError(f"a reservation for job {job_id} was requested before")
        accepted.is_reserving = True
        accepted.expiry.cancel()
        failure = "it was called off while it was being reserved"
        try:
            self._check_table(accepted)
            plan = await asyncio.to_thread(self._own_plan, accepted, schemas, plan_digest)
            async with aclosing(self._admission.admit(accepted.applicant, plan)) as waiting:
                async for text in waiting:
                    yield text
            if self._jobs.get(job_id) is not accepted:
                raise RefusalError(failure)
            self._check_table(accepted)  # owners take their time
            accepted.plan = plan
            accepted.expiry = self._expire(job_id, accepted.job)
            log.info("job reserved", job=job_id, stage="reserve")
        except RefusalError as error:
            failure = told(error)
            raise
        finally:
            if accepted.plan is None:
                if self._jobs.get(job_id) is accepted:
                    self.end(job_id, failure)
                else:  # it was ended while the ledger was still reserving
                    self._release(job_id, failure)

    async def hold(self, job_id: str) -> None:
        """Keep the reservation of a job until it runs or ends, however long other owners take to decide.

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

    async def run(self, job_id: str) -> AsyncIterator[list[JobEvent]]:
        """Run a reserved job; yields its progress and finally how it ended, see `JobRun.events`.

        A coordinator that went away and comes back calls it again: the job has gone on, see `JobRun.events`. Where it
        has ended well it is kept until `settle`.

        Raises:
            RefusalError: unknown job, not reserved, or its table is declared otherwise now; then it has ended here.
        """
        accepted = self._known(job_id)
        if accepted.plan is None:
            raise RefusalError(f"job {job_id} holds no privacy budget here yet")
        if accepted.run is None:
            self._check_table(accepted)
        accepted.expiry.cancel()
        accepted.left.set()
        running = accepted.run = accepted.run or self._begin(accepted, accepted.plan)
        latest: list[JobEvent] = []
        try:
            async with aclosing(running.events()) as some:
                async for latest in some:
                    yield latest
        finally:
            if latest and isinstance(latest[-1], FailedEvent):
                self.end(job_id, running.failure)
            self._forget_oldest()

    def _check_table(self, accepted: _AcceptedJob) -> None:
        """Refuse a job that was planned, and perhaps approved, for a table that its owner has changed since."""
        before = accepted.applicant.table
        if before is not None and not before.serves_jobs_as(self._config.table_called(before.name)):
            me, table = self._config.name, before.name
            what = f"the owner of {me} has changed table {table!r} since the job was planned; nothing was paid"
            error = TableChangedError(f"{what}, submit the job again")
            self.end(accepted.applicant.job_id, told(error))
            raise error

    def _begin(self, accepted: _AcceptedJob, plan: Plan) -> JobRun:
        job_id = accepted.applicant.job_id
        return JobRun(
            self._config,
            self._admission,
            self._tables,
            open_session=self._open_session,
            write_report=self._write_report,
            applicant=accepted.applicant,
            plan=plan,
            roster=accepted.roster,
            on_stage=partial(self._meter.stage, job_id, self._config.name),
            on_left=lambda: self.settle(job_id),
            engine=self._engine,
            try_ways=self._try_ways,
        )

    async def finished(self, job_id: str) -> FinishedJob:
        """Return a job whose part here is done, once it is.

        Raises:
            WrongStateError: it is unknown here, never ran, or has failed.
        """
        accepted = self._jobs.get(job_id)
        run = None if accepted is None else accepted.run
        if accepted is None or accepted.plan is None or run is None or not await run.until_done():
            raise WrongStateError(f"job {job_id} has not run to its end here")
        return FinishedJob(job_id, accepted.applicant.analyst, accepted.applicant.table, accepted.plan)

    def settle(self, job_id: str) -> None:
        """Forget a job: the coordinator has stored its result, or is gone for good. One that still runs has failed."""
        accepted = self._jobs.get(job_id)
        if accepted is not None:
            self.end(job_id, None if accepted.is_done else LEFT_EARLY)

    def _forget_oldest(self) -> None:
        kept = [job_id for job_id, accepted in self._jobs.items() if accepted.is_done]
        for job_id in kept[:-MAX_KEPT]:
            log.warning("a job is forgotten though the coordinator has not stored its result", job=job_id)
            self.settle(job_id)

    def _known(self, job_id: str) -> _AcceptedJob:
        accepted = self._jobs.get(job_id)
        if accepted is None:
            raise RefusalError(f"job {job_id} was not accepted here, or has ended")
        return accepted

    def _own_plan(self, accepted: _AcceptedJob, schemas: Sequence[BlockSchema], plan_digest: bytes) -> Plan:
        me = self._config.name
        try:
            plan = analysis_of(accepted.job).plan(accepted.job, schemas)
            digest = plan.digest()
        except JobError as error:
            raise RefusalError(told(error)) from error
        except Exception as error:
            log.error("the analysis failed to plan", job=accepted.applicant.job_id, exc_info=error)
            what = (
                f"{me} cannot plan this job, because its analysis failed unexpectedly; the log of {me} has the details"
            )
            raise RefusalError(coded(what, code=INTERNAL_CODE)) from error
        if accepted.schema not in plan.schemas:
            raise PlansDifferError(f"the coordinator's schema of {me} differs from the one that {me} sent")
        if digest != plan_digest:
            raise PlansDifferError(
                f"the plan that {me} computed differs from the coordinator's: install the same version at both"
            )
        return plan

    def end(self, job_id: str, reason: str | None) -> None:
        """Remove a job and stop it if it runs; unknown jobs are ignored. Without a reason it has simply ended."""
        accepted = self._jobs.pop(job_id, None)
        if accepted is None:
            return
        accepted.expiry.cancel()
        accepted.left.set()
        if accepted.run is not None:
            accepted.run.cancel(reason or "the job has ended")
            self._meter.job_ended(job_id, "DONE" if reason is None else "FAILED", reason or "")
            self._meter.stages_ended(job_id)
        self._close_session(job_id, reason)
        self._release(job_id, reason or "it ended without opening anything")
        log.info("job ended", job=job_id, reason=reason or "done")

    def _release(self, job_id: str, reason: str) -> None:
        """Release the reservation of a job that was not committed, in the background."""
        task = asyncio.create_task(self._admission.release(job_id, reason))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def end_all(self, reason: str) -> None:
        """End every job, because the service stops, and wait until the ledger knows."""
        for job_id in list(self._jobs):
            self.end(job_id, reason)
        await asyncio.gather(*self._releases)
