"""A member's calls to the coordinator of masked sums, without generated types. Calls are idempotent and are retried."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from wire.v1 import aggregation_pb2 as pb
from wire.v1.aggregation_pb2_grpc import AggregationStub

from mpc.secagg.coordinator import FromMembers
from mpc.secagg.policy import MemberPolicy
from mpc.transcript import RoundId
from transport.aggregation import CALL_S, NEXT_STEP, PATIENCE_S, RoundStep, longest_message_bytes
from transport.calls.answers import AnswerChannel, readable
from transport.calls.chunks import chunks_of, gather_chunks
from transport.refusal import Declined
from transport.repeated_calls import RepeatedCalls
from transport.sum_codec import (
    MAX_MESSAGE_BYTES,
    ToMembers,
    decode_to_member,
    encode_from_member,
    encode_round_id,
    parse_to_member,
)

FETCHING = "fetch a message"
_NO_ROUND = RoundId("", 0, 0)


class AggregationClient:
    """Calls of one member to one coordinator.

    Args:
        name: name of the coordinator, for error texts.
        channel: an aio channel with the member's certificate.
        patience_s: seconds during which a call is retried if the coordinator cannot be reached or is busy: when a stage
            begins for thousands of members, it takes in their answers for minutes and turns many away meanwhile.
        policy: the member's policy, which bounds what is read and decoded; None for no bound but that of all messages.
    """

    def __init__(
        self, name: str, channel: Any, patience_s: float = PATIENCE_S, policy: MemberPolicy | None = None
    ) -> None:
        self._name = name
        self._patience_s = patience_s
        self._goes_on: tuple[RoundId, RoundStep, Any] | None = None
        self.use(channel, policy)

    def use(self, channel: Any, policy: MemberPolicy | None) -> None:
        """Call over another channel from now on, under another policy; calls in flight end as they began."""
        self._policy = policy
        self._stub = AggregationStub(AnswerChannel(channel))  # type: ignore[no-untyped-call]  # generated
        self._repeated = RepeatedCalls(self._name, channel, self._patience_s)

    async def fetch(self, step: RoundStep, round_id: RoundId = _NO_ROUND) -> ToMembers:
        """Wait for my next message.

        Args:
            step: what I ask for.
            round_id: identifier of my round; for an invitation the last one that I have seen.

        Raises:
            NotFoundError: the coordinator does not know the round (any more).
            RefusedInvitationError: an invitation to a round that is too large for our policy.
            TooMuchError: the message is longer than any of a round that our policy accepts; the rest was not read.
            ServiceError: it cannot be reached for `patience_s`, or refuses.
        """
        if (message := await self._following(round_id, step)) is not None:
            return message
        request = pb.FetchRequest(round_id=encode_round_id(round_id), step=pb.Step.Name(step))

        async def once() -> pb.ToMember:
            return await self._read(self._stub.Fetch(request, timeout=CALL_S + PATIENCE_S), step)

        while True:
            wire = await self._repeated(once, FETCHING)
            if (message := await self._decoded(wire)) is not None:
                return message
            await asyncio.sleep(wire.pending.retry_s)

    async def answer(self, message: FromMembers | Declined) -> None:
        """Send my message of one stage, or that I do not take part in the round.

        The call goes on after that: what is due next comes in it, and `fetch` takes it from there.

        Raises:
            ServiceError: it was refused, or the coordinator cannot be reached for `patience_s`.
        """
        wire, step = encode_from_member(message), NEXT_STEP.get(type(message))

        async def once() -> Any:
            call = self._stub.Answer(chunks_of(wire), timeout=CALL_S + PATIENCE_S)
            try:
                readable(await call.read(), self._name, "answer")
            except BaseException:
                call.cancel()
                raise
            return call

        call = await self._repeated(once, "answer")
        if step is None:
            call.cancel()
            return
        if self._goes_on is not None:
            self._goes_on[2].cancel()
        self._goes_on = message.round_id, step, call

    async def _following(self, round_id: RoundId, step: RoundStep) -> ToMembers | None:
        """Return what comes in the call of my last answer; None where it has to be fetched."""
        if self._goes_on is None or self._goes_on[:2] != (round_id, step):
            return None
        (_, _, call), self._goes_on = self._goes_on, None
        try:
            wire = await self._read(call, step)
            return None if wire.WhichOneof("message") is None else await self._decoded(wire)
        except grpc.aio.AioRpcError:
            return None

    async def _read(self, call: Any, step: RoundStep) -> pb.ToMember:
        most_bytes = MAX_MESSAGE_BYTES if self._policy is None else longest_message_bytes(self._policy, step)
        try:
            return parse_to_member(await gather_chunks(self._chunks(call), most_bytes))
        finally:
            call.cancel()  # do not wait for the rest of a message that is too long

    async def _chunks(self, call: Any) -> AsyncIterator[pb.Chunk]:
        while (chunk := await call.read()) is not grpc.aio.EOF:
            yield readable(chunk, self._name, FETCHING)

    async def _decoded(self, wire: pb.ToMember) -> ToMembers | None:
        if wire.WhichOneof("message") == "pending":
            return None
        return await asyncio.to_thread(decode_to_member, wire, self._policy)
