"""The service with which parties take part in batches, and the coordinator's calls to it."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from moiety.v1 import batch_pb2 as pb
from moiety.v1.aggregation_pb2 import Chunk
from moiety.v1.batch_pb2_grpc import BatchPartyServicer, BatchPartyStub, add_BatchPartyServicer_to_server

from service.errors import UnreadableError, WrongStateError, error_from_call
from service.job_id import check_job_id
from transport.batch_codec import PartyKey, SumShare, key_of, wire_key
from transport.calls.answers import AnswerChannel, readable
from transport.calls.chunks import chunks_of, gather_chunks

OPEN = "/moiety.v1.BatchParty/Open"
PREPARE = "/moiety.v1.BatchParty/Prepare"
CLOSE = "/moiety.v1.BatchParty/Close"

NOT_PREPARED_CODE = "attempt-not-prepared"
"""Of the refusal to close a batch in an attempt that the party does not know, as when it was restarted: ask again."""

OPEN_S = 60.0
CLOSE_S = 7200.0
"""Longest time in which a party opens its share: fetching, checking and opening the answers of a million devices."""


class NotPreparedError(WrongStateError):
    """An attempt to close a batch was not prepared here, or too long ago."""

    code = NOT_PREPARED_CODE


class BatchParty(Protocol):
    """A party's part in batches."""

    async def open(self, question_json: str) -> PartyKey:
        """Agree to a batch; return our key for it, the same one however often it is asked.

        Raises:
            InvalidRequestError: the question cannot be read.
            NotAllowedError: our owner rules it out.
            WrongStateError: the batch was closed here before.
            TooMuchError: too many are open.
        """

    async def prepare(self, question_json: str, attempt: str) -> None:
        """Accept messages of the other parties about an attempt to close a batch; `close` is next.

        Raises:
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
        """Agree to a batch."""
        return wire_key(await self._party.open(request.question_json))

    async def Prepare(self, request: pb.BatchCloseRequest, context: Any) -> pb.BatchTaken:  # noqa: N802
        """Accept messages of an attempt to close a batch."""
        await self._party.prepare(request.question_json, check_job_id(request.attempt))
        return pb.BatchTaken()

    async def Close(self, request: pb.BatchCloseRequest, context: Any) -> AsyncIterator[Chunk]:  # noqa: N802
        """Stream our share of a batch's sum."""
        opened = await self._party.close(request.question_json, check_job_id(request.attempt))
        for chunk in chunks_of(pb.BatchShare(share=opened.share, cohort=opened.cohort)):
            yield chunk


class BatchPartyClient:
    """The coordinator's calls to one party.

    Args:
        name: of the party.
        channel: an aio channel that accepts that party's certificate only.
    """

    def __init__(self, name: str, channel: Any) -> None:
        self.name = name
        self._stub = BatchPartyStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated

    async def open(self, question_json: str) -> PartyKey:
        """Ask the party to take part in a batch; raises `ServiceError` where it does not."""
        doing = "open the batch"
        try:
            call = self._stub.Open(pb.BatchOpenRequest(question_json=question_json), timeout=OPEN_S)
            return key_of(readable(await call, self.name, doing))
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing=doing) from error

    async def prepare(self, question_json: str, attempt: str) -> None:
        """Ask the party to expect the others' messages of an attempt; raises `ServiceError` where it does not."""
        doing = "close the batch"
        request = pb.BatchCloseRequest(question_json=question_json, attempt=attempt)
        try:
            readable(await self._stub.Prepare(request, timeout=OPEN_S), self.name, doing)
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error, peer=self.name, doing=doing) from error

    async def close(self, question_json: str, attempt: str, most_bytes: int) -> SumShare:
        """Ask the party for its share of a closed batch; raises `ServiceError` where there is none.

        Args:
            question_json: of the batch.
            attempt: a job id that was never used before.
            most_bytes: of the answer.
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
