import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from analyses.job.job import Job
from coordinator.journal import GATHER_S, Journal
from coordinator.state import State
from coordinator.store import JobStore, Note, StoreWriteError


async def collect(journal: Journal, job_id: str) -> list[tuple[str, str]]:
    return [(event.state, event.stage) async for event in journal.follow(job_id)]


async def test_a_watcher_sees_everything_from_the_beginning_to_the_end(store: JobStore, job: Job) -> None:
    journal = Journal(store)
    job_id, _ = store.submit("ada", "key", job)
    journal.step(job_id, State.PROPOSED)
    watching = asyncio.create_task(collect(journal, job_id))
    await asyncio.sleep(0.01)
    journal.step(job_id, State.RUNNING)
    journal.record_progress(job_id, stage="multiply", member="west", percent=25)
    await asyncio.sleep(0.01)
    journal.step(job_id, State.FAILED, reason="no", stage="multiply")
    assert await asyncio.wait_for(watching, 60) == [
        ("SUBMITTED", ""),
        ("PROPOSED", ""),
        ("RUNNING", ""),
        ("RUNNING", "multiply"),
        ("FAILED", "multiply"),
    ]


class CountedStore:
    """Counts how often notes are written; all else is the store's."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self.n_written: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def record_progress(self, notes: Sequence[Note]) -> None:
        self.n_written.append(len(notes))
        self._store.record_progress(notes)

    def advance(self, job_id: str, state: State, *, notes: Sequence[Note] = (), **what: Any) -> None:
        self.n_written.append(len(notes))
        self._store.advance(job_id, state, notes=notes, **what)


async def test_notes_are_written_together_with_the_next_step_or_soon(store: JobStore, job: Job) -> None:
    counted = CountedStore(store)
    journal = Journal(counted, clock=iter(range(100)).__next__)
    job_id, _ = store.submit("ada", "key", job)
    journal.step(job_id, State.PROPOSED)
    for percent in range(5):
        journal.record_progress(job_id, stage="multiply", member="west", percent=percent)
    assert counted.n_written == [0]
    journal.step(job_id, State.RUNNING)
    assert counted.n_written == [0, 5]
    told = store.events(job_id)[2:]
    assert [(e.state, e.at_s) for e in told[:-1]] == [(State.PROPOSED, at_s) for at_s in range(5)]
    assert told[-1].state is State.RUNNING
    journal.record_progress(job_id, stage="add", member="west")
    await asyncio.sleep(2 * GATHER_S)
    assert counted.n_written == [0, 5, 1]
    assert store.events(job_id)[-1].stage == "add"


async def test_notes_that_cannot_be_written_are_lost_and_nothing_else(store: JobStore, job: Job) -> None:
    journal = Journal(store)
    job_id, _ = store.submit("ada", "key", job)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "record_progress", fail_to_write)
        journal.record_progress(job_id, stage="multiply", member="west")
        journal.write_notes()
    journal.step(job_id, State.PROPOSED)
    journal.record_progress(job_id, stage="add", member="west")
    journal.write_notes()
    assert [(e.state, e.stage) for e in store.events(job_id)] == [
        (State.SUBMITTED, ""),
        (State.PROPOSED, ""),
        (State.PROPOSED, "add"),
    ]


def fail_to_write(notes: Sequence[Note]) -> None:
    raise StoreWriteError("the disk is full")


async def test_a_job_that_has_ended_is_told_at_once(store: JobStore, job: Job) -> None:
    journal = Journal(store)
    job_id, _ = store.submit("ada", "key", job)
    journal.step(job_id, State.CANCELLED)
    assert await asyncio.wait_for(collect(journal, job_id), 60) == [("SUBMITTED", ""), ("CANCELLED", "")]


async def test_many_watchers_of_one_job_all_see_its_end(store: JobStore, job: Job) -> None:
    journal = Journal(store)
    job_id, _ = store.submit("ada", "key", job)
    watching = [asyncio.create_task(collect(journal, job_id)) for _ in range(5)]
    await asyncio.sleep(0.01)
    journal.step(job_id, State.FAILED)
    seen = await asyncio.wait_for(asyncio.gather(*watching), 60)
    assert all(events[-1] == ("FAILED", "") for events in seen)


async def test_a_watcher_that_leaves_is_forgotten(store: JobStore, job: Job) -> None:
    journal = Journal(store)
    job_id, _ = store.submit("ada", "key", job)
    watching = asyncio.create_task(collect(journal, job_id))
    await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert journal._watchers == {}
