"""The service through which members of masked sums, who only dial out, fetch what is due to them and answer."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from enum import IntEnum
from typing import Any, Protocol

from moiety.v1 import aggregation_pb2 as pb
from moiety.v1.aggregation_pb2_grpc import AggregationServicer, add_AggregationServicer_to_server

from mpc.secagg.coordinator import FromMembers
from mpc.secagg.transcript import RoundId
from transport.errors import InvalidRequestError, TooMuchError
from transport.identity import peer_identity
from transport.sum_codec import (
    LARGEST_MESSAGE_BYTES,
    SumHappening,
    ToMembers,
    chunks_of,
    decode_from_member,
    decode_round_id,
    encode_happening,
    encode_to_member,
    gather_chunks,
)

FETCH = "/moiety.v1.Aggregation/Fetch"
ANSWER = "/moiety.v1.Aggregation/Answer"
SUM = "/moiety.v1.Aggregation/Sum"

MOST_CALLS = 500
"""Calls of members in flight, over all connections. Who comes beyond that is asked to come again."""

MOST_WAITING = 400
"""Of these, so many may wait for something to happen; the others must be free for answers."""

PATIENCE_S = 10.0
RETRY_S = 0.5


class RoundStep(IntEnum):
    """What a member asks for; the numbers are those of `moiety.v1.Step`."""

    INVITATION = pb.STEP_INVITATION
    MEMBERS = pb.STEP_MEMBERS
    SHARES = pb.STEP_SHARES
    SURVIVORS = pb.STEP_SURVIVORS
    SIGNATURES = pb.STEP_SIGNATURES
    END = pb.STEP_END


class Rounds(Protocol):
    """What hosts the rounds."""

    async def receive(self, name: str, message: FromMembers) -> None:
        """Take in the message of the member whose certificate says `name`; repetitions change nothing."""

    async def fetch(self, name: str, round_id: RoundId, step: RoundStep, patience_s: float) -> ToMembers | None:
        """Return what is due to a member, or None if it is still unknown after `patience_s`."""


class CallCount:
    """Counts calls in flight and those among them that wait."""

    def __init__(self) -> None:
        self.n_calls = 0
        self.n_waiting = 0

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call.

        Raises:
            TooMuchError: there are `MOST_CALLS` already.
        """
        if self.n_calls >= MOST_CALLS:
            raise TooMuchError(f"{MOST_CALLS} calls of members are in flight; come again in a moment")
        self.n_calls += 1
        try:
            yield
        finally:
            self.n_calls -= 1

    @contextmanager
    def waiting(self) -> Iterator[float]:
        """Count a call that may wait; says for how long."""
        may_wait = self.n_waiting < MOST_WAITING
        self.n_waiting += may_wait
        try:
            yield PATIENCE_S if may_wait else 0.0
        finally:
            self.n_waiting -= may_wait


class AggregationService(AggregationServicer):
    """`moiety.v1.Aggregation`.

    Args:
        rounds: hosts them.
        run_sum: runs the sum that an analyst (first argument) asks for (second, JSON), and says what happens.
    """

    def __init__(self, rounds: Rounds, run_sum: Callable[[str, str], AsyncGenerator[SumHappening, None]]) -> None:
        self._rounds = rounds
        self._run_sum = run_sum
        self.calls = CallCount()

    def add_to(self, server: Any) -> None:
        """Register the service."""
        add_AggregationServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def Fetch(self, request: pb.FetchRequest, context: Any) -> AsyncIterator[pb.Chunk]:  # noqa: N802 - gRPC's name
        """Stream what is due to the caller."""
        name, round_id = peer_identity(context).name, decode_round_id(request.round_id)
        if int(request.step) not in {int(step) for step in RoundStep}:
            raise InvalidRequestError("there is no such step in a round")
        with self.calls.call():
            with self.calls.waiting() as patience_s:
                message = await self._rounds.fetch(name, round_id, RoundStep(request.step), patience_s)
            if message is None:
                retry_s = RETRY_S * (0.5 + random.random()) if patience_s == 0.0 else 0.0  # noqa: S311 -- spreads calls
                wire = pb.ToMember(pending=pb.Pending(retry_s=retry_s))
            else:
                wire = encode_to_member(message)
            for chunk in chunks_of(wire):
                yield chunk

    async def Answer(self, request_iterator: AsyncIterator[pb.Chunk], context: Any) -> pb.Taken:  # noqa: N802
        """Take the caller's message of one stage."""
        with self.calls.call():
            data = await gather_chunks(request_iterator, LARGEST_MESSAGE_BYTES)
            await self._rounds.receive(peer_identity(context).name, decode_from_member(data))
        return pb.Taken()

    async def Sum(self, request: pb.SumRequest, context: Any) -> AsyncIterator[pb.SumEvent]:  # noqa: N802
        """Run a sum for an analyst; it ends when the analyst goes away."""
        async with aclosing(self._run_sum(peer_identity(context).name, request.sum_json)) as happenings:
            async for happening in happenings:
                for event in encode_happening(happening):
                    yield event
