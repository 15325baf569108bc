"""The health call over HTTP/2 with the standard library alone, and what it takes to dial a member by TLS.

Loading gRPC takes longer than all of it. Of HTTP/2 [RFC 9113] only what one call needs is here: a connection's preface,
one request whose headers are literals without compression [RFC 7541, 6.2.2], and the frames of the answer, of which the
message alone is read. No header of the answer is decoded: where the call is refused there is no message.
"""

import ssl
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from service.settings_tree import SettingsError

HEALTH_PATH = "/grpc.health.v1.Health/Check"
SERVING = 1

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7
_ACK = _END_STREAM = 0x1
_END_HEADERS, _PADDED = 0x4, 0x8
_STREAM = 1
_MAX_FRAME_BYTES = 1 << 14  # RFC 9113, 6.5.2: what may be sent to us, who announce no other limit
_MAX_FRAMES = 100


def client_context(authority: Path, certificate: Path, key: Path, *, whose: str) -> ssl.SSLContext:
    """Return what it takes to dial members: trust in one authority, our certificate and HTTP/2.

    Raises:
        SettingsError: the files cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    path = authority
    try:
        for path in (authority, certificate, key):
            path.open("rb").close()  # errors of the ssl module do not name the file
        context.load_verify_locations(authority)
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        what = error.strerror if isinstance(error, ssl.SSLError) else f"{path}: {error.strerror}"
        raise SettingsError(f"the certificate files of {whose} cannot be used: {what}") from error
    return context


def ask_health(channel: ssl.SSLSocket, dns_name: str, end_s: float) -> int:
    """Call the health service over a connection that stands, and return the status in its answer.

    Args:
        channel: to the member.
        dns_name: of the member: `service.identity.Identity.dns_name`.
        end_s: until when, by `time.monotonic`.

    Raises:
        TimeoutError: out of time.
        OSError: the connection broke.
        ValueError: the answer is not one.
    """
    return _Connection(channel, end_s).ask(dns_name)


def remaining_s(end_s: float) -> float:
    """Return the seconds that remain until a time of `time.monotonic`.

    Raises:
        TimeoutError: none.
    """
    left_s = end_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


class _Connection:
    """One HTTP/2 connection with one call."""

    def __init__(self, channel: ssl.SSLSocket, end_s: float) -> None:
        self.channel = channel
        self._end_s = end_s

    def ask(self, authority: str) -> int:
        """Call the health service and return the status in its answer.

        Raises:
            TimeoutError: out of time.
            OSError: the connection broke.
            ValueError: the answer is not one.
        """
        if self.channel.selected_alpn_protocol() != "h2":
            raise ValueError("what listens there does not speak HTTP/2")
        headers = b"".join(
            _literal(name, value)
            for name, value in (
                (b":method", b"POST"),
                (b":scheme", b"https"),
                (b":path", HEALTH_PATH.encode()),
                (b":authority", authority.encode()),
                (b"content-type", b"application/grpc"),
                (b"te", b"trailers"),
            )
        )
        question = struct.pack(">?I", False, 0)  # an empty message, not compressed: the health of the whole server
        self.channel.sendall(
            _PREFACE
            + _frame(_SETTINGS, 0, 0)
            + _frame(_HEADERS, _END_HEADERS, _STREAM, headers)
            + _frame(_DATA, _END_STREAM, _STREAM, question)
        )
        return _status_of(b"".join(self._answer()))

    def _answer(self) -> Iterator[bytes]:
        """Yield the data of the answer until its end."""
        for _ in range(_MAX_FRAMES):
            kind, flags, stream, payload = self._receive()
            if kind == _SETTINGS and not flags & _ACK:
                self.channel.sendall(_frame(_SETTINGS, _ACK, 0))
            elif kind == _PING and not flags & _ACK:
                self.channel.sendall(_frame(_PING, _ACK, 0, payload))
            elif kind in (_GOAWAY, _RST_STREAM):
                raise ValueError("it is shutting down, or it refuses the call")
            elif kind == _DATA and stream == _STREAM:
                yield payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
            if kind in (_DATA, _HEADERS) and stream == _STREAM and flags & _END_STREAM:
                return
        raise ValueError("its answer does not end")

    def _receive(self) -> tuple[int, int, int, bytes]:
        """Return type, flags, stream and payload of the next frame."""
        head = self._read(9)
        n_bytes = int.from_bytes(head[:3], "big")
        if n_bytes > _MAX_FRAME_BYTES:
            raise ValueError("what listens there does not speak HTTP/2")
        return head[3], head[4], int.from_bytes(head[5:9], "big") & 0x7FFFFFFF, self._read(n_bytes)

    def _read(self, n_bytes: int) -> bytes:
        data = b""
        while len(data) < n_bytes:
            self.channel.settimeout(remaining_s(self._end_s))
            piece = self.channel.recv(n_bytes - len(data))
            if not piece:
                raise ConnectionAbortedError("it closed the connection")
            data += piece
        return data


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _literal(name: bytes, value: bytes) -> bytes:
    """Return a header field that is neither compressed nor remembered; both parts are below 127 bytes."""
    assert max(len(name), len(value)) < 127, "longer lengths take another form"
    return bytes((0, len(name))) + name + bytes((len(value),)) + value


def _status_of(answer: bytes) -> int:
    """Read `status`, field 1 of a `HealthCheckResponse`, from a gRPC message.

    Raises:
        ValueError: there is no whole message, which is how a refusal looks.
    """
    if len(answer) < 5 or answer[0] or len(answer) != 5 + int.from_bytes(answer[1:5], "big"):
        raise ValueError("it refuses to report its health")
    message = answer[5:]
    if not message:
        return 0
    if len(message) != 2 or message[0] != 0x08:
        raise ValueError("its answer is not that of a health service")
    return message[1]
