"""Calls to whichever of several coordinators leads: one identity, several addresses, one channel to each of them.

One of them leads (`coordinator.leading`), and the others answer that they stand by. gRPC's own lists of addresses do
not find it (decision 061). So all are asked for their health at the same time, and whoever serves is called from then
on: until a call fails as calls do to a coordinator that is gone or stands by, or the connection is lost. Each channel
accepts the certificate of that one identity alone, and before the first call at each address the certificate is looked
at once more (`transport.calls.channel.check_certificate`).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Self

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from service.errors import ServiceError, UnauthenticatedError, UnreachableError
from service.identity import Identity
from service.reach.relays import Way
from service.tls import Credentials
from service.trust.terms import service_of_term
from transport.calls.answers import AnswerChannel, readable
from transport.calls.channel import CHECK_S, RETRY_S, check_certificate, open_channel
from transport.calls.final_status import at_hand

_LEAD_TO_DOUBT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class LeaderChannel:
    """Channel like one of aio that makes each call to the coordinator that was found to lead last.

    Args:
        channels: one to each address, from `open_channel`; they are closed with this one.
        peer: name of the coordinator.
    """

    def __init__(self, channels: Sequence[Any], peer: str) -> None:
        self._channels = tuple(channels)
        self._peer = peer
        self._present = self._channels[0]
        self._is_doubted = True
        self.unary_unary = partial(self._method, "unary_unary")
        self.unary_stream = partial(self._method, "unary_stream")
        self.stream_unary = partial(self._method, "stream_unary")
        self.stream_stream = partial(self._method, "stream_stream")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all channels."""
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def channel_ready(self) -> None:
        """Wait until one of the coordinators leads and can be reached."""
        while not await self.find():  # noqa: ASYNC110 -- nobody tells us that another one leads
            await asyncio.sleep(RETRY_S)

    @property
    def is_in_doubt(self) -> bool:
        """Whether the coordinator that led last may lead no more."""
        return self._is_doubted or self._present.get_state() is not grpc.ChannelConnectivity.READY

    async def find(self, service: str = "", *, deadline_s: float = CHECK_S) -> bool:
        """Ask all coordinators for their health, and call the first that serves from now on.

        Args:
            service: whose health is asked for: that of a term (`service_of_term`), or of the whole coordinator where
                empty; then nobody is asked as long as nothing speaks against the one that led last.
            deadline_s: seconds for each answer, and for the look at the certificate.

        Returns:
            Whether one serves. Where none does, calls go where they went before, and say what is wrong there.

        Raises:
            UnauthenticatedError: none serves but one whose certificate is not accepted.
        """
        if not service and not self.is_in_doubt:
            await check_certificate(self._present, deadline_s=deadline_s)
            return True
        asked = [asyncio.create_task(self._if_serving(channel, service, deadline_s)) for channel in self._channels]
        refusal: UnauthenticatedError | None = None
        try:
            for answer in asyncio.as_completed(asked):
                try:
                    found = await answer
                except UnauthenticatedError as error:
                    refusal = error
                    continue
                if found is not None:
                    self._present, self._is_doubted = found, False
                    return True
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if refusal is not None:
            raise refusal
        return False

    async def _if_serving(self, channel: Any, service: str, deadline_s: float) -> Any:
        """Return the channel if whoever it leads to serves, and None otherwise."""
        if not await serves(channel, service, self._peer, deadline_s=deadline_s):
            return None
        await check_certificate(channel, deadline_s=deadline_s)
        return channel

    def _method(self, kind: str, method: str, **options: Any) -> Callable[..., Any]:
        of_each = {channel: getattr(channel, kind)(method, **options) for channel in self._channels}

        def begin(*request: Any, **how: Any) -> Any:
            channel = self._present
            call = of_each[channel](*request, **how)
            call.add_done_callback(partial(self._note, channel))
            return call

        return begin

    def _note(self, channel: Any, call: Any) -> None:
        if channel is self._present and at_hand(call.code()) in _LEAD_TO_DOUBT:
            self._is_doubted = True


def open_coordinator_channel(addresses: Sequence[Way], coordinator: Identity, credentials: Credentials) -> Any:
    """Return a channel to a coordinator that has one address or several; see `open_channel` and `LeaderChannel`."""
    channels = [open_channel(address, coordinator, credentials) for address in addresses]
    return channels[0] if len(channels) == 1 else LeaderChannel(channels, coordinator.name)


def is_in_doubt(channel: Any) -> bool:
    """Say whether `find_leader` would look for another coordinator; never where there is one address."""
    return isinstance(channel, LeaderChannel) and channel.is_in_doubt


async def find_leader(channel: Any, *, deadline_s: float = CHECK_S) -> bool:
    """Prepare calls to a coordinator: look at its certificate, and before that find the one that leads.

    Args:
        channel: channel from `open_coordinator_channel`.
        deadline_s: see `check_certificate` and `LeaderChannel.find`.

    Returns:
        Whether one was found. Where there is none, the calls on the channel will say why.

    Raises:
        UnauthenticatedError: its certificate is not accepted.
    """
    if isinstance(channel, LeaderChannel):
        return await channel.find(deadline_s=deadline_s)
    return await check_certificate(channel, deadline_s=deadline_s)


async def wait_for_term(channel: Any, term: Callable[[], int], *, peer: str, deadline_s: float) -> None:
    """Wait until a channel leads to the coordinator that leads in a term.

    Where several coordinators share an address or a list of addresses, a connection may still lead to one that led
    before, and that may have been stopped without closing it: what is sent there is lost.

    Args:
        channel: channel from `open_coordinator_channel`.
        term: returns what that coordinator told last (`service.trust.terms`); 0 where it has no other beside it.
        peer: its name, for the error text.
        deadline_s: how long to try.

    Raises:
        UnreachableError: not within the deadline.
        UnauthenticatedError: the certificate of the one that leads is not accepted.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline_s):
            while term():
                service = service_of_term(term())
                if isinstance(channel, LeaderChannel):
                    is_there = await channel.find(service)
                else:
                    is_there = await serves(channel, service, peer)
                if is_there:
                    return
                await asyncio.sleep(RETRY_S)
            return
    raise UnreachableError(f"the address of {peer} does not lead to the one that leads now")


async def serves(channel: Any, service: str, peer: str, *, deadline_s: float = CHECK_S) -> bool:
    """Say whether a coordinator answers that a service of it serves.

    Args:
        channel: channel from `open_channel`.
        service: empty for the whole coordinator.
        peer: its name, for error texts.
        deadline_s: seconds to wait for the answer.
    """
    request = HealthCheckRequest(service=service)
    try:
        reply = await HealthStub(AnswerChannel(channel)).Check(request, timeout=deadline_s)
        return bool(readable(reply, peer, "check the health").status == HealthCheckResponse.SERVING)
    except (grpc.aio.AioRpcError, ServiceError):
        return False
