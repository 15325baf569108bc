"""The coordinator's calls to one party, without generated types: proposals, runs, cancellations."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from wire.v1.party_pb2 import (
    CancelRequest,
    DescribeRequest,
    Member,
    Proposal,
    ReachRequest,
    ReceiptRequest,
    ReserveRequest,
    RunRequest,
)
from wire.v1.party_pb2_grpc import PartyStub

from service.errors import RemoteFailureError, error_from_call, public
from service.limits import MAX_REQUEST_BYTES
from service.trust.statements import Signed
from transport.calls.answers import AnswerChannel, readable
from transport.calls.chunks import chunks_of, gather_chunks

MAX_JOB_S = 604_800.0
"""Seconds after which a job that a party has not ended is aborted."""

STAGE_CHARACTERS = 100


@dataclass(frozen=True)
class Accepted:
    """The party takes part; the public schema of its columns as JSON."""

    schema_json: str


@dataclass(frozen=True)
class Refused:
    """The party does not take part, and says why."""

    reason: str


@dataclass(frozen=True)
class Waiting:
    """The party asks its owner; public text."""

    text: str


@dataclass(frozen=True)
class Reserved:
    """The party has agreed to the plan and holds privacy budget for it."""


@dataclass(frozen=True)
class Progressed:
    """A party's progress within a stage, in quarters, so that it does not reveal the number of rows.

    Attributes:
        stage: its name.
        percent: percentage of the stage that is done.
        waits_for: name of the member for whom the party has waited for half of the deadline; empty where there is none.
    """

    stage: str
    percent: int
    waits_for: str = ""


@dataclass(frozen=True)
class Finished:
    """The party has done its part."""


@dataclass(frozen=True)
class Failed:
    """The party gave up.

    Attributes:
        stage: where.
        reason: why; public.
        culprit: name of the member at fault, empty if it is the party itself.
        is_finding: whether the culprit was caught at something, rather than missed.
    """

    stage: str
    reason: str
    culprit: str
    is_finding: bool


@dataclass(frozen=True)
class Reached:
    """A party's attempt to reach another member.

    Attributes:
        role, name: role and name of that member in the party's configuration.
        outcome: `ok`, `warning` or `failed`.
        found, fix: what came of it, and what the party's owner can do; public.
    """

    role: str
    name: str
    outcome: str
    found: str
    fix: str


PartyEvent = Progressed | Finished | Failed


class PartyClient:
    """Calls to one party.

    Args:
        name: name of the party.
        channel: an aio channel that accepts that party's certificate only.
    """

    def __init__(self, name: str, channel: Any) -> None:
        self.name = name
        self._stub = PartyStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated

    async def propose(
        self, job_id: str, job_json: str, members: Mapping[int, str], *, analyst: str, timeout_s: float
    ) -> Accepted | Refused:
        """Offer a job.

        Args:
            job_id: the job.
            job_json: its canonical JSON.
            members: number to name, 1 and up.
            analyst: who submitted it.
            timeout_s: how long the party may think.

        Raises:
            ServiceError: the party cannot be reached, does not answer in time, or failed.
        """
        roster = [Member(number=number, name=name) for number, name in members.items()]
        proposal = Proposal(job_id=job_id, job_json=job_json, roster=roster, analyst=analyst)
        try:
            reply = await self._stub.Propose(chunks_of(proposal), timeout=timeout_s)
            reply = readable(reply, self.name, "propose the job")
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing="propose the job") from error
        return Accepted(reply.schema_json) if reply.accepted else Refused(public(reply.reason))

    async def describe(self, analyst: str, *, timeout_s: float) -> str:
        """Return what the party tells an analyst of its tables: JSON, not looked at.

        Args:
            analyst: who asks.
            timeout_s: how long the party may take.

        Raises:
            ServiceError: the party cannot be reached, does not answer in time, says too much, or failed.
        """
        doing = "list the tables"
        chunks = self._stub.Describe(DescribeRequest(analyst=analyst), timeout=timeout_s)
        try:
            data = await gather_chunks(
                (readable(chunk, self.name, doing) async for chunk in chunks),
                MAX_REQUEST_BYTES,
                f"cannot {doing} at {self.name}: it lists more than {MAX_REQUEST_BYTES} bytes",
            )
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing=doing) from error
        return data.decode(errors="replace")

    async def reserve(
        self, job_id: str, schemas_json: Sequence[str], plan_digest: bytes
    ) -> AsyncIterator[Waiting | Reserved | Refused]:
        """Hand over the plan of an accepted job; yields `Waiting` where the owner is asked, then the answer.

        After `Reserved` the party holds its budget as long as this generator is open, or until the job runs: close it
        then. Where it ends of its own accord the party has given the reservation up.

        Args:
            job_id: the job.
            schemas_json: schemas of all members, by number.
            plan_digest: SHA-256 of our plan; the party refuses where its own differs.

        Raises:
            ServiceError: the stream broke, or ended without an answer.
        """
        request = ReserveRequest(job_id=job_id, schema_json=schemas_json, plan_digest=plan_digest)
        is_reserved = False
        try:
            async for message in self._stub.Reserve(chunks_of(request), timeout=MAX_JOB_S):
                match readable(message, self.name, "reserve the job").WhichOneof("event"):
                    case "waiting":
                        yield Waiting(public(message.waiting.text))
                    case "reserved":
                        is_reserved = True
                        yield Reserved()
                    case "refused":
                        yield Refused(public(message.refused.reason))
                        return
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing="reserve the job") from error
        if not is_reserved:
            raise RemoteFailureError(f"cannot reserve the job at {self.name}: it ended the stream without an answer")

    async def run(self, job_id: str) -> AsyncIterator[PartyEvent]:
        """Start a reserved job and yield the party's events; the last one is `Finished` or `Failed`.

        Raises:
            ServiceError: the stream broke, or ended without `Finished` or `Failed`.
        """
        try:
            async for message in self._stub.Run(RunRequest(job_id=job_id), timeout=MAX_JOB_S):
                for event in map(_event, readable(message, self.name, "run the job").events):
                    if event is not None:
                        yield event
                    if isinstance(event, Finished | Failed):
                        return
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing="run the job") from error
        raise RemoteFailureError(f"cannot run the job at {self.name}: it ended the stream without saying how it went")

    async def cancel(self, job_id: str, reason: str, *, timeout_s: float) -> None:
        """Ask the party to stop a job, whatever its state.

        Raises:
            ServiceError: the party could not be reached.
        """
        try:
            reply = await self._stub.Cancel(CancelRequest(job_id=job_id, reason=reason), timeout=timeout_s)
            readable(reply, self.name, "cancel the job")
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing="cancel the job") from error

    async def receipt(self, job_id: str, result_digest: bytes, *, timeout_s: float) -> tuple[str, Signed]:
        """Return the party's receipt of a job as JSON, not looked at, and its signature, not checked.

        Args:
            job_id: identifier of the job.
            result_digest: SHA-256 of the result.
            timeout_s: seconds to wait until the party has done its part.

        Raises:
            ServiceError: the party cannot be reached, does not answer in time, or signs nothing.
        """
        request = ReceiptRequest(job_id=job_id, result_digest=result_digest)
        try:
            reply = await self._stub.Receipt(request, timeout=timeout_s)
            reply = readable(reply, self.name, "ask for a receipt")
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing="ask for a receipt") from error
        return reply.receipt_json, Signed(reply.certificate, reply.signature)

    async def reach(self, timeout_s: float) -> tuple[str, int, list[Reached]]:
        """Let the party dial all members that it knows.

        Args:
            timeout_s: seconds to wait for each of its attempts.

        Returns:
            The party's version of Moiety, the number of its protocol, and its attempts.

        Raises:
            ServiceError: the party cannot be reached, or does not let us ask.
        """
        try:
            reply = await self._stub.Reach(ReachRequest(timeout_s=timeout_s), timeout=3 * timeout_s + 10)
            reply = readable(reply, self.name, "ask whom it reaches")
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing="ask whom it reaches") from error
        members = [
            Reached(public(m.role), public(m.name), public(m.outcome), public(m.found), public(m.fix))
            for m in reply.members
        ]
        return public(reply.version), reply.protocol, members


def _event(message: Any) -> PartyEvent | None:
    """Read one event; None where a newer party sends a kind that we do not know."""
    match message.WhichOneof("event"):
        case "progress":
            percent = min(message.progress.percent, 100)
            return Progressed(
                _stage(message.progress.stage), percent - percent % 25, _stage(message.progress.waits_for)
            )
        case "finished":
            return Finished()
        case "failed":
            failed = message.failed
            return Failed(_stage(failed.stage), public(failed.reason), public(failed.culprit), failed.is_finding)
    return None


def _stage(text: str) -> str:
    return public(text[: 2 * STAGE_CHARACTERS])[:STAGE_CHARACTERS]
