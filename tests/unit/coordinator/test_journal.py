import asyncio

from analyses.job.job import Job
from coordinator.journal import Journal
from coordinator.state import State
from coordinator.store import JobStore


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
