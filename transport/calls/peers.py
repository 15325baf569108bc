"""Channels to other members by name, which a service opens anew when its certificate is renewed."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from service.identity import Identity
from service.tls import Credentials
from transport.calls.leader import open_coordinator_channel


class PeerChannels(Mapping[str, Any]):
    """Name to channel.

    Who takes a channel from here keeps it: a job goes on over the channels that it began with, however often they are
    opened anew. A channel that nobody has any more closes itself.
    """

    def __init__(self) -> None:
        self._channels: dict[str, Any] = {}

    def open(self, peers: Mapping[Identity, Sequence[str]], credentials: Credentials) -> None:
        """Replace all channels.

        Args:
            peers: identity to its address, or to those of coordinators of which one leads.
            credentials: ours.
        """
        self._channels = {
            peer.name: open_coordinator_channel(addresses, peer, credentials) for peer, addresses in peers.items()
        }

    async def close(self) -> None:
        """Close those of the last `open`."""
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))

    def __getitem__(self, name: str) -> Any:
        return self._channels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._channels)

    def __len__(self) -> int:
        return len(self._channels)
