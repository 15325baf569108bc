"""Places of batches and surveys: nobody takes all, none is kept for nothing, and analysts and owners free them."""

import asyncio
import datetime
import json
import re
from pathlib import Path

import pytest
from batches import FAR, FEDERATION, PARTIES, BatchProposal, batch_federation, batch_question
from certificates import tls_in
from deadlines import GENEROUS_S, until
from sum_federation import sum_federation
from surveys import survey_question
from typer.testing import CliRunner

from analyses.open_until import MOST_OPEN_DAYS
from cli.main import app
from coordinator.batches.agreeing import Agreeing
from coordinator.questions.places import MAX_OPEN_EACH
from coordinator.stores.batches import BatchesUnusableError
from party.batches.store import BatchStore
from questions.reading import question_from_toml
from service.errors import InvalidRequestError, NotAllowedError, NotFoundError, ServiceError, TooMuchError
from service.identity import Role
from transport.batch_party import BatchPartyClient
from transport.question_client import ask, call_off, list_open

REPOSITORY = Path(__file__).parents[2]
DAY = datetime.timedelta(days=1)


@pytest.fixture
async def hub(tmp_path):
    async with batch_federation(tmp_path) as running:
        yield running


def places_at(hub, party="bank"):
    return hub.parties[party]._batches._store.open_places()


def no_place_is_taken(hub):
    return all(not places_at(hub, party) for party in hub.parties)


async def opened(hub, analyst="ada", **changes):
    """Let an analyst open a batch and go away."""
    asking = BatchProposal(hub, batch_question(**changes), analyst=analyst)
    batch_id = await asking.opened()
    asking.task.cancel()
    await asyncio.gather(asking.task, return_exceptions=True)
    return batch_id


async def refused(hub, **changes):
    with pytest.raises(ServiceError) as caught:
        await BatchProposal(hub, batch_question(**changes)).task
    return caught.value


async def test_questions_that_a_party_refuses_take_up_no_place_anywhere(tmp_path):
    async with batch_federation(tmp_path, without=("shop",)) as hub:
        hub.rules = {"smallest_cohort": 50, "exact_sums": True}
        await hub.start_party("shop")
        for _ in range(MAX_OPEN_EACH + 1):
            assert "at shop" in str(await refused(hub))
        assert no_place_is_taken(hub)
        assert await opened(hub, "bob", smallest_cohort=60, largest_cohort=100)
        assert {len(places_at(hub, party)) for party in PARTIES} == {1}


async def test_one_analyst_leaves_places_of_batches_to_others_also_after_a_restart(hub):
    for _ in range(MAX_OPEN_EACH):
        await opened(hub)
    error = await refused(hub)
    assert isinstance(error, TooMuchError)
    assert f"{MAX_OPEN_EACH} batches of ada are open" in str(error)
    await hub.restart_hub()
    assert isinstance(await refused(hub), TooMuchError)
    assert await opened(hub, "bob")


async def test_a_party_counts_places_of_an_analyst_itself(tmp_path):
    rules = {"smallest_cohort": 2, "exact_sums": True, "most_open_each": 2, "most_open": 3}
    async with batch_federation(tmp_path, rules=rules) as hub:
        for _ in range(2):
            await opened(hub)
        assert "already has 2 open batches of ada" in str(await refused(hub))
        await opened(hub, "bob")
        with pytest.raises(ServiceError, match="already has 3 open batches"):
            await BatchProposal(hub, batch_question(), analyst="bob").task
        assert {len(places_at(hub, party)) for party in PARTIES} == {3}


@pytest.mark.parametrize(("days", "at_party"), [(MOST_OPEN_DAYS + 1, 366), (8, 7)])
async def test_a_batch_is_open_for_a_bounded_time(tmp_path, days, at_party):
    rules = {"smallest_cohort": 2, "exact_sums": True, "longest_days": at_party}
    async with batch_federation(tmp_path, rules=rules) as hub:
        error = await refused(hub, until=datetime.datetime.now(datetime.UTC) + days * DAY)
        assert isinstance(error, InvalidRequestError)
        assert f"until: a question is open for {at_party} days at most" in str(error)
        assert no_place_is_taken(hub)


async def test_one_analyst_leaves_places_of_surveys_to_others_and_none_is_open_for_ever(tmp_path):
    async with sum_federation(tmp_path, 2) as hub:

        async def opened(**changes):
            async with hub.channel(Role.ANALYST, "ada") as channel:
                async for happening in ask("hub", channel, "survey", survey_question(**changes).canonical_json()):
                    return happening.question_id
            return None

        with pytest.raises(InvalidRequestError, match=f"until: a question is open for {MOST_OPEN_DAYS} days at most"):
            await opened(until=datetime.datetime(2199, 1, 1, tzinfo=datetime.UTC))
        asked = [await opened() for _ in range(MAX_OPEN_EACH)]
        with pytest.raises(TooMuchError, match=f"{MAX_OPEN_EACH} surveys of ada are open"):
            await opened()
        async with hub.channel(Role.ANALYST, "ada") as channel:
            assert [one.question_id for one in await list_open("hub", channel)] == asked
            await call_off("hub", channel, asked[3])
            async for happening in ask("hub", channel, question_id=asked[3]):
                last = happening
            assert last.reason == "ada called it off [question-called-off]"
            assert len(await list_open("hub", channel)) == MAX_OPEN_EACH - 1
        assert await opened()


async def test_a_question_about_several_records_is_listed_with_all_of_them(tmp_path):
    text = (REPOSITORY / "examples" / "survey-patterns.toml").read_text()
    until = datetime.datetime.now(datetime.UTC) + DAY
    question = question_from_toml(re.sub(r"(?m)^until = .*$", f"until = {until.isoformat()}", text))
    async with sum_federation(tmp_path, 2) as hub, hub.channel(Role.ANALYST, "ada") as channel:
        async for _ in ask("hub", channel, "survey", question.canonical_json()):
            break
        (listed,) = await list_open("hub", channel)
        assert listed.record == "smokes, runs, sleeps-well"


@pytest.mark.parametrize("party", PARTIES)
async def test_where_a_party_does_not_keep_its_place_none_does_and_no_device_is_asked(hub, monkeypatch, party):
    async def fail(self, question_json):
        if self.name == party:
            raise NotFoundError(f"{party} has lost its place")
        await keep(self, question_json)

    keep = BatchPartyClient.keep
    monkeypatch.setattr(BatchPartyClient, "keep", fail)
    assert f"{party} has lost its place" in str(await refused(hub))
    await until(lambda: no_place_is_taken(hub))
    await until(lambda: hub.process._batch_store.untold() == [])
    assert hub.process._questions["batch"].open_questions() == []


@pytest.mark.parametrize("step", ["add", "keep", "agree"])
async def test_a_coordinator_that_stops_at_any_step_frees_the_places_when_it_comes_back(hub, monkeypatch, step):
    """Devices were not asked yet, so nobody has paid."""
    stopped = asyncio.Event()

    async def stop_here(*args):
        stopped.set()
        await asyncio.Event().wait()

    def fail_here(*args):
        stopped.set()
        raise BatchesUnusableError("the process ends here")

    with monkeypatch.context() as patched:
        if step == "keep":
            patched.setattr(Agreeing, "keep", stop_here)
        else:
            patched.setattr(type(hub.process._batch_store), step, fail_here)
            patched.setattr(Agreeing, "_call_off", stop_here)  # nothing is tidied up
        asking = BatchProposal(hub, batch_question())
        async with asyncio.timeout(GENEROUS_S):
            await stopped.wait()
            await asyncio.gather(hub.restart_hub(), asking.task, return_exceptions=True)
    if step == "add":  # the coordinator knows nothing of it: what is tentative ends by itself
        assert {one.is_kept for one in places_at(hub)} == {False}
        hub.parties["bank"]._batches._store.forget(max(one.forget_at_s for one in places_at(hub)) + 1)
        assert not places_at(hub)
        return
    await hub.restart_hub()
    await until(lambda: no_place_is_taken(hub))
    assert hub.process._questions["batch"].open_questions() == []


async def test_a_tentative_place_ends_by_itself_and_a_kept_one_does_not(hub):
    batch_id = await opened(hub)
    held = places_at(hub)
    assert [one.is_kept for one in held] == [True]
    client = BatchPartyClient("bank", hub.process._parties["bank"].channel)
    text = json.dumps({**json.loads(held[0].question), "session": "ab" * 16}, sort_keys=True, separators=(",", ":"))
    await client.open(text, "bob")  # and the coordinator goes away
    assert sorted((one.is_kept, one.analyst) for one in places_at(hub)) == [(False, "bob"), (True, "ada")]
    now_s = hub.parties["bank"]._batches._clock()
    assert hub.parties["bank"]._batches._store.forget(now_s + 600) == 1
    assert [one.digest[:16] for one in places_at(hub)] == [batch_id]
    with pytest.raises(NotFoundError, match="holds no place for this batch"):
        await client.keep(text)


@pytest.mark.parametrize("who", ["ada", "operator"])
async def test_a_batch_is_called_off_by_its_analyst_and_by_the_operator_and_by_nobody_else(hub, who):
    asking = BatchProposal(hub, batch_question())
    batch_id = await asking.opened()
    await hub.answered_by(hub.device("d0", 1, 1, 1))
    other = await opened(hub, "bob")
    async with hub.channel(Role.ANALYST, "bob") as channel:
        assert [one.question_id for one in await list_open("hub", channel)] == [other]
        with pytest.raises(NotFoundError):
            await call_off("hub", channel, batch_id)
    role, name = (Role.ANALYST, "ada") if who == "ada" else (Role.COORDINATOR, "hub")
    async with hub.channel(role, name) as channel:
        listed = await list_open("hub", channel)
        assert [(one.kind, one.analyst, one.n_answers) for one in listed][:1] == [("batch", "ada", 1)]
        assert len(listed) == (1 if who == "ada" else 2)
        assert abs(listed[0].until_s - FAR.timestamp()) < 1
        await call_off("hub", channel, batch_id)
        with pytest.raises(NotFoundError):
            await call_off("hub", channel, batch_id)
    assert ("ada" if who == "ada" else "the operator of hub") + " called it off" in await asking.reason()
    await until(lambda: {len(places_at(hub, party)) for party in PARTIES} == {1})
    for role, name in ((Role.COORDINATOR, "another"), (Role.DEVICE, "d2"), (Role.ANALYST, "mallory")):
        async with hub.channel(role, name) as channel:
            with pytest.raises(NotAllowedError):
                await list_open("hub", channel)


async def test_a_batch_that_waits_for_a_party_that_never_comes_back_is_called_off(hub):
    asking = BatchProposal(hub, batch_question(largest_cohort=2))
    batch_id = await asking.opened()
    await hub.stop_party("shop")
    hub.parties.pop("shop")
    await hub.answered_by(hub.device("d0", 1, 1, 1), hub.device("d1", 1, 1, 1))
    await until(lambda: hub.process._questions["batch"]._open[batch_id].ending is not None)
    async with hub.channel(Role.ANALYST, "ada") as channel:
        await call_off("hub", channel, batch_id)
    assert "ada called it off" in await asking.reason()
    await until(lambda: no_place_is_taken(hub))
    assert [one.question_id for one in hub.process._batch_store.untold()] == [batch_id]
    await hub.restart_hub()  # it goes on telling
    await hub.start_party("shop")
    await until(lambda: no_place_is_taken(hub))
    await until(lambda: hub.process._batch_store.untold() == [])


async def test_a_batch_that_was_called_off_is_not_opened_again_at_a_party(hub):
    await opened(hub)
    text = places_at(hub)[0].question
    client = BatchPartyClient("bank", hub.process._parties["bank"].channel)
    await client.call_off(text)
    await client.call_off(text)
    assert not places_at(hub)
    with pytest.raises(ServiceError, match="was called off here before"):
        await client.open(text, "ada")


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


async def test_commands_list_what_is_open_and_free_it(hub, tmp_path):
    """While the services run."""
    first, second = await opened(hub), await opened(hub, "bob")
    client, bank, own = (tmp_path / f"{name}.toml" for name in ("client", "bank", "hub"))
    hub.issue(Role.ANALYST, "ada")

    def tls(role, name):
        return "{" + ", ".join(f'{key} = "{path}"' for key, path in tls_in(tmp_path, role, name).items()) + "}"

    client.write_text(
        f'federation = "{FEDERATION}"\n[coordinator]\nname = "hub"\naddress = "{hub.addresses["hub"]}"\n'
        f"[tls]\n{tls(Role.ANALYST, 'ada')[1:-1].replace(', ', chr(10))}\n"
    )
    bank.write_text(
        f'name = "bank"\nfederation = "{FEDERATION}"\ndata_dir = "{tmp_path / "bank"}"\n'
        f'coordinator = {{name = "hub", address = "{hub.addresses["hub"]}"}}\ntls = {tls(Role.PARTY, "bank")}\n'
        f'peers = {{clinic = "{hub.addresses["clinic"]}", shop = "{hub.addresses["shop"]}"}}\n'
    )
    own.write_text(
        f'name = "hub"\nfederation = "{FEDERATION}"\nlisten = "{hub.addresses["hub"]}"\nstore = "{tmp_path / "x"}"\n'
        f'tls = {tls(Role.COORDINATOR, "hub")}\nanalysts = {{allowed = ["ada"]}}\n'
        f'parties = [{{name = "bank", address = "{hub.addresses["bank"]}"}}]\n'
    )
    listed = await asyncio.to_thread(run, "questions", "--client", client, "--format", "json")
    assert [one["question_id"] for one in json.loads(listed.stdout)] == [first.hex()], listed.output
    listed = await asyncio.to_thread(run, "coordinator", "questions", "--config", own)
    assert [line.split()[1] for line in listed.stdout.splitlines()] == [first.hex(), second.hex()], listed.output
    assert "steps  of bob  until " in listed.stdout
    done = await asyncio.to_thread(run, "questions", "--client", client, "--call-off", second.hex())
    assert done.exit_code != 0
    done = await asyncio.to_thread(run, "coordinator", "questions", "--config", own, "--call-off", second.hex())
    assert done.exit_code == 0, done.output
    done = await asyncio.to_thread(run, "questions", "--client", client, "--call-off", first.hex())
    assert done.exit_code == 0, done.output
    third = await opened(hub)
    await until(lambda: len(places_at(hub)) == 1)
    listed = await asyncio.to_thread(run, "party", "batches", "--config", bank)
    assert f"batch {third.hex()}  steps  of ada  kept, forgotten" in listed.stdout, listed.output
    done = await asyncio.to_thread(run, "party", "batches", "--config", bank, "--free", third.hex())
    assert done.exit_code == 0, done.output
    assert places_at(hub) == []
    assert (await asyncio.to_thread(run, "party", "batches", "--config", bank, "--free", third.hex())).exit_code == 4


def test_batches_of_an_earlier_version_are_listed(tmp_path):
    store = BatchStore(tmp_path / "batches.sqlite")
    store._db.connection.execute(
        "INSERT INTO batches (digest, private, public, certificate, signature, forget_at_s)"
        " VALUES (?, ?, x'', x'', x'', 9.0)",
        (bytes(32), bytes(32)),
    )
    assert [(one.digest, one.analyst, one.is_kept) for one in store.open_places()] == [(bytes(32), "", True)]
    assert store.call_off(bytes(32))
    assert store.open_places() == []
    store.close()
