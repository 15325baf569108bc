"""Channels to other members by name, which a service opens anew when its certificate is renewed.

The coordinator reaches each party when it proposes; whether a party reaches the coordinator and the other parties only
that party can find out. It does so (`PeerChannels.reach`) when a job is proposed, so that no owner is asked about a job
that cannot run, and once more when it starts, because owners may have taken days to decide. Then it greets the others:
nobody commits the cost of a job before every member that it compares its plan with has greeted it (`party.gate`), so
all of them have found their ways.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import grpc

from service.codes.coded_text import code_of
from service.errors import ServiceError, UnreachableError, WrongStateError
from service.identity import Identity, Role
from service.reach.relays import Way
from service.tls import Credentials
from transport.calls.leader import open_coordinator_channel
from transport.calls.way import wait_until_reachable

WAY_S = 6.0
"""Longest time for trying all ways, in seconds: longer than any pause between attempts to connect."""

KNOWN_S = 5.0
"""Seconds for which the way to another party is known to be good while its connection stands: parties greet each other
over it before anybody pays. Over the way to the coordinator nothing travels before that, so it is always tried."""

TryWays = Callable[[Collection[str], float], Awaitable[None]]
"""See `PeerChannels.reach`."""


_CONNECTED = grpc.ChannelConnectivity.READY


class NoWayError(WrongStateError):
    """This member does not reach another one; the text is public and names both."""

    code = "no-way-to-member"


async def no_ways(names: Collection[str], deadline_s: float) -> None:
    """Try nothing: there is no network."""


class PeerChannels(Mapping[str, Any]):
    """Name to channel.

    Who takes a channel from here keeps it: a job goes on over the channels that it began with, however often they are
    opened anew. A channel that nobody has any more closes itself.
    """

    def __init__(self) -> None:
        self._me = ""
        self._channels: dict[str, Any] = {}
        self._parties: set[str] = set()
        self._addresses: dict[str, str] = {}
        self._known_until_s: dict[str, float] = {}

    def open(self, peers: Mapping[Identity, Sequence[Way]], credentials: Credentials) -> None:
        """Replace all channels.

        Args:
            peers: identity to the way to it, or to those of coordinators of which one leads.
            credentials: ours.
        """
        self._me = credentials.identity.name
        self._known_until_s = {}
        self._parties = {peer.name for peer in peers if peer.role is Role.PARTY}
        self._addresses = {peer.name: ", ".join(map(str, addresses)) for peer, addresses in peers.items()}
        self._channels = {
            peer.name: open_coordinator_channel(addresses, peer, credentials) for peer, addresses in peers.items()
        }

    async def reach(self, names: Collection[str], deadline_s: float) -> None:
        """Reach some members at the same time, over the channels that are in use.

        Args:
            names: names of the members.
            deadline_s: limit of each attempt, at most `WAY_S`.

        Raises:
            NoWayError: one or several are not reached, do not serve, or speak another protocol; names all of them.

        Cost: one call to each that is not known to be reached (`KNOWN_S`).
        """

        async def attempt(name: str) -> ServiceError | None:
            if name not in self._channels:  # the files were read again since the job was proposed
                return UnreachableError(f"{name} is not among the peers of {self._me} any more")
            channel, address = self._channels[name], self._addresses[name]
            if time.monotonic() < self._known_until_s.get(name, 0.0) and channel.get_state() is _CONNECTED:
                return None
            try:
                await wait_until_reachable(channel, peer=name, address=address, deadline_s=min(deadline_s, WAY_S))
            except ServiceError as error:
                return error
            if name in self._parties:
                self._known_until_s[name] = time.monotonic() + KNOWN_S
            return None

        failures = [found for found in await asyncio.gather(*map(attempt, sorted(names))) if found is not None]
        if failures:
            error = NoWayError(f"{self._me}: " + "; ".join(map(str, failures)))
            error.code = code_of(failures[0])
            raise error

    async def close(self) -> None:
        """Close those of the last `open`."""
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))

    def __getitem__(self, name: str) -> Any:
        return self._channels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._channels)

    def __len__(self) -> int:
        return len(self._channels)
