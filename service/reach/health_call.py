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

RELAY_PROTOCOL = "moiety-relay/1"
"""Application protocol [RFC 7301] of the outer TLS of relays; see `service.reach.relays`."""

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7
_ACK = _END_STREAM = 0x1
_END_HEADERS, _PADDED = 0x4, 0x8
_NAME_FIELD = 0x0A
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
    """Call the health service over a connection that stands, and return the status in its answer; raises as `ask`.

    Args:
        channel: channel to the member.
        dns_name: DNS name of the member: `service.identity.Identity.dns_name`.
        end_s: until when, by `time.monotonic`.
    """
    return HealthConnection(channel, dns_name, end_s).ask()


def relay_health(channel: ssl.SSLSocket, dns_name: str, end_s: float) -> int:
    """Ask a relay for a sign of life; returns and raises as `ask_health`.

    Args:
        channel: connection to the relay, in outer TLS.
        dns_name: not needed, as no call is made.
        end_s: until when, by `time.monotonic`.
    """
    channel.settimeout(remaining_s(end_s))
    channel.sendall(b"TRY\nPING\n")
    answer = channel.recv(100)
    if not answer:
        raise ConnectionAbortedError("it closed the connection")
    return SERVING if answer.startswith(b"OK\n") else 0


def remaining_s(end_s: float) -> float:
    """Return the seconds that remain until a time of `time.monotonic`.

    Raises:
        TimeoutError: none.
    """
    left_s = end_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


class UnknownServiceError(ValueError):
    """The health service gives no status: it does not know the service that was asked for, or refuses."""


class HealthConnection:
    """One HTTP/2 connection on which the health service is called; arguments as of `ask_health`."""

    def __init__(self, channel: ssl.SSLSocket, dns_name: str, end_s: float) -> None:
        self.channel = channel
        self._dns_name = dns_name
        self._end_s = end_s
        self._stream = -1

    def ask(self, service: str = "") -> int:
        """Call the health service and return the status in its answer.

        Args:
            service: whose health is asked for, of at most 100 letters of ASCII; that of the whole server where empty.

        Raises:
            UnknownServiceError: it gives none.
            TimeoutError: out of time.
            OSError: the connection broke.
            ValueError: the answer is not one.
        """
        if self.channel.selected_alpn_protocol() != "h2":
            raise ValueError("what listens there does not speak HTTP/2")
        is_first, self._stream = self._stream < 0, self._stream + 2
        headers = b"".join(
            _literal(name, value)
            for name, value in (
                (b":method", b"POST"),
                (b":scheme", b"https"),
                (b":path", HEALTH_PATH.encode()),
                (b":authority", self._dns_name.encode()),
                (b"content-type", b"application/grpc"),
                (b"te", b"trailers"),
            )
        )
        name = service.encode("ascii")
        message = bytes((_NAME_FIELD, len(name))) + name if name else b""
        self.channel.sendall(
            (_PREFACE + _frame(_SETTINGS, 0, 0) if is_first else b"")
            + _frame(_HEADERS, _END_HEADERS, self._stream, headers)
            + _frame(_DATA, _END_STREAM, self._stream, struct.pack(">?I", False, len(message)) + message)
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
            elif kind == _GOAWAY or (kind == _RST_STREAM and stream == self._stream):
                raise ValueError("it is shutting down, or it refuses the call")
            elif kind == _DATA and stream == self._stream:
                yield payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
            if kind in (_DATA, _HEADERS) and stream == self._stream and flags & _END_STREAM:
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
        raise UnknownServiceError("it refuses to report its health")
    message = answer[5:]
    if not message:
        return 0
    if len(message) != 2 or message[0] != 0x08:
        raise ValueError("its answer is not that of a health service")
    return message[1]
