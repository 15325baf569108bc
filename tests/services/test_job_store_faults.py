"""A job store that cannot be written, as on a full disk: jobs go on or end, nothing waits for ever."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coordinator_setup import (
    CoordinatorSetup,
    finished,
    job_for_all,
    miss_at_once,
    progress,
    running_coordinator,
    wait_forever,
)
from deadlines import GENEROUS_S
from wire.v1.party_pb2 import PartyEvent

from analyses.registry import ANALYSES
from coordinator import runner, sql_store
from coordinator.store import Note
from service.errors import RemoteFailureError


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[CoordinatorSetup]:
    async with running_coordinator(tmp_path, max_running_jobs=1) as running:
        yield running


@contextmanager
def full(monkeypatch: pytest.MonkeyPatch, *, for_notes_only: bool = False) -> Iterator[None]:
    """Let writes fail as SQLite fails on a full disk."""
    append = sql_store._append

    def fail(run: Any, note: Note) -> None:
        if not for_notes_only or note.member:
            raise sqlite3.OperationalError("database or disk is full")
        append(run, note)

    with monkeypatch.context() as patch:
        patch.setattr(sql_store, "_append", fail)
        yield


async def test_progress_that_cannot_be_written_fails_no_job(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work = asyncio.Semaphore(0)

    async def coordinator(session: Any, plan: Any) -> dict[str, Any]:
        for _ in setup.parties:
            await at_work.acquire()
        return {"answer": 42}

    async def work() -> AsyncIterator[PartyEvent]:
        yield progress("table", 25)
        await asyncio.sleep(0.5)  # who is not listened to any more stops here
        yield progress("opening", 100)
        at_work.release()
        yield finished()

    monkeypatch.setitem(ANALYSES, "pca", replace(ANALYSES["pca"], coordinator=coordinator))
    for party in setup.parties.values():
        party.script = work
    with full(monkeypatch, for_notes_only=True):
        view = await setup.run(job_for_all())
    assert (view.state, view.result_json) == ("DONE", '{"answer":42}')


async def test_a_result_is_written_once_there_is_room(setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "WRITE_PAUSE_S", 0.05)
    running, may_answer = asyncio.Event(), asyncio.Event()

    async def coordinator(session: Any, plan: Any) -> dict[str, Any]:
        running.set()
        await may_answer.wait()
        return {"answer": 42}

    monkeypatch.setitem(ANALYSES, "pca", replace(ANALYSES["pca"], coordinator=coordinator))
    async with setup.client() as client:
        job_id = await client.submit(job_for_all().canonical_json(), "key")
        await running.wait()
        with full(monkeypatch):
            may_answer.set()
            await asyncio.sleep(0.5)
            assert (await client.show(job_id)).state == "RUNNING"
        view = await setup.end_of(client, job_id)
    assert (view.state, view.result_json) == ("DONE", '{"answer":42}')


async def test_silent_parties_end_the_job_though_nothing_can_be_written(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silence() -> AsyncIterator[PartyEvent]:
        yield progress("table", 25)
        await wait_forever()

    disk_is_full = False
    miss_at_once(monkeypatch, *setup.parties, when=lambda: disk_is_full)
    for party in setup.parties.values():
        party.script = silence
    async with setup.client() as client:
        job_id = await client.submit(job_for_all().canonical_json(), "key")
        async for event in client.watch(job_id):
            if event.stage == "table":
                break
        with full(monkeypatch):
            disk_is_full = True
            for party in setup.parties.values():
                await asyncio.wait_for(party.told_end.wait(), GENEROUS_S)
        view = await setup.end_of(client, job_id)
    assert view.state == "FAILED"
    assert "no sign of life for 120 s" in view.reason


async def test_cancelling_says_that_the_end_cannot_be_written_and_the_job_keeps_its_place_until_it_can(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "WRITE_PAUSE_S", 0.05)
    async with setup.client() as client:
        job_id = await client.submit(job_for_all().canonical_json(), "key")
        waiting = await client.submit(job_for_all(title="next").canonical_json(), "next")
        await setup.until_running(job_id)
        with full(monkeypatch):
            for _ in range(2):
                with pytest.raises(
                    RemoteFailureError,
                    match="the job has ended, but its state stays RUNNING until the end can be written to the store",
                ):
                    await asyncio.wait_for(client.cancel(job_id), GENEROUS_S)
            with pytest.raises(RemoteFailureError, match="cannot be written: database or disk is full"):
                await client.cancel(waiting)
            with pytest.raises(RemoteFailureError, match="cannot be written: database or disk is full"):
                await client.submit(job_for_all().canonical_json(), "another")
            assert (await client.show(waiting)).state == "SUBMITTED"
        assert (await setup.end_of(client, job_id)).state == "CANCELLED"
        await setup.until_running(waiting)
        assert (await client.cancel(waiting)).state == "CANCELLED"


async def test_a_coordinator_that_stops_tells_the_parties_though_it_can_write_nothing(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with setup.client() as client:
        job_id = await client.submit(job_for_all().canonical_json(), "key")
        await client.submit(job_for_all(title="next").canonical_json(), "next")
        await setup.until_running(job_id)
    with full(monkeypatch):
        await asyncio.wait_for(setup.process.stop(), GENEROUS_S)
    for party in setup.parties.values():
        assert party.cancelled == ["the coordinator was stopped while the job was running [coordinator-stopped]"]
