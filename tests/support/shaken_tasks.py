"""Delays of asynchronous tasks at random places, which bring out what depends on an order that nobody has promised.

`make test-shaken` runs tests so. A service on a busy machine may stop anywhere for a while; here it does so often, and
without a busy machine. Where `MOIETY_SHAKEN_TASKS` is set, each task waits before one of fifty of its steps, and so
does work in threads. Virtual time is left alone: its tests have no order of the machine's.

A service that a test starts by a command, as an operator would, is not shaken.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from virtual_time import VirtualTimeLoop

SETTING = "MOIETY_SHAKEN_TASKS"

SHARE = 0.02
"""Of the steps of a task that are delayed."""

SHARE_OF_WORK = 4 * SHARE
"""Of calls in threads, at their beginning, and at their end."""

SHORT_S, LONG_S = 0.1, 1.0
"""The most that a delay takes; one of ten is a long one. Both stay far below what tests wait for at most."""

_random = random.SystemRandom()


def _delay_s() -> float:
    return _random.uniform(0, LONG_S if _random.random() < 0.1 else SHORT_S)


class ShakenCoroutine(Coroutine[Any, Any, Any]):
    """A coroutine that sometimes waits before it goes on. Not before its first step: a task that is cancelled before
    that has never begun, and some libraries complain about it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine
        self._has_begun = False
        self._is_waiting = False
        self._kept: Any = None
        self.__name__ = getattr(coroutine, "__name__", type(coroutine).__name__)
        self.__qualname__ = getattr(coroutine, "__qualname__", self.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)  # cr_frame and its like

    def send(self, value: Any) -> Any:
        if self._is_waiting:
            self._is_waiting, value, self._kept = False, self._kept, None
        elif self._has_begun and _random.random() < SHARE:
            self._is_waiting, self._kept = True, value
            return next(_pause().__await__())
        self._has_begun = True
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._is_waiting, self._kept = False, None
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()


def _pause() -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    pause: asyncio.Future[None] = loop.create_future()
    loop.call_later(_delay_s(), lambda: pause.done() or pause.set_result(None))
    return pause


def shaken_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    return asyncio.Task(
        ShakenCoroutine(coroutine) if asyncio.iscoroutine(coroutine) else coroutine, loop=loop, **options
    )


def _sometimes_sleep() -> None:
    if _random.random() < SHARE_OF_WORK:
        time.sleep(_delay_s())


def _sometimes_late(work: Callable[..., Any]) -> Callable[..., Any]:
    def late(*args: Any) -> Any:
        _sometimes_sleep()
        try:
            return work(*args)
        finally:
            _sometimes_sleep()

    return late


def shake() -> None:
    """Shake the tasks of all loops that this process makes from now on, those of virtual time excepted."""
    begin, run = asyncio.BaseEventLoop.__init__, asyncio.BaseEventLoop.run_in_executor

    def begin_shaken(self: asyncio.BaseEventLoop) -> None:
        begin(self)
        if not isinstance(self, VirtualTimeLoop):
            self.set_task_factory(shaken_task)

    def run_late(self: asyncio.BaseEventLoop, executor: Any, work: Callable[..., Any], *args: Any) -> Any:
        return run(self, executor, work if isinstance(self, VirtualTimeLoop) else _sometimes_late(work), *args)

    asyncio.BaseEventLoop.__init__ = begin_shaken  # type: ignore[method-assign]
    asyncio.BaseEventLoop.run_in_executor = run_late  # type: ignore[method-assign, assignment]


if SETTING in os.environ:  # in a test's process, and in the fork server that services come from
    shake()
