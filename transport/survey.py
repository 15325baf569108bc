"""The service through which devices, who only dial out, fetch the questions of surveys and answer them."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from moiety.v1 import survey_pb2 as pb
from moiety.v1.survey_pb2_grpc import SurveyServicer, add_SurveyServicer_to_server

from service.errors import InvalidRequestError
from service.identity import Identity, peer_identity
from transport.aggregation import CallCount
from transport.refusal import Refusals, WhyRefused, why_of

FETCH = "/moiety.v1.Survey/Fetch"
ANSWER = "/moiety.v1.Survey/Answer"
ASK = "/moiety.v1.Survey/Ask"

PATIENCE_S = 10.0
"""How long a call waits for a question."""

PIECE_CHARACTERS = 64 << 10
"""Largest part of a result's text in one message."""


@dataclass(frozen=True)
class SurveyOpened:
    """The survey is open, under this identifier."""

    question_id: bytes


@dataclass(frozen=True)
class SurveyCounted:
    """So many responses have been taken."""

    n_responses: int


@dataclass(frozen=True)
class SurveyRefused:
    """So many devices have said that they will not answer, by the class of their reason."""

    refusals: Refusals


@dataclass(frozen=True)
class SurveyResult:
    """The survey is closed; its result as JSON."""

    result_json: str


@dataclass(frozen=True)
class SurveyFailure:
    """The survey is closed, and there is no result; the text is public."""

    reason: str


SurveyHappening = SurveyOpened | SurveyCounted | SurveyRefused | SurveyResult | SurveyFailure


class Surveys(Protocol):
    """What hosts the surveys."""

    async def fetch(self, caller: Identity, after: int, patience_s: float) -> tuple[int, str] | None:
        """Return number and canonical text of the first open question after a number that a device has not answered.

        None if there is none for `patience_s`.
        """

    async def answer(self, caller: Identity, question_id: bytes, body: bytes) -> None:
        """Take a response; it is on disk when this returns. The same one again changes nothing.

        Raises:
            NotFoundError: there is no such question.
            WrongStateError: the survey is closed.
            InvalidRequestError: the body is no response to the question.
            AlreadyExistsError: the caller has given another response, which stands.
        """

    async def refuse(self, caller: Identity, question_id: bytes, why: WhyRefused) -> None:
        """Take note that a device will not answer an open question; of others nothing is noted."""

    def ask(self, analyst: str, question_json: str) -> AsyncGenerator[SurveyHappening, None]:
        """Open a survey and follow it to its end.

        Raises:
            InvalidRequestError: the question cannot be asked; the text names the field.
            TooMuchError: too many surveys are open.
        """

    def follow(self, analyst: str, question_id: bytes) -> AsyncGenerator[SurveyHappening, None]:
        """Follow a survey of the analyst to its end.

        Raises:
            NotFoundError: the analyst has asked no such question.
        """


class SurveyService(SurveyServicer):
    """`moiety.v1.Survey`.

    Args:
        surveys: hosts them.
    """

    def __init__(self, surveys: Surveys) -> None:
        self._surveys = surveys
        self.calls = CallCount()

    def add_to(self, server: Any) -> None:
        """Register the service."""
        add_SurveyServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def Fetch(self, request: pb.SurveyFetchRequest, context: Any) -> pb.SurveyFetchReply:  # noqa: N802 - gRPC's name
        """Return the next question of the caller, or an empty reply."""
        caller = peer_identity(context)
        with self.calls.fetch(caller):
            found = await self._surveys.fetch(caller, request.after, PATIENCE_S)
        return pb.SurveyFetchReply() if found is None else pb.SurveyFetchReply(number=found[0], question_json=found[1])

    async def Answer(self, request: pb.SurveyAnswer, context: Any) -> pb.SurveyTaken:  # noqa: N802
        """Take the caller's response, or that there will be none."""
        with self.calls.call():
            if request.refused:
                await self._surveys.refuse(peer_identity(context), request.question_id, why_of(request.refused))
                return pb.SurveyTaken()
            await self._surveys.answer(peer_identity(context), request.question_id, request.body)
        return pb.SurveyTaken()

    async def Ask(self, request: pb.SurveyAskRequest, context: Any) -> AsyncIterator[pb.SurveyEvent]:  # noqa: N802
        """Open or follow a survey of an analyst."""
        analyst = peer_identity(context).name
        match request.WhichOneof("request"):
            case "question_json":
                following = self._surveys.ask(analyst, request.question_json)
            case "question_id":
                following = self._surveys.follow(analyst, request.question_id)
            case _:
                raise InvalidRequestError("neither a question nor the identifier of one")
        async with aclosing(following) as happenings:
            async for happening in happenings:
                for event in events_of(happening):
                    yield event


def events_of(happening: SurveyHappening) -> Iterator[pb.SurveyEvent]:
    """Yield what happens as it travels."""
    match happening:
        case SurveyOpened():
            yield pb.SurveyEvent(opened=happening.question_id)
        case SurveyCounted():
            yield pb.SurveyEvent(n_responses=happening.n_responses)
        case SurveyRefused():
            yield pb.SurveyEvent(refused=pb.Refusals(counts=dict(happening.refusals)))
        case SurveyFailure():
            yield pb.SurveyEvent(failure=happening.reason)
        case SurveyResult():
            text = happening.result_json
            for start in range(0, len(text), PIECE_CHARACTERS):
                yield pb.SurveyEvent(result_json=text[start : start + PIECE_CHARACTERS])
