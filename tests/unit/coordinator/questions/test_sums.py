"""A question by masked sums ends, whatever becomes of its sums: in time, or when it is called off."""

import asyncio

import pytest
from stores import surveys_in

from analyses.open_until import DAY_S
from coordinator.questions.hosts import Hosts
from coordinator.questions.sums import Sums
from coordinator.stores.surveys import SurveyStoreError
from coordinator.sums.answering import MaskedSums
from coordinator.sums.rounds import MAX_ROUNDS
from entropy import SystemEntropy
from questions.cohorts import MaskedQuestion
from service.errors import NotFoundError, TooMuchError
from service.identity import Identity, Role
from transport.happenings import Failed, Opened

QUESTION = MaskedQuestion(record="wage", range=(0.0, 1.0), buckets=4, method="masked", epsilon=1.0, cohort=3)
MEMBERS = {Identity("walkers", Role.DEVICE, f"walker-{i}"): bytes([i]) * 32 for i in range(6)}


class NeverOpened(MaskedSums):
    """Masked sums that no member ever answers, and that do not end for want of members."""

    async def answer(self, asked, tell):
        await asyncio.Event().wait()


@pytest.fixture
def store(tmp_path):
    found = surveys_in(tmp_path / "surveys.sqlite")
    yield found
    found.close()


@pytest.fixture
def sums(store):
    return Sums(store, SystemEntropy(), NeverOpened(MEMBERS, SystemEntropy()))


async def heard(sums):
    return [happening async for happening in sums.ask("ada", QUESTION.canonical_json())]


async def test_it_is_open_for_a_bounded_time(sums, monkeypatch):
    monkeypatch.setattr("coordinator.questions.sums.MOST_OPEN_DAYS", 0.01)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    _, failed = await heard(sums)
    assert loop.time() - began_s == pytest.approx(0.01 * DAY_S, abs=2.0)
    assert failed == Failed("its sums were not opened within 0.01 days")
    assert sums.open_questions() == []


@pytest.mark.parametrize("wait_s", [1.0, 0.0], ids=["while it runs", "as it begins"])
async def test_it_is_called_off(sums, store, wait_s):
    """Where it has just begun its task has not run yet, so nothing of it would tell the end."""
    question_id = await sums.open("ada", QUESTION)
    if wait_s:
        await asyncio.sleep(wait_s)
    await sums.call_off(question_id, "ada")
    assert store.find(question_id).failure == "ada called it off [question-called-off]"
    assert sums.open_questions() == []


async def test_an_analyst_who_goes_away_leaves_most_rounds_to_others(sums):
    for _ in range(MAX_ROUNDS // 4):
        await sums.open("ada", QUESTION)
    with pytest.raises(TooMuchError, match="4 sums of ada are open"):
        await heard(sums)
    assert await sums.open("bob", QUESTION)
    for question_id in sums.open_questions():
        await sums.call_off(question_id.question_id, "the operator of hub")


async def test_two_who_call_it_off_at_once_both_hear_that_it_is(sums, store):
    question_id = await sums.open("ada", QUESTION)
    await asyncio.sleep(0.1)
    both = (sums.call_off(question_id, who) for who in ("ada", "the operator of hub"))
    assert await asyncio.gather(*both, return_exceptions=True) == [None, None]
    assert store.find(question_id).failure == "ada called it off [question-called-off]"


async def test_who_calls_it_off_hears_where_that_cannot_be_written(sums, store):
    question_id = await sums.open("ada", QUESTION)
    store._db.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(SurveyStoreError, match="readonly"):
        await sums.call_off(question_id, "ada")
    store._db.connection.execute("PRAGMA query_only = OFF")
    assert sums.open_questions() == []


async def test_it_is_followed_after_its_end_and_by_nobody_else(sums):
    question_id = await sums.open("ada", QUESTION)
    await sums.call_off(question_id, "ada")
    hosts = Hosts(Identity("walkers", Role.COORDINATOR, "hub"), lambda caller: None, [sums])
    opened, failed = [happening async for happening in hosts.follow("ada", question_id)]
    assert opened == Opened(question_id)
    assert isinstance(failed, Failed)
    with pytest.raises(NotFoundError, match="bob has asked no question"):
        [happening async for happening in hosts.follow("bob", question_id)]


async def test_one_that_an_earlier_process_left_open_has_no_result(sums, store):
    stored = store.add(bytes(16), "ada", QUESTION.canonical_json())
    await sums.start()
    assert store.find(stored.question_id).failure == "the coordinator was restarted; ask again"
