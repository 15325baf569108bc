"""Workers as processes on the party's own host: started with the service, and again where they were lost."""

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Mapping
from typing import Any

import structlog

from mpc.protocol.shards import WorkerLostError
from party.engine.engine import Engine
from party.engine.order import Answer, ShardOrder, WorkerSettings
from party.engine.worker_main import framed, read_message

START_S = 120.0
"""Limit for a worker to import what it needs and to listen."""
LEAVE_S = 10.0

log = structlog.get_logger()


class WorkerProcess:
    """One process, and the questions that it has not answered yet."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._awaited: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading: asyncio.Task[None] | None = None
        self.address = ""

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    @property
    def is_lost(self) -> bool:
        """Whether it has ended, or says nothing any more."""
        return self._reading is None or self._reading.done()

    @classmethod
    async def start(cls, settings: WorkerSettings) -> "WorkerProcess":
        """Start one and wait until it listens.

        Raises:
            WorkerLostError: it does not.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "party.engine.worker_main",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        worker = cls(process)
        try:
            await worker._send(settings.model_dump(mode="json"))
            assert process.stdout is not None, "it is a pipe"
            async with asyncio.timeout(START_S):
                hello = await read_message(process.stdout)
            if hello is None or "address" not in hello:
                reason = "it has ended" if hello is None else hello.get("refused", "")
                log.warning("a worker does not start", reason=reason)
                raise WorkerLostError("a worker does not start; the log of its party has the reason")
        except TimeoutError:
            await worker.end()
            raise WorkerLostError(f"a worker does not start within {START_S:g} s") from None
        except BaseException:
            await worker.end()
            raise
        worker.address = hello["address"]
        worker._reading = asyncio.create_task(worker._read(process.stdout))
        log.info("a worker has started", pid=process.pid, address=worker.address)
        return worker

    async def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            WorkerLostError: the process has ended.
        """
        if self.is_lost:
            raise WorkerLostError("a worker has ended")
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._awaited[number] = answer
        try:
            await self._send({"do": do, "number": number, **fields})
            return await answer
        finally:
            self._awaited.pop(number, None)

    async def end(self) -> None:
        """End the process: first by closing its input."""
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.close()
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._process.kill()
            if self._reading is not None:
                await asyncio.gather(self._reading, return_exceptions=True)

    async def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None, "it is a pipe"
        try:
            self._process.stdin.write(framed(message))
            await self._process.stdin.drain()
        except (ConnectionError, RuntimeError):
            raise WorkerLostError("a worker has ended") from None

    async def _read(self, answers: asyncio.StreamReader) -> None:
        while (message := await read_message(answers)) is not None:
            awaited = self._awaited.get(message.get("number", -1))
            if awaited is not None and not awaited.done():
                awaited.set_result(message)
        for awaited in self._awaited.values():
            if not awaited.done():
                awaited.set_exception(WorkerLostError("a worker has ended"))


class ProcessEngine(Engine):
    """A worker per lane.

    Args:
        settings: settings of all processes.
        n_workers: how many lanes there are at most.
    """

    def __init__(self, settings: WorkerSettings, n_workers: int) -> None:
        super().__init__(n_workers)
        self._settings = settings
        self._workers: dict[int, WorkerProcess] = {}
        self._starting = [asyncio.Lock() for _ in range(n_workers)]
        self._begun: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """See `Engine`."""

        async def start(lane: int) -> None:
            with contextlib.suppress(WorkerLostError):  # which is in the log, and is tried again when it is needed
                await self._worker_of(lane)

        for lane in range(self.n_workers):
            task = asyncio.create_task(start(lane))
            self._begun.add(task)
            task.add_done_callback(self._begun.discard)

    async def prepare(self, lane: int, order: ShardOrder) -> tuple[WorkerProcess, str]:
        """See `Engine`."""
        worker = await self._worker_of(lane)
        answer = await worker.ask("prepare", order=order.model_dump(mode="json"))
        if "address" not in answer:
            log.warning("a worker refuses an order", reason=answer.get("refused"))
            raise WorkerLostError("a worker refuses its order; the log of its party has the reason")
        return worker, answer["address"]

    async def work(self, handle: object, session_id: str, addresses: Mapping[int, str]) -> Answer:
        """See `Engine`."""
        assert isinstance(handle, WorkerProcess), "it comes from `prepare`"
        shown = {str(member): address for member, address in addresses.items()}
        answer = await handle.ask("work", session=session_id, addresses=shown)
        return Answer.model_validate(answer["answer"])

    async def abandon(self, handle: object, session_id: str) -> None:
        """See `Engine`."""
        assert isinstance(handle, WorkerProcess), "it comes from `prepare`"
        with contextlib.suppress(WorkerLostError):
            await handle.ask("abandon", session=session_id)

    async def close(self) -> None:
        """See `Engine`."""
        begun = list(self._begun)
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        await asyncio.gather(*(worker.end() for worker in self._workers.values()))
        self._workers.clear()

    async def _worker_of(self, lane: int) -> WorkerProcess:
        async with self._starting[lane]:
            worker = self._workers.get(lane)
            if worker is None or worker.is_lost:
                if worker is not None:
                    log.warning("a worker was lost; another one takes its place", pid=worker.pid)
                    await worker.end()
                    del self._workers[lane]
                worker = self._workers[lane] = await WorkerProcess.start(self._settings)
            return worker
