"""The coordinator's service of batches: devices fetch and answer, parties fetch shares, analysts ask and follow."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Protocol

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from moiety.v1 import batch_pb2 as pb
from moiety.v1.aggregation_pb2 import Chunk
from moiety.v1.batch_pb2_grpc import BatchServicer, add_BatchServicer_to_server
from moiety.v1.survey_pb2 import SurveyAskRequest, SurveyEvent, SurveyFetchRequest

from service.errors import InvalidRequestError, UnreadableError
from service.identity import Identity, PeerCertificate, peer_certificate, peer_identity
from service.limits import request_arrives_in_time
from transport.aggregation import CallCount, ReadingRoom
from transport.batch_codec import AnswerPart, BatchAnswer, OfferedBatch, answer_from, chunks_of_parts, wire_key
from transport.calls.chunks import gather_chunks
from transport.refusal import WhyRefused, why_of
from transport.survey import PATIENCE_S, SurveyHappening, events_of

FETCH = "/moiety.v1.Batch/Fetch"
ANSWER = "/moiety.v1.Batch/Answer"
SHARES = "/moiety.v1.Batch/Shares"
ASK = "/moiety.v1.Batch/Ask"

ANSWER_TOO_LONG = "the answer is longer than any open batch needs"


class Batches(Protocol):
    """What hosts the batches."""

    @property
    def longest_answer_bytes(self) -> int:
        """The size of the longest answer to any open batch."""

    async def fetch(self, caller: Identity, after: int, patience_s: float) -> OfferedBatch | None:
        """Return the first open batch after a number that a device has not answered; None if there is none."""

    async def answer(self, caller: PeerCertificate, batch_id: bytes, answer: BatchAnswer) -> None:
        """Take an answer; it is on disk when this returns. The same one again changes nothing.

        Raises:
            NotFoundError: there is no such batch.
            WrongStateError: the batch is closed.
            InvalidRequestError: it is no answer to the batch.
            AlreadyExistsError: the caller has given another answer, which stands.
        """

    async def refuse(self, caller: Identity, batch_id: bytes, why: WhyRefused) -> None:
        """Take note that a device will not answer an open batch."""

    def shares(self, caller: Identity, batch_id: bytes, only: bytes) -> AsyncGenerator[AnswerPart, None]:
        """Yield what is meant for a party of a closed batch.

        Raises:
            NotFoundError: there is no such batch.
            NotAllowedError: the caller is not one of its parties.
            WrongStateError: the batch is still open.
        """

    def ask(self, analyst: str, question_json: str) -> AsyncGenerator[SurveyHappening, None]:
        """Open a batch and follow it to its end.

        Raises:
            InvalidRequestError: the question cannot be asked; the text names the field.
            TooMuchError: too many batches are open.
        """

    def follow(self, analyst: str, batch_id: bytes) -> AsyncGenerator[SurveyHappening, None]:
        """Follow a batch of the analyst to its end.

        Raises:
            NotFoundError: the analyst has asked no such question.
        """


class BatchService(BatchServicer):
    """`moiety.v1.Batch`.

    Args:
        batches: hosts them.
    """

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.calls = CallCount()
        self._room = ReadingRoom()

    def add_to(self, server: Any) -> None:
        """Register the service."""
        add_BatchServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def Fetch(self, request: SurveyFetchRequest, context: Any) -> pb.BatchFetchReply:  # noqa: N802 - gRPC's name
        """Return the next batch of the caller, or an empty reply."""
        caller = peer_identity(context)
        with self.calls.fetch(caller):
            found = await self._batches.fetch(caller, request.after, PATIENCE_S)
        if found is None:
            return pb.BatchFetchReply()
        return pb.BatchFetchReply(number=found.number, question_json=found.text, keys=map(wire_key, found.keys))

    async def Answer(self, request_iterator: AsyncIterator[Chunk], context: Any) -> pb.BatchTaken:  # noqa: N802
        """Take the caller's answer, or that there will be none."""
        caller, most_bytes = peer_certificate(context), self._batches.longest_answer_bytes
        with self.calls.call():
            async with self._room.room_for(most_bytes):
                async with request_arrives_in_time():
                    data = await gather_chunks(request_iterator, most_bytes, ANSWER_TOO_LONG)
                try:
                    message = pb.BatchAnswer.FromString(data)
                except DecodeError as error:
                    raise UnreadableError("the answer cannot be decoded") from error
                if message.refused:
                    await self._batches.refuse(caller.identity, message.batch_id, why_of(message.refused))
                else:
                    await self._batches.answer(caller, message.batch_id, answer_from(message))
        return pb.BatchTaken()

    async def Shares(self, request: pb.BatchSharesRequest, context: Any) -> AsyncIterator[Chunk]:  # noqa: N802
        """Stream what is meant for the calling party."""
        async with aclosing(self._batches.shares(peer_identity(context), request.batch_id, request.only)) as parts:
            async for chunk in chunks_of_parts(parts):
                yield chunk

    async def Ask(self, request: SurveyAskRequest, context: Any) -> AsyncIterator[SurveyEvent]:  # noqa: N802
        """Open or follow a batch of an analyst."""
        analyst = peer_identity(context).name
        match request.WhichOneof("request"):
            case "question_json":
                following = self._batches.ask(analyst, request.question_json)
            case "question_id":
                following = self._batches.follow(analyst, request.question_id)
            case _:
                raise InvalidRequestError("neither a question nor the identifier of one")
        async with aclosing(following) as happenings:
            async for happening in happenings:
                for event in events_of(happening):
                    yield event
