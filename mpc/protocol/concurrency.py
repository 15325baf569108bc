"""Running parts of a protocol concurrently, and blocking work beside them."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

from mpc.protocol.session import Session

P = ParamSpec("P")
R = TypeVar("R")

MOST_WORDS_HERE = 1 << 12
"""Words on which a step of the arithmetic takes tens of microseconds, less than the way to a thread and back."""


async def compute(session: Session, n_words: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do local arithmetic on so many words: `Session.compute`, or here, where the way to a thread takes longer."""
    if n_words <= MOST_WORDS_HERE:
        return work(*args, **kwargs)
    return await session.compute(work, *args, **kwargs)


async def run_together(*halves: Awaitable[Any]) -> list[Any]:
    """Run several awaitables at once; the first failure cancels the others and is raised as it is."""
    if len(halves) == 1:
        return [await halves[0]]
    tasks = [asyncio.ensure_future(half) for half in halves]
    try:
        return await asyncio.gather(*tasks)
    finally:
        running = [task for task in tasks if not task.done()]
        if running:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


async def run_to_its_end(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run work in a thread and come back only when that has ended, however often we are cancelled meanwhile.

    A thread cannot be stopped. `asyncio.to_thread` leaves it behind when its caller is cancelled, and what the caller's
    lock was to keep apart then overlaps. The cancellation is not lost: it is raised afterwards, instead of the result.

    Raises:
        CancelledError: we were cancelled. The work was finished nevertheless, unless it failed, which is not reported.
    """
    call = partial(contextvars.copy_context().run, partial(work, *args, **kwargs))
    # No task, as `asyncio.to_thread` would need: a loop that ends cancels its tasks, and leaves their threads behind.
    running = asyncio.get_running_loop().run_in_executor(None, call)
    is_cancelled = False
    while not running.done():
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        running.exception()  # or the loop complains that nobody has looked at it
        raise asyncio.CancelledError
    return running.result()
