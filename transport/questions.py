"""The coordinator's service of questions: devices fetch and answer, parties fetch shares, analysts ask and follow."""

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from wire.v1 import questions_pb2 as pb
from wire.v1.aggregation_pb2 import Chunk
from wire.v1.questions_pb2_grpc import QuestionsServicer, add_QuestionsServicer_to_server

from service.errors import InvalidRequestError, UnreadableError
from service.identity import Identity, PeerCertificate, peer_certificate, peer_identity
from service.limits import request_arrives_in_time
from transport.aggregation import CallCount, ReadingRoom
from transport.batch_codec import AnswerPart, OfferedQuestion, chunks_of_parts, wire_key
from transport.calls.chunks import gather_chunks, gather_request
from transport.happenings import Happening, events_of
from transport.refusal import WhyRefused, why_of

_SERVICE = "/moiety.v1.Questions/"
FETCH, ANSWER, ANSWER_IN_CHUNKS = _SERVICE + "Fetch", _SERVICE + "Answer", _SERVICE + "AnswerInChunks"
SHARES, ASK, LIST, CALL_OFF = _SERVICE + "Shares", _SERVICE + "Ask", _SERVICE + "List", _SERVICE + "CallOff"

PATIENCE_S = 10.0
"""Seconds for which a call waits for a question."""

ANSWER_TOO_LONG = "the answer is longer than any open question needs"


@dataclass(frozen=True)
class OpenQuestion:
    """A question that takes up a place.

    Attributes:
        question_id: its identifier.
        kind: `survey`, `batch` or `sum`.
        analyst: who asks.
        record: names of the records that it is about, with commas between.
        until_s: Unix time of its end; 0 where it has none of its own.
        n_answers: number of devices that have answered.
    """

    question_id: bytes
    kind: str
    analyst: str
    record: str
    until_s: float
    n_answers: int


class Questions(Protocol):
    """What hosts the questions. All that name a kind raise `InvalidRequestError` where there is none such."""

    def check_kind(self, kind: str) -> None:
        """Refuse a kind of question that devices are not asked here."""

    def longest_answer_bytes(self) -> int:
        """Return the size of the longest answer to any open question."""

    async def fetch(self, caller: Identity, kind: str, after: int, patience_s: float) -> OfferedQuestion | None:
        """Return the first open question of a kind, after a number, that a device has not answered.

        None if there is none for `patience_s`.
        """

    async def answer(self, caller: PeerCertificate, kind: str, question_id: bytes, body: bytes) -> None:
        """Take an answer; it is on disk when this returns. The same one again changes nothing.

        Raises:
            NotFoundError: there is no such question.
            WrongStateError: it is closed.
            InvalidRequestError: the body is no answer to it.
            AlreadyExistsError: the caller has given another answer, which stands.
        """

    async def refuse(self, caller: Identity, kind: str, question_id: bytes, why: WhyRefused) -> None:
        """Take note that a device will not answer an open question; of others nothing is noted."""

    def shares(self, caller: Identity, question_id: bytes, only: bytes) -> AsyncGenerator[AnswerPart, None]:
        """Yield what is meant for a party of a closed batch.

        Raises:
            NotFoundError: there is no such batch.
            NotAllowedError: the caller is not one of its parties.
            WrongStateError: the batch is still open.
        """

    def ask(self, analyst: str, kind: str, text: str) -> AsyncGenerator[Happening, None]:
        """Open a question and follow it to its end.

        Raises:
            InvalidRequestError: it cannot be asked; the text names the field.
            TooMuchError: too many are open.
        """

    def follow(self, analyst: str, question_id: bytes) -> AsyncGenerator[Happening, None]:
        """Follow a question of the analyst to its end.

        Raises:
            NotFoundError: the analyst has asked no such question.
        """

    def open_questions(self, caller: Identity) -> Sequence[OpenQuestion]:
        """Return the open questions that a caller may see."""

    async def call_off(self, caller: Identity, question_id: bytes) -> None:
        """End a question without a result.

        Raises:
            NotFoundError: there is none with this identifier that is open and that the caller may see.
            WrongStateError: its result is just being made.
        """


class QuestionsService(QuestionsServicer):
    """`moiety.v1.Questions`.

    Args:
        questions: hosts them.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self.calls = CallCount()
        self._waiting: defaultdict[str, CallCount] = defaultdict(CallCount)
        self._room = ReadingRoom()

    def add_to(self, server: Any) -> None:
        """Register the service."""
        add_QuestionsServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def Fetch(self, request: pb.FetchQuestionRequest, context: Any) -> pb.OfferedQuestion:  # noqa: N802 - gRPC's name
        """Return the next question of the caller, or an empty reply."""
        caller = peer_identity(context)
        self._questions.check_kind(request.kind)
        with self._waiting[request.kind].fetch(caller):
            found = await self._questions.fetch(caller, request.kind, request.after, PATIENCE_S)
        if found is None:
            return pb.OfferedQuestion()
        return pb.OfferedQuestion(number=found.number, question_json=found.text, keys=map(wire_key, found.keys))

    async def Answer(self, request: pb.QuestionAnswer, context: Any) -> pb.AnswerTaken:  # noqa: N802
        """Take the caller's answer, or that there will be none."""
        with self.calls.call():
            return await self._take(peer_certificate(context), request)

    async def AnswerInChunks(  # noqa: N802
        self, request_iterator: AsyncIterator[Chunk], context: Any
    ) -> pb.AnswerTaken:
        """Take the caller's answer, whatever its length."""
        caller, most_bytes = peer_certificate(context), self._questions.longest_answer_bytes()
        with self.calls.call():
            async with self._room.room_for(most_bytes):
                async with request_arrives_in_time():
                    data = await gather_chunks(request_iterator, most_bytes, ANSWER_TOO_LONG)
                try:
                    request = pb.QuestionAnswer.FromString(data)
                except DecodeError as error:
                    raise UnreadableError("the answer cannot be decoded") from error
                return await self._take(caller, request)

    async def _take(self, caller: PeerCertificate, request: pb.QuestionAnswer) -> pb.AnswerTaken:
        kind, question_id = request.kind, request.question_id
        if request.refused:
            await self._questions.refuse(caller.identity, kind, question_id, why_of(request.refused))
        else:
            await self._questions.answer(caller, kind, question_id, request.body)
        return pb.AnswerTaken()

    async def Shares(self, request: pb.SharesRequest, context: Any) -> AsyncIterator[Chunk]:  # noqa: N802
        """Stream what is meant for the calling party."""
        shares = self._questions.shares(peer_identity(context), request.question_id, request.only)
        async with aclosing(shares) as parts:
            async for chunk in chunks_of_parts(parts):
                yield chunk

    async def Ask(self, request_iterator: AsyncIterator[Chunk], context: Any) -> AsyncIterator[pb.AskEvent]:  # noqa: N802
        """Open or follow a question of an analyst."""
        analyst, request = peer_identity(context).name, await gather_request(request_iterator, pb.AskRequest)
        match request.WhichOneof("request"):
            case "question_json":
                following = self._questions.ask(analyst, request.kind, request.question_json)
            case "question_id":
                following = self._questions.follow(analyst, request.question_id)
            case _:
                raise InvalidRequestError("neither a question nor the identifier of one")
        async with aclosing(following) as happenings:
            async for happening in happenings:
                for event in events_of(happening):
                    yield event

    async def List(self, request: pb.QuestionsRequest, context: Any) -> pb.OpenQuestions:  # noqa: N802
        """List the caller's."""
        found = self._questions.open_questions(peer_identity(context))
        return pb.OpenQuestions(questions=[pb.OpenQuestion(**vars(one)) for one in found])

    async def CallOff(self, request: pb.CallOffRequest, context: Any) -> pb.CallOffReply:  # noqa: N802
        """Call one off."""
        await self._questions.call_off(peer_identity(context), request.question_id)
        return pb.CallOffReply()
