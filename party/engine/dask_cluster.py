"""Workers in the processes of a Dask cluster of the owner's: on as many hosts as it has.

Of Dask is used that it knows which processes there are, starts them again, and carries an order to one of them. An
order goes by `Client.run` to one process by its address: not as a task, which the scheduler could give to another one,
repeat by itself, or whose result it would keep. What is lost is found out here, and done again as another attempt
(`mpc.protocol.operations.sharded_rows`).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from distributed import Client
from distributed.security import Security

from mpc.protocol.shards import WorkerLostError
from party.engine import dask_worker
from party.engine.config import ClusterTls
from party.engine.engine import Engine
from party.engine.order import Answer, ShardOrder, WorkerSettings

CONNECT_S = 30.0
APPEAR_S = 30.0
"""Limit for a process of the cluster to appear where there is none."""
LOOK_AGAIN_S = 0.5
FORGET_S = 10.0
"""Limit for telling a process of the cluster to forget an attempt: it may be gone."""

UNREACHABLE = "the cluster of a party cannot be used; its log has the reason"

log = structlog.get_logger()


class DaskEngine(Engine):
    """The processes of a cluster.

    Args:
        settings: settings of all workers; an empty host stands for the one under which the cluster knows each.
        n_workers: how many parts of the rows are worked on at once; a cluster with fewer processes gives some of them
            several.
        scheduler: `tls://host:port`.
        tls: files with which we and the cluster know each other.
    """

    def __init__(self, settings: WorkerSettings, n_workers: int, scheduler: str, tls: ClusterTls) -> None:
        super().__init__(n_workers)
        self._settings = settings
        self._scheduler = scheduler
        self._tls = tls
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._in_use = Counter[str]()

    async def prepare(self, lane: int, order: ShardOrder) -> tuple["_Prepared", str]:
        """See `Engine`: at the process with the fewest attempts, or the next one if it cannot.

        Where none can, it may be that they are being started: so it waits for some time.
        """
        loop = asyncio.get_running_loop()
        latest_s = loop.time() + APPEAR_S
        while (prepared := await self._prepare_somewhere(order)) is None:
            if loop.time() >= latest_s:
                raise WorkerLostError("a party's cluster gives no worker; see its log")
            await asyncio.sleep(LOOK_AGAIN_S)
        return prepared

    async def _prepare_somewhere(self, order: ShardOrder) -> tuple["_Prepared", str] | None:
        for address in await self._processes():
            settings = self._settings_at(address)
            self._in_use[address] += 1
            try:
                answer = await self._run(address, dask_worker.prepare, settings, order.model_dump_json())
            except WorkerLostError:
                self._in_use[address] -= 1
                continue
            if "address" in answer:
                return _Prepared(address, settings), str(answer["address"])
            self._in_use[address] -= 1
            log.warning("a worker of the cluster refuses an order", worker=address, reason=answer.get("refused"))
        return None

    async def work(self, handle: object, session_id: str, addresses: Mapping[int, str]) -> Answer:
        """See `Engine`."""
        assert isinstance(handle, _Prepared), "it comes from `prepare`"
        try:
            found = dict(addresses)
            answer = await self._run(handle.address, dask_worker.work, handle.settings, session_id, found)
        finally:
            self._let_go(handle)
        if "answer" not in answer:
            log.warning("a worker of the cluster has failed", worker=handle.address, reason=answer.get("refused"))
            raise WorkerLostError("a worker of a party's cluster failed; see its log")
        return Answer.model_validate_json(answer["answer"])

    async def abandon(self, handle: object, session_id: str) -> None:
        """See `Engine`."""
        assert isinstance(handle, _Prepared), "it comes from `prepare`"
        self._let_go(handle)
        with contextlib.suppress(WorkerLostError, TimeoutError):
            async with asyncio.timeout(FORGET_S):
                await self._run(handle.address, dask_worker.abandon, handle.settings, session_id)

    async def close(self) -> None:
        """See `Engine`; the cluster is the owner's, and stays."""
        if self._client is not None:
            await self._client.close()

    async def _run(self, address: str, function: Any, *args: Any) -> Any:
        """Return what a function returns in a process of the cluster.

        Raises:
            WorkerLostError: the process is lost, or cannot import the function.
        """
        client = await self._connected()
        try:
            return (await client.run(function, *args, workers=[address]))[address]
        except Exception as error:  # of the transport, or of what the process lacks
            log.warning("a worker of the cluster is lost", worker=address, reason=f"{type(error).__name__}: {error}")
            raise WorkerLostError("a worker of a party's cluster is lost") from None

    async def _processes(self) -> list[str]:
        """Return the addresses of all processes, those with the fewest attempts first."""
        client = await self._connected()
        try:
            known = await client.scheduler.identity(n_workers=-1)
        except Exception as error:  # of the transport
            log.warning("the scheduler does not answer", reason=f"{type(error).__name__}: {error}")
            raise WorkerLostError(UNREACHABLE) from None
        return sorted(known["workers"], key=lambda address: (self._in_use[address], address))

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None or self._client.status not in ("running", "connecting"):
                security = Security(
                    tls_ca_file=str(self._tls.authority),
                    tls_client_cert=str(self._tls.certificate),
                    tls_client_key=str(self._tls.key),
                    require_encryption=True,
                )
                try:
                    self._client = await Client(
                        self._scheduler,
                        security=security,
                        asynchronous=True,
                        set_as_default=False,
                        timeout=CONNECT_S,
                        name="moiety",
                    )
                except Exception as error:  # of the transport
                    log.warning("the scheduler cannot be reached", reason=f"{type(error).__name__}: {error}")
                    raise WorkerLostError(UNREACHABLE) from None
            return self._client

    def _let_go(self, handle: "_Prepared") -> None:
        """Count an attempt no more; once, whether it worked or was abandoned or both."""
        if handle.is_counted:
            handle.is_counted = False
            self._in_use[handle.address] -= 1

    def _settings_at(self, address: str) -> str:
        host = self._settings.host or dask_worker.own_host(address)
        return str(self._settings.model_copy(update={"host": host}).model_dump_json())


@dataclass
class _Prepared:
    """An attempt that a process of the cluster expects."""

    address: str
    settings: str
    is_counted: bool = True
