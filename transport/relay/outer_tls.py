"""The relay's end of the outer TLS, which ends before the connection does.

asyncio's own TLS cannot be ended without its connection. So this drives the `ssl` module's object over two buffers in
memory, on a plain non-blocking socket.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

from service.reach.health_call import RELAY_PROTOCOL
from service.reach.relays import MAX_LINE_BYTES
from service.tls import Credentials

T = TypeVar("T")

_RECEIVE_BYTES = 16 << 10
_MOST_UNREAD = 64 << 10
"""Bytes of the first message of the inner TLS that may come before the outer one has ended; a hello has far fewer."""


def server_context(credentials: Credentials) -> ssl.SSLContext:
    """Return what a relay shows and demands: its certificate, and one of the same authority of every caller."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0
    context.set_alpn_protocols([RELAY_PROTOCOL])
    context.load_verify_locations(cadata=credentials.authority_pem.decode("ascii"))
    assert credentials.files is not None, "a relay's credentials are files"
    context.load_cert_chain(*credentials.files)
    return context


class OuterTls:
    """One connection to the relay, as long as it is in outer TLS.

    Args:
        sock: connected, non-blocking socket.
        context: `server_context`.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._writing = asyncio.Lock()
        self._unread = bytearray()

    async def shake_hands(self) -> bytes:
        """Prove both ends; return the caller's certificate, DER.

        Raises:
            OSError: the caller broke off, or its certificate does not lead to our authority.
        """
        try:
            await self._drive(self._tls.do_handshake)
        finally:
            await self._flush()  # an alert says why
        return self._tls.getpeercert(binary_form=True) or b""

    async def read_line(self) -> str:
        """Return the caller's next line.

        Raises:
            OSError: the connection ended.
            ValueError: the line is too long, or not ASCII.
        """
        while b"\n" not in self._unread:
            if len(self._unread) >= MAX_LINE_BYTES:
                raise ValueError("a line is too long")
            data = await self._drive(lambda: self._tls.read(MAX_LINE_BYTES))
            if not data:
                raise ConnectionAbortedError("the caller closed the connection")
            self._unread += data
        line, _, rest = bytes(self._unread).partition(b"\n")
        self._unread = bytearray(rest)
        return line.decode("ascii")

    async def write_line(self, line: str) -> None:
        """Send one line.

        Raises:
            OSError: the connection ended.
        """
        self._tls.write(f"{line}\n".encode())
        await self._flush()

    async def end(self) -> bytes:
        """End the outer TLS from both sides; return what has already come after it.

        Raises:
            OSError, ValueError: the caller does not end it, or sends something else.
        """
        await self._drive(self._tls.unwrap)
        await self._flush()
        return self._incoming.read()

    async def _drive(self, step: Callable[[], T]) -> T:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await asyncio.get_running_loop().sock_recv(self.sock, _RECEIVE_BYTES)
                if not data:
                    raise ConnectionAbortedError("the caller closed the connection") from None
                if self._incoming.pending + len(data) > _MOST_UNREAD:
                    raise ValueError("the caller sends too much") from None
                self._incoming.write(data)

    async def _flush(self) -> None:
        async with self._writing:
            if data := self._outgoing.read():
                await asyncio.get_running_loop().sock_sendall(self.sock, data)
