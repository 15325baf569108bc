"""The way to another member, tried over the very channel that calls will take: it answers, and speaks our protocol."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from service.errors import ServiceError, UnauthenticatedError, UnreachableError, error_from_call
from service.trust.protocol import PROTOCOL, PROTOCOL_SERVICE, ProtocolDiffersError
from transport.calls.answers import AnswerChannel, readable
from transport.calls.channel import CHECK_S, RETRY_S, check_certificate, own_certificate_is_new
from transport.calls.leader import LeaderChannel, find_leader, is_in_doubt

_OF_CERTIFICATES = ("certificate-not-yet-valid", "certificate-expired", "certificate-not-trusted")
_PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
"""What ends a call to a peer that may come back: one that stops cancels the calls that it has not answered."""


async def wait_until_reachable(
    channel: Any,
    *,
    peer: str,
    address: object,
    deadline_s: float,
    on_retry: Callable[[str], None] = lambda peer: None,
) -> None:
    """Wait until the other end answers, serves, and speaks our protocol; of several coordinators, one that leads.

    Args:
        channel: channel from `open_channel` or `open_coordinator_channel`.
        peer: its name, for the error text.
        address: address of the peer, for the error text.
        deadline_s: seconds to try.
        on_retry: called with the peer's name before each further attempt.

    Raises:
        UnreachableError: not within the deadline; the text says why the last attempt failed.
        UnauthenticatedError: it refuses our certificate's identity, or its own is not accepted (`check_certificate`).
        ProtocolDiffersError: it speaks another protocol.

    Cost: one call over a connection that stands.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + deadline_s
    who = f"{peer} ({address})"
    cause: ServiceError = UnreachableError(f"cannot reach {who}: no time was given to try")
    while (remaining_s := end_s - loop.time()) > 0:
        limit_s = min(CHECK_S, remaining_s)
        try:
            if is_in_doubt(channel):
                await find_leader(channel, deadline_s=limit_s)
            is_serving = await _serves(channel, who, limit_s)
        except grpc.aio.AioRpcError as error:
            cause = error_from_call(error, peer=who, doing="")
            if error.code() not in _PASSING:
                raise cause from error
            if cause.code in _OF_CERTIFICATES:
                await _explain_certificate(channel, cause.code, limit_s)
        else:
            if is_serving:
                if not isinstance(channel, LeaderChannel):
                    await check_certificate(channel)
                return
            cause = UnreachableError(f"{who} answers but is not serving: it is starting or stopping, or stands by")
        await asyncio.sleep(min(RETRY_S, max(0.0, end_s - loop.time())))
        on_retry(peer)
    lagging = own_certificate_is_new(channel) if cause.code == "connection-closed" else ""
    unreachable = UnreachableError(f"{cause}{lagging}")
    unreachable.code = cause.code
    raise unreachable


async def _explain_certificate(channel: Any, code: str, limit_s: float) -> None:
    """Look at the certificate that gRPC's library refuses: it says less of it than can be seen."""
    try:
        await check_certificate(channel, deadline_s=limit_s)
    except UnauthenticatedError as error:
        error.code = code
        raise


async def check_protocol(channel: Any, peer: str) -> None:
    """Refuse a member that speaks another protocol. One that cannot be asked is not refused: calls will say why.

    Args:
        channel: channel to the peer.
        peer: its name, for the error text.

    Raises:
        ProtocolDiffersError: it does.
    """
    try:
        await _serves(channel, peer, CHECK_S)
    except grpc.aio.AioRpcError:
        return


async def _serves(channel: Any, who: str, deadline_s: float) -> bool:
    """Ask for the health of the service of our protocol; raises `ProtocolDiffersError` where there is none.

    Raises:
        AioRpcError: it could not be asked.
    """

    async def status(service: str) -> int:
        reply = await HealthStub(AnswerChannel(channel)).Check(HealthCheckRequest(service=service), timeout=deadline_s)
        return int(readable(reply, who, "ask whether it serves").status)

    try:
        return bool(await status(PROTOCOL_SERVICE) == HealthCheckResponse.SERVING)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
    await status("")  # one that cannot tell its health at all is something else
    raise ProtocolDiffersError(
        f"{who} speaks another protocol than protocol {PROTOCOL} of this version: install the same version at both"
    )
