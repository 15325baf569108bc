"""One job from proposal to end: proposes it, plans it, runs the coordinator's part, and attributes failures."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from analyses.job.job import Job, JobError
from analyses.job.plan import OPENING_STAGE, Plan
from analyses.registry import analysis_of
from coordinator.evidence import NO_FAULT, Evidence, Verdict, fallen_silent
from coordinator.final_messages import report_end
from coordinator.journal import Journal
from coordinator.proposal import JobFailedError, Proposal, RosterParty
from coordinator.receipts import with_receipts
from coordinator.report_limits import Allowance, Pace
from coordinator.resumption import GOES_ON, LeftBehind, events_of
from coordinator.state import State
from coordinator.store import StoreWriteError
from entropy import Entropy
from mpc.errors import ProtocolError
from mpc.protocol.session import COORDINATOR
from service.codes.coded_text import INTERNAL_CODE, coded, told
from service.errors import ServiceError
from service.identity import Identity
from service.watch.meter import Meter
from transport.calls.party_client import Failed, Finished, PartyEvent, Progressed
from transport.messages.inbox import Inbox
from transport.messages.mailbox import Mailboxes
from transport.messages.session import GrpcSession

FINISH_S = 10.0
"""Seconds that parties have to finish once the result is complete."""

SETTLE_S = 2.0
"""Seconds to wait for the parties' reports after a failure."""

WRITE_PAUSE_S = 1.0
MAX_WRITE_PAUSE_S = 30.0
"""How long to wait before trying again to write the end of a job: twice as long each time, up to the longest."""

MAX_JOB_S = 14_400.0

_NEVER_S = 1e9  # the coordinator waits for the opening as long as parties show signs of life: see _watch
_BUG = coded("internal error of the coordinator; its log has the details", code=INTERNAL_CODE)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Ending:
    state: State
    verdict: Verdict
    result_json: str = ""


class JobRunner:
    """Runs one stored job, once; or goes on with one that an earlier process left behind.

    Args:
        job_id: the job, in state SUBMITTED unless it was left behind.
        job: what was asked for.
        analyst: who asked; the parties are told.
        identity: the coordinator's.
        parties: parties of the job, by member number, from 1.
        journal: where its life is written.
        mailboxes: where parties deliver.
        entropy: the coordinator's randomness; the protocols give it little to do.
        max_job_s: a job that runs for longer is broken off.
        job_memory_mib: a job that would take more MiB of this coordinator is refused; None for its machine's memory.
        meter: metrics of the service.
        left: how an earlier process left the job behind, in state RUNNING or OPENING; None for a new job.
    """

    def __init__(
        self,
        job_id: str,
        job: Job,
        *,
        analyst: str,
        identity: Identity,
        parties: Mapping[int, RosterParty],
        journal: Journal,
        mailboxes: Mailboxes,
        entropy: Entropy,
        max_job_s: float = MAX_JOB_S,
        job_memory_mib: int | None = None,
        meter: Meter | None = None,
        left: LeftBehind | None = None,
    ) -> None:
        self.job_id = job_id
        self._job = job
        self._analyst = analyst
        self._meter = meter or Meter()
        self._proposal = Proposal(
            job_id,
            job,
            analyst=analyst,
            coordinator=identity.name,
            job_memory_mib=job_memory_mib,
            parties=parties,
            on_waiting=self._wait_for_owner,
            on_retry=self._meter.retried,
        )
        self._parties = dict(parties)
        self._names = {COORDINATOR: identity.name, **{number: p.identity.name for number, p in parties.items()}}
        self._journal = journal
        self._mailboxes = mailboxes
        self._entropy = entropy
        self._max_job_s = max_job_s
        self._running_since_s: float | None = None
        self._slow = ("", float("-inf"))  # a party that is slow, and when this was last reported
        self._left = left
        self._state = State.SUBMITTED if left is None else left.state
        self._answered = {number: asyncio.Event() for number in parties}  # set where a party says how its run goes
        self._stopped: asyncio.Future[_Ending] = asyncio.get_running_loop().create_future()
        self._session: GrpcSession | None = None
        self._followers: list[asyncio.Task[None]] = []
        self._said = {name: Allowance() for name in self._names.values()}
        self._log = _log.bind(job=job_id)
        self.unwritten = asyncio.Event()
        """Set when the job has ended, but its end cannot be written to the store yet."""
        self.on_waiting: Callable[[], None] = lambda: None
        """Called when the job begins to wait for owners of data."""

    @property
    def waits_for_owners(self) -> bool:
        """Whether the job only waits for owners' approvals, so that nothing computes."""
        return self._proposal.waits_for_owners

    @property
    def members(self) -> frozenset[str]:
        """Names of the job's parties."""
        return frozenset(self._job.members)

    @property
    def asked_parties(self) -> frozenset[str]:
        """Names of the parties whose owners are being asked."""
        return self._proposal.waiting_parties

    @property
    def slow_party(self) -> str:
        """Name of the party that the others have recently waited for; empty if there is none."""
        name, seen_at_s = self._slow
        return name if self._now_s() - seen_at_s <= 2 * self._job.deadline_s else ""

    @property
    def runs_for_s(self) -> float:
        """Seconds since the parties were told to run; 0 before."""
        return 0.0 if self._running_since_s is None else self._now_s() - self._running_since_s

    def stop(self, state: State, reason: str) -> None:
        """Abort the job; `run` returns soon after.

        Args:
            state: FAILED or CANCELLED.
            reason: public text.
        """
        if not self._stopped.done():
            self._stopped.set_result(_Ending(state, Verdict(reason)))

    async def run(self) -> None:
        """Run the job to its end. Failures end the job and are not raised, except errors of the store."""
        work = asyncio.create_task(self._work())
        await asyncio.wait((work, self._stopped), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            await asyncio.wait((work,))
        ending = self._stopped.result() if work.cancelled() else work.result()
        await self._end(ending)

    async def _work(self) -> _Ending:
        try:
            result_json = await self._compute(await self._agreed_plan())
        except JobFailedError as error:
            return _Ending(State.FAILED, error.verdict if self._left is None else self._left.verdict(error.verdict))
        except Exception as error:
            self._log.exception("job failed by a bug", error=type(error).__name__)
            return _Ending(State.FAILED, Verdict(_BUG))
        return _Ending(State.DONE, NO_FAULT, result_json)

    async def _agreed_plan(self) -> Plan:
        """Return the plan that all parties have agreed to, in this process or before."""
        if self._left is not None:
            return await self._left.agreed_plan()
        self._step(State.PROPOSED)
        plan = await self._proposal.plan(await self._proposal.propose())
        await self._proposal.reserve(plan)
        return plan

    def _wait_for_owner(self, name: str, text: str) -> None:
        self._record_progress(name, "approval", text=text)
        self.on_waiting()

    async def _compute(self, plan: Plan) -> str:
        """Run all parties and the coordinator's part; return the result as JSON."""
        self._begin_run(plan)
        inbox = self._mailboxes.open(self.job_id, {p.identity: number for number, p in self._parties.items()})
        session = self._session = self._open_session(inbox, plan.terms(self._analyst))
        self._running_since_s = self._now_s()
        evidence = Evidence(tuple(self._names[number] for number in self._parties), self._now_s())
        self._followers = [asyncio.create_task(self._follow(number, session, evidence)) for number in self._parties]
        watching = asyncio.create_task(self._watch(session, evidence))
        for task in (*self._followers, watching):
            task.add_done_callback(self._stop_if_broken)
        limit = asyncio.timeout(self._max_job_s)
        try:
            async with limit:
                if self._left is not None:
                    await self._left.until_answered(self._answered.values())
                result = await analysis_of(self._job).coordinator(session, plan)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise JobFailedError(evidence.overtime(self._max_job_s)) from error
        except (JobError, ProtocolError, ServiceError) as error:
            await self._settle(evidence)
            raise JobFailedError(evidence.verdict() or self._verdict_of(error)) from error
        finally:
            watching.cancel()
        self._name_liars(result.get("wrong_shares_from", ()))
        return await with_receipts(self.job_id, result, self._parties.values(), evidence)

    def _begin_run(self, plan: Plan) -> None:
        survival = analysis_of(self._job).survival(self._job)
        if self._left is not None:
            self._meter.job_began(self.job_id)
            self._record_progress(self._names[COORDINATOR], "", text=GOES_ON)
            return
        self._step(
            State.RUNNING,
            plan_json=plan.canonical_json(),
            text=f"{plan.n_parties} compute parties, of which {self._job.t} may collude; {survival.in_words}",
        )

    def _name_liars(self, names: Sequence[str]) -> None:
        """Record whose shares were corrected: the job continues, but its participants should know."""
        for name in names:
            self._log.warning("party sent corrupted shares, which were corrected", party=name, stage=OPENING_STAGE)
            self._record_progress(name, OPENING_STAGE, text=f"party {name} sent corrupted shares, which were corrected")

    def _open_session(self, inbox: Inbox, terms: bytes) -> GrpcSession:
        return GrpcSession(
            job_id=self.job_id,
            terms=terms,
            me=COORDINATOR,
            names=self._names,
            entropy=self._entropy,
            deadline_s=_NEVER_S,
            transfer_s=self._job.deadline_s,
            inbox=inbox,
            channels={number: party.channel for number, party in self._parties.items()},
            on_progress=lambda stage, done, total: self._record_progress(
                self._names[COORDINATOR], stage, 100 * done // max(total, 1) // 25 * 25
            ),
        )

    async def _follow(self, number: int, session: GrpcSession, evidence: Evidence) -> None:
        """Read what one party tells of its run until it ends."""
        name, pace = self._names[number], Pace(self._now_s())
        try:
            async for event in events_of(self._parties[number], self.job_id, self._left):
                self._answered[number].set()
                self._receive_event(name, event, evidence)
                if pause_s := pace.pause_s(self._now_s()):
                    await asyncio.sleep(pause_s)
                if isinstance(event, Failed):
                    self._lose(name, event.reason, session, evidence)
        except ServiceError as error:
            evidence.broke(name, told(error))
            self._record_progress(name, "", text=f"party {name} went away: {told(error)}")
            self._log.warning("party went away", party=name, cause=str(error))
            self._lose(name, told(error), session, evidence)
        finally:
            self._answered[number].set()

    def _lose(self, name: str, reason: str, session: GrpcSession, evidence: Evidence) -> None:
        """Continue without a party. End the run once t or fewer parties are left, because they cannot open anything."""
        numbers = {name: number for number, name in self._names.items()}
        session.mark_lost(numbers[name], reason)
        left = [other for other in self._job.compute_parties if not evidence.is_out(other)]
        if len(left) <= self._job.t:
            for other in left:
                session.mark_lost(numbers[other], "too few parties are left")

    def _receive_event(self, name: str, event: PartyEvent, evidence: Evidence) -> None:
        match event:
            case Progressed(stage, percent, waits_for):
                evidence.reported(name, stage, self._now_s(), waits_for)
                if waits_for and (slow := evidence.slow_party()):
                    self._slow = (slow, self._now_s())
                if stage == OPENING_STAGE:
                    with suppress(StoreWriteError):  # it is reported again at the end
                        self._open()
                self._record_progress(name, stage, percent)
            case Finished():
                evidence.finished(name, self._now_s())
            case Failed(stage, reason, culprit, is_finding):
                evidence.failed(name, stage, reason, culprit, is_finding=is_finding)
                self._record_progress(name, stage, text=f"party {name} failed: {reason}")
                self._log.warning("party failed", party=name, stage=stage, reason=reason, culprit=culprit)

    async def _watch(self, session: GrpcSession, evidence: Evidence) -> None:
        async for name in fallen_silent(evidence, self._job.deadline_s):
            if name is None:
                for number in self._parties:
                    session.mark_lost(number, "it has finished, but what it had to send did not arrive")
                continue
            what = f"no sign of life for {self._job.deadline_s:g} s"
            self._log.warning("party stalled", party=name, what=what)
            self._lose(name, what, session, evidence)
            self._record_progress(name, "", text=f"party {name} gave {what}")

    def _stop_if_broken(self, task: "asyncio.Task[None]") -> None:
        """A pending message that can no longer arrive, so that the job would wait for ever."""
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._log.error("job failed by a bug", exc_info=bug)
            self.stop(State.FAILED, _BUG)

    async def _settle(self, evidence: Evidence) -> None:
        """After a failure, wait for the parties' reports before attributing it."""
        if not evidence.is_first_hand:
            await asyncio.wait(self._followers, timeout=SETTLE_S)

    def _verdict_of(self, error: Exception) -> Verdict:
        """Attribute a failure by the coordinator's own part, if no party reported one."""
        member = getattr(error, "member", None)
        return Verdict(told(error), self._names.get(member, "") if member else "", getattr(error, "stage", ""))

    async def _end(self, ending: _Ending) -> None:
        is_written = self._write_end(ending)
        if self._session is not None:
            self._meter.traffic("sent", self._session.sent_bytes_by_name)
            self._meter.traffic("received", self._session.received_bytes_by_name)
        reason = ending.verdict.reason
        if ending.state is State.DONE:
            await self._let_parties_finish()
        else:
            if self._session is not None:
                await self._session.abort(reason)
            await report_end(self.job_id, self._parties.values(), reason)
        self._mailboxes.close(self.job_id, reason or None)
        for follower in self._followers:
            follower.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)
        pause_s = WRITE_PAUSE_S
        while not is_written:  # the cost of the result is committed, and people wait for the end
            self.unwritten.set()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_WRITE_PAUSE_S)
            is_written = self._write_end(ending)
        if ending.state is State.DONE:
            await report_end(self.job_id, self._parties.values(), "")

    def _write_end(self, ending: _Ending) -> bool:
        """Record how the job ended; return whether the store could be written."""
        what = {"reason": ending.verdict.reason, "culprit": ending.verdict.culprit, "stage": ending.verdict.stage}
        try:
            if ending.state is State.DONE:
                self._open()
            self._step(ending.state, **what, result_json=ending.result_json)
        except StoreWriteError as error:
            self._log.error("the end of the job cannot be written yet", state=ending.state, cause=str(error), **what)
            return False
        return True

    async def _let_parties_finish(self) -> None:
        assert self._session is not None
        try:
            async with asyncio.timeout(FINISH_S):
                await self._session.finish()
                await asyncio.wait(self._followers)
        except (TimeoutError, ProtocolError) as error:
            self._log.warning("not all parties finished with the job", cause=str(error))

    def _open(self) -> None:
        if self._state is State.RUNNING:
            self._step(State.OPENING)

    def _step(self, state: State, **what: Any) -> None:
        self._journal.step(self.job_id, state, **what)
        self._state = state
        self._log.info(
            "job is " + state, reason=what.get("reason"), culprit=what.get("culprit"), stage=what.get("stage")
        )

    def _record_progress(self, name: str, stage: str, percent: int = 0, *, text: str = "") -> None:
        if self._state.has_ended or not self._said[name].admits(stage, percent, text):
            return
        self._journal.record_progress(self.job_id, stage=stage, member=name, percent=percent, text=text)

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()
