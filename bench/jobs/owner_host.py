"""Serves several parties in one process, each with its own identity, address, ledger and connections.

    python -m bench.jobs.owner_host party-1.toml party-2.toml ...

For measurements with many owners: in life each of them runs `moiety party serve` beside its own data.
"""

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from party.config import load_party_config
from party.server import running_party
from service.logs import configure_logs
from service.memory import limit_heaps


async def serve(paths: list[Path]) -> None:
    """Serve until SIGTERM."""
    limit_heaps()
    configure_logs("json")
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with AsyncExitStack() as stack:
        for path in paths:
            await stack.enter_async_context(running_party(load_party_config(path)))
        await stopped.wait()


if __name__ == "__main__":
    asyncio.run(serve([Path(argument) for argument in sys.argv[1:]]))
