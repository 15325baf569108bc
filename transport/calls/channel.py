"""Dialling another member: a channel that trusts only the certificate of exactly that member."""

import asyncio
import datetime
import math
import ssl
import time
import weakref
from typing import Any
from weakref import WeakKeyDictionary

import grpc
from cryptography import x509

from service.certificate_rules import check_issued_by, check_member, check_valid_at, read_as
from service.errors import UnauthenticatedError
from service.identity import Identity
from service.reach.dial import open_stream
from service.reach.proxy import note_place
from service.reach.relays import RelayError, Way, open_by_relays
from service.tls import Credentials
from service.trust.protocol import agent_of_protocol
from service.trust.terms import agent_of_term
from service.watch.callers import own_agent
from transport.relay.entry import Entry
from transport.relay.splice import DIALLERS

CHECK_S = 5.0
RETRY_S = 0.3
NEW_CERTIFICATE = datetime.timedelta(days=7)
"""Age of a certificate up to which a clock that lags behind is a likely reason to refuse it."""

REMEMBERED_S = 600.0
"""How long an accepted certificate is remembered: a service does not look again for every job."""

CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 30_000),  # a network that is gone for less ends no call
    ("grpc.http2.ping_timeout_ms", 30_000),  # also of other pings; the library would wait for a minute for all
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # also the time limit of one attempt to connect
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),  # decision 086: through the proxy of the configuration, not of the environment
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.dns_min_time_between_resolutions_ms", 100),  # else a host that has moved stays away for half a minute
)

PROXIED_OPTIONS = {"grpc.min_reconnect_backoff_ms": 20_000}
"""The proxy resolves a name and connects in our place, and may take longer over both than we would."""


RELAYED_OPTIONS = {"grpc.min_reconnect_backoff_ms": 20_000}
"""Options of channels by relays: an attempt to connect may ask several relays."""


def open_channel(address: Way, peer: Identity, credentials: Credentials, *, term: int = 0) -> Any:
    """Return a channel to `peer` at `address`; connects when first used, and again whenever the connection is lost.

    Where our credentials name a proxy that leads there, the library connects to that, and asks it for the address
    (CONNECT) each time.

    TLS fails unless the other end proves to be `peer`, whatever its host name or address is. Close it when done.

    Args:
        address: host:port, or by relays; then the running loop serves the local entry to that way.
        peer: member whose certificate must be shown there.
        credentials: ours.
        term: term in which we lead, where we are one of several coordinators (`service.trust.terms`).
    """
    agent = agent_of_term(agent_of_protocol(own_agent()), term)
    own = {"grpc.ssl_target_name_override": peer.dns_name, "grpc.primary_user_agent": agent}
    options: dict[str, int | str] = {**dict(CHANNEL_OPTIONS), **own}
    entry, proxy = None, credentials.proxy
    if not isinstance(address, str):
        entry = Entry(address, peer, credentials)
        target = entry.target
        options |= RELAYED_OPTIONS
    elif proxy is not None and proxy.leads_to(address):
        note_place(proxy.address)
        options |= {**PROXIED_OPTIONS, **proxy.channel_options(address)}
        target = proxy.address
    else:
        target = address
    channel = grpc.aio.secure_channel(target, credentials.for_channel(), options=tuple(options.items()))
    if entry is not None:
        weakref.finalize(channel, entry.close)
    _DIALLED[channel] = (address, peer, credentials)
    return channel


def told_name(name: str, channel: Any) -> str:
    """Return a peer's name for error texts: with the relays of the way to it, where these may be what fails."""
    address = _DIALLED[channel][0] if channel in _DIALLED else ""
    return name if isinstance(address, str) else f"{name} ({address})"


_DIALLED: "WeakKeyDictionary[Any, tuple[Way, Identity, Credentials]]" = WeakKeyDictionary()
"""Channel to where it leads and with what: gRPC does not show what certificate it has accepted there."""


_ACCEPTED_UNTIL: "WeakKeyDictionary[Any, float]" = WeakKeyDictionary()
"""Channel to the monotonic time until which its peer's certificate need not be looked at again."""


def own_certificate_is_new(channel: Any) -> str:
    """Return since when our certificate is valid, where that is so short that a clock elsewhere may lag behind."""
    if channel not in _DIALLED:
        return ""
    own = x509.load_pem_x509_certificate(_DIALLED[channel][2].certificate_pem)
    now = datetime.datetime.now(datetime.UTC)
    if now - own.not_valid_before_utc > NEW_CERTIFICATE:
        return ""
    return (
        f"; our certificate is valid only from {own.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on: perhaps it is not yet "
        f"valid by the clock there? The clock of this machine says {now:%Y-%m-%d %H:%M} UTC"
    )


async def check_certificate(channel: Any, *, deadline_s: float = CHECK_S) -> bool:
    """Check the certificate of a channel's peer over a separate connection, and refuse a bad one.

    A server refuses callers by `service.identity.peer_identity`, which sees the certificate of the very connection.
    A caller cannot: gRPC's library keeps what it has accepted to itself. So this connection is another one, and an
    attacker who stands between and holds the key of an authority that ours has signed, or of a weak certificate, can
    let it pass and take the next one. An attacker who has neither is stopped by TLS alone. As it guards no connection
    but the federation's certificates, what was accepted is not looked at again for `REMEMBERED_S`; what was refused is.

    Args:
        channel: channel from `open_channel`; others are not looked at.
        deadline_s: seconds for the connection. Where there is none, the calls on the channel will say why.

    Returns:
        Whether one was seen.

    Raises:
        UnauthenticatedError: what is shown was not issued by our authority itself, is not valid by our clock, is
            revoked, or breaks a rule of `service.certificate_rules`.
    """
    if channel not in _DIALLED:
        return False
    if time.monotonic() < _ACCEPTED_UNTIL.get(channel, -math.inf):
        return True
    address, peer, credentials = _DIALLED[channel]
    try:
        async with asyncio.timeout(deadline_s):
            der = await _certificate_at(address, peer, credentials)
    except (OSError, ValueError, RelayError):
        return False
    try:
        with read_as("it is damaged"):
            shown = x509.load_der_x509_certificate(der)
        check_issued_by(shown, x509.load_pem_x509_certificate(credentials.authority_pem))
    except ValueError as error:
        raise UnauthenticatedError(f"the certificate of {peer.name} ({address}) is not accepted: {error}") from error
    if credentials.revoked is not None:
        credentials.revoked.check(shown.serial_number, f"{peer.name} ({address})")
    try:
        check_member(shown, serves=True)
    except ValueError as error:
        raise UnauthenticatedError(f"the certificate of {peer.name} ({address}) is not accepted: {error}") from error
    now = datetime.datetime.now(datetime.UTC)
    try:
        check_valid_at(shown, now)
    except ValueError as error:
        raise UnauthenticatedError(f"the certificate of {peer.name} ({address}) {error}") from error
    left_s = (shown.not_valid_after_utc - now).total_seconds()
    _ACCEPTED_UNTIL[channel] = time.monotonic() + min(REMEMBERED_S, left_s)
    return True


async def _certificate_at(address: Way, peer: Identity, credentials: Credentials) -> bytes:
    """Return what is shown at an address, DER; the chain is not checked here, and nothing is said there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the certificate is looked at afterwards, weak and foreign ones too
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.set_alpn_protocols(["h2"])
    if credentials.files is not None:
        context.load_cert_chain(*credentials.files)
    if isinstance(address, str):
        _, writer = await open_stream(address, credentials.proxy, context=context, server_name=peer.dns_name)
    else:
        dialling = asyncio.get_running_loop().run_in_executor(
            DIALLERS, open_by_relays, address, peer, credentials, CHECK_S
        )
        plain, _ = await dialling
        plain.setblocking(False)
        _, writer = await asyncio.open_connection(sock=plain, ssl=context, server_hostname=peer.dns_name)
    try:
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown
    finally:
        writer.transport.abort()
