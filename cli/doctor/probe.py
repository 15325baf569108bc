"""The health probe of `moiety health`, which needs only the standard library.

A container is probed several times a minute for as long as it lives, so a probe must cost next to nothing: loading gRPC
alone takes longer than the rest of it. What is asked is the same: the service's own port is dialled with its own
certificate, TLS proves that the other end is this very member, and `grpc.health.v1.Health/Check` is called over HTTP/2.
The answer comes out of the service's event loop, through its table of permissions: a process that hangs, drains or has
lost its certificate does not give it.
"""

import os
import socket
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from service.reach.addresses import dialled
from service.reach.health_call import RELAY_PROTOCOL, SERVING, ask_health, client_context, relay_health, remaining_s
from service.settings_tree import SettingsError, read_tree

PARTY_PREFIX = "MOIETY_PARTY"
COORDINATOR_PREFIX = "MOIETY_COORDINATOR"
RELAY_PREFIX = "MOIETY_RELAY"
PARTY_LISTENS_AT = "127.0.0.1:7101"
"""Address at which a party listens by default, as in `party.config`. A coordinator's file always states one."""


class ProbeError(Exception):
    """The service is not serving; the text says why."""

    code: str = "not-serving"


class Target(NamedTuple):
    """The service to ask.

    Attributes:
        name: name of the member.
        address: `host:port` at which this machine reaches it.
        dns_name: DNS name that its certificate must prove: `service.identity.Identity.dns_name`.
        authority, certificate, key: its PEM files.
        is_relay: whether it is a relay.
    """

    name: str
    address: str
    dns_name: str
    authority: Path
    certificate: Path
    key: Path
    is_relay: bool = False


def target_of(path: Path) -> Target:
    """Read of a service's configuration what it takes to reach it.

    A coordinator's file is the one that lists parties, or members of masked sums.

    Args:
        path: party.toml or coordinator.toml; overridden by the environment as for the service itself.

    Raises:
        SettingsError: it cannot be used; the text names the file and the field.
    """
    tree, _ = read_tree(path, prefix=PARTY_PREFIX, environ={})
    is_coordinator = not {"parties", "sum_members"}.isdisjoint(tree)
    is_relay = "relay" in tree and not is_coordinator
    role = "coordinator" if is_coordinator else "relay" if is_relay else "party"
    prefixes = {"coordinator": COORDINATOR_PREFIX, "relay": RELAY_PREFIX, "party": PARTY_PREFIX}
    tree, _ = read_tree(path, prefix=prefixes[role], environ=os.environ)
    name, federation = _text(path, tree, "name"), _text(path, tree, "federation")
    listen = tree.get("listen", PARTY_LISTENS_AT if role == "party" else None)
    if is_relay:
        listen = tree["relay"].get("listen") if isinstance(tree["relay"], dict) else None
    if not isinstance(listen, str) or ":" not in listen:
        raise SettingsError(f"{path}: listen: must be host:port, got {listen!r}")
    tls = tree.get("tls")
    if not isinstance(tls, dict):
        raise SettingsError(f"{path}: tls: missing")
    files = {field: path.parent / _text(path, tls, field, "tls.") for field in ("authority", "certificate", "key")}
    return Target(name, dialled(listen), f"{name}.{role}.{federation}.moiety.internal", **files, is_relay=is_relay)


def probe(target: Target, timeout_s: float) -> None:
    """Ask a service whether it serves.

    Args:
        target: whom.
        timeout_s: seconds for the whole call.

    Raises:
        SettingsError: its certificate files cannot be used.
        ProbeError: it does not serve, or does not say so in time.
    """
    context = client_context(target.authority, target.certificate, target.key, whose=target.name)
    if target.is_relay:
        context.set_alpn_protocols([RELAY_PROTOCOL])
    who = f"{target.name} ({target.address})"
    host, _, port = target.address.rpartition(":")
    end_s = time.monotonic() + timeout_s
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=remaining_s(end_s)) as plain:
            plain.settimeout(remaining_s(end_s))
            with context.wrap_socket(plain, server_hostname=target.dns_name) as channel:
                status = (relay_health if target.is_relay else ask_health)(channel, target.dns_name, end_s)
    except (OSError, ValueError) as error:
        raise ProbeError(f"cannot check the health of {who}: {_meaning(error, timeout_s)}") from error
    if status != SERVING:
        raise ProbeError(f"{who} answers but is not serving: it is starting or stopping, or stands by")


def _meaning(error: OSError | ValueError, timeout_s: float) -> str:
    match error:
        case ssl.SSLCertVerificationError(verify_message=told) if "mismatch" in told or "ostname" in told:
            return "the certificate shown there belongs to somebody else"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not valid here: {error.verify_message}"
        case TimeoutError():
            return f"no answer within {timeout_s:g} s"
        case ConnectionRefusedError():
            return "nothing listens at its address"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
            return "what listens there does not speak TLS"
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ConnectionAbortedError() | ConnectionResetError():
            return "it closed the connection: it went away, or does not accept our certificate"
        case _:
            return getattr(error, "strerror", None) or str(error)


def _text(path: Path, section: Mapping[str, Any], field: str, label: str = "") -> str:
    value = section.get(field)
    if value is None:
        raise SettingsError(f"{path}: {label}{field}: missing")
    if not isinstance(value, str):
        raise SettingsError(f"{path}: {label}{field}: must be text, got {value!r}")
    return value
