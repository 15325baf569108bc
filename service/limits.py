"""Limits on the concurrent calls of one caller: a table of methods beside the table of permissions.

The limits hold for an identity, over all of its connections. A message is measured before it is decoded: decoding can
multiply its size, as an empty entry of two bytes becomes an object of a hundred.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from service.errors import TimedOutError, TooMuchError
from service.identity import Identity

_KIB = 1 << 10

CHUNK_BYTES = 128 << 10
"""Bytes of a request or an answer in one chunk."""
MAX_CHUNK_BYTES = CHUNK_BYTES + 1024
"""Largest size of such a chunk on the wire, including its framing."""
ARRAY_CHUNK_BYTES = 448 << 10
"""Bytes of an array in one chunk. Far away a stream moves one chunk in a round trip: see `service.server`."""
MAX_REQUEST_BYTES = 4 << 20
"""Largest size of a request that is sent in chunks, such as a job with all its parameters."""
SHORT_ANSWER_BYTES = 4 << 10
"""Largest size of a device's answer that is one message; a longer one is sent in chunks."""
REQUEST_S = 60.0
"""Seconds within which a request must have arrived completely."""


@asynccontextmanager
async def request_arrives_in_time() -> AsyncIterator[None]:
    """Bound the time in which the body reads a request.

    Raises:
        TimedOutError: the body took longer than REQUEST_S.
    """
    try:
        async with asyncio.timeout(REQUEST_S):
            yield
    except TimeoutError as error:
        raise TimedOutError(f"the request did not arrive within {REQUEST_S:g} s") from error


@dataclass(frozen=True)
class MethodLimit:
    """The limits of one identity for one method.

    Attributes:
        message_bytes: maximum size of one message on the wire.
        calls_each: calls of one identity in flight.
        reads_each: calls that may wait for a message at the same time; 0 where they share `READS_EACH` with the other
            methods.
    """

    message_bytes: int
    calls_each: int
    reads_each: int = 0


UNLISTED = MethodLimit(16 * _KIB, 16)
"""Limits of a method that is not in the table."""

MAX_MESSAGE_BYTES = ARRAY_CHUNK_BYTES + 1024
"""Largest message of any method: the gRPC library accepts no longer one. Longer messages are sent in chunks."""

READS_EACH = 8
"""Calls of one identity that may wait for a message at the same time, over all methods without a number of their own.
The library takes in a message of MAX_MESSAGE_BYTES wherever one is waited for, and nobody sees it before its end."""

LIMITS: Mapping[str, MethodLimit] = {
    "/grpc.health.v1.Health/Check": MethodLimit(_KIB, 16),
    "/grpc.health.v1.Health/Watch": MethodLimit(_KIB, 4),
    "/moiety.v1.Mailbox/Deliver": MethodLimit(MAX_MESSAGE_BYTES, 500, reads_each=144),
    "/moiety.v1.Party/Propose": MethodLimit(MAX_CHUNK_BYTES, 16),
    "/moiety.v1.Party/Reserve": MethodLimit(MAX_CHUNK_BYTES, 16),
    "/moiety.v1.Party/Run": MethodLimit(_KIB, 16),
    "/moiety.v1.Party/Receipt": MethodLimit(_KIB, 16),
    "/moiety.v1.Party/Cancel": MethodLimit(64 * _KIB, 16),
    "/moiety.v1.Party/Describe": MethodLimit(_KIB, 8),
    "/moiety.v1.Party/Reach": MethodLimit(_KIB, 2),
    "/moiety.v1.Coordinator/Submit": MethodLimit(MAX_CHUNK_BYTES, 8),
    "/moiety.v1.Coordinator/Watch": MethodLimit(_KIB, 100),
    "/moiety.v1.Coordinator/List": MethodLimit(_KIB, 16),
    "/moiety.v1.Coordinator/Show": MethodLimit(_KIB, 16),
    "/moiety.v1.Coordinator/Cancel": MethodLimit(_KIB, 16),
    "/moiety.v1.Coordinator/Tables": MethodLimit(64, 4),
    "/moiety.v1.Aggregation/Fetch": MethodLimit(_KIB, 8),
    "/moiety.v1.Aggregation/Answer": MethodLimit(MAX_CHUNK_BYTES, 8),
    "/moiety.v1.Questions/Fetch": MethodLimit(_KIB, 8),
    "/moiety.v1.Questions/Answer": MethodLimit(SHORT_ANSWER_BYTES, 8),
    "/moiety.v1.Questions/AnswerInChunks": MethodLimit(MAX_CHUNK_BYTES, 4),
    "/moiety.v1.Questions/Shares": MethodLimit(160 * _KIB, 8),
    "/moiety.v1.Questions/Ask": MethodLimit(MAX_CHUNK_BYTES, 40),
    "/moiety.v1.Questions/List": MethodLimit(64, 4),
    "/moiety.v1.Questions/CallOff": MethodLimit(64, 4),
    "/moiety.v1.BatchParty/Open": MethodLimit(192 * _KIB, 16),
    "/moiety.v1.BatchParty/Keep": MethodLimit(192 * _KIB, 16),
    "/moiety.v1.BatchParty/CallOff": MethodLimit(192 * _KIB, 16),
    "/moiety.v1.BatchParty/Prepare": MethodLimit(192 * _KIB, 16),
    "/moiety.v1.BatchParty/Close": MethodLimit(192 * _KIB, 16),
}


class CallCounts:
    """Counts the calls in flight of every identity.

    Args:
        limits: limits by full method name; see `MethodLimit`.
    """

    def __init__(self, limits: Mapping[str, MethodLimit] = LIMITS) -> None:
        self._limits = limits
        self._n_calls: Counter[tuple[str, Identity]] = Counter()
        self._reads: WeakValueDictionary[tuple[str, Identity], asyncio.Semaphore] = WeakValueDictionary()

    def limit_of(self, method: str) -> MethodLimit:
        """Return the limit of a method."""
        return self._limits.get(method, UNLISTED)

    @contextmanager
    def call(self, method: str, caller: Identity) -> Iterator[asyncio.Semaphore]:
        """Count a call from here to the end of the context.

        Yields:
            What the call must hold while it waits for a message of its caller.

        Raises:
            TooMuchError: the caller has as many calls of this method in flight as it may have.
        """
        limit = self.limit_of(method)
        most = limit.calls_each
        if self._n_calls[method, caller] >= most:
            raise TooMuchError(f"{caller.name} already has {most} calls of {method} in flight; try again in a moment")
        self._n_calls[method, caller] += 1
        kind = method if limit.reads_each else ""
        reads = self._reads.get((kind, caller))  # as long as a call has it
        if reads is None:
            reads = self._reads[kind, caller] = asyncio.Semaphore(limit.reads_each or READS_EACH)
        try:
            yield reads
        finally:
            self._n_calls[method, caller] -= 1
            if not self._n_calls[method, caller]:
                del self._n_calls[method, caller]
