"""The service of masked sums, from which members fetch their next message over outgoing connections only."""

import asyncio
import random
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from enum import IntEnum
from typing import Any, Protocol

from wire.v1 import aggregation_pb2 as pb
from wire.v1.aggregation_pb2_grpc import AggregationServicer, add_AggregationServicer_to_server

from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import FromMembers
from mpc.secagg.messages import (
    SEAL_BYTES,
    Advertisement,
    MaskedInput,
    MemberList,
    SealedShares,
    SignedSurvivors,
    SurvivorList,
    SurvivorSignature,
    UnmaskingShares,
    sealed_bytes,
    vector_bytes,
)
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.secret_sharing import SHARE_BYTES
from mpc.secagg.stage import Stage
from mpc.transcript import DIGEST_BYTES, RoundId
from service.errors import InvalidRequestError, TimedOutError, TooMuchError
from service.identity import Identity, peer_identity
from transport.calls.chunks import chunks_of, gather_chunks
from transport.refusal import Declined
from transport.sum_codec import (
    MAX_MESSAGE_BYTES,
    Ended,
    Invitation,
    ToMembers,
    decode_from_member,
    decode_round_id,
    encode_to_member,
)

FETCH = "/moiety.v1.Aggregation/Fetch"
ANSWER = "/moiety.v1.Aggregation/Answer"

MAX_CALLS = 500
"""Largest number of calls of members that are worked on at a time, over all connections. Calls that wait do not count:
of each member few wait, and members are known by name."""

MAX_UNREAD_BYTES = 512 << 20
"""Memory for answers that are being read, over all connections; who sends more waits until others have been read."""

MAX_FETCHES_EACH = 4
"""Largest number of calls of one caller that wait. A member makes one call at a time, but calls over broken connections
may still wait here."""

MAX_FETCH_BYTES = 1024
"""Largest size of a `FetchRequest`, which is kept in memory while the call waits."""

MAX_QUESTION_BYTES = 8 << 20
"""Larger than any question: a coordinator accepts at most 4 MiB from an analyst."""

CALL_S = 60.0
"""Seconds after which a member gives up a call, and after which the service stops waiting for an answer to arrive."""

PATIENCE_S = 300.0
"""Longest time that a call waits for what is due, in a stage or between rounds. Both ends notice within half a minute
that the other one is gone, so a long wait costs nothing but its memory."""
RETRY_S = 0.5

_FIXED_BYTES = 1024
"""More than all of an answer but its vector and its shares."""
_ENTRY_BYTES = 16
"""More than what surrounds a share in a map."""
_ROSTER_ENTRY_BYTES = 256
"""More than a member of a roster: its name and its key, and the name once more in the question."""
_ADVERTISEMENT_BYTES = 512
"""More than an advertisement, or a signature and its digest."""


class RoundStep(IntEnum):
    """The kind of message that a member fetches; the numbers are those of `moiety.v1.Step`."""

    INVITATION = pb.STEP_INVITATION
    MEMBERS = pb.STEP_MEMBERS
    SHARES = pb.STEP_SHARES
    SURVIVORS = pb.STEP_SURVIVORS
    SIGNATURES = pb.STEP_SIGNATURES
    END = pb.STEP_END


STEP_OF: Mapping[Stage, RoundStep] = {
    Stage.SHARE: RoundStep.MEMBERS,
    Stage.MASK: RoundStep.SHARES,
    Stage.AGREE: RoundStep.SURVIVORS,
    Stage.UNMASK: RoundStep.SIGNATURES,
}
"""Stage to the step at which a member asks for the message that opens it."""


NEXT_STEP: Mapping[type, RoundStep] = {
    Advertisement: RoundStep.MEMBERS,
    SealedShares: RoundStep.SHARES,
    MaskedInput: RoundStep.SURVIVORS,
    SurvivorSignature: RoundStep.SIGNATURES,
    UnmaskingShares: RoundStep.END,
}
"""Class of a member's message to what is due to the member after it."""

TAKEN = pb.Chunk()
"""Says that an answer is taken, before what is due next."""

_FOR_MANY = (Invitation, MemberList, SurvivorList, SignedSurvivors, Ended)
"""Messages that many members get, so that they are encoded once."""
MAX_ENCODED = 32
"""Number of such messages whose bytes are kept."""


class Rounds(Protocol):
    """The host of the rounds, as the service uses it."""

    def longest_answer_bytes(self, caller: Identity) -> int:
        """Return the size of the longest message that a caller may have to send now.

        Raises:
            NotAllowedError: it is no member of sums here.
            NotFoundError: it is member of no round that is known here.
        """

    async def receive(self, caller: Identity, message: FromMembers | Declined) -> None:
        """Process the message of a member; repetitions change nothing.

        Raises:
            NotAllowedError: the caller is no member of sums here, or not the one that the message names.
        """

    async def wait(self, caller: Identity, round_id: RoundId, step: RoundStep, patience_s: float) -> None:
        """Wait until something is `due`, or `patience_s` is over; nothing is made or kept for the caller.

        Raises:
            NotAllowedError: the caller is no member of sums here.
        """

    def due(self, caller: Identity, round_id: RoundId, step: RoundStep) -> ToMembers | None:
        """Return the next message for a member, or None while it is unknown.

        Raises:
            NotAllowedError: the caller is no member of sums here.
        """


def longest_answer_bytes(config: RoundConfig) -> int:
    """Return the size on the wire, at most, of the longest message of a member of a round."""
    # What is released at the end is shorter: at most two shares per neighbour, and of the member's own secrets.
    shares_bytes = (config.topology.degree + 1) * (sealed_bytes(config) + 2 * _ENTRY_BYTES)
    longest = _FIXED_BYTES + len(config.round_id.session.encode()) + max(shares_bytes, vector_bytes(config))
    return min(MAX_MESSAGE_BYTES, longest)


def longest_message_bytes(policy: MemberPolicy, step: RoundStep) -> int:
    """Return the size on the wire, at most, of a coordinator's message in any round that a member's policy accepts."""
    n, degree = policy.largest_roster, min(policy.largest_degree, policy.largest_roster)
    if step is RoundStep.INVITATION:
        return MAX_QUESTION_BYTES + n * _ROSTER_ENTRY_BYTES
    delivered_bytes = (2 + n) * SHARE_BYTES + SEAL_BYTES + DIGEST_BYTES + 2 * _ENTRY_BYTES
    return min(MAX_MESSAGE_BYTES, MAX_QUESTION_BYTES + n * _ADVERTISEMENT_BYTES + degree * delivered_bytes)


class CallCount:
    """Counts calls that are worked on, and the calls of each caller that wait."""

    def __init__(self) -> None:
        self.n_calls = 0
        self._n_fetches: Counter[Identity] = Counter()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call.

        Raises:
            TooMuchError: there are `MAX_CALLS` already.
        """
        if self.n_calls >= MAX_CALLS:
            raise TooMuchError(f"{MAX_CALLS} calls of members are already in flight; try again in a moment")
        self.n_calls += 1
        try:
            yield
        finally:
            self.n_calls -= 1

    @property
    def n_waiting(self) -> int:
        """Calls that wait."""
        return self._n_fetches.total()

    def may_wait(self, caller: Identity) -> bool:
        """Return whether one more call of a caller may wait."""
        return self._n_fetches[caller] < MAX_FETCHES_EACH

    @contextmanager
    def fetch(self, caller: Identity) -> Iterator[None]:
        """Count a call that waits for something.

        Raises:
            TooMuchError: the caller has `MAX_FETCHES_EACH` in flight already.
        """
        if not self.may_wait(caller):
            raise TooMuchError(
                f"{caller.name} already has {MAX_FETCHES_EACH} waiting calls here; try again in a moment"
            )
        self._n_fetches[caller] += 1
        try:
            yield
        finally:
            self._n_fetches[caller] -= 1
            if not self._n_fetches[caller]:
                del self._n_fetches[caller]


class ReadingRoom:
    """Limits the memory of answers that are being read. Who finds no room waits, in the order of coming.

    Args:
        most_bytes: bytes of all messages together. One that needs more is read when nothing else is.
    """

    def __init__(self, most_bytes: int = MAX_UNREAD_BYTES) -> None:
        self._most_bytes = most_bytes
        self._used_bytes = 0
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def room_for(self, n_bytes: int) -> AsyncIterator[None]:
        """Wait until so many bytes may be read."""
        if self._queue or not self._fits(n_bytes):
            admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append((n_bytes, admitted))
            try:
                await admitted
            except asyncio.CancelledError:
                if admitted.done() and not admitted.cancelled():
                    self._leave(n_bytes)  # was admitted in the same moment
                else:
                    self._queue.remove((n_bytes, admitted))
                    self._admit()
                raise
        else:
            self._used_bytes += n_bytes
        try:
            yield
        finally:
            self._leave(n_bytes)

    def _fits(self, n_bytes: int) -> bool:
        return self._used_bytes == 0 or self._used_bytes + n_bytes <= self._most_bytes

    def _leave(self, n_bytes: int) -> None:
        self._used_bytes -= n_bytes
        self._admit()

    def _admit(self) -> None:
        while self._queue and self._fits(self._queue[0][0]):
            n_bytes, admitted = self._queue.popleft()
            self._used_bytes += n_bytes
            admitted.set_result(None)


class AnswerTurns:
    """Allows each caller one answer at a time: a new call replaces an earlier one, once that has ended.

    The new one has to win. A member calls again because its connection broke, and here the break may be noticed only
    half a minute later.
    """

    def __init__(self) -> None:
        self._turns: dict[Identity, asyncio.Lock] = {}  # of members only, so there are never many
        self._latest: dict[Identity, asyncio.Timeout] = {}

    @asynccontextmanager
    async def turn(self, caller: Identity) -> AsyncIterator[None]:
        """Take the caller's turn.

        Raises:
            TooMuchError: a newer call of the same caller has come meanwhile.
        """
        if (before := self._latest.get(caller)) is not None:
            before.reschedule(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(None) as until_replaced:
                self._latest[caller] = until_replaced
                try:
                    async with self._turns.setdefault(caller, asyncio.Lock()):
                        yield
                finally:
                    if self._latest.get(caller) is until_replaced:
                        del self._latest[caller]
        except TimeoutError as error:
            if not until_replaced.expired():
                raise
            raise TooMuchError(f"a newer call of {caller.name} has replaced this one") from error


class AggregationService(AggregationServicer):
    """`moiety.v1.Aggregation`.

    Args:
        rounds: hosts them.
    """

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self.calls = CallCount()
        self._turns = AnswerTurns()
        self._room = ReadingRoom()
        self._sending = asyncio.Semaphore(MAX_CALLS)
        self._encoded: dict[int, tuple[ToMembers, tuple[pb.Chunk, ...]]] = {}

    def add_to(self, server: Any) -> None:
        """Register the service."""
        add_AggregationServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def Fetch(self, request: pb.FetchRequest, context: Any) -> AsyncIterator[pb.Chunk]:  # noqa: N802 - gRPC's name
        """Stream the next message for the caller."""
        caller, round_id = peer_identity(context), decode_round_id(request.round_id)
        if int(request.step) not in {int(step) for step in RoundStep}:
            raise InvalidRequestError("a round has no such step")
        if request.ByteSize() > MAX_FETCH_BYTES:
            raise InvalidRequestError("the name of the round is too long")
        async with aclosing(self._due(caller, round_id, RoundStep(request.step))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def Answer(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.Chunk], context: Any
    ) -> AsyncIterator[pb.Chunk]:
        """Take the caller's message of one stage, then stream what is due to it next."""
        caller = peer_identity(context)
        most_bytes = self._rounds.longest_answer_bytes(
            caller
        )  # before a byte is read, so that unknown callers are refused early
        round_id, step = await self._take(caller, request_iterator, most_bytes)
        yield TAKEN
        if step is None or not self.calls.may_wait(caller):
            return
        async with aclosing(self._due(caller, round_id, step)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _due(self, caller: Identity, round_id: RoundId, step: RoundStep) -> AsyncGenerator[pb.Chunk]:
        """Wait for what is due to a caller and stream it. It is made when there is room to send it: many are woken."""
        with self.calls.fetch(caller):
            await self._rounds.wait(caller, round_id, step, patience_s())
        async with self._sending:
            for chunk in self._chunks(self._rounds.due(caller, round_id, step)):
                yield chunk

    async def _take(
        self, caller: Identity, chunks: AsyncIterator[pb.Chunk], most_bytes: int
    ) -> tuple[RoundId, RoundStep | None]:
        """Take a message in; return its round and what is due after it. The message itself is not kept."""
        async with self._turns.turn(caller), self._room.room_for(most_bytes):
            message = await _read_answer(chunks, most_bytes)
            await self._rounds.receive(caller, message)
        return message.round_id, NEXT_STEP.get(type(message))

    def _chunks(self, message: ToMembers | None) -> Iterable[pb.Chunk]:
        if message is None:
            return chunks_of(pb.ToMember(pending=pb.Pending()))
        if not isinstance(message, _FOR_MANY):
            return chunks_of(encode_to_member(message))
        if (kept := self._encoded.get(id(message))) is None:  # the message is kept too, so its id is not used again
            kept = self._encoded[id(message)] = message, tuple(chunks_of(encode_to_member(message)))
            if len(self._encoded) > MAX_ENCODED:
                del self._encoded[next(iter(self._encoded))]
        return kept[1]


def patience_s() -> float:
    """Return how long a call waits: spread, so that those that began together do not end together."""
    return PATIENCE_S * random.uniform(0.75, 1.0)  # noqa: S311 -- no secret


async def _read_answer(chunks: AsyncIterator[pb.Chunk], most_bytes: int) -> FromMembers | Declined:
    try:
        async with asyncio.timeout(CALL_S):
            return decode_from_member(await gather_chunks(chunks, most_bytes))
    except TimeoutError as error:
        raise TimedOutError(f"the answer did not arrive within {CALL_S:g} s") from error
