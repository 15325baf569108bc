"""The service with which parties take part in batches, and the coordinator's calls to it."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from wire.v1 import batch_pb2 as pb
from wire.v1.aggregation_pb2 import Chunk
from wire.v1.batch_pb2_grpc import BatchPartyServicer, BatchPartyStub, add_BatchPartyServicer_to_server

from service.errors import UnreadableError, WrongStateError, error_from_call
from service.identity import check_analyst
from service.job_id import check_job_id
from transport.batch_codec import PartyKey, SumShare, key_of, wire_key
from transport.calls.answers import AnswerChannel, readable
from transport.calls.chunks import chunks_of, gather_chunks

OPEN = "/moiety.v1.BatchParty/Open"
KEEP = "/moiety.v1.BatchParty/Keep"
CALL_OFF = "/moiety.v1.BatchParty/CallOff"
PREPARE = "/moiety.v1.BatchParty/Prepare"
CLOSE = "/moiety.v1.BatchParty/Close"

NOT_PREPARED_CODE = "attempt-not-prepared"
"""Code of the refusal to close a batch in an attempt that the party does not know, because it restarted: ask again."""

OPEN_S = 60.0
CLOSE_S = 7200.0
"""Longest time in which a party opens its share: fetching, checking and opening the answers of a million devices."""


class NotPreparedError(WrongStateError):
    """An attempt to close a batch was not prepared here, or too long ago."""

    code = NOT_PREPARED_CODE


class BatchParty(Protocol):
    """A party's part in batches."""

    async def open(self, question_json: str, analyst: str) -> PartyKey:
        """Hold a place for a batch for a short time; return our key for it, the same one however often it is asked.

        Args:
            question_json: question of the batch, as JSON.
            analyst: who asks, as the coordinator says; those that it does not name count as one.

        Raises:
            InvalidRequestError: the question cannot be read, or would be open for too long.
            NotAllowedError: our owner rules it out.
            WrongStateError: the batch was closed here before.
            TooMuchError: too many are open.
        """

    async def keep(self, question_json: str) -> None:
        """Keep place and key of a batch until it is opened, as all parties have agreed to it.

        Raises:
            NotFoundError: we hold no place for it, or hold it no more.
        """

    async def call_off(self, question_json: str) -> None:
        """Forget a batch that is not closed, with its key. One that is closed, or unknown, stays as it is."""

    async def prepare(self, question_json: str, attempt: str, openers: Sequence[int] = ()) -> tuple[int, ...]:
        """Accept messages of the other parties about an attempt to close a batch; `close` is next.

        Args:
            question_json: question of the batch, as JSON.
            attempt: a job id that was never used before.
            openers: numbers of the parties that open, 1 and up; none: all.

        Returns:
            With which parties we have closed the batch before: in no attempt with others anything follows. Empty while
            it is open.

        Raises:
            InvalidRequestError: these parties cannot open it, or we are not among them.
            NotFoundError: we never agreed to this batch, or have forgotten it.
            AlreadyExistsError: the attempt was used before.
        """

    async def close(self, question_json: str, attempt: str) -> SumShare:
        """Agree with the other parties on the devices, and return our share of their sum.

        Raises:
            NotFoundError: we never agreed to this batch, or have forgotten it.
            ProtocolError: another party, or the coordinator, is at fault; or the cohort is too small.
        """


class BatchPartyService(BatchPartyServicer):
    """`moiety.v1.BatchParty`.

    Args:
        party: does the work.
    """

    def __init__(self, party: BatchParty) -> None:
        self._party = party

    def add_to(self, server: Any) -> None:
        """Register the service."""
        add_BatchPartyServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def Open(self, request: pb.BatchOpenRequest, context: Any) -> pb.BatchKey:  # noqa: N802 - gRPC's name
        """Hold a place for a batch."""
        if request.analyst:
            check_analyst(request.analyst)
        return wire_key(await self._party.open(request.question_json, request.analyst))

    async def Keep(self, request: pb.BatchOpenRequest, context: Any) -> pb.BatchTaken:  # noqa: N802
        """Keep the place."""
        await self._party.keep(request.question_json)
        return pb.BatchTaken()

    async def CallOff(self, request: pb.BatchOpenRequest, context: Any) -> pb.BatchTaken:  # noqa: N802
        """Forget the batch."""
        await self._party.call_off(request.question_json)
        return pb.BatchTaken()

    async def Prepare(self, request: pb.BatchCloseRequest, context: Any) -> pb.BatchTaken:  # noqa: N802
        """Accept messages of an attempt to close a batch."""
        attempt, openers = check_job_id(request.attempt), tuple(request.openers)
        return pb.BatchTaken(openers=await self._party.prepare(request.question_json, attempt, openers))

    async def Close(self, request: pb.BatchCloseRequest, context: Any) -> AsyncIterator[Chunk]:  # noqa: N802
        """Stream our share of a batch's sum."""
        opened = await self._party.close(request.question_json, check_job_id(request.attempt))
        for chunk in chunks_of(pb.BatchShare(share=opened.share, cohort=opened.cohort)):
            yield chunk


class BatchPartyClient:
    """The coordinator's calls to one party.

    Args:
        name: name of the party.
        channel: an aio channel that accepts that party's certificate only.
    """

    def __init__(self, name: str, channel: Any) -> None:
        self.name = name
        self._stub = BatchPartyStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated

    async def open(self, question_json: str, analyst: str = "") -> PartyKey:
        """Ask the party to hold a place for a batch; raises `ServiceError` where it does not."""
        request = pb.BatchOpenRequest(question_json=question_json, analyst=analyst)
        return key_of(await self._ask(self._stub.Open, request, "open the batch"))

    async def keep(self, question_json: str) -> None:
        """Ask the party to keep the place; raises `ServiceError` where it does not."""
        await self._ask(self._stub.Keep, pb.BatchOpenRequest(question_json=question_json), "open the batch")

    async def call_off(self, question_json: str) -> None:
        """Ask the party to forget the batch; raises `ServiceError` where it does not."""
        await self._ask(self._stub.CallOff, pb.BatchOpenRequest(question_json=question_json), "call the batch off")

    async def prepare(self, question_json: str, attempt: str, openers: Sequence[int] = ()) -> tuple[int, ...]:
        """Ask the party to expect the others' messages of an attempt; see `BatchParty.prepare`.

        Raises:
            ServiceError: it does not.
        """
        request = pb.BatchCloseRequest(question_json=question_json, attempt=attempt, openers=openers)
        return tuple((await self._ask(self._stub.Prepare, request, "close the batch")).openers)

    async def _ask(self, method: Callable[..., Any], request: Any, doing: str) -> Any:
        try:
            return readable(await method(request, timeout=OPEN_S), self.name, doing)
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing=doing) from error

    async def close(self, question_json: str, attempt: str, most_bytes: int) -> SumShare:
        """Ask the party for its share of a closed batch; raises `ServiceError` where there is none.

        Args:
            question_json: question of the batch, as JSON.
            attempt: a job id that was never used before.
            most_bytes: largest size of the answer.
        """
        doing = "close the batch"
        request = pb.BatchCloseRequest(question_json=question_json, attempt=attempt)
        call = self._stub.Close(request, timeout=CLOSE_S)
        try:
            chunks = (readable(chunk, self.name, doing) async for chunk in call)
            data = await gather_chunks(chunks, most_bytes, f"{self.name} sends more than a share of the sum")
            message = pb.BatchShare.FromString(data)
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing=doing) from error
        except DecodeError as error:
            raise UnreadableError(f"cannot {doing} at {self.name}: its answer cannot be decoded") from error
        finally:
            call.cancel()
        return SumShare(message.share, message.cohort)
