"""What one member sends in one job, as it waits to be received: its stages, and why nothing more is taken from it."""

import asyncio
import hashlib
from collections import deque
from typing import Any

import numpy as np

from mpc.errors import PeerError, PeerSilentError
from transport.messages.frames import Announcement, Array
from transport.messages.room import Share


class Stage:
    """Arrays of one (sender, stage) that wait to be received.

    Attributes:
        waiting_bytes: of the arrays, and of the one that is being read.
        transfer: when the one that is being read was let in, on the event loop's clock, and its bytes.
        awaited_at_s: since when somebody has waited for the next array, however often.
        n_arrived, n_received: arrays since the beginning of the job.
        n_streamed: arrays since the member began last; fewer than `n_arrived` while a restarted one repeats itself.
        said: digests of what arrived, of a member that may restart.
        is_open: whether a stream of it is being read.
        is_asked_for: whether anybody here has ever received from it.
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
        self.given_up: PeerSilentError | None = None
        self.expected: tuple[np.dtype[Any], tuple[int, ...]] | None = None
        self.received_at_s = 0.0
        self.changed = asyncio.Event()
        self.turn = asyncio.Lock()


class Sender:
    """A member that may send to this inbox.

    Attributes:
        n_unasked: stages that it began and that nobody here has received from yet.
        waiting_bytes: in all its stages of this job.
        share: of the memory, for all its jobs.
        failure: why nothing more is taken from it.
        start: how often it has begun again.
        readers: that read streams of it.
    """

    def __init__(self, share: Share) -> None:
        self.stages: dict[str, Stage] = {}
        self.n_unasked = 0
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
