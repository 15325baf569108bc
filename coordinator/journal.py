"""The journal of jobs: each change is written to the store, and watchers are notified."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import structlog

from coordinator.state import State
from coordinator.store import Event, JobStore, StoreWriteError

_log = structlog.get_logger(__name__)


class Journal:
    """The only way by which jobs change, so that watchers miss nothing.

    Watchers read the store and are only woken here: a slow one costs no memory.

    Args:
        store: where all is kept.
    """

    def __init__(self, store: JobStore) -> None:
        self.store = store
        self._watchers: dict[str, set[asyncio.Event]] = {}

    def step(self, job_id: str, state: State, **what: Any) -> None:
        """Take one step of a job's life; see `JobStore.advance`."""
        self.store.advance(job_id, state, **what)
        self._wake(job_id)

    def record_progress(self, job_id: str, *, stage: str, member: str, percent: int = 0, text: str = "") -> None:
        """Record a member's progress; see `JobStore.record_progress`. Write errors are ignored and fail no job."""
        try:
            self.store.record_progress(job_id, stage=stage, member=member, percent=percent, text=text)
        except StoreWriteError as error:
            _log.error("progress cannot be written", job=job_id, member=member, cause=str(error))
        self._wake(job_id)

    async def follow(self, job_id: str) -> AsyncIterator[Event]:
        """Yield all events of a job, from its first to its last, as they come."""
        woken = asyncio.Event()
        self._watchers.setdefault(job_id, set()).add(woken)
        seen = -1
        try:
            while True:
                woken.clear()
                for event in self.store.events(job_id, after=seen):
                    yield event
                    if event.state.has_ended:
                        return
                    seen = event.sequence
                await woken.wait()
        finally:
            self._watchers[job_id].discard(woken)
            if not self._watchers[job_id]:
                del self._watchers[job_id]

    def _wake(self, job_id: str) -> None:
        for woken in self._watchers.get(job_id, ()):
            woken.set()
