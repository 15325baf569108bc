"""A relay, a member that only dials out, and others who call it: real certificates, services and connections."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import grpc
from certificates import authority_in
from deadlines import GENEROUS_S, until
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from service.authorization import Permissions
from service.errors import error_from_call
from service.identity import Identity, Role
from service.reach.relays import ByRelays, RelayPoint
from service.server import Server
from service.tls import Credentials
from transport.calls.channel import open_channel, told_name
from transport.calls.way import wait_until_reachable
from transport.relay.hub import RelayHub
from transport.relay.member import StayConnected

FEDERATION = "local"


async def call(channel: Any, peer: Identity, timeout_s: float = GENEROUS_S) -> None:
    """Call once, and fail as a service fails in the middle of a job."""
    try:
        await HealthStub(channel).Check(HealthCheckRequest(), timeout=timeout_s)
    except grpc.aio.AioRpcError as error:
        raise error_from_call(error, peer=told_name(peer.name, channel), doing="call") from error


async def reach(channel: Any, peer: Identity, *relays: RelayPoint, deadline_s: float = GENEROUS_S) -> None:
    """Wait until a member is reached by relays."""
    await wait_until_reachable(channel, peer=peer.name, address=ByRelays(relays), deadline_s=deadline_s)


class Relayed:
    """A federation in this process; a context manager.

    Args:
        folder: for certificates.
        host: host on which everything listens.
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.issue_to = authority_in(folder, FEDERATION)
        self.host = host
        self.stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stack.aclose()

    async def relay(
        self, name: str = "north", *, hub: type[RelayHub] = RelayHub, port: int = 0
    ) -> tuple[RelayHub, RelayPoint]:
        """Start a relay; return it, and how it is dialled."""
        credentials = self.issue_to(Role.RELAY, name)
        started = hub(credentials)
        self.stack.push_async_callback(started.stop)
        port = await started.start(f"{self.host}:{port}")
        return started, RelayPoint(credentials.identity, f"{self.host}:{port}")

    async def party(self, name: str, *relays: RelayPoint, is_awaited: bool = True) -> tuple[Credentials, StayConnected]:
        """Start a party that only dials out; return its credentials and its connections, once it has these."""
        credentials = self.issue_to(Role.PARTY, name)
        server = Server(credentials, Permissions(FEDERATION, {}), [])
        port = await server.start(f"{self.host}:0")
        self.stack.push_async_callback(server.stop, 0)
        stay = StayConnected(f"{self.host}:{port}")
        stay.use(relays, credentials)
        self.stack.push_async_callback(stay.close)
        if is_awaited:
            await until(lambda: all(stay.connected.values()))
        return credentials, stay

    def channel(self, caller: Credentials, peer: Identity, *relays: RelayPoint) -> Any:
        """Return a channel by relays."""
        channel = open_channel(ByRelays(relays), peer, caller)
        self.stack.push_async_callback(channel.close)
        return channel
