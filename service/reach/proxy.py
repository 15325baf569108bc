"""The HTTP proxy through which a member dials others, by CONNECT [RFC 9110, 9.3.6], and what can go wrong at it.

The proxy is asked for a connection to host and port of a member, and then passes bytes on. TLS stands between the two
members as on a direct connection. gRPC's channels ask for themselves (`Proxy.channel_options`); all other connections
are opened by `service.reach.dial`. User and password travel to the proxy as they are (RFC 7617), so they are worth what
the network up to it is.
"""

import base64
import re
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from service.reach.hosts import is_on_hosts
from service.settings import MAX_PORT, host_fault

ANSWER_END = b"\r\n\r\n"
MAX_ANSWER_BYTES = 1 << 16


class ProxyFault(NamedTuple):
    """What can go wrong at a proxy: its meaning in words that others may read, what mends it, and the code."""

    meaning: str
    fix: str
    code: str


UNKNOWN = ProxyFault(
    "the name of our proxy cannot be resolved",
    "Correct `proxy` in the configuration, or the DNS of this machine.",
    code="proxy-unknown",
)
NOT_REACHED = ProxyFault(
    "our proxy cannot be reached",
    "Correct `proxy` in the configuration, or let this machine connect to that port of the proxy.",
    code="proxy-not-reached",
)
SILENT = ProxyFault(
    "our proxy takes the connection and does not answer in time",
    "Ask who runs the proxy whether it hangs, and whether it passes this host and port on.",
    code="proxy-silent",
)
REFUSES_US = ProxyFault(
    "our proxy demands a user and a password, and does not accept ours",
    "Name the user in `url` of [proxy] and the file of its password in `password_file`, and send the service SIGHUP.",
    code="proxy-refuses-us",
)
FORBIDS = ProxyFault(
    "our proxy forbids connections to this host and port",
    "Ask who runs the proxy to allow CONNECT to this host and port; or name the host in `direct` of [proxy].",
    code="proxy-forbids",
)
FINDS_NOBODY = ProxyFault(
    "our proxy does not reach it",
    "Check that the member is up and its address right, and that the proxy resolves its name and reaches its port.",
    code="proxy-finds-nobody",
)
FAILS = ProxyFault(
    "our proxy opens no connection",
    "Check that it is an HTTP proxy that `proxy` names; its log has the cause.",
    code="proxy-fails",
)

_OF_STATUS = {407: REFUSES_US, 403: FORBIDS, 500: FINDS_NOBODY, 502: FINDS_NOBODY, 503: FINDS_NOBODY, 504: FINDS_NOBODY}
"""Status of an answer to what it means: squid answers 500 and 503 where it resolves or reaches nobody."""


class ProxyError(ConnectionError):
    """The proxy is not reached, or opens no connection.

    Args:
        fault: what is wrong.
        proxy: at which one.
        detail: what more is known; no password.
    """

    def __init__(self, fault: ProxyFault, proxy: "Proxy", detail: str = "") -> None:
        super().__init__(f"{fault.meaning} ({proxy}{': ' if detail else ''}{detail})")
        self.fault = fault
        self.fix = fault.fix
        self.code = fault.code


@dataclass(frozen=True)
class Proxy:
    """A proxy that is used. The password is never shown by repr.

    Attributes:
        address: host:port of the proxy; an IPv6 host stands in brackets.
        user: name of the user it knows us by; empty where it asks for none.
        password: password of the user.
        direct: hosts that are dialled without it: names, addresses, or networks such as 10.0.7.0/24.
    """

    address: str
    user: str = ""
    password: str = field(default="", repr=False)
    direct: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.address

    def leads_to(self, address: str) -> bool:
        """Say whether an address, host:port, is dialled through it. No name is resolved for that."""
        return not is_on_hosts(address, self.direct)

    @property
    def authorization(self) -> str:
        """Value of the header Proxy-Authorization; empty where the proxy asks for none. A secret."""
        if not self.user:
            return ""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def channel_options(self, address: str) -> dict[str, str]:
        """Return what lets a channel of gRPC to the proxy ask it for an address, host:port. A secret."""
        asked = {"grpc.http_connect_server": address}
        given = self.authorization
        return asked | {"grpc.http_connect_headers": f"Proxy-Authorization:{given}"} if given else asked

    def request(self, address: str) -> bytes:
        """Return the request for a connection to an address, host:port."""
        lines = [f"CONNECT {address} HTTP/1.1", f"Host: {address}"]
        if given := self.authorization:
            lines.append(f"Proxy-Authorization: {given}")
        return "\r\n".join([*lines, "", ""]).encode()

    def check_answer(self, answer: bytes, address: str) -> None:
        """Refuse an answer that is no connection.

        Args:
            answer: status line and headers, up to and with the empty line.
            address: host:port that was asked for.

        Raises:
            ProxyError: it says why there is none.
        """
        head, *headers = answer.decode("latin-1").split("\r\n")
        found = re.match(r"HTTP/1\.[01] ([1-5][0-9]{2})\b", head)
        if found is None:
            raise ProxyError(FAILS, self, "what listens there does not speak HTTP")
        status = int(found[1])
        if 200 <= status < 300:
            return
        fault = _OF_STATUS.get(status, FAILS)
        detail = f"{status} for {address}"
        if fault is REFUSES_US:
            schemes = [
                line.split()[1].rstrip(",") for line in headers if re.match(r"(?i)proxy-authenticate: *\S", line)
            ]
            detail = f"it does not accept user {self.user}" if self.user else "no user is configured"
            if schemes and "basic" not in map(str.lower, schemes):
                detail = "it asks for another scheme than Basic, the only one that is spoken here"
        raise ProxyError(fault, self, detail)


def parse_proxy(url: str) -> tuple[str, str]:
    """Return user and address of a proxy, `http://host:port` or `http://user@host:port`; the user may be empty.

    Raises:
        ValueError: it is none, or holds a password. The text does not quote it.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("a proxy is http://host:port, and the port is a number") from None
    if parts.scheme != "http":
        raise ValueError("a proxy is http://host:port; TLS up to the proxy (https) and SOCKS are not supported")
    if parts.password is not None:
        raise ValueError("the password of a proxy does not belong here: `password_file` names a file with it")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("a proxy is http://host:port, with nothing behind it")
    shown = f"[{host}]" if ":" in host else host
    if fault := host_fault(shown):
        raise ValueError(f"a proxy is http://host:port; {fault}")
    if port is None or not 0 < port <= MAX_PORT:
        raise ValueError("a proxy is http://host:port, and the port is missing, as in http://proxy.example:3128")
    user = unquote(parts.username or "")
    if ":" in user or not user.isprintable():
        raise ValueError("the user of a proxy has neither a colon nor control characters [RFC 7617, 2]")
    return user, f"{shown}:{port}"


_PLACES: set[str] = set()
"""Addresses of proxies that this process uses, with names and with numbers: the gRPC library's texts quote either."""


def note_place(address: str) -> None:
    """Note that host:port is a proxy of this process, so that `fault_told_by` knows it in a text."""
    _PLACES.add(address)


def are_used() -> bool:
    """Say whether this process has dialled through a proxy."""
    return bool(_PLACES)


def fault_told_by(details: str) -> ProxyFault | None:
    """Return what was wrong at our proxy where the gRPC library's description of a lost connection says it.

    A description that only says that nothing was reached is about the proxy where it quotes the proxy's address.
    """
    if answered := re.search(r"HTTP proxy returned response code (\d{3})", details):
        return _OF_STATUS.get(int(answered[1]), FAILS)
    if not any(re.search(rf"(?<![\w.]){re.escape(place)}(?!\d)", details) for place in _PLACES):
        return None
    lower = details.lower()
    if "hostname lookup" in lower or "domain name" in lower or "dns resolution" in lower:
        return UNKNOWN
    if "failed to connect to remote host" in lower:
        return NOT_REACHED
    return None
