"""A member's calls to the coordinator of masked sums, without generated types. Calls are idempotent and are retried."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from moiety.v1 import aggregation_pb2 as pb
from moiety.v1.aggregation_pb2_grpc import AggregationStub

from mpc.public_text import public_json
from mpc.secagg.coordinator import FromMembers
from mpc.secagg.policy import MemberPolicy
from mpc.transcript import RoundId
from service.errors import RemoteFailureError, error_from_call
from transport.aggregation import CALL_S, PATIENCE_S, RoundStep, longest_message_bytes
from transport.calls.answers import AnswerChannel, readable
from transport.calls.chunks import chunks_of, gather_chunks
from transport.repeated_calls import RepeatedCalls
from transport.sum_codec import (
    MAX_MESSAGE_BYTES,
    SumHappening,
    SumResult,
    ToMembers,
    decode_happening,
    decode_to_member,
    encode_from_member,
    encode_round_id,
    parse_to_member,
)

WATCH_S = 86400.0
_NO_ROUND = RoundId("", 0, 0)


async def watch_sum(name: str, channel: Any, sum_json: str) -> AsyncIterator[SumHappening]:
    """Run a sum as an analyst and yield its events; the last one is its result or its failure.

    Args:
        name: of the coordinator.
        channel: an aio channel with the analyst's certificate.
        sum_json: canonical JSON of `analyses.sums.secure_sum.SumParams`.

    Raises:
        ServiceError: the coordinator cannot be reached, or refuses.
    """
    stub = AggregationStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
    pieces = []
    try:
        async for event in stub.Sum(chunks_of(pb.SumRequest(sum_json=sum_json)), timeout=WATCH_S):
            happening = decode_happening(readable(event, name, "run the sum"))
            if isinstance(happening, SumResult):
                pieces.append(happening.result_json)
            else:
                yield happening
    except grpc.aio.AioRpcError as error:
        raise error_from_call(error, peer=name, doing="run the sum") from error
    if pieces:
        try:
            yield SumResult(public_json("".join(pieces)))
        except ValueError:
            raise RemoteFailureError(f"cannot run the sum at {name}: its result is not JSON") from None


class AggregationClient:
    """Calls of one member to one coordinator.

    Args:
        name: of the coordinator, for error texts.
        channel: an aio channel with the member's certificate.
        patience_s: seconds during which a call is retried if the coordinator cannot be reached or is busy.
        policy: of the member: it bounds what is read and decoded; None for no bound but that of all messages.
    """

    def __init__(self, name: str, channel: Any, patience_s: float = 60.0, policy: MemberPolicy | None = None) -> None:
        self._name = name
        self._stub = AggregationStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
        self._policy = policy
        self._repeated = RepeatedCalls(name, channel, patience_s)

    async def fetch(self, step: RoundStep, round_id: RoundId = _NO_ROUND) -> ToMembers:
        """Wait for my next message.

        Args:
            step: what I ask for.
            round_id: of my round; for an invitation the last one that I have seen.

        Raises:
            NotFoundError: the coordinator does not know the round (any more).
            RefusedInvitationError: an invitation to an invalid round, or to one that is too large for our policy.
            TooMuchError: the message is longer than any of a round that our policy accepts; the rest was not read.
            ServiceError: it cannot be reached for `patience_s`, or refuses.
        """
        request = pb.FetchRequest(round_id=encode_round_id(round_id), step=pb.Step.Name(step))
        most_bytes = MAX_MESSAGE_BYTES if self._policy is None else longest_message_bytes(self._policy, step)

        async def once() -> pb.ToMember:
            call = self._stub.Fetch(request, timeout=CALL_S + PATIENCE_S)
            chunks = (readable(answer, self._name, "fetch a message") async for answer in call)
            try:
                return parse_to_member(await gather_chunks(chunks, most_bytes))
            finally:
                call.cancel()  # do not wait for the rest of a message that is too long

        while True:
            wire = await self._repeated(once, "fetch a message")
            if wire.WhichOneof("message") != "pending":
                return await asyncio.to_thread(decode_to_member, wire, self._policy)
            await asyncio.sleep(wire.pending.retry_s)

    async def answer(self, message: FromMembers) -> None:
        """Send my message of one stage.

        Raises:
            ServiceError: it was refused, or the coordinator cannot be reached for `patience_s`.
        """
        wire = encode_from_member(message)

        async def once() -> None:
            readable(await self._stub.Answer(chunks_of(wire), timeout=CALL_S), self._name, "answer")

        await self._repeated(once, "answer")
