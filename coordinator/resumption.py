"""What becomes of jobs that an earlier process of the coordinator left behind.

A job that waits keeps waiting. A job whose parties were told to run goes on where they still have it: they send again
what they sent to the process before, and the coordinator's part is done again from its beginning with the same
messages, so it comes to the same result and nobody pays again. A job that was being proposed has failed: parties may
have taken it for called off, and nothing of it was paid for.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from analyses.job.job import Job, JobError
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema
from analyses.registry import analysis_of
from coordinator.evidence import Verdict
from coordinator.proposal import JobFailedError, RosterParty
from coordinator.state import State
from coordinator.store import JobStore, stopped
from mpc.errors import ProtocolError
from service.codes.coded_text import parted, told
from transport.calls.party_client import PartyEvent
from transport.calls.way import wait_until_reachable

GOES_ON = "the coordinator restarted; the job goes on with the parties that still have it"

BACK_S = 20.0
"""Seconds for a party to be reachable again after a restart. One that only dials out was connected to a relay in the
process that ended: its pause (5 s), its attempt (5 s) and gRPC's pause (2 s) fit in."""


@dataclass(frozen=True)
class LeftBehind:
    """A job that had not ended when the process ended that ran it.

    Attributes:
        job_id: which.
        analyst: who submitted it.
        state: where it stood.
        job: what was asked for.
        plan_json: the plan that its parties agreed to, where they were told to run.
    """

    job_id: str
    analyst: str
    state: State
    job: Job
    plan_json: str

    async def agreed_plan(self) -> Plan:
        """Plan the job again, from the schemas that are in its plan.

        Raises:
            JobFailedError: this program computes a different plan than the one that started the job, so the parties'
                messages do not fit.
        """
        try:
            return await asyncio.to_thread(self._plan)
        except (JobError, ProtocolError) as error:
            raise JobFailedError(Verdict(told(error), stage="plan")) from error

    def _plan(self) -> Plan:
        schemas = [BlockSchema.model_validate(schema) for schema in json.loads(self.plan_json)["schemas"]]
        plan = analysis_of(self.job).plan(self.job, schemas)
        if plan.canonical_json() != self.plan_json:
            raise JobError(
                "this version of the coordinator computes a different plan than the version that started the job"
            )
        return plan

    async def until_answered(self, answered: Iterable[asyncio.Event]) -> None:
        """Wait until the parties know that we are back: until then they would take what we send for new.

        Those that do not answer within the job's deadline count as lost by then.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self.job.deadline_s):
                for event in answered:
                    await event.wait()

    def verdict(self, verdict: Verdict) -> Verdict:
        """Return why the job failed that could not go on."""
        cause = f"the coordinator restarted while the job was {self.state}, and it could not go on"
        return replace(verdict, reason=stopped(f"{cause}: {parted(verdict.reason)[0]}"))


async def events_of(party: RosterParty, job_id: str, left: LeftBehind | None) -> AsyncIterator[PartyEvent]:
    """Run a job at a party and yield its events (`PartyClient.run`); a job left behind waits first for the way to it.

    Raises:
        ServiceError: the party is not reached, or the stream broke.
    """
    if left is not None:
        limit_s = min(BACK_S, left.job.deadline_s)
        await wait_until_reachable(party.channel, peer=party.identity.name, address=party.address, deadline_s=limit_s)
    async for event in party.client.run(job_id):
        yield event


def left_behind(store: JobStore, roster: Collection[str]) -> list[LeftBehind]:
    """Return the jobs that go on, oldest first; the others that had not ended become FAILED.

    Raises:
        StoreWriteError: that cannot be written.
    """
    going_on = []
    for job_id in store.unended():
        record, texts = store.record(job_id), _texts_of(store, job_id)
        cause = f"the coordinator restarted while the job was {record.state}"
        try:
            job = Job.from_json(texts["job_json"])
            if strangers := sorted(set(job.members) - set(roster)):
                raise JobError(f"its roster no longer has {', '.join(strangers)}")
            analysis_of(job)
        except JobError as error:
            store.advance(job_id, State.FAILED, reason=stopped(f"{cause}, and cannot run it any more: {error}"))
            continue
        if record.state is State.PROPOSED:
            store.advance(job_id, State.FAILED, reason=stopped(cause))
            continue
        going_on.append(LeftBehind(job_id, record.analyst, record.state, job, texts["plan_json"]))
    return going_on


def _texts_of(store: JobStore, job_id: str) -> Mapping[str, str]:
    pieces: dict[str, list[str]] = {"job_json": [], "plan_json": []}
    for name, piece in store.texts(job_id):
        pieces.setdefault(name, []).append(piece)
    return {name: "".join(parts) for name, parts in pieces.items()}
