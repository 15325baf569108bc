"""Group commit: responses of many devices become durable in one transaction, and each waits for its own."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from coordinator.stores.question import Outcome

MAX_ROWS = 1000
"""Largest number of responses in one transaction."""

GATHER_S = 0.05
"""How long a first response waits for others, in seconds."""


G = TypeVar("G")
"""A response as a device gave it."""

G_in = TypeVar("G_in", contravariant=True)


class Store(Protocol[G_in]):
    """Where responses become durable."""

    def take(self, given: Sequence[G_in], /) -> list[Outcome]:
        """Write them in one transaction; return what became of each, in their order."""


class Intake(Generic[G]):
    """Takes responses into a store.

    Args:
        store: where they lie.
        on_taken: told of each first response of a device once it is on disk, whether or not its caller still waits.
    """

    def __init__(self, store: Store[G], on_taken: Callable[[G], None]) -> None:
        self._store = store
        self._on_taken = on_taken
        self._waiting: list[tuple[G, asyncio.Future[Outcome]]] = []
        self._is_full = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    async def take(self, given: G) -> Outcome:
        """Return what became of a response, once that is on disk.

        Raises:
            ServiceError: it cannot be written.
        """
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((given, future))
        if len(self._waiting) >= MAX_ROWS:
            self._is_full.set()
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await future

    async def stop(self) -> None:
        """Wait until all that came is on disk."""
        self._is_full.set()
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                with suppress(TimeoutError):
                    async with asyncio.timeout(GATHER_S):
                        await self._is_full.wait()
                batch, self._waiting = self._waiting[:MAX_ROWS], self._waiting[MAX_ROWS:]
                if len(self._waiting) < MAX_ROWS:
                    self._is_full.clear()
                await self._write(batch)
        finally:
            self._writing = None

    async def _write(self, batch: list[tuple[G, asyncio.Future[Outcome]]]) -> None:
        try:
            outcomes = await asyncio.to_thread(self._store.take, [given for given, _ in batch])
        except Exception as error:  # whatever it is, each of the callers hears of it
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (given, future), outcome in zip(batch, outcomes, strict=True):
            if outcome is Outcome.TAKEN:
                self._on_taken(given)
            if not future.done():
                future.set_result(outcome)
