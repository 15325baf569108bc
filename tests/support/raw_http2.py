"""A caller that speaks HTTP/2 without gRPC's library: it opens many calls, and leaves messages half-sent in each.

gRPC's own clients send messages whole. Here a call sends as many bytes as its windows let through, and no more of its
last message than all but one byte, so that whoever serves it has to keep them.
"""

import asyncio
import ssl
import struct
from dataclasses import dataclass, field

from service.identity import Identity
from service.tls import Credentials

DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_HEADERS, ACK = 4, 1
INITIAL_WINDOW_SIZE = 4
DEFAULT_WINDOW = 65535
MOST_OF_A_FRAME = 16384


def message(content: bytes, *, more_bytes: int = 0) -> bytes:
    """Return a message as gRPC frames it; its length announces `more_bytes` than there are."""
    return b"\0" + (len(content) + more_bytes).to_bytes(4, "big") + content


@dataclass
class Call:
    """What one call still has to send: bytes, then zeros."""

    head: bytes
    n_zeros: int
    window: int
    n_sent: int = 0

    @property
    def has_sent_all(self) -> bool:
        return not self.head and not self.n_zeros

    def take(self, n: int) -> bytes:
        piece, self.head = self.head[:n], self.head[n:]
        zeros = min(n - len(piece), self.n_zeros)
        self.n_zeros -= zeros
        self.n_sent += len(piece) + zeros
        self.window -= len(piece) + zeros
        return piece + bytes(zeros)


@dataclass
class RawConnection:
    """One connection; `open` makes it, `flood` sends on it until it is cancelled."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    calls: dict[int, Call] = field(default_factory=dict)
    window: int = DEFAULT_WINDOW
    initial_window: int = DEFAULT_WINDOW
    n_answered: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def open(cls, port: int, peer: Identity, own: Credentials) -> "RawConnection":
        context = ssl.create_default_context(cadata=own.authority_pem.decode())
        context.load_cert_chain(*own.files)
        context.set_alpn_protocols(["h2"])
        streams = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=peer.dns_name)
        made = cls(*streams)
        made.writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        made._write(SETTINGS, 0, b"")
        return made

    def call(self, method: str, head: bytes, n_zeros: int) -> None:
        """Begin a call that shall send some bytes and zeros behind them."""
        number = 2 * len(self.calls) + 1
        fields = {
            ":method": "POST",
            ":scheme": "https",
            ":path": method,
            ":authority": "flood",
            "te": "trailers",
            "content-type": "application/grpc",
        }
        literals = (b"\0" + bytes([len(n)]) + n.encode() + bytes([len(v)]) + v.encode() for n, v in fields.items())
        self._write(HEADERS, number, b"".join(literals), flags=END_HEADERS)
        self.calls[number] = Call(head, n_zeros, self.initial_window)

    async def flood(self) -> None:
        """Send whatever the windows let through."""
        while True:
            for number, call in self.calls.items():
                while (n := min(self.window, call.window, MOST_OF_A_FRAME)) > 0 and not call.has_sent_all:
                    piece = call.take(n)
                    self.window -= len(piece)
                    self._write(DATA, number, piece)
            await self.writer.drain()
            self.changed.set()
            await self._read()

    async def _read(self) -> None:
        head = await self.reader.readexactly(9)
        kind, flags, number = head[3], head[4], int.from_bytes(head[5:9], "big")
        payload = await self.reader.readexactly(int.from_bytes(head[:3], "big"))
        if kind == SETTINGS and not flags & ACK:
            self._apply(payload)
            self._write(SETTINGS, 0, b"", flags=ACK)
        elif kind == PING and not flags & ACK:
            self._write(PING, 0, payload, flags=ACK)
        elif kind == WINDOW_UPDATE:
            n = int.from_bytes(payload, "big")
            if number:
                self.calls[number].window += n
            else:
                self.window += n
        elif kind == HEADERS:
            self.n_answered += 1

    def _apply(self, settings: bytes) -> None:
        for start in range(0, len(settings), 6):
            name, value = struct.unpack(">HI", settings[start : start + 6])
            if name == INITIAL_WINDOW_SIZE:
                for call in self.calls.values():
                    call.window += value - self.initial_window
                self.initial_window = value

    def _write(self, kind: int, number: int, payload: bytes, *, flags: int = 0) -> None:
        self.writer.write(len(payload).to_bytes(3, "big") + bytes([kind, flags]) + number.to_bytes(4, "big") + payload)
