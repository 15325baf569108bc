"""The proposal of a job to its parties: they accept or refuse it, and reserve privacy budget for its plan."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from analyses.job.distance import check_memory
from analyses.job.job import Job, JobError
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema
from analyses.registry import analysis_of
from coordinator.evidence import Verdict
from coordinator.report_limits import MAX_RESERVE_MESSAGES, MAX_SCHEMA_BYTES
from mpc.errors import ProtocolError
from service.codes.coded_text import coded, joined, told
from service.errors import ServiceError
from service.identity import Identity
from service.reach.relays import Way
from transport.calls.channel import told_name
from transport.calls.party_client import Accepted, PartyClient, Refused, Reserved, Waiting
from transport.calls.way import wait_until_reachable

REACH_S = 8.0
"""Seconds to wait for an unreachable party when a job is proposed: longer than any pause between connection
attempts."""


@dataclass(frozen=True)
class RosterParty:
    """A party of the roster, and how to reach it."""

    identity: Identity
    address: Way
    channel: Any

    @cached_property
    def client(self) -> PartyClient:
        """Calls to it."""
        return PartyClient(told_name(self.identity.name, self.channel), self.channel)


class JobFailedError(Exception):
    """The job cannot go on; the verdict is public."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


class Proposal:
    """Proposes one job to its parties, concurrently.

    Args:
        job_id: the job.
        job: what was asked for.
        analyst: who asked; the parties are told.
        coordinator: this coordinator's name.
        parties: parties of the job, by member number, from 1.
        on_retry: called with the name of a party that is not reached at once, at each further attempt.
        on_waiting: called when a party begins to wait for its owner, with its name and public text.
        job_memory_mib: MiB that a job may take of this coordinator; None for all of its machine.
    """

    def __init__(
        self,
        job_id: str,
        job: Job,
        *,
        analyst: str,
        coordinator: str,
        parties: Mapping[int, RosterParty],
        on_waiting: Callable[[str, str], None],
        on_retry: Callable[[str], None] = lambda name: None,
        job_memory_mib: int | None = None,
    ) -> None:
        self._job_id = job_id
        self._job = job
        self._analyst = analyst
        self._coordinator = coordinator
        self._job_memory_mib = job_memory_mib
        self._parties = list(parties.values())
        self._members = {number: party.identity.name for number, party in parties.items()}
        self._on_waiting = on_waiting
        self._on_retry = on_retry
        self._waiting: set[str] = set()

    @property
    def waits_for_owners(self) -> bool:
        """Whether the job only waits for owners' approvals."""
        return bool(self._waiting)

    @property
    def waiting_parties(self) -> frozenset[str]:
        """Names of the parties whose owners are being asked."""
        return frozenset(self._waiting)

    async def propose(self) -> list[BlockSchema]:
        """Reach all parties, offer them the job and return their schemas by number.

        None is offered a job before all are reached: each tries whether it reaches the others.

        Raises:
            JobFailedError: some do not answer in time, or refuse; all of them are named.
        """
        unreached = await asyncio.gather(*map(self._reach, self._parties))
        _check_refusals([verdict for verdict in unreached if verdict is not None], "proposal")
        answers = await asyncio.gather(*map(self._ask, self._parties))
        schemas = [answer for answer in answers if isinstance(answer, BlockSchema)]
        _check_refusals([answer for answer in answers if isinstance(answer, Verdict)], "proposal")
        return schemas

    async def _reach(self, party: RosterParty) -> Verdict | None:
        name = party.identity.name
        try:
            await wait_until_reachable(
                party.channel,
                peer=name,
                address=party.address,
                deadline_s=min(REACH_S, self._job.deadline_s),
                on_retry=self._on_retry,
            )
        except ServiceError as error:
            return Verdict(f"party {name}: {told(error)}", name)
        return None

    async def _ask(self, party: RosterParty) -> BlockSchema | Verdict:
        name = party.identity.name
        try:
            answer = await party.client.propose(
                self._job_id,
                self._job.canonical_json(),
                self._members,
                analyst=self._analyst,
                timeout_s=self._job.deadline_s,
            )
        except ServiceError as error:
            return Verdict(f"party {name}: {told(error)}", name)
        if isinstance(answer, Refused):
            return Verdict(f"party {name} refused: {answer.reason or 'it gave no reason'}", name)
        return self._schema_of(name, answer)

    def _schema_of(self, name: str, answer: Accepted) -> BlockSchema | Verdict:
        if len(answer.schema_json) > MAX_SCHEMA_BYTES:
            return _unfit(name, f"its schema has more than {MAX_SCHEMA_BYTES} bytes")
        try:
            schema = BlockSchema.model_validate_json(answer.schema_json)
        except ValidationError:
            return _unfit(name, "its schema is not valid")
        if schema.party != name:
            return _unfit(name, f"with the schema of {schema.party}")
        return schema

    async def plan(self, schemas: Sequence[BlockSchema]) -> Plan:
        """Return the plan of the job.

        Raises:
            JobFailedError: there is none, or the job would take more memory of this coordinator than it may.
        """
        try:
            return await asyncio.to_thread(self._planned, schemas)
        except (JobError, ProtocolError) as error:
            raise JobFailedError(Verdict(told(error), stage="plan")) from error

    def _planned(self, schemas: Sequence[BlockSchema]) -> Plan:
        plan = analysis_of(self._job).plan(self._job, schemas)
        work = analysis_of(self._job).work(plan)
        n_bytes = None if work is None else work.coordinator_bytes
        check_memory(self._coordinator, n_bytes, self._job_memory_mib, len(plan.column_names))
        return plan

    async def reserve(self, plan: Plan) -> None:
        """Ask all parties to agree to the plan and reserve privacy budget for it. Owners of data have no deadline.

        The first refusal ends the proposal, and no other owner is asked any more. A party that has agreed keeps its
        reservation as long as we listen to it, and gives it up soon after that if the job does not run.

        Raises:
            JobFailedError: a party refuses, does not answer, or drops out before all have agreed.
        """
        schemas_json = [schema.canonical_json() for schema in plan.schemas]
        digest = plan.digest()
        agreed = [asyncio.Event() for _ in self._parties]
        holding = [
            asyncio.create_task(self._reserve_at(party, schemas_json, digest, event))
            for party, event in zip(self._parties, agreed, strict=True)
        ]
        everybody = asyncio.create_task(_all_set(agreed))
        try:
            await asyncio.wait((everybody, *holding), return_when=asyncio.FIRST_COMPLETED)
            if not everybody.done():
                _check_refusals([task.result() for task in holding if task.done()], "reservation")
        finally:
            for task in (everybody, *holding):
                task.cancel()

    async def _reserve_at(
        self, party: RosterParty, schemas_json: Sequence[str], digest: bytes, agreed: asyncio.Event
    ) -> Verdict:
        """Ask one party and keep listening once it has agreed. Returns why it holds no reservation any more."""
        name, n_messages = party.identity.name, 0
        try:
            async with asyncio.timeout(self._job.deadline_s) as silence:
                async for answer in party.client.reserve(self._job_id, schemas_json, digest):
                    n_messages += 1
                    if n_messages > MAX_RESERVE_MESSAGES:
                        what = f"sent more than {MAX_RESERVE_MESSAGES} messages without answering the plan"
                        return Verdict(f"party {name} {what}", name)
                    match answer:
                        case Waiting(text):
                            silence.reschedule(None)  # a lost connection ends the stream
                            self._waiting.add(name)
                            self._on_waiting(name, text or f"{name} waits for its owner's approval")
                        case Refused(reason):
                            return Verdict(f"party {name} refused: {reason or 'it gave no reason'}", name)
                        case Reserved():
                            silence.reschedule(None)
                            self._waiting.discard(name)
                            agreed.set()
            what = f"party {name} agreed, but gave up its reservation before the others had agreed"
            return Verdict(coded(what, code="reservation-given-up"), name)
        except TimeoutError:
            what = f"party {name} did not answer the plan within {self._job.deadline_s:g} s"
            return Verdict(coded(what, code="plan-not-answered"), name)
        except ServiceError as error:
            return Verdict(f"party {name}: {told(error)}", name)
        finally:
            self._waiting.discard(name)


def _unfit(name: str, what: str) -> Verdict:
    return Verdict(coded(f"party {name} accepted, but {what}", code="schema-refused"), name)


async def _all_set(events: Iterable[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


def _check_refusals(refusals: Sequence[Verdict], stage: str) -> None:
    if refusals:
        raise JobFailedError(Verdict(joined([r.reason for r in refusals]), refusals[0].culprit, stage))
