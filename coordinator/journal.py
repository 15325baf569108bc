"""The journal of jobs: each change is written to the store, and watchers are notified."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import structlog

from coordinator.state import State
from coordinator.store import Event, JobStore, Note, StoreWriteError
from service.watch.meter import Meter

_log = structlog.get_logger(__name__)

GATHER_S = 0.05
"""Notes of progress that come within so long are written together, in one transaction: a small job has forty of them,
and each transaction waits for the disk, with all else that the coordinator does."""


class Journal:
    """The only way by which jobs change, so that watchers miss nothing.

    Watchers read the store and are only woken here: a slow one costs no memory.

    A step is written at once, in one transaction with all notes that came before it: both wait for the disk once. Notes
    wait for GATHER_S, and for watchers too: a process that is killed meanwhile, or a step that cannot be written, loses
    them, and nothing depends on them.

    Args:
        store: where all is kept.
        meter: metrics of the service.
        clock: Unix seconds of notes.
    """

    def __init__(self, store: JobStore, meter: Meter | None = None, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self._meter = meter or Meter()
        self._clock = clock
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._notes: list[Note] = []
        self._gathering: asyncio.TimerHandle | None = None

    def step(self, job_id: str, state: State, **what: Any) -> None:
        """Take one step of a job's life; see `JobStore.advance`."""
        notes = self._take_notes()
        try:
            self.store.advance(job_id, state, notes=notes, **what)
        finally:
            self._wake_watchers(notes)
        if state is State.PROPOSED:
            self._meter.job_began(job_id)
        if state.has_ended:
            self._meter.job_ended(job_id, state, what.get("reason", ""))
            self._meter.stages_ended(job_id)
        self._wake(job_id)

    def record_progress(self, job_id: str, *, stage: str, member: str, percent: int = 0, text: str = "") -> None:
        """Record a member's progress, soon. Errors of `JobStore.record_progress` are logged and fail no job."""
        if stage and not text:
            self._meter.stage(job_id, member, stage)
        self._notes.append(Note(job_id, self._clock(), stage, member, percent, text))
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHER_S, self.write_notes)

    def write_notes(self) -> None:
        """Write the notes that have been gathered, and wake those who wait for them."""
        notes = self._take_notes()
        if not notes:
            return
        try:
            self.store.record_progress(notes)
        except StoreWriteError as error:
            jobs = sorted({note.job_id for note in notes})
            _log.error("progress cannot be written", jobs=", ".join(jobs), cause=str(error))
        self._wake_watchers(notes)

    def _take_notes(self) -> list[Note]:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        notes, self._notes = self._notes, []
        return notes

    def _wake_watchers(self, notes: Iterable[Note]) -> None:
        for job_id in {note.job_id for note in notes}:
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
