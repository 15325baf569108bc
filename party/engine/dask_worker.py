"""What a party runs in the processes of its Dask cluster: a worker in a thread of its own, and orders to it.

The functions are called by `Client.run`, beside the scheduler's tasks: Dask places and repeats nothing of its own
accord, and keeps no result. This module must be importable where the cluster's workers run. It imports nothing heavy
itself, as it does so in their event loop.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from party.engine.worker import Worker

_PREFIXES = ("tls://", "tcp://")


class _Host:
    """An event loop in a thread, and the worker that lives in it. Started when a party asks for it first."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._starting: asyncio.Future[Worker] | None = None
        threading.Thread(target=self._loop.run_forever, name="moiety-worker", daemon=True).start()

    async def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await work that runs in the thread."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def prepare(self, settings_json: str, order_json: str) -> str:
        from party.engine.order import ShardOrder

        return (await self._worker(settings_json)).prepare(ShardOrder.model_validate_json(order_json))

    async def work(self, settings_json: str, session_id: str, addresses: dict[int, str]) -> str:
        answer = await (await self._worker(settings_json)).work(session_id, addresses)
        return str(answer.model_dump_json())

    async def abandon(self, settings_json: str, session_id: str) -> None:
        await (await self._worker(settings_json)).abandon(session_id)

    async def _worker(self, settings_json: str) -> "Worker":
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.ensure_future(_start(settings_json))
        return await asyncio.shield(self._starting)


async def _start(settings_json: str) -> "Worker":
    from threadpoolctl import threadpool_limits

    from party.engine.order import WorkerSettings
    from party.engine.worker import Worker

    settings = WorkerSettings.model_validate_json(settings_json)
    threadpool_limits(settings.blas_threads)  # of this process, from now on
    return await Worker.start(settings)


_HOSTS: dict[str, _Host] = {}
"""Settings to what they have made in this process: a party that is started with others gets another endpoint."""


def host_of(settings_json: str) -> _Host:
    """Return what lives in this process for some settings."""
    if settings_json not in _HOSTS:
        _HOSTS[settings_json] = _Host()
    return _HOSTS[settings_json]


def own_host(dask_address: str) -> str:
    """Return the host of an address under which a cluster knows its worker."""
    for prefix in _PREFIXES:
        dask_address = dask_address.removeprefix(prefix)
    return dask_address.rpartition(":")[0]


async def prepare(settings_json: str, order_json: str) -> dict[str, str]:
    """Expect an attempt; return the address where, or why not. Never raises: Dask would log what it was given."""
    try:
        host = host_of(settings_json)
        return {"address": await host.do(host.prepare(settings_json, order_json))}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"}


async def work(settings_json: str, session_id: str, addresses: dict[int, str]) -> dict[str, str]:
    """Do an attempt that was prepared; return the answer as JSON, or why there is none. Never raises."""
    try:
        host = host_of(settings_json)
        return {"answer": await host.do(host.work(settings_json, session_id, addresses))}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"}


async def abandon(settings_json: str, session_id: str) -> None:
    """Forget an attempt. Never raises."""
    host = _HOSTS.get(settings_json)
    if host is not None:
        await asyncio.gather(host.do(host.abandon(settings_json, session_id)), return_exceptions=True)
