"""An event loop whose clock moves only while everybody waits: deadlines pass at once and in a reproducible order.

No machine is too slow for it: while anything is ready to run, or works in a thread, not a microsecond passes. All
asynchronous tests run in it (`tests/conftest.py`), except those with real sockets.
"""

import asyncio
import contextlib
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

R = TypeVar("R")

HANGS_S = 600.0
"""Of real time: a thread that works longer waits for something that will not happen."""


class _NoWaiting(selectors.DefaultSelector):
    """Sleeps for threads only; otherwise tells the loop how far its clock has moved."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.n_threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.n_threads:
            if not (ready := super().select(HANGS_S)):
                raise RuntimeError(f"a thread has not ended within {HANGS_S:g} s, and the clock stands still meanwhile")
            return ready
        if timeout is None:
            raise RuntimeError("everybody waits and no deadline will ever pass: the protocol hangs")
        self.now_s += max(timeout, 0.0)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For code without sockets. What runs in a thread of the loop's takes no time, however long it takes."""

    def __init__(self) -> None:
        self._no_waiting = _NoWaiting()
        self._threads: ThreadPoolExecutor | None = None
        super().__init__(self._no_waiting)

    def time(self) -> float:
        return self._no_waiting.now_s

    def run_in_executor(self, executor: Executor | None, func: Callable[..., R], *args: Any) -> asyncio.Future[R]:
        """As the loop's own, except that the clock stands still until the thread has ended, also if nobody waits."""
        if executor is None:
            executor = self._threads = self._threads or ThreadPoolExecutor()
            self.set_default_executor(self._threads)
        work = executor.submit(func, *args)
        self._no_waiting.n_threads += 1
        result = asyncio.wrap_future(work, loop=self)  # first, so that the result is there before the clock goes on
        work.add_done_callback(self._tell_that_a_thread_has_ended)
        return result

    async def shutdown_default_executor(self, *args: Any) -> None:
        self._no_waiting.n_threads += 1  # it waits in a thread of its own
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._thread_has_ended()

    def _tell_that_a_thread_has_ended(self, work: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.call_soon_threadsafe(self._thread_has_ended)

    def _thread_has_ended(self) -> None:
        self._no_waiting.n_threads -= 1


def run_in_virtual_time(main: Coroutine[Any, Any, R]) -> R:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
