"""Calls to the surveys of a coordinator, without generated types: those of a device, and those of an analyst."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import grpc
from moiety.v1 import survey_pb2 as pb
from moiety.v1.survey_pb2_grpc import SurveyStub

from mpc.public_text import public_json
from service.errors import (
    RemoteFailureError,
    error_from_call,
    public,
)
from transport.aggregation import CALL_S, RETRY_S
from transport.calls.answers import AnswerChannel, readable
from transport.refusal import WhyRefused, refusals_of
from transport.repeated_calls import RepeatedCalls
from transport.survey import (
    PATIENCE_S,
    SurveyCounted,
    SurveyFailure,
    SurveyHappening,
    SurveyOpened,
    SurveyRefused,
    SurveyResult,
)

WATCH_S = 30 * 86400.0

MAX_RESULT_CHARACTERS = 16 << 20
"""More than any result."""

R = TypeVar("R")


class SurveyClient:
    """Calls of one device to one coordinator. Every call may be repeated, and is.

    Args:
        name: of the coordinator, for error texts.
        channel: an aio channel with the device's certificate.
        patience_s: seconds during which a call is retried if the coordinator cannot be reached or is busy.
    """

    def __init__(self, name: str, channel: Any, patience_s: float = 60.0) -> None:
        self._name = name
        self._patience_s = patience_s
        self.use(channel)

    def use(self, channel: Any) -> None:
        """Call over another channel from now on; calls in flight end on the one that they began with."""
        self._stub = SurveyStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
        self._repeated = RepeatedCalls(self._name, channel, self._patience_s)

    async def fetch(self, after: int) -> tuple[int, str] | None:
        """Wait for the next question: its number and its text, as it came; None where there is none yet.

        Args:
            after: the number of the last one that was seen.

        Raises:
            ServiceError: the coordinator cannot be reached for `patience_s`, or refuses.
        """

        async def once() -> pb.SurveyFetchReply:
            call = self._stub.Fetch(pb.SurveyFetchRequest(after=after), timeout=CALL_S + PATIENCE_S)
            reply: pb.SurveyFetchReply = readable(await call, self._name, "fetch a question")
            return reply

        reply = await self._repeated(once, "fetch a question")
        if reply.number == 0:
            await asyncio.sleep(RETRY_S * (0.5 + random.random()))  # noqa: S311 -- spreads calls in time
            return None
        return reply.number, reply.question_json

    async def answer(self, question_id: bytes, body: bytes) -> None:
        """Send a response; the coordinator has it on its disk when this returns.

        Raises:
            ServiceError: it was refused, or the coordinator cannot be reached for `patience_s`.
        """

        async def once() -> None:
            call = self._stub.Answer(pb.SurveyAnswer(question_id=question_id, body=body), timeout=CALL_S)
            readable(await call, self._name, "answer")

        await self._repeated(once, "answer")

    async def refuse(self, question_id: bytes, why: WhyRefused) -> None:
        """Say that there will be no response.

        Args:
            question_id: of the question.
            why: the class of the reason.

        Raises:
            ServiceError: it was refused, or the coordinator cannot be reached for `patience_s`.
        """

        async def once() -> None:
            call = self._stub.Answer(pb.SurveyAnswer(question_id=question_id, refused=why), timeout=CALL_S)
            readable(await call, self._name, "refuse")

        await self._repeated(once, "refuse")


async def ask_survey(
    name: str, channel: Any, question_json: str = "", question_id: bytes = b""
) -> AsyncIterator[SurveyHappening]:
    """Open a survey, or follow one, as an analyst, and yield what happens; the last is its result or its failure.

    Args:
        name: of the coordinator.
        channel: an aio channel with the analyst's certificate.
        question_json: a question to ask; or
        question_id: that of an earlier one.

    Raises:
        ServiceError: the coordinator cannot be reached, or refuses.
    """
    stub = SurveyStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
    request = pb.SurveyAskRequest(question_id=question_id)
    if question_json:
        request = pb.SurveyAskRequest(question_json=question_json)
    async for happening in happenings_of(stub.Ask(request, timeout=WATCH_S), name):
        yield happening


async def happenings_of(events: Any, name: str) -> AsyncIterator[SurveyHappening]:
    """Yield what happens to what an analyst has asked of devices.

    Args:
        events: a call whose answers are `SurveyEvent`.
        name: of the coordinator.

    Raises:
        ServiceError: the coordinator cannot be reached, or refuses.
    """
    pieces, n_characters = [], 0
    try:
        async for event in events:
            event = readable(event, name, "ask")
            match event.WhichOneof("event"):
                case "opened":
                    yield SurveyOpened(event.opened)
                case "n_responses":
                    yield SurveyCounted(event.n_responses)
                case "refused":
                    yield SurveyRefused(refusals_of(event.refused.counts))
                case "failure":
                    yield SurveyFailure(public(event.failure))
                case "result_json":
                    n_characters += len(event.result_json)
                    if n_characters > MAX_RESULT_CHARACTERS:
                        raise RemoteFailureError(f"cannot ask at {name}: its result is too long")
                    pieces.append(event.result_json)
    except grpc.aio.AioRpcError as error:
        raise error_from_call(error, peer=name, doing="ask") from error
    if pieces:
        try:
            yield SurveyResult(public_json("".join(pieces)))
        except ValueError:
            raise RemoteFailureError(f"cannot ask at {name}: its result is not JSON") from None
