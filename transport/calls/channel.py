"""Dialling another member: a channel that trusts only the certificate of exactly that member."""

import asyncio
import math
import ssl
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import grpc
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from service.certificate_rules import check_member
from service.errors import ServiceError, UnauthenticatedError, UnreachableError, error_from_call
from service.identity import Identity
from service.tls import Credentials
from service.trust.terms import agent_of_term
from service.watch.sightings import own_agent
from transport.calls.answers import AnswerChannel, readable

CHECK_S = 5.0
RETRY_S = 0.3
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
    ("grpc.use_local_subchannel_pool", 1),
)


def open_channel(address: str, peer: Identity, credentials: Credentials, *, term: int = 0) -> Any:
    """Return a channel to `peer` at `address`; connects when first used, and again whenever the connection is lost.

    TLS fails unless the other end proves to be `peer`, whatever its host name or address is. Close it when done.

    Args:
        address: host:port.
        peer: whose certificate must be shown there.
        credentials: ours.
        term: in which we lead, where we are one of several coordinators (`service.trust.terms`).
    """
    agent = agent_of_term(own_agent(), term)
    own = (("grpc.ssl_target_name_override", peer.dns_name), ("grpc.primary_user_agent", agent))
    options = (*CHANNEL_OPTIONS, *own)
    channel = grpc.aio.secure_channel(address, credentials.for_channel(), options=options)
    _DIALLED[channel] = (address, peer, credentials)
    return channel


_DIALLED: "WeakKeyDictionary[Any, tuple[str, Identity, Credentials]]" = WeakKeyDictionary()
"""Channel to where it leads and with what: gRPC does not show what certificate it has accepted there."""


_ACCEPTED_UNTIL: "WeakKeyDictionary[Any, float]" = WeakKeyDictionary()
"""Channel to the monotonic time until which its peer's certificate need not be looked at again."""


async def check_certificate(channel: Any, *, deadline_s: float = CHECK_S) -> bool:
    """Check the certificate of a channel's peer over a separate connection, and refuse a bad one.

    A server refuses callers by `service.identity.peer_identity`, which sees the certificate of the very connection.
    A caller cannot: gRPC's library keeps what it has accepted to itself. So this connection is another one, and an
    attacker who stands between and holds the key of an authority that ours has signed, or of a weak certificate, can
    let it pass and take the next one. An attacker who has neither is stopped by TLS alone. As it guards no connection
    but the federation's certificates, what was accepted is not looked at again for `REMEMBERED_S`; what was refused is.

    Args:
        channel: from `open_channel`; others are not looked at.
        deadline_s: for the connection. Where there is none, the calls on the channel will say why.

    Returns:
        Whether one was seen.

    Raises:
        UnauthenticatedError: what is shown was not issued by our authority itself, is revoked, or breaks a rule of
            `service.certificate_rules`.
    """
    if channel not in _DIALLED:
        return False
    if time.monotonic() < _ACCEPTED_UNTIL.get(channel, -math.inf):
        return True
    address, peer, credentials = _DIALLED[channel]
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(deadline_s):
            shown = await _certificate_at(host.strip("[]"), int(port), peer, credentials)
    except (OSError, ValueError):
        return False
    authority = x509.load_pem_x509_certificate(credentials.authority_pem)
    try:
        shown.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        reason = "another authority signed it, not the federation's own"
        raise UnauthenticatedError(f"the certificate of {peer.name} ({address}) is not accepted: {reason}") from error
    if credentials.revoked is not None:
        credentials.revoked.check(shown.serial_number, f"{peer.name} ({address})")
    try:
        check_member(shown, serves=True)
    except ValueError as error:
        raise UnauthenticatedError(f"the certificate of {peer.name} ({address}) is not accepted: {error}") from error
    _ACCEPTED_UNTIL[channel] = time.monotonic() + REMEMBERED_S
    return True


async def _certificate_at(host: str, port: int, peer: Identity, credentials: Credentials) -> x509.Certificate:
    """Return what is shown at an address; the chain is not checked here, and nothing is said there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the certificate is looked at afterwards, weak and foreign ones too
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.set_alpn_protocols(["h2"])
    if credentials.files is not None:
        context.load_cert_chain(*credentials.files)
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=peer.dns_name)
    try:
        return x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    finally:
        writer.transport.abort()


async def wait_until_reachable(
    channel: Any,
    *,
    peer: str,
    address: str,
    deadline_s: float,
    on_retry: Callable[[str], None] = lambda peer: None,
) -> None:
    """Wait until the other end answers and serves.

    Args:
        channel: from `open_channel`.
        peer: its name, for the error text.
        address: likewise.
        deadline_s: how long to try.
        on_retry: called with the peer's name before each further attempt.

    Raises:
        UnreachableError: not within the deadline; the text says why the last attempt failed.
        UnauthenticatedError: it refuses our certificate's identity, or its own is not accepted (`check_certificate`).
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + deadline_s
    who = f"{peer} ({address})"
    cause: ServiceError = UnreachableError(f"cannot reach {who}: no time was given to try")
    while (remaining_s := end_s - loop.time()) > 0:
        try:
            reply = await HealthStub(AnswerChannel(channel)).Check(
                HealthCheckRequest(), timeout=min(CHECK_S, remaining_s)
            )
        except grpc.aio.AioRpcError as error:
            cause = error_from_call(error, peer=who, doing="check the health")
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise cause from error
        else:
            if readable(reply, who, "check the health").status == HealthCheckResponse.SERVING:
                await check_certificate(channel)
                return
            cause = UnreachableError(f"{who} answers but is not serving: it is starting or stopping, or stands by")
        await asyncio.sleep(min(RETRY_S, max(0.0, end_s - loop.time())))
        on_retry(peer)
    raise UnreachableError(str(cause))
