"""An analyst's calls to the coordinator, without generated types: what `moiety job` and Python programs use."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from typing import Any

import grpc
from wire.v1.coordinator_pb2 import JobRef, ListRequest, SubmitRequest, TablesRequest
from wire.v1.coordinator_pb2_grpc import CoordinatorStub

from mpc.public_text import made_public, public_json
from service.codes.coded_text import coded, parted
from service.codes.printed_time import printed_time
from service.errors import RemoteFailureError, UnreachableError, error_from_call
from service.job_id import is_job_id
from transport.calls.answers import AnswerChannel, readable
from transport.calls.chunks import chunks_of
from transport.calls.leader import LeaderChannel, find_leader, is_in_doubt

CALL_TIMEOUT_S = 20.0
READ_TIMEOUT_S = 600.0
"""For answers of megabytes over slow lines. A coordinator that has gone is noticed much earlier, by keepalive."""

WATCH_TIMEOUT_S = 86400.0
TAKEOVER_S = 120.0
"""Where coordinators have several addresses, who watches a job waits for so long until one of them leads again."""

MAX_TEXT_CHARACTERS = 10_000
"""Characters of a reason; a coordinator that keeps to the rules sends no longer ones."""
ENDED_STATES = frozenset({"DONE", "FAILED", "CANCELLED"})


@dataclass(frozen=True)
class JobSummary:
    """What the coordinator says of one job in a list.

    Attributes:
        job_id: its identifier.
        analysis: its kind.
        state: SUBMITTED, PROPOSED, RUNNING, OPENING, DONE, FAILED or CANCELLED.
        reason: why it failed or was cancelled.
        culprit: name of the member at fault, if any.
        stage: where it failed.
        submitted_by: the analyst.
        submitted_at_s: Unix time.
        ended_at_s: Unix time; 0 while it runs.
        title: title of the job; may be empty.
        waits_for_owners_of: names of the parties whose owners have been asked to approve the job.
        code: code of the reason; empty where there is none. `moiety explain` says what it means.
    """

    job_id: str
    analysis: str
    state: str
    reason: str
    culprit: str
    stage: str
    submitted_by: str
    submitted_at_s: float
    ended_at_s: float
    title: str
    waits_for_owners_of: tuple[str, ...]
    code: str = field(default="", kw_only=True)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in ENDED_STATES


@dataclass(frozen=True)
class JobView(JobSummary):
    """All that the coordinator says of one job.

    Attributes:
        job_json: job as submitted.
        plan_json: empty until it is planned.
        result_json: result of a DONE job, else empty.
    """

    job_json: str
    plan_json: str
    result_json: str


@dataclass(frozen=True)
class PartyTables:
    """What one party says of its tables.

    Attributes:
        listing_json: JSON of an `analyses.job.listing.Listing`, not checked; empty where there is a problem.
        problem: why there is none.
    """

    listing_json: str
    problem: str


@dataclass(frozen=True)
class EventView:
    """Something that happened to a job: a step to a state, or a member's progress within a stage (quarters)."""

    at_s: float
    state: str
    stage: str
    member: str
    percent: int
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    def as_text(self) -> str:
        """Return it as one line for people, with the time of day in UTC."""
        clock = printed_time(self.at_s, "%H:%M:%S")
        if self.text or not self.member:
            return f"{clock} {self.state}" + (f": {self.text}" if self.text else "")
        return f"{clock} {self.member}: {self.stage} {self.percent} %"


class CoordinatorClient:
    """Calls to one coordinator. Every method raises `ServiceError` with a text for people.

    Args:
        name: name of the coordinator.
        channel: channel with the analyst's certificate, from `open_coordinator_channel`.
    """

    def __init__(self, name: str, channel: Any) -> None:
        self.name = name
        self._channel = channel
        self._stub = CoordinatorStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated

    async def submit(self, job_json: str, idempotency_key: str) -> str:
        """Submit a job and return its identifier.

        Args:
            job_json: canonical JSON of an `analyses.job.job.Job`.
            idempotency_key: chosen by the caller; repeating a call with the same key is safe.
        """
        request = SubmitRequest(job_json=job_json, idempotency_key=idempotency_key)
        await self._settle()
        try:
            reply = await self._stub.Submit(chunks_of(request), timeout=CALL_TIMEOUT_S)
            reply = readable(reply, self.name, "submit the job")
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing="submit the job") from None
        if not is_job_id(reply.job_id):
            raise RemoteFailureError(f"cannot submit the job at {self.name}: it answered with an invalid job id")
        return str(reply.job_id)

    async def watch(self, job_id: str) -> AsyncIterator[EventView]:
        """Yield the events of a job from its beginning to its end.

        Where several coordinators share the name, the next one that leads is asked for the rest.
        """
        seen: set[EventView] = set()
        while True:
            try:
                async for event in self._watch(job_id):
                    if event not in seen:
                        seen.add(event)
                        yield event
            except UnreachableError:
                if not isinstance(self._channel, LeaderChannel) or not await self._until_led():
                    raise
            else:
                return

    async def _watch(self, job_id: str) -> AsyncIterator[EventView]:
        await self._settle()
        try:
            async for event in self._stub.Watch(JobRef(job_id=job_id), timeout=WATCH_TIMEOUT_S):
                readable(event, self.name, f"watch job {job_id}")
                state, stage, member = _public(event.state), _public(event.stage), _public(event.member)
                yield EventView(event.at_s, state, stage, member, event.percent, _public(event.text))
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing=f"watch job {job_id}") from None

    async def jobs(self, limit: int = 0) -> list[JobSummary]:
        """Return the analyst's jobs, newest first; `limit` 0 means all."""
        await self._settle()
        try:
            records = self._stub.List(ListRequest(limit=limit), timeout=READ_TIMEOUT_S)
            return [JobSummary(**_fields(readable(record, self.name, "list jobs"))) async for record in records]
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing="list jobs") from None

    async def show(self, job_id: str) -> JobView:
        """Return one job with its plan and result."""
        return await self._whole_job(self._stub.Show, job_id, f"show job {job_id}")

    async def cancel(self, job_id: str) -> JobView:
        """Cancel a job and return how it stands then."""
        return await self._whole_job(self._stub.Cancel, job_id, f"cancel job {job_id}")

    async def tables(self) -> dict[str, PartyTables]:
        """Return by party what it says of the tables that the analyst may use, in the order of the roster."""
        doing = "list the tables"
        pieces: dict[str, list[str]] = {}
        problems: dict[str, str] = {}
        await self._settle()
        try:
            async for part in self._stub.Tables(TablesRequest(), timeout=READ_TIMEOUT_S):
                party = _public(readable(part, self.name, doing).party)
                pieces.setdefault(party, []).append(part.listing_json)
                if part.problem:
                    problems[party] = _public(part.problem)
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing=doing) from None
        return {party: PartyTables("".join(texts), problems.get(party, "")) for party, texts in pieces.items()}

    async def _whole_job(self, method: Any, job_id: str, doing: str) -> JobView:
        fields: dict[str, Any] = {}
        pieces: dict[str, list[str]] = {"job_json": [], "plan_json": [], "result_json": []}
        await self._settle()
        try:
            async for part in method(JobRef(job_id=job_id), timeout=READ_TIMEOUT_S):
                kind = readable(part, self.name, doing).WhichOneof("part")
                if kind == "record":
                    fields = _fields(part.record)
                elif kind in pieces:  # otherwise it was sent by a newer coordinator
                    pieces[kind].append(getattr(part, kind))
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing=doing) from None
        if not fields:
            raise RemoteFailureError(f"cannot {doing} at {self.name}: it ended the stream without an answer")
        try:
            texts = {name: public_json("".join(found)) if found else "" for name, found in pieces.items()}
        except ValueError:
            raise RemoteFailureError(f"cannot {doing} at {self.name}: its answer is not JSON") from None
        return JobView(**fields | texts)

    async def _settle(self) -> None:
        """Find the coordinator that leads, where that may be another one than before."""
        if is_in_doubt(self._channel):
            await find_leader(self._channel)

    async def _until_led(self) -> bool:
        """Wait until one of the coordinators leads; return whether one does within `TAKEOVER_S`."""
        try:
            async with asyncio.timeout(TAKEOVER_S):
                await self._channel.channel_ready()
        except TimeoutError:
            return False
        return True


def _fields(record: Any) -> dict[str, Any]:
    """Return a record's fields; texts of the coordinator become fit for people here."""
    fields = {name: getattr(record, name) for name in JobSummary.__dataclass_fields__ if name != "code"}
    fields["waits_for_owners_of"] = tuple(map(_public, fields["waits_for_owners_of"]))
    fields = {name: _public(value) if isinstance(value, str) else value for name, value in fields.items()}
    if fields["reason"]:
        fields["reason"], fields["code"] = parted(_coded_anyhow(fields["reason"], fields["state"]))
    return fields


def _coded_anyhow(reason: str, state: str) -> str:
    """Return a reason with its code, or with what its job's state says where it came without one."""
    if state == "CANCELLED":
        return coded(reason, code="job-cancelled")
    return coded(reason, code="job-failed")


def _public(text: str) -> str:
    return made_public(text, MAX_TEXT_CHARACTERS)
