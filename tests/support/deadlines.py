"""How long tests wait: for what comes, longer than the slowest machine takes; for what never comes, not at all."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar
from unittest import mock

T = TypeVar("T")

GENEROUS_S = 300.0
"""A limit that no test expects to pass. A test that hangs fails after it."""

SKIPPED_S = 600.0
"""A deadline that a test expects to pass: it does so at once, as soon as only those are waited for who stay silent."""

LOOK_S = 0.01
"""How often a test looks for what tells nobody of itself."""


_ENTERED = asyncio.timeouts._State.ENTERED  # type: ignore[attr-defined]


class _Timeouts:
    """Stands in for `asyncio` in one module, and keeps the time limits of `SKIPPED_S` that it sets."""

    def __init__(self) -> None:
        self._set: list[asyncio.Timeout] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def timeout(self, delay_s: float | None) -> asyncio.Timeout:
        limit = asyncio.timeout(delay_s)
        if delay_s == SKIPPED_S:
            self._set.append(limit)
        return limit

    def running(self) -> list[asyncio.Timeout]:
        """Those that are neither over nor lifted, as many as there are tasks under them."""
        return [limit for limit in self._set if limit.when() is not None and limit._state is _ENTERED]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that tells nobody of itself."""
    async with asyncio.timeout(GENEROUS_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)


def wait_until(is_so: Callable[[], T]) -> T:
    """Wait for what is true in the end, and return it; for tests without an event loop."""
    latest_s = time.monotonic() + GENEROUS_S
    while not (found := is_so()):
        assert time.monotonic() < latest_s, "it does not come"
        time.sleep(LOOK_S)
    return found


@contextlib.contextmanager
def skipped_deadlines(
    module: ModuleType, only_the_silent_are_waited_for: Callable[[list[asyncio.Timeout]], bool]
) -> Iterator[Callable[[], list[asyncio.Timeout]]]:
    """Let deadlines of `SKIPPED_S` that a module sets by `asyncio.timeout` pass as soon as a condition holds.

    Args:
        module: that sets the deadlines.
        only_the_silent_are_waited_for: says, given the deadlines that run, that nobody who will still answer is
            waited for.

    Yields:
        What returns the deadlines that run.
    """
    timeouts = _Timeouts()

    async def watch() -> None:
        while True:
            if (running := timeouts.running()) and only_the_silent_are_waited_for(running):
                for limit in running:
                    limit.reschedule(asyncio.get_running_loop().time())
            await asyncio.sleep(LOOK_S)

    with mock.patch.object(module, "asyncio", timeouts):
        watching = asyncio.get_running_loop().create_task(watch())
        try:
            yield timeouts.running
        finally:
            watching.cancel()
