"""What one member sends in one job, as it waits to be received: its stages, and why nothing more is taken from it."""

import asyncio
import hashlib
import math
from collections import deque
from typing import Any

import numpy as np

from mpc.errors import PeerError, PeerSilentError
from transport.messages.frames import Announcement, Array, StreamDecoder
from transport.messages.memory_limits import Share
from transport.messages.waits import MIN_BYTES_PER_S


class Stage:
    """Arrays of one (sender, stage) that wait to be received.

    Attributes:
        waiting_bytes: bytes of the arrays, and of the array that is being read.
        transfer: when the one that is being read was let in, on the event loop's clock, and its bytes.
        awaited_at_s: since when somebody has waited for the next array, however often.
        n_arrived, n_received: arrays since the beginning of the job.
        n_streamed: arrays since the member began last; fewer than `n_arrived` while a restarted one repeats itself.
        said: digests of what arrived, of a member that may restart.
        is_open: whether a stream of it is being read.
        is_asked_for: whether anybody here has ever received from it.
        has_first: whether its first array came in the stream of first arrays.
        given_up: why nobody listens to it any more.
        expected: type and shape of the array that somebody waits for.
        received_at_s: when its last byte came, on the event loop's clock.
        changed: set when a receiver should look again.
        turn: receivers of the same stage are served one by one.
    """

    def __init__(self) -> None:
        self.arrays: deque[Array] = deque()
        self.waiting_bytes = 0
        self.transfer: tuple[float, int] | None = None
        self.awaited_at_s: float | None = None
        self.n_arrived = 0
        self.n_received = 0
        self.n_streamed = 0
        self.said = Said()
        self.is_open = False
        self.is_asked_for = False
        self.has_first = False
        self.given_up: PeerSilentError | None = None
        self.expected: tuple[np.dtype[Any], tuple[int, ...]] | None = None
        self.received_at_s = 0.0
        self.changed = asyncio.Event()
        self.turn = asyncio.Lock()

    @property
    def is_repeated(self) -> bool:
        """Whether the next array that comes has come before its sender restarted."""
        return self.n_streamed < self.n_arrived

    def due_at_s(self, transfer_s: float) -> float:
        """Return when the array that is being read must be there; a time when nobody waited for it does not count."""
        if self.transfer is None:
            return math.inf
        began_at_s, n_bytes = self.transfer
        return max(began_at_s, self.awaited_at_s or 0.0) + transfer_s + n_bytes / MIN_BYTES_PER_S

    def add(self, array: Array, *, may_return: bool) -> None:
        """Take an array that has arrived; of a member that may restart, remember what it said."""
        self.n_arrived += 1
        self.n_streamed += 1
        if may_return:
            self.said.note(array)
        self.arrays.append(array)
        self.changed.set()

    def hear_again(self, decoder: StreamDecoder, step: Announcement | Array | None) -> bool:
        """Compare what a restarted member says with what it said before, as it comes; return whether it is the same."""
        number = self.n_streamed
        is_same = True
        if isinstance(step, Announcement):
            is_same = self.said.begin_to_hear(number, step)
            if is_same:
                decoder.pass_over(self.said.hear)
        if decoder.next_sequence > number:
            is_same = self.said.is_same(number)
            self.n_streamed += 1
        return is_same

    def hear_first_again(self, array: Array) -> bool:
        """Do the same for a first array that came in one message."""
        is_same = self.said.begin_to_hear(0, Announcement(array.dtype, array.shape, array.nbytes))
        self.said.hear(array.reshape(-1).view(np.uint8).data)
        self.n_streamed += 1
        self.changed.set()
        return is_same and self.said.is_same(0)


class Sender:
    """A member that may send to this inbox.

    Attributes:
        n_unasked: stages that it began and that nobody here has received from yet.
        first_bytes: bytes of first arrays that came in their own stream and have not been received.
        n_first_streamed: arrays of that stream since the member began last.
        n_first_received: arrays of that stream that have been received.
        is_first_open: whether that stream is being read.
        waiting_bytes: bytes of its waiting arrays, in all stages of this job.
        share: share of the memory, for all its jobs.
        failure: why nothing more is taken from it.
        start: how often it has begun again.
        readers: tasks that read its streams.
    """

    def __init__(self, share: Share) -> None:
        self.stages: dict[str, Stage] = {}
        self.n_unasked = 0
        self.first_bytes = 0
        self.n_first_streamed = 0
        self.n_first_received = 0
        self.is_first_open = False
        self.waiting_bytes = 0
        self.share = share
        self.failure: PeerError | None = None
        self.start = 0
        self.readers: set[asyncio.Task[Any]] = set()

    def begin_again(self) -> None:
        """Forget the streams of a member that has restarted: it sends all from the beginning.

        Who reads one of them stops at once: one that was left open must not keep room.
        """
        self.start += 1
        for reader in self.readers:
            reader.cancel()
        self.n_first_streamed = 0
        self.is_first_open = False
        for queue in self.stages.values():
            queue.n_streamed = 0
            queue.is_open = False
            queue.transfer = None


class Said:
    """What a member that may restart has said in one stage: after its restart it must say the same again."""

    def __init__(self) -> None:
        self._said: list[tuple[int, bytes]] = []
        self._repeated = hashlib.sha256()

    def note(self, array: Array) -> None:
        """Remember an array that has arrived."""
        digest = _digest_of(array.shape, array.dtype)
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        self._said.append((array.nbytes, digest.digest()))

    def begin_to_hear(self, number: int, announced: Announcement) -> bool:
        """Begin to hear the array of this number again; return whether it is as long as it was."""
        self._repeated = _digest_of(announced.shape, announced.dtype)
        return announced.n_bytes == self._said[number][0]

    def hear(self, chunk: bytes | memoryview) -> None:
        """Take the next bytes of it."""
        self._repeated.update(chunk)

    def is_same(self, number: int) -> bool:
        """Return whether what was heard is the array of this number again."""
        return self._repeated.digest() == self._said[number][1]


def _digest_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> "hashlib._Hash":
    """Return the digest of an array, without its bytes."""
    return hashlib.sha256(repr((shape, dtype.str)).encode())
