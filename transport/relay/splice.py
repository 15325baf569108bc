"""Two connections joined: what comes by one leaves by the other, with bounded memory in between."""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import cast

READ_BYTES = 64 << 10
"""Bytes read from a connection at a time: ready connections take turns of so many."""
WAITING_BYTES = 64 << 10
"""Bytes that wait for a slow receiver before its sender is read no more."""
SPLICE_BYTES = 2 * (READ_BYTES + WAITING_BYTES)
"""Memory that the two directions of one splice hold at most."""
LINGER_S = 10.0
"""Seconds for a receiver to take what was sent before the other end closed."""

MOST_DIALLING = 16
DIALLERS = ThreadPoolExecutor(MOST_DIALLING, thread_name_prefix="relay")
"""Threads that ask relays: a name that resolves slowly must hold up nothing else."""


class Half(asyncio.BufferedProtocol):
    """One of the two connections.

    Args:
        count: told the number of bytes that came by it.
        on_end: called once when the connection has ended.
    """

    other: "Half"

    def __init__(self, count: Callable[[int], None], on_end: Callable[[], None]) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_lost = False
        self._count = count
        self._on_end = on_end
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._early = b""  # what the other half forwards before this one has its transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, and send what has come for it already."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WAITING_BYTES)
        if self._early:
            self.transport.write(self._early)
            self._early = b""
        self.other.read_on()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Send on what has come."""
        self.come(bytes(self._buffer[:nbytes]))

    def come(self, data: bytes) -> None:
        """Send on what was read."""
        self._count(len(data))
        self.other.forward(data)

    def forward(self, data: bytes) -> None:
        """Send bytes of the other half."""
        if self.transport is None:
            if not self.is_lost:
                self._early += data
                self.other.pause()
        elif not self.transport.is_closing():
            self.transport.write(data)

    def pause(self) -> None:
        """Read this half no more for now."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def read_on(self) -> None:
        """Read this half again."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        """Read the other half no more for now."""
        self.other.pause()

    def resume_writing(self) -> None:
        """Read the other half again."""
        self.other.read_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other half, once it has taken what was sent."""
        self.transport, self.is_lost = None, True
        self.other.end()
        self._on_end()

    def end(self) -> None:
        """Send what is waiting, for a while, and end."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            asyncio.get_running_loop().call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        """End at once."""
        if self.transport is not None:
            self.transport.abort()


class Splice:
    """Two joined connections.

    Attributes:
        n_bytes: bytes forwarded so far, in both directions.
        ended: done when both connections have ended.
    """

    def __init__(self) -> None:
        self.n_bytes = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._n_ended = 0
        left, right = self._halves = (Half(self._count, self._end_one), Half(self._count, self._end_one))
        left.other, right.other = right, left

    async def join(self, one: socket.socket, other: socket.socket, first: bytes = b"", second: bytes = b"") -> None:
        """Join two connected, non-blocking sockets, which end with the splice.

        Args:
            one: socket of one end.
            other: socket of the other end.
            first: what has already been read from `one`.
            second: what has already been read from `other`.

        Raises:
            OSError: one of them has broken.
        """
        loop, (left, right) = asyncio.get_running_loop(), self._halves
        left.come(first)
        right.come(second)
        try:
            await loop.connect_accepted_socket(lambda: left, one)
            await loop.connect_accepted_socket(lambda: right, other)
        except BaseException:
            self.abort()
            one.close()
            other.close()
            self._finish()
            raise
        if left.is_lost:  # before the other was there
            right.end()

    def abort(self) -> None:
        """End both connections at once."""
        for half in self._halves:
            half.abort()

    def _count(self, n_bytes: int) -> None:
        self.n_bytes += n_bytes

    def _end_one(self) -> None:
        self._n_ended += 1
        if self._n_ended == len(self._halves):
            self._finish()

    def _finish(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def keep_alive(sock: socket.socket) -> None:
    """Let a connection notice within a minute that its other end has gone, and send small messages at once."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 20),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 60_000),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def join(one: socket.socket, other: socket.socket, splices: set[Splice]) -> None:
    """Join two connections, and keep the splice in a set for as long as it lasts."""
    for sock in (one, other):
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            keep_alive(sock)
    splice = Splice()
    splices.add(splice)
    splice.ended.add_done_callback(lambda _: splices.discard(splice))
    with suppress(OSError):
        await splice.join(one, other)
