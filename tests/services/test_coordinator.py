"""The coordinator over real TLS: who gets in, a job's life, and whom it holds at fault when parties misbehave."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from coordinator_setup import (
    PARTIES,
    CoordinatorSetup,
    accepts,
    failed,
    finished,
    job_for_all,
    miss_at_once,
    progress,
    propose_briefly,
    reach_briefly,
    refused,
    reserved,
    running_coordinator,
    wait_forever,
    waiting,
)
from deadlines import GENEROUS_S, SKIPPED_S, skipped_deadlines, until
from wire.v1.party_pb2 import PartyEvent, ProposalReply, ReserveEvent

from analyses.registry import ANALYSES
from coordinator import proposal, runner
from coordinator.evidence import Evidence
from coordinator.scheduler import MAX_ASKING
from service.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotAllowedError,
    NotFoundError,
    WrongStateError,
)
from service.identity import Role

STOPPED = "the coordinator was stopped while the job was running [coordinator-stopped]"


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[CoordinatorSetup]:
    async with running_coordinator(tmp_path) as running:
        yield running


# Who gets in


@pytest.mark.parametrize("role", [Role.PARTY, Role.COORDINATOR, Role.DEVICE])
async def test_only_analysts_may_submit(setup: CoordinatorSetup, role: Role) -> None:
    async with setup.client("north", role) as client:
        with pytest.raises(
            NotAllowedError, match=f"may be called by analyst only, not by spiffe://hospitals/{role}/north"
        ):
            await client.submit(job_for_all().canonical_json(), "key")


async def test_an_analyst_who_is_not_listed_is_refused_by_every_call(setup: CoordinatorSetup) -> None:
    async with setup.client("mallory") as client:
        for call in (client.submit("{}", "key"), client.jobs(), client.show("x"), client.cancel("x")):
            with pytest.raises(NotAllowedError, match="analyst mallory is not in the list"):
                await call
        with pytest.raises(NotAllowedError, match="analyst mallory is not in the list"):
            async for _ in client.watch("x"):
                pass


async def test_the_jobs_of_another_analyst_do_not_exist(setup: CoordinatorSetup) -> None:
    async with setup.client("ada") as ada, setup.client("grace") as grace:
        job_id = await ada.submit(job_for_all().canonical_json(), "key")
        for call in (grace.show(job_id), grace.cancel(job_id)):
            with pytest.raises(NotFoundError, match=f"there is no job '{job_id}' of yours"):
                await call
        with pytest.raises(NotFoundError):
            async for _ in grace.watch(job_id):
                pass
        assert await grace.jobs() == []
        assert [view.job_id for view in await ada.jobs()] == [job_id]


# Submitting


@pytest.mark.parametrize(
    ("job_json", "words"),
    [
        ("not json", "must be JSON"),
        ("{}", "analysis: missing"),
        (job_for_all(analysis="magic").canonical_json(), "there is no analysis 'magic'; available: "),
        (
            job_for_all(inputs=[{"party": "nobody", "table": "visits"}]).canonical_json(),
            "inputs: there is no party 'nobody' in the roster; the roster has north, south, west",
        ),
        (
            job_for_all(colluding=2).canonical_json(),
            "colluding: tolerating 2 .* needs 5 compute parties, the job has 3",
        ),
        (job_for_all(compute=["north", "south"]).canonical_json(), "compute: 2 compute parties .* at least 3"),
    ],
)
async def test_a_job_that_cannot_run_is_refused_at_once(setup: CoordinatorSetup, job_json: str, words: str) -> None:
    async with setup.client() as client:
        with pytest.raises(InvalidRequestError, match=words):
            await client.submit(job_json, "key")
        assert await client.jobs() == []


async def test_submitting_twice_with_one_key_is_one_job(setup: CoordinatorSetup) -> None:
    async with setup.client() as client:
        first = await client.submit(job_for_all().canonical_json(), "key")
        assert await client.submit(job_for_all().canonical_json(), "key") == first
        with pytest.raises(AlreadyExistsError, match=first):
            await client.submit(job_for_all(title="another").canonical_json(), "key")
        assert len(await client.jobs()) == 1


@pytest.mark.parametrize("key", ["", "x" * 101])
async def test_the_key_has_a_length(setup: CoordinatorSetup, key: str) -> None:
    async with setup.client() as client:
        with pytest.raises(InvalidRequestError, match="idempotency_key"):
            await client.submit(job_for_all().canonical_json(), key)


async def test_jobs_beyond_the_limit_wait_their_turn(tmp_path: Path) -> None:
    async with running_coordinator(tmp_path, max_running_jobs=1) as setup, setup.client() as client:
        ids = [await client.submit(job_for_all().canonical_json(), f"key {i}") for i in range(3)]
        await setup.until_running(ids[0])
        states = {view.job_id: view.state for view in await client.jobs()}
        assert states == {ids[0]: "RUNNING", ids[1]: "SUBMITTED", ids[2]: "SUBMITTED"}
        assert (await client.cancel(ids[1])).state == "CANCELLED"
        await client.cancel(ids[0])
        await setup.until_running(ids[2])
        assert setup.parties["north"].proposed == [ids[0], ids[2]]


# Proposals


async def test_all_refusals_are_told_and_the_others_hear_of_the_end(setup: CoordinatorSetup) -> None:
    async def refuse() -> ProposalReply:
        return ProposalReply(accepted=False, reason="no table\x1b[31m 'visits'")

    setup.parties["south"].answer = setup.parties["west"].answer = refuse
    view = await setup.run(job_for_all())
    assert (view.state, view.culprit, view.stage) == ("FAILED", "south", "proposal")
    assert view.reason == (
        "party south refused: no table\\x1b[31m 'visits'; party west refused: no table\\x1b[31m 'visits'"
    )
    await asyncio.wait_for(setup.parties["north"].told_end.wait(), GENEROUS_S)
    assert setup.parties["north"].cancelled == [view.reason]


async def test_a_party_that_is_not_there_is_named_with_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach_briefly(monkeypatch, "west")
    async with running_coordinator(tmp_path, absent=["west"]) as setup:
        view = await setup.run(job_for_all())
        address = setup.config.roster["west"]
    assert (view.state, view.culprit) == ("FAILED", "west")
    assert f"west ({address})" in view.reason
    assert "nothing listens" in view.reason


async def test_a_party_that_never_answers_a_proposal_is_named_within_the_deadline(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    propose_briefly(monkeypatch, "west")

    async def ponder() -> ProposalReply:
        await wait_forever()
        raise AssertionError

    setup.parties["west"].answer = ponder
    view = await setup.run(job_for_all())
    assert (view.state, view.culprit) == ("FAILED", "west")
    assert "no answer within the deadline" in view.reason


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (ProposalReply(accepted=True, schema_json="{"), "its schema is not valid"),
        (accepts("south"), "with the schema of south"),
    ],
)
async def test_a_schema_that_is_not_the_partys_is_refused(
    setup: CoordinatorSetup, reply: ProposalReply, words: str
) -> None:
    async def answer() -> ProposalReply:
        return reply

    setup.parties["west"].answer = answer
    view = await setup.run(job_for_all())
    assert (view.state, view.culprit) == ("FAILED", "west")
    assert words in view.reason


async def test_a_job_whose_plan_cannot_be_made_fails_with_the_field(setup: CoordinatorSetup) -> None:
    view = await setup.run(job_for_all(parameters={"components": 7, "max_rows": 1000}))
    assert (view.state, view.stage, view.culprit) == ("FAILED", "plan", "")
    assert view.reason.startswith("parameters.components: ")


# Reservations


async def test_parties_hear_who_submitted_the_job(setup: CoordinatorSetup) -> None:
    async with setup.client("grace") as client:
        job_id = await client.submit(job_for_all().canonical_json(), "key")
        async for event in client.watch(job_id):
            if event.state == "RUNNING":
                break
        await client.cancel(job_id)
    assert {name: party.analysts for name, party in setup.parties.items()} == {name: ["grace"] for name in PARTIES}


async def test_a_party_that_asks_its_owner_keeps_the_job_proposed_beyond_any_deadline_of_messages(
    setup: CoordinatorSetup,
) -> None:
    approved = asyncio.Event()

    async def ask() -> AsyncIterator[ReserveEvent]:
        yield waiting("south waits for its owner's approval")
        await approved.wait()
        yield reserved()

    setup.parties["south"].reservation = ask
    all_wait = False
    with skipped_deadlines(proposal, lambda running: all_wait) as running_deadlines:
        async with setup.client() as client:
            job_id = await client.submit(job_for_all(deadline_s=SKIPPED_S).canonical_json(), "key")
            async for event in client.watch(job_id):
                if event.stage == "approval":
                    break
            assert (event.state, event.member) == ("PROPOSED", "south")
            assert event.text == "south waits for its owner's approval"
            await until(lambda: all(setup.parties[name].holds == {job_id} for name in ("north", "west")))
            await until(lambda: not running_deadlines())  # the coordinator has heard all three
            all_wait = True
            await asyncio.sleep(0.1)  # deadlines would pass
            assert (await client.show(job_id)).state == "PROPOSED"
    async with setup.client() as client:
        approved.set()
        await setup.until_running(job_id)
        await client.cancel(job_id)


async def test_a_party_that_gives_up_its_reservation_ends_the_waiting_for_owners(setup: CoordinatorSetup) -> None:
    async def ask() -> AsyncIterator[ReserveEvent]:
        yield waiting("")
        setup.parties["west"].gives_up.set()
        await wait_forever()

    setup.parties["south"].reservation = ask
    view = await setup.run(job_for_all())
    assert (view.state, view.culprit, view.stage) == ("FAILED", "west", "reservation")
    assert view.reason == "party west agreed, but gave up its reservation before the others had agreed"


async def test_the_first_refusal_ends_the_waiting_for_other_owners(setup: CoordinatorSetup) -> None:
    async def ask() -> AsyncIterator[ReserveEvent]:
        yield waiting("")
        await wait_forever()

    async def refuse() -> AsyncIterator[ReserveEvent]:
        yield refused("the privacy budget does not cover this job")

    setup.parties["south"].reservation, setup.parties["west"].reservation = ask, refuse
    view = await setup.run(job_for_all())
    assert (view.state, view.culprit, view.stage) == ("FAILED", "west", "reservation")
    assert view.reason == "party west refused: the privacy budget does not cover this job"
    for party in setup.parties.values():
        await asyncio.wait_for(party.told_end.wait(), GENEROUS_S)


async def test_a_party_that_never_answers_to_the_plan_is_named_within_the_deadline(setup: CoordinatorSetup) -> None:
    async def ponder() -> AsyncIterator[ReserveEvent]:
        await wait_forever()
        yield reserved()

    setup.parties["west"].reservation = ponder
    with skipped_deadlines(proposal, lambda running: len(running) == 1):  # those of north and south were lifted
        view = await setup.run(job_for_all(deadline_s=SKIPPED_S))
    assert (view.state, view.culprit) == ("FAILED", "west")
    assert "did not answer the plan within 600 s" in view.reason


async def test_a_party_that_ends_the_stream_without_an_answer_is_named(setup: CoordinatorSetup) -> None:
    async def nothing() -> AsyncIterator[ReserveEvent]:
        for event in ():
            yield event

    setup.parties["west"].reservation = nothing
    view = await setup.run(job_for_all())
    assert (view.state, view.culprit) == ("FAILED", "west")
    assert "without an answer" in view.reason


async def test_jobs_that_wait_for_owners_do_not_keep_others_from_running(setup: CoordinatorSetup) -> None:
    n_asked, all_wait = 0, asyncio.Event()

    async def ask_at_first() -> AsyncIterator[ReserveEvent]:
        nonlocal n_asked
        n_asked += 1
        if n_asked <= 3:
            yield waiting("")
            if n_asked == 3:
                all_wait.set()
            await wait_forever()
        yield reserved()

    setup.parties["south"].reservation = ask_at_first
    async with setup.client() as client:
        waiting_jobs = [await client.submit(job_for_all().canonical_json(), f"key-{i}") for i in range(3)]
        await asyncio.wait_for(all_wait.wait(), GENEROUS_S)
        job_id = await client.submit(job_for_all().canonical_json(), "another")  # two run at a time
        await setup.until_running(job_id)
        for other in waiting_jobs:
            assert (await client.cancel(other)).state == "CANCELLED"
        await client.cancel(job_id)


async def test_no_more_jobs_wait_for_owners_than_parties_hold(setup: CoordinatorSetup) -> None:
    async def ask() -> AsyncIterator[ReserveEvent]:
        yield waiting("")
        await wait_forever()

    async def until_proposed(n_jobs: int) -> None:
        async with asyncio.timeout(GENEROUS_S):
            while len(setup.parties["west"].proposed) < n_jobs:  # noqa: ASYNC110 - what a party hears of
                await asyncio.sleep(0.01)

    setup.parties["south"].reservation = ask
    async with setup.client() as client:
        jobs = [await client.submit(job_for_all().canonical_json(), f"key-{i}") for i in range(MAX_ASKING + 3)]
        await until_proposed(MAX_ASKING)
        await asyncio.sleep(0.3)
        n_proposed = len(setup.parties["west"].proposed)
        assert n_proposed <= MAX_ASKING + 1  # two start at a time
        assert (await client.show(jobs[-1])).state == "SUBMITTED"
        for job_id in jobs[:2]:
            await client.cancel(job_id)
        await until_proposed(n_proposed + 1)
        for job_id in jobs[2:]:
            await client.cancel(job_id)


# Runs


async def test_a_running_job_has_its_plan_and_says_who_may_drop_out(setup: CoordinatorSetup) -> None:
    async with setup.client() as client:
        job_id = await client.submit(job_for_all().canonical_json(), "key")
        await setup.until_running(job_id)
        view = await client.show(job_id)
        assert json.loads(view.plan_json)["job"]["analysis"] == "pca"
        events = []
        async for event in client.watch(job_id):
            events.append(event)
            if event.member == "north":
                break
    (started,) = [event for event in events if event.state == "RUNNING" and not event.member]
    assert started.text == (
        "3 compute parties, of which 1 may collude; opening a product needs 3, so all must stay to the end"
    )


async def test_who_sent_wrong_shares_is_named_in_the_log_and_among_the_events(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def corrected(session: Any, plan: Any) -> dict[str, Any]:
        return {"wrong_shares_from": ["south"]}

    async def done() -> AsyncIterator[PartyEvent]:
        yield progress("opening", 100)
        yield finished()

    for party in setup.parties.values():
        party.script = done
    monkeypatch.setitem(ANALYSES, "pca", replace(ANALYSES["pca"], coordinator=corrected))
    with structlog.testing.capture_logs() as logs:
        view = await setup.run(job_for_all())
    assert view.state == "DONE"
    assert [entry["party"] for entry in logs if "sent corrupted shares" in entry["event"]] == ["south"]
    async with setup.client() as client:
        told = [event async for event in client.watch(view.job_id)]
    (note,) = [event for event in told if event.member == "south" and event.text]
    assert (note.stage, note.text) == ("opening", "party south sent corrupted shares, which were corrected")


async def test_a_cancelled_job_is_told_to_all_parties(setup: CoordinatorSetup) -> None:
    async with setup.client() as client:
        job_id = await client.submit(job_for_all().canonical_json(), "key")
        await setup.until_running(job_id)
        view = await client.cancel(job_id)
        assert (view.state, view.reason, view.culprit) == ("CANCELLED", "cancelled by ada", "")
        assert (await client.cancel(job_id)).state == "CANCELLED"
    for party in setup.parties.values():
        await asyncio.wait_for(party.told_end.wait(), GENEROUS_S)
        assert party.cancelled == ["cancelled by ada"]


async def test_a_failed_job_cannot_be_cancelled(setup: CoordinatorSetup) -> None:
    view = await setup.run(job_for_all(parameters={"components": 7, "max_rows": 1000}))
    async with setup.client() as client:
        with pytest.raises(WrongStateError, match=f"job {view.job_id} has ended: it is FAILED"):
            await client.cancel(view.job_id)


def others_suffer(setup: CoordinatorSetup, culprit: str) -> None:
    """Let the other parties miss one and say so after a while, as real ones do."""

    async def suffer() -> AsyncIterator[PartyEvent]:
        end_s = asyncio.get_running_loop().time() + GENEROUS_S
        while asyncio.get_running_loop().time() < end_s:
            yield progress("multiply", 25)
            await asyncio.sleep(0.2)
        yield failed("table", f"{culprit} is gone", culprit=culprit)

    for name in PARTIES:
        if name != culprit:
            setup.parties[name].script = suffer


async def test_a_party_that_gives_up_is_named_with_its_stage_and_words(setup: CoordinatorSetup) -> None:
    async def give_up() -> AsyncIterator[PartyEvent]:
        yield progress("rows", 0)
        yield failed("rows", "the table has more rows than max_rows")

    setup.parties["west"].script = give_up
    others_suffer(setup, "west")
    view = await setup.run(job_for_all())
    assert (view.state, view.culprit, view.stage) == ("FAILED", "west", "rows")
    assert view.reason == "party west failed in stage rows: the table has more rows than max_rows"


async def test_the_cause_is_named_and_not_those_that_suffer_from_it(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SETTLE_S", GENEROUS_S)

    async def suffer() -> AsyncIterator[PartyEvent]:
        yield failed("table", "south is gone", culprit="south")

    async def break_later() -> AsyncIterator[PartyEvent]:
        yield progress("table", 50)
        await asyncio.sleep(0.3)
        yield failed("table", "west sent what it must not", culprit="west")

    async def end() -> AsyncIterator[PartyEvent]:
        yield finished()

    setup.parties["west"].script = end  # all have been heard then, and nobody is waited for
    setup.parties["north"].script = suffer
    setup.parties["south"].script = break_later
    view = await setup.run(job_for_all())
    assert (view.state, view.culprit, view.stage) == ("FAILED", "west", "table")
    assert view.reason == "party south reports: west sent what it must not"


async def test_a_stream_that_ends_without_a_word_is_a_failure_of_its_party(setup: CoordinatorSetup) -> None:
    async def drop_out() -> AsyncIterator[PartyEvent]:
        yield progress("multiply", 50)

    setup.parties["west"].script = drop_out
    others_suffer(setup, "west")
    view = await setup.run(job_for_all())
    assert (view.state, view.culprit, view.stage) == ("FAILED", "west", "multiply")
    assert "without saying how it went" in view.reason


async def test_a_party_that_dies_is_named_with_its_stage(setup: CoordinatorSetup) -> None:
    others_suffer(setup, "west")
    async with setup.client() as client:
        job_id = await client.submit(job_for_all().canonical_json(), "key")
        await setup.until_running(job_id, "west")
        await setup.servers["west"].stop(0)
        view = await setup.end_of(client, job_id)
    assert (view.state, view.culprit, view.stage) == ("FAILED", "west", "multiply")
    assert view.reason.startswith("party west went away in stage multiply: ")


async def test_a_party_without_a_sign_of_life_is_named_within_the_deadline(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    miss_at_once(monkeypatch, "west")

    async def stall() -> AsyncIterator[PartyEvent]:
        yield progress("multiply", 50)
        await wait_forever()

    setup.parties["west"].script = stall
    others_suffer(setup, "west")
    view = await setup.run(job_for_all(deadline_s=120.0))
    assert (view.state, view.culprit, view.stage) == ("FAILED", "west", "multiply")
    assert view.reason == "party west stalled in stage multiply: no sign of life for 120 s"


async def test_parties_that_finish_without_sending_end_the_job(
    setup: CoordinatorSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_ended = Evidence.all_ended_before
    monkeypatch.setattr(Evidence, "all_ended_before", lambda self, before_s: all_ended(self, before_s + 600.0))

    async def pretend() -> AsyncIterator[PartyEvent]:
        yield finished()

    for name in PARTIES:
        setup.parties[name].script = pretend
    view = await setup.run(job_for_all(deadline_s=120.0))
    assert view.state == "FAILED"
    assert "has finished, but what it had to send did not arrive" in view.reason


async def test_a_flood_of_progress_is_not_recorded(setup: CoordinatorSetup) -> None:
    async def flood() -> AsyncIterator[PartyEvent]:
        for i in range(3000):
            yield progress(f"stage {i}", i)
        yield failed("flood", "enough")

    setup.parties["west"].script = flood
    others_suffer(setup, "west")
    view = await setup.run(job_for_all())
    async with setup.client() as client:
        events = [event async for event in client.watch(view.job_id)]
    assert view.reason == "party west failed in stage flood: enough"
    assert len(events) < 600
    assert {event.percent for event in events} <= {0, 25, 50, 75, 100}


async def test_a_stop_ends_jobs_with_their_reason_and_tells_parties_and_watchers(tmp_path: Path) -> None:
    async with running_coordinator(tmp_path, max_running_jobs=1) as setup:
        async with setup.client() as client:
            ids = [await client.submit(job_for_all().canonical_json(), f"key {i}") for i in range(2)]
            await setup.until_running(ids[0])
            watching = asyncio.create_task(collect_last(client, ids[0]))
            await asyncio.sleep(0.1)
            await setup.process.scheduler.stop()
            last = await asyncio.wait_for(watching, GENEROUS_S)
            assert (last.state, last.text) == ("FAILED", STOPPED)
            waiting = await client.show(ids[1])
            assert waiting.reason == "the coordinator was stopped before the job started"
            with pytest.raises(WrongStateError, match="the coordinator is stopping"):
                await client.submit(job_for_all().canonical_json(), "late")
        assert setup.parties["north"].cancelled == [STOPPED]


async def collect_last(client, job_id):
    last = None
    async for event in client.watch(job_id):
        last = event
    return last
