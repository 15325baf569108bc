"""Calls to the batches of a coordinator, without generated types: of a device, of a party, of an analyst."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from moiety.v1 import batch_pb2 as pb
from moiety.v1.batch_pb2_grpc import BatchStub
from moiety.v1.survey_pb2 import SurveyAskRequest, SurveyFetchRequest

from service.errors import error_from_call
from transport.aggregation import CALL_S, RETRY_S
from transport.batch_codec import (
    AnswerPart,
    BatchAnswer,
    OfferedBatch,
    key_of,
    parts_of_chunks,
    wire_answer,
)
from transport.calls.answers import AnswerChannel, readable
from transport.calls.chunks import chunks_of
from transport.calls.leader import wait_for_term
from transport.refusal import WhyRefused
from transport.repeated_calls import RepeatedCalls
from transport.survey import PATIENCE_S, SurveyHappening
from transport.survey_client import WATCH_S, happenings_of

LEADER_S = 60.0
"""Longest time in which a party looks for the coordinator that leads, before it fetches the shares of a batch."""

SHARES_S = 3600.0
"""Longest time in which a party fetches the shares of a batch."""


class BatchClient:
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
        self._stub = BatchStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
        self._repeated = RepeatedCalls(self._name, channel, self._patience_s)

    async def fetch(self, after: int) -> OfferedBatch | None:
        """Wait for the next batch; None where there is none yet.

        Args:
            after: the number of the last one that was seen.

        Raises:
            ServiceError: the coordinator cannot be reached for `patience_s`, or refuses.
        """

        async def once() -> pb.BatchFetchReply:
            call = self._stub.Fetch(SurveyFetchRequest(after=after), timeout=CALL_S + PATIENCE_S)
            reply: pb.BatchFetchReply = readable(await call, self._name, "fetch a batch")
            return reply

        reply = await self._repeated(once, "fetch a batch")
        if reply.number == 0:
            await asyncio.sleep(RETRY_S * (0.5 + random.random()))  # noqa: S311 -- spreads calls in time
            return None
        return OfferedBatch(reply.number, reply.question_json, tuple(map(key_of, reply.keys)))

    async def answer(self, batch_id: bytes, answer: BatchAnswer) -> None:
        """Send an answer; the coordinator has it on its disk when this returns.

        Raises:
            ServiceError: it was refused, or the coordinator cannot be reached for `patience_s`.
        """
        await self._send(wire_answer(batch_id, answer), "answer")

    async def refuse(self, batch_id: bytes, why: WhyRefused) -> None:
        """Say that there will be no answer.

        Raises:
            ServiceError: it was refused, or the coordinator cannot be reached for `patience_s`.
        """
        await self._send(pb.BatchAnswer(batch_id=batch_id, refused=why), "refuse")

    async def _send(self, message: pb.BatchAnswer, doing: str) -> None:
        async def once() -> None:
            readable(await self._stub.Answer(chunks_of(message), timeout=CALL_S), self._name, doing)

        await self._repeated(once, doing)


async def fetch_shares(
    name: str,
    channel: Any,
    batch_id: bytes,
    most_bytes: int,
    only: bytes = b"",
    *,
    term: Callable[[], int] = lambda: 0,
) -> AsyncIterator[AnswerPart]:
    """Fetch what is meant for a party of the answers to a closed batch.

    Args:
        name: of the coordinator.
        channel: an aio channel with the party's certificate.
        batch_id: of the batch.
        most_bytes: of one part.
        only: a bit for each answer, the highest first; empty for all.
        term: returns in which term the coordinator leads; 0 where it has none. See `wait_for_term`.

    Raises:
        ServiceError: the coordinator cannot be reached, or refuses; or what it sends cannot be read.
    """
    await wait_for_term(channel, term, peer=name, deadline_s=LEADER_S)
    stub = BatchStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
    doing = "fetch the shares of a batch"
    call = stub.Shares(pb.BatchSharesRequest(batch_id=batch_id, only=only), timeout=SHARES_S)
    try:
        chunks = (readable(chunk, name, doing) async for chunk in call)
        async for part in parts_of_chunks(chunks, most_bytes):
            yield part
    except grpc.aio.AioRpcError as error:
        raise error_from_call(error, peer=name, doing=doing) from error
    finally:
        call.cancel()


async def ask_batch(
    name: str, channel: Any, question_json: str = "", batch_id: bytes = b""
) -> AsyncIterator[SurveyHappening]:
    """Open a batch, or follow one, as an analyst, and yield what happens; the last is its result or its failure.

    Args:
        name: of the coordinator.
        channel: an aio channel with the analyst's certificate.
        question_json: canonical JSON of `analyses.sums.batch.question.BatchQuestion`; or
        batch_id: that of an earlier one.

    Raises:
        ServiceError: the coordinator cannot be reached, or refuses.
    """
    stub = BatchStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
    request = SurveyAskRequest(question_id=batch_id)
    if question_json:
        request = SurveyAskRequest(question_json=question_json)
    async for happening in happenings_of(stub.Ask(request, timeout=WATCH_S), name):
        yield happening
