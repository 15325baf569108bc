"""Dialling another member: a channel that trusts only the certificate of exactly that member."""

import asyncio
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from transport.errors import ServiceError, UnreachableError, error_from_call
from transport.identity import Identity
from transport.tls import Credentials

CHECK_S = 5.0
RETRY_S = 0.3

CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # also the time limit of one attempt to connect
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.use_local_subchannel_pool", 1),
)


def open_channel(address: str, peer: Identity, credentials: Credentials) -> Any:
    """Return a channel to `peer` at `address`; connects when first used, and again whenever the connection is lost.

    TLS fails unless the other end proves to be `peer`, whatever its host name or address is. Close it when done.
    """
    options = (*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", peer.dns_name))
    return grpc.aio.secure_channel(address, credentials.for_channel(), options=options)


async def wait_until_reachable(channel: Any, *, peer: str, address: str, deadline_s: float) -> None:
    """Wait until the other end answers and serves.

    Args:
        channel: from `open_channel`.
        peer: its name, for the error text.
        address: likewise.
        deadline_s: how long to try.

    Raises:
        UnreachableError: not within the deadline; the text says why the last attempt failed.
        UnauthenticatedError: it refuses our certificate's identity.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + deadline_s
    who = f"{peer} ({address})"
    cause: ServiceError = UnreachableError(f"cannot reach {who}: no time was given to try")
    while (remaining_s := end_s - loop.time()) > 0:
        try:
            reply = await HealthStub(channel).Check(HealthCheckRequest(), timeout=min(CHECK_S, remaining_s))
        except grpc.aio.AioRpcError as error:
            cause = error_from_call(error, peer=who, doing="check the health")
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise cause from error
        else:
            if reply.status == HealthCheckResponse.SERVING:
                return
            cause = UnreachableError(f"{who} answers but is not serving: it is starting or stopping")
        await asyncio.sleep(min(RETRY_S, max(0.0, end_s - loop.time())))
    raise UnreachableError(str(cause))
