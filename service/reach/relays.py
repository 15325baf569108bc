"""The way to a member by a relay, for a member that accepts no connection from outside.

A connection to a relay begins with mutual TLS, in which both ends prove who they are, and one line says what it is for.
Then this outer TLS ends, and the same connection carries what the two members say to each other: their own mutual TLS,
from its first byte on (decision 084). What the relay forwards is sealed by keys that it has not.

Lines, of ASCII, within the outer TLS [RFC 8446], whose application protocol [RFC 7301] is `RELAY_PROTOCOL`:

* `STAY`: the caller waits for ways to itself; the connection stays in outer TLS. `PING` is answered by `PONG`. A worker
  says `STAY NAME`, with a name that it has drawn: all workers of a party have one identity.
* `TRY`: any member that a relay serves looks whether it is there; one `PING` is answered.
* `CALL TICKET`: said to who stays: somebody asks for a way to it. `GONE TICKET` answers that its service is away.
* `COME TICKET`: the called one, over a new connection.
* `WAY URI`: the caller asks for a way to a member; `WAY URI NAME` to a worker of that name.
* `OK`, or `NO CODE TEXT`: the answers.
"""

import datetime
import re
import secrets
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from cryptography import x509

from service.certificate_rules import check_issued_by, check_member, check_valid_at, read_as
from service.errors import ServiceError, UnreachableError, public
from service.identity import Identity
from service.reach.addresses import BY_RELAY as BY_RELAY
from service.reach.dial import connect
from service.reach.health_call import RELAY_PROTOCOL
from service.reach.proxy import ProxyError
from service.tls import Credentials

MAX_LINE_BYTES = 1024
CALL_S = 4.0
"""Seconds that a relay waits for the called member."""
ASK_S = 5.0
"""Seconds for all that a caller asks of one relay."""

PING_S = 15.0
"""Seconds between signs of life of a member that stays connected: idle connections are often cut after a minute."""
SILENT_S = 45.0
"""Seconds without a line after which either end of such a connection takes the other for gone."""


class RelayError(UnreachableError):
    """A relay cannot be reached. The text of each error of this family names the relay and the hop that failed."""

    code = "relay-not-reachable"
    fix = "Start the relay, or correct its address, or open the way out to it in the firewall."
    """What mends it; `{who}` stands for the member that was to be reached."""


class RelayNotTrustedError(RelayError):
    """What answers at a relay's address does not prove to be that relay."""

    code = "relay-not-trusted"
    fix = "Compare the relay's name, role and address with its operator, and the fingerprints of ca.pem."


class RelayRefusesError(RelayError):
    """A relay refuses this member or its request."""

    code = "relay-refuses"
    fix = "Compare ca.pem and our certificate with the operator of the relay; its log says more."


class NotAtRelayError(RelayError):
    """A member is not connected to a relay."""

    code = "not-at-relay"
    fix = "Start {who}; if it runs, `moiety doctor` there says why it is not connected to the relay."


class CallUnansweredError(RelayError):
    """A member is connected to a relay, and does not answer its call."""

    code = "relay-call-unanswered"
    fix = "Look whether {who} hangs or its network is cut; restart it."


class ServiceAwayError(RelayError):
    """A member answers the call of a relay, and its service does not run."""

    code = "service-away-behind-relay"
    fix = "Look into the log of {who}: its own port does not answer; restart it."


@dataclass(frozen=True)
class RelayPoint:
    """A relay as others dial it.

    Attributes:
        identity: identity that its certificate must state: a relay, or a coordinator that relays.
        address: host:port.
    """

    identity: Identity
    address: str

    def __str__(self) -> str:
        return f"relay {self.identity.name} at {self.address}"


@dataclass(frozen=True)
class Endpoint:
    """Where a relay reaches a member.

    Attributes:
        identity: the member.
        name: name of one of the workers that have this identity; empty for other roles.
    """

    identity: Identity
    name: str = ""

    @property
    def told(self) -> str:
        """What errors call it."""
        return f"a worker of {self.identity.name}" if self.name else self.identity.name

    @property
    def line(self) -> str:
        """What it is called in lines."""
        return f"{self.identity.uri} {self.name}".rstrip()


_ENDPOINT_NAME = "[0-9a-f]{32}"


def drawn_endpoint_name() -> str:
    """Return a new name for a worker."""
    return secrets.token_hex(16)


def is_endpoint_name(text: str) -> bool:
    """Return whether a text is a name of a worker."""
    return re.fullmatch(_ENDPOINT_NAME, text) is not None


def endpoint_in(address: str) -> str | None:
    """Return the name of a worker that is reached at `relay/NAME`; None where that is no such address."""
    by, _, name = address.partition("/")
    return name if by == BY_RELAY and is_endpoint_name(name) else None


@dataclass(frozen=True)
class ByRelays:
    """The way to a member that only dials out: by the first of these relays that has a way to it.

    Attributes:
        relays: at least one, in the order in which they are tried.
        endpoint: name of the worker that is to be reached; empty for members of other roles.
    """

    relays: tuple[RelayPoint, ...]
    endpoint: str = ""

    def __str__(self) -> str:
        return "by " + ", or ".join(map(str, self.relays))


Way = str | ByRelays
"""Where a member is dialled: host:port, or by relays."""


def open_by_relays(
    way: ByRelays, peer: Identity, credentials: Credentials, timeout_s: float
) -> tuple[socket.socket, RelayPoint]:
    """Return `open_way` of the first relay that has a way, and the relay.

    Raises:
        RelayError: none has; the text says of each why.
    """
    faults: list[RelayError] = []
    for relay in way.relays:
        try:
            return open_way(relay, Endpoint(peer, way.endpoint), credentials, timeout_s), relay
        except RelayError as error:
            faults.append(error)
    raise together(faults)


def together(faults: Sequence[RelayError]) -> RelayError:
    """Return the errors of several relays, none of which has a way, as one."""
    found = RelayError("; ".join(map(str, faults)))
    found.code, found.fix = faults[-1].code, faults[-1].fix
    return found


def open_way(relay: RelayPoint, peer: Endpoint, credentials: Credentials, timeout_s: float) -> socket.socket:
    """Return a connection by a relay on which the peer's own TLS begins.

    Args:
        relay: relay that forwards it.
        peer: member to reach. Nothing proves here that it is at the other end; its TLS does.
        credentials: ours; they need files.
        timeout_s: seconds for all of it.

    Raises:
        RelayError: there is no way.
    """
    return end_outer_tls(ask_relay(relay, f"WAY {peer.line}", credentials, timeout_s), relay)


def ask_relay(relay: RelayPoint, line: str, credentials: Credentials, timeout_s: float) -> ssl.SSLSocket:
    """Connect to a relay, say one line to it, and return the connection once it has agreed.

    Raises:
        RelayError: it cannot be reached, its certificate is not accepted, or it refuses.
    """
    end_s = time.monotonic() + timeout_s
    try:
        plain = connect(relay.address, credentials.proxy, timeout_s)
    except OSError as error:
        raise not_reached(relay, error) from error
    try:
        plain.settimeout(_left_s(end_s))
        channel = outer_context(credentials).wrap_socket(plain, server_hostname=relay.identity.dns_name)
    except OSError as error:
        plain.close()
        raise RelayNotTrustedError(f"{relay} does not prove to be that relay: {reason_of(error)}") from error
    try:
        check_relay(channel.getpeercert(binary_form=True) or b"", relay, credentials)
        channel.settimeout(_left_s(end_s))
        channel.sendall(f"{line}\n".encode())
        check_answer(read_line(channel), relay)
    except (OSError, ValueError) as error:
        channel.close()
        raise RelayRefusesError(
            f"{relay} ends the connection, or refuses our certificate: {reason_of(error)}"
        ) from error
    except BaseException:
        channel.close()
        raise
    return channel


def check_answer(answer: str, relay: RelayPoint) -> None:
    """Read a relay's answer to our line.

    Raises:
        RelayError: it is not `OK`; says why.
    """
    if answer == "OK":
        return
    word, _, rest = answer.partition(" ")
    code, _, text = rest.partition(" ")
    kind = REFUSALS.get(code)
    if word != "NO" or kind is None:
        raise RelayRefusesError(f"{relay} does not answer as a relay")
    raise kind(f"{relay} {_MEANINGS[kind].format(who=public(text) or 'the member')}")


_MEANINGS: dict[type[RelayError], str] = {
    RelayRefusesError: "refuses: {who}",
    NotAtRelayError: "has no connection of {who}",
    CallUnansweredError: "calls {who}, which does not answer",
    ServiceAwayError: "reaches {who}, whose service does not run",
}
REFUSALS = {kind.code: kind for kind in _MEANINGS}
"""Code of a relay's refusal to the error that a caller makes of it."""


def end_outer_tls(channel: ssl.SSLSocket, relay: RelayPoint) -> socket.socket:
    """End the outer TLS after the relay's `OK` and return the connection, which now carries the members' own bytes.

    Raises:
        RelayError: the relay breaks off.
    """
    try:
        channel.unwrap()
    except (OSError, ValueError) as error:
        channel.close()
        raise RelayRefusesError(f"{relay} breaks the way off: {reason_of(error)}") from error
    return socket.socket(fileno=channel.detach())


def read_line(channel: ssl.SSLSocket) -> str:
    """Read one line; TLS delivers a short one whole, so nothing after it is taken.

    Raises:
        OSError: the connection ended.
        ValueError: it is too long, or not ASCII.
    """
    line = b""
    while not line.endswith(b"\n"):
        if len(line) >= MAX_LINE_BYTES:
            raise ValueError("its answer is too long")
        piece = channel.recv(1)
        if not piece:
            raise ConnectionAbortedError("it closed the connection")
        line += piece
    return line[:-1].decode("ascii")


def ask_round_trip(relay: RelayPoint, credentials: Credentials, timeout_s: float) -> float:
    """Return the seconds that a relay takes to answer over a connection that stands.

    Raises:
        RelayError: it cannot be reached, or does not accept us.
    """
    channel = ask_relay(relay, "TRY", credentials, timeout_s)
    try:
        begin_s = time.monotonic()
        channel.sendall(b"PING\n")
        read_line(channel)
        return time.monotonic() - begin_s
    except (OSError, ValueError) as error:
        raise RelayError(f"{relay} does not answer: {reason_of(error)}") from error
    finally:
        channel.close()


@lru_cache(maxsize=8)
def outer_context(credentials: Credentials) -> ssl.SSLContext:
    """Return what it takes to dial a relay."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols([RELAY_PROTOCOL])
    context.load_verify_locations(cadata=credentials.authority_pem.decode("ascii"))
    assert credentials.files is not None, "credentials of a member that dials relays are files"
    context.load_cert_chain(*credentials.files)
    return context


def check_relay(der: bytes, relay: RelayPoint, credentials: Credentials) -> None:
    """Apply the rules that services apply beyond what TLS checks.

    Raises:
        RelayNotTrustedError: the certificate breaks one, or is revoked.
    """
    try:
        with read_as("it is damaged"):
            shown = x509.load_der_x509_certificate(der)
        check_issued_by(shown, x509.load_pem_x509_certificate(credentials.authority_pem))
        check_member(shown, serves=True)
        check_valid_at(shown, datetime.datetime.now(datetime.UTC))
        if credentials.revoked is not None:
            credentials.revoked.check(shown.serial_number, relay.identity.name)
    except (ServiceError, ValueError) as error:
        raise RelayNotTrustedError(f"{relay} shows a certificate that is not accepted: {error}") from error


def _left_s(end_s: float) -> float:
    return max(0.001, end_s - time.monotonic())


def not_reached(relay: RelayPoint, error: OSError) -> RelayError:
    """Return the error of a relay to which there is no connection, with our proxy's code and fix if that failed."""
    found = RelayError(f"{relay} cannot be reached: {reason_of(error)}")
    if isinstance(error, ProxyError):
        found.code, found.fix = error.code, error.fix
    return found


def reason_of(error: Exception) -> str:
    """Return in plain words why a connection failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid here ({error.verify_message})"
    if isinstance(error, ProxyError):
        return error.fault.meaning
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, socket.gaierror):
        return "the name cannot be resolved"
    return getattr(error, "strerror", None) or str(error)
