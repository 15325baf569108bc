"""Slow and talkative parties over real services: what they can hold up, and who is named."""

import asyncio
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import pytest
from coordinator_setup import (
    PARTIES,
    CoordinatorSetup,
    failed,
    job_for_all,
    progress,
    running_coordinator,
    wait_forever,
    waiting,
)
from deadlines import GENEROUS_S, SKIPPED_S, skipped_deadlines
from federation import Analyst, pca_job, random_values, tables_of
from forked_services import ForkedDeployment
from mailbox_federation import JOB, running_federation
from wire.v1.mailbox_pb2 import Frame
from wire.v1.party_pb2 import PartyEvent, ProposalReply, ReserveEvent

from analyses.job.schema import BlockSchema, ColumnSchema
from coordinator import runner
from coordinator.report_limits import MAX_REPORTS_BYTES, MAX_RESERVE_MESSAGES
from mpc.errors import PeerSilentError, PeerSlowError
from service.authorization import Permissions
from service.identity import Role
from service.server import Server
from transport.calls.channel import open_channel
from transport.messages.frames import DELIVER, array_frames, envelope_frame
from transport.messages.outlet import delivery


def says_it_waits_for(member: str) -> PartyEvent:
    event = progress("multiply", 25)
    event.progress.waits_for = member
    return event


def trickling(setup: CoordinatorSetup, slow: str, told: dict[str, int] | None = None) -> None:
    """Let the others wait for one party, which is alive and never gets on; count in `told` how often they say so."""

    async def wait(name: str) -> AsyncIterator[PartyEvent]:
        while True:
            yield says_it_waits_for(slow)
            if told is not None:
                told[name] += 1
            await asyncio.sleep(0.1)

    for name in PARTIES:
        if name != slow:
            setup.parties[name].script = partial(wait, name)


async def test_a_trickled_array_ends_at_the_least_rate_and_names_its_sender(tmp_path: Path) -> None:
    async with running_federation(tmp_path, 2) as federation:
        call = delivery(federation.members[2].channels[1])()
        header, chunk = array_frames(np.zeros(1000, dtype=np.uint8), 0)

        async def trickle() -> None:
            await call.write(envelope_frame(JOB, "s"))
            await call.write(header)
            for i in range(1000):
                await call.write(Frame(chunk=bytes(chunk.chunk[i : i + 1])))
                await asyncio.sleep(0.1)  # a fiftieth of the deadline: 100 s in all

        trickling = asyncio.create_task(trickle())
        try:
            async with asyncio.timeout(GENEROUS_S):
                with pytest.raises(PeerSlowError, match="party-2 is too slow in stage s"):
                    await federation.session(1, deadline_s=5.0).receive(2, "s", (1000,), np.uint8)
        finally:
            trickling.cancel()
            call.cancel()
            await asyncio.gather(trickling, return_exceptions=True)


async def test_an_array_that_is_taken_a_little_at_a_time_fails_and_names_its_receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.messages.outlet.MIN_BYTES_PER_S", 64 << 20)

    async def read_slowly(frames, context) -> bytes:
        async for _ in frames:
            await asyncio.sleep(0.5)  # a tenth of the deadline, for each of 256 frames, of which a link holds many
        return b""

    async with running_federation(tmp_path, 2) as federation:
        hub = federation.members[0]
        handler = grpc.stream_unary_rpc_method_handler(read_slowly)
        handlers = grpc.method_handlers_generic_handler("moiety.v1.Mailbox", {"Deliver": handler})
        permissions = Permissions("acme", {DELIVER: frozenset({Role.PARTY})})
        server = Server(hub.credentials, permissions, [lambda s: s.add_generic_rpc_handlers((handlers,))])
        port = await server.start("127.0.0.1:0")
        channel = open_channel(f"127.0.0.1:{port}", hub.identity, federation.members[1].credentials)
        session = federation.session(1, deadline_s=5.0, channels={2: channel})
        try:
            async with asyncio.timeout(GENEROUS_S):
                with pytest.raises(PeerSilentError, match="party-2 took an array too slowly in stage s"):
                    await session.send(2, "s", np.zeros(4 << 20, dtype=np.uint64))
        finally:
            await channel.close()
            await server.stop(0)


async def test_a_job_that_one_party_holds_up_stops_no_other(tmp_path: Path) -> None:
    async with running_coordinator(tmp_path, max_running_jobs=1, turn_s=GENEROUS_S) as setup:
        trickling(setup, "west")
        held_up = job_for_all(deadline_s=600.0)
        async with setup.client("ada") as ada, setup.client("grace") as grace:
            jobs = [await ada.submit(held_up.canonical_json(), f"key-{i}") for i in range(5)]
            await setup.until_running(jobs[0])
            others = await grace.submit(held_up.canonical_json(), "key")
            setup.process.scheduler.use(roster=frozenset(PARTIES), most_running=1, turn_s=0.1)  # now all have come
            async with asyncio.timeout(GENEROUS_S):
                async for event in grace.watch(others):
                    if event.state == "RUNNING":
                        break
            assert setup.parties["north"].proposed[:2] == [jobs[0], others]  # grace's turn came before ada's second
            for job in jobs:
                await ada.cancel(job)
            await grace.cancel(others)


async def test_jobs_without_the_slow_party_pass_those_that_name_it(tmp_path: Path) -> None:
    async with running_coordinator(tmp_path, max_running_jobs=1, turn_s=0.5, more=("east",)) as setup:
        trickling(setup, "west")
        slow = job_for_all(deadline_s=600.0)
        inputs = [{"party": party, "table": "visits"} for party in ("north", "south", "east")]
        without = job_for_all(deadline_s=600.0, inputs=inputs)
        async with setup.client() as client:
            jobs = [await client.submit(slow.canonical_json(), f"key-{i}") for i in range(6)]
            passes = await client.submit(without.canonical_json(), "another")
            async with asyncio.timeout(GENEROUS_S):
                async for event in client.watch(passes):
                    if event.state == "RUNNING":
                        break
            assert (await client.show(jobs[-1])).state == "SUBMITTED"
            for job in (*jobs, passes):
                await client.cancel(job)


async def test_the_limit_of_the_coordinator_ends_a_job_and_names_the_slow_party(tmp_path: Path) -> None:
    def all_are_waiting(_) -> bool:
        return min(told.values()) > 1

    told = dict.fromkeys(("north", "south"), 0)
    async with running_coordinator(tmp_path, max_job_s=SKIPPED_S) as setup:
        trickling(setup, "west", told)
        with skipped_deadlines(runner, all_are_waiting):
            view = await setup.run(job_for_all(deadline_s=500.0))
        assert (view.state, view.culprit) == ("FAILED", "west")
        assert "the job ran longer than this coordinator allows (600 s, max_job_s)" in view.reason


async def test_a_victim_of_a_slow_party_is_not_blamed(tmp_path: Path) -> None:
    n_said, has_said = 0, asyncio.Event()

    async def victim() -> AsyncIterator[PartyEvent]:
        nonlocal n_said
        while True:
            yield says_it_waits_for("west")
            n_said += 1
            if n_said == 10:
                has_said.set()
            await asyncio.sleep(0.1)

    async def accuser() -> AsyncIterator[PartyEvent]:
        await has_said.wait()
        yield failed("multiply", "south sent nothing for 1 s", culprit="south")

    async with running_coordinator(tmp_path) as setup:
        setup.parties["south"].script = victim
        setup.parties["north"].script = accuser
        view = await setup.run(job_for_all(deadline_s=600.0, colluding=1))
        assert view.culprit == "west"


@pytest.mark.slow  # the limit is that of all parties, and honest ones need some of it on a busy machine
def test_the_limit_of_an_owner_ends_a_job_and_names_who_was_waited_for(tmp_path: Path) -> None:
    parties = ("bank", "hospital", "telco")
    tables = tables_of({name: random_values((200, 2), seed) for seed, name in enumerate(parties)}, tmp_path)
    (tmp_path / "run").mkdir()
    with ForkedDeployment(tmp_path / "run", tables, environment={"MOIETY_PARTY__MAX_JOB_S": "15"}) as deployment:
        analyst = Analyst(deployment)

        def stop(event) -> None:
            if event.state == "RUNNING":
                deployment.send_signal("telco", signal.SIGSTOP)

        assert analyst.run(pca_job(parties)).state == "DONE"  # the parties have met: they hold connections
        try:
            for _ in range(20):  # on a busy machine a job of milliseconds may end before the signal comes
                view = analyst.run(pca_job(parties, deadline_s=3000.0), on_event=stop)
                if view.state != "DONE":
                    break
                deployment.send_signal("telco", signal.SIGCONT)
        finally:
            deployment.send_signal("telco", signal.SIGCONT)
        assert view.state == "FAILED"
        assert view.culprit == "telco"
        assert "the job ran longer than the owner of" in view.reason


# What parties say


def size_of_store(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("jobs.sqlite*"))


@pytest.mark.parametrize("same_text", [True, False])
async def test_texts_of_waiting_fill_no_disk(tmp_path: Path, same_text: bool) -> None:
    async def flood() -> AsyncIterator[ReserveEvent]:
        for i in range(20_000):
            yield waiting("w" * 900 + ("" if same_text else str(i)))
        await wait_forever()

    async with running_coordinator(tmp_path) as setup:
        setup.parties["west"].reservation = flood
        view = await setup.run(job_for_all())
        async with setup.client() as client:
            events = [event async for event in client.watch(view.job_id)]
        said = [event for event in events if event.member == "west" and event.stage == "approval"]
        assert len(said) == 1 if same_text else len(said) < MAX_REPORTS_BYTES // 900
        assert (view.state, view.culprit) == ("FAILED", "west")
        assert f"party west sent more than {MAX_RESERVE_MESSAGES} messages" in view.reason
        assert size_of_store(tmp_path) < 5 << 20


async def test_a_schema_above_its_limit_names_its_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.proposal.MAX_SCHEMA_BYTES", 1000)
    columns = tuple(ColumnSchema(name=f"x{i}", lower=0.0, upper=1.0) for i in range(100))
    schema = BlockSchema(party="west", columns=columns, has_ids=True, rows=(10, 1000)).canonical_json()

    async def answer():
        return ProposalReply(accepted=True, schema_json=schema)

    async with running_coordinator(tmp_path) as setup:
        setup.parties["west"].answer = answer
        view = await setup.run(job_for_all())
        assert view.culprit == "west"
        assert view.reason == "party west accepted, but its schema has more than 1000 bytes"
