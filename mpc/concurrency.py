"""Running the halves of a protocol together."""

import asyncio
from collections.abc import Awaitable
from typing import Any


async def run_together(*halves: Awaitable[Any]) -> list[Any]:
    """Run several awaitables at once; the first failure cancels the others and is raised as it is."""
    tasks = [asyncio.ensure_future(half) for half in halves]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
