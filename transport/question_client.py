"""Calls to the questions of a coordinator, without generated types: of a device, of a party, of an analyst."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from wire.v1 import questions_pb2 as pb
from wire.v1.questions_pb2_grpc import QuestionsStub

from mpc.public_text import public_json
from service.errors import RemoteFailureError, error_from_call, public
from service.limits import SHORT_ANSWER_BYTES
from transport.aggregation import CALL_S, RETRY_S
from transport.batch_codec import AnswerPart, OfferedQuestion, key_of, parts_of_chunks
from transport.calls.answers import AnswerChannel, readable
from transport.calls.chunks import chunks_of
from transport.calls.leader import wait_for_term
from transport.happenings import Happening, Result, happening_of
from transport.questions import PATIENCE_S, OpenQuestion
from transport.refusal import WhyRefused
from transport.repeated_calls import RepeatedCalls

WATCH_S = 30 * 86400.0

LIST_S = 60.0
"""Longest time of a call that lists questions or calls one off."""

LEADER_S = 60.0
"""Longest time in which a party looks for the coordinator that leads, before it fetches the shares of a batch."""

SHARES_S = 3600.0
"""Longest time in which a party fetches the shares of a batch."""

MAX_RESULT_CHARACTERS = 1 << 30
"""More than any result."""


class QuestionClient:
    """Calls of one device to one coordinator about one kind of question. Every call may be repeated, and is.

    Args:
        name: name of the coordinator, for error texts.
        channel: an aio channel with the device's certificate.
        kind: kind of the questions.
        patience_s: seconds during which a call is retried if the coordinator cannot be reached or is busy.
    """

    def __init__(self, name: str, channel: Any, kind: str, patience_s: float = 60.0) -> None:
        self._name = name
        self._kind = kind
        self._patience_s = patience_s
        self.use(channel)

    def use(self, channel: Any) -> None:
        """Call over another channel from now on; calls in flight end on the one that they began with."""
        self._stub = QuestionsStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
        self._repeated = RepeatedCalls(self._name, channel, self._patience_s)

    async def fetch(self, after: int) -> OfferedQuestion | None:
        """Wait for the next question; None where there is none yet.

        Args:
            after: the number of the last one that was seen.

        Raises:
            ServiceError: the coordinator cannot be reached for `patience_s`, or refuses.
        """

        async def once() -> pb.OfferedQuestion:
            request = pb.FetchQuestionRequest(kind=self._kind, after=after)
            call = self._stub.Fetch(request, timeout=CALL_S + PATIENCE_S)
            reply: pb.OfferedQuestion = readable(await call, self._name, "fetch a question")
            return reply

        reply = await self._repeated(once, "fetch a question")
        if reply.number == 0:
            await asyncio.sleep(RETRY_S * (0.5 + random.random()))  # noqa: S311 -- spreads calls in time
            return None
        return OfferedQuestion(reply.number, reply.question_json, tuple(map(key_of, reply.keys)))

    async def answer(self, question_id: bytes, body: bytes) -> None:
        """Send an answer; the coordinator has it on its disk when this returns.

        Raises:
            ServiceError: it was refused, or the coordinator cannot be reached for `patience_s`.
        """
        await self._send(pb.QuestionAnswer(kind=self._kind, question_id=question_id, body=body), "answer")

    async def refuse(self, question_id: bytes, why: WhyRefused) -> None:
        """Say that there will be no answer, by the class of the reason.

        Raises:
            ServiceError: it was refused, or the coordinator cannot be reached for `patience_s`.
        """
        await self._send(pb.QuestionAnswer(kind=self._kind, question_id=question_id, refused=why), "refuse")

    async def _send(self, message: pb.QuestionAnswer, doing: str) -> None:
        async def once() -> None:
            if message.ByteSize() <= SHORT_ANSWER_BYTES:
                call = self._stub.Answer(message, timeout=CALL_S)
            else:
                call = self._stub.AnswerInChunks(chunks_of(message), timeout=CALL_S)
            readable(await call, self._name, doing)

        await self._repeated(once, doing)


async def fetch_shares(
    name: str,
    channel: Any,
    question_id: bytes,
    most_bytes: int,
    only: bytes = b"",
    *,
    term: Callable[[], int] = lambda: 0,
) -> AsyncIterator[AnswerPart]:
    """Fetch what is meant for a party of the answers to a closed batch.

    Args:
        name: name of the coordinator.
        channel: an aio channel with the party's certificate.
        question_id: identifier of the batch.
        most_bytes: largest part, bytes.
        only: a bit for each answer, the highest first; empty for all.
        term: returns in which term the coordinator leads; 0 where it has none. See `wait_for_term`.

    Raises:
        ServiceError: the coordinator cannot be reached, or refuses; or what it sends cannot be read.
    """
    await wait_for_term(channel, term, peer=name, deadline_s=LEADER_S)
    stub = QuestionsStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
    doing = "fetch the shares of a batch"
    call = stub.Shares(pb.SharesRequest(question_id=question_id, only=only), timeout=SHARES_S)
    try:
        chunks = (readable(chunk, name, doing) async for chunk in call)
        async for part in parts_of_chunks(chunks, most_bytes):
            yield part
    except grpc.aio.AioRpcError as error:
        raise error_from_call(error, peer=name, doing=doing) from error
    finally:
        call.cancel()


async def ask(
    name: str, channel: Any, kind: str = "", text: str = "", question_id: bytes = b""
) -> AsyncIterator[Happening]:
    """Open a question, or follow one, as an analyst, and yield what happens; the last is its result or its failure.

    Args:
        name: name of the coordinator.
        channel: an aio channel with the analyst's certificate.
        kind: kind of the question to ask.
        text: its canonical JSON; or
        question_id: identifier of a question that was asked before.

    Raises:
        ServiceError: the coordinator cannot be reached, or refuses.
    """
    stub = QuestionsStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
    request = pb.AskRequest(kind=kind, question_json=text) if text else pb.AskRequest(question_id=question_id)
    pieces, n_characters = [], 0
    try:
        async for event in stub.Ask(chunks_of(request), timeout=WATCH_S):
            happening = happening_of(readable(event, name, "ask"))
            if not isinstance(happening, Result):
                yield happening
                continue
            n_characters += len(happening.result_json)
            if n_characters > MAX_RESULT_CHARACTERS:
                raise RemoteFailureError(f"cannot ask at {name}: its result is too long")
            pieces.append(happening.result_json)
    except grpc.aio.AioRpcError as error:
        raise error_from_call(error, peer=name, doing="ask") from error
    if pieces:
        try:
            yield Result(public_json("".join(pieces)))
        except ValueError:
            raise RemoteFailureError(f"cannot ask at {name}: its result is not JSON") from None


async def list_open(name: str, channel: Any) -> list[OpenQuestion]:
    """Return the open questions of a coordinator that we may see; raises `ServiceError` where there is no answer."""
    reply: pb.OpenQuestions = await _call(name, channel, "List", pb.QuestionsRequest(), "list the open questions")
    return [
        OpenQuestion(
            one.question_id, public(one.kind), public(one.analyst), public(one.record), one.until_s, one.n_answers
        )
        for one in reply.questions
    ]


async def call_off(name: str, channel: Any, question_id: bytes) -> None:
    """Call a question off; raises `ServiceError` where that is refused."""
    await _call(name, channel, "CallOff", pb.CallOffRequest(question_id=question_id), "call the question off")


async def _call(name: str, channel: Any, method: str, request: Any, doing: str) -> Any:
    stub = QuestionsStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
    try:
        return readable(await getattr(stub, method)(request, timeout=LIST_S), name, doing)
    except grpc.aio.AioRpcError as error:
        raise error_from_call(error, peer=name, doing=doing) from error
