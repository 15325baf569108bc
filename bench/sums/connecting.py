"""Members of one process that connect to a coordinator in turn, before a clock starts."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import grpc

AT_A_TIME = 200
"""Members that connect at a time. Who shakes hands for longer than a channel's time limit must begin again."""
LOOK_S = 0.05
WAITING_S = 1.0
"""Seconds from a member's connection to its first call, at most: nobody tells the members when it has come."""


class Connecting:
    """Members, each a task with a channel of its own."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._channels: list[Any] = []

    async def begin(self, member: Coroutine[Any, Any, None], channel: Any) -> None:
        """Start a member; with every `AT_A_TIME`, wait until these have connected."""
        self._tasks.append(asyncio.create_task(member))
        self._channels.append(channel)
        if len(self._tasks) % AT_A_TIME == 0:
            await self._connected(self._channels[-AT_A_TIME:])

    async def all_connected(self) -> None:
        """Wait until all have connected, and then for the calls in which they wait for a question."""
        await self._connected(self._channels)

    async def end(self) -> None:
        """End all members, before their channels are closed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @staticmethod
    async def _connected(channels: list[Any]) -> None:
        while any(channel.get_state() is not grpc.ChannelConnectivity.READY for channel in channels):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        await asyncio.sleep(WAITING_S)
