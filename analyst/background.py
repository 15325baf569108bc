"""One event loop in a thread of its own, for programs that wait: it works within a notebook, whose own loop runs."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []  # at most one: gRPC is served by one loop of a process


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return what it returns. An interrupt of the caller cancels it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="moiety", daemon=True).start()
            _loops.append(loop)
        return _loops[0]
