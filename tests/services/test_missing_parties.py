"""Batches over real services that open without one party: once, whoever comes back, and whatever is asked."""

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
from batches import FEDERATION, PARTIES, BatchProposal, batch_federation, batch_policy, batch_question, fetched, lying
from deadlines import until

from coordinator.batches import closing
from mpc.prime.kernels import PRIME
from mpc.secagg.secret.threshold import lagrange_weights
from party.batches.collecting import Collection
from questions.shares import AskedBatch
from questions.shares_answer import open_sum
from service.errors import InvalidRequestError, ServiceError
from service.identity import Identity, Role
from transport.batch_party import BatchPartyClient
from transport.calls.channel import open_channel

FOUR = (*PARTIES, "tailor")
NOISY = {"epsilon": 4.0, "delta": 1e-6}
RULES = {"smallest_cohort": 2, "exact_sums": True, "may_miss": 1}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(closing, "MAX_PAUSE_S", 0.1)


@pytest.fixture
async def three(tmp_path):
    async with batch_federation(tmp_path, RULES) as federation:
        yield federation


@pytest.fixture
async def four(tmp_path):
    async with batch_federation(tmp_path, RULES, parties=FOUR) as federation:
        yield federation


def question(federation, **changes):
    return batch_question(parties=federation.names, colluding=1, may_miss=1, **changes)


def client_of(federation, name):
    """Calls to a party, as a coordinator makes them that deviates."""
    who = Identity(FEDERATION, Role.PARTY, name)
    channel = open_channel(federation.addresses[name], who, federation.issue(Role.COORDINATOR, "hub"))
    federation.stack.push_async_callback(channel.close)
    return BatchPartyClient(name, channel)


async def asked_of_two(federation, asked):
    """A batch that two devices answer, the second one later; and what the parties keep of it."""
    asking = BatchProposal(federation, asked)
    await asking.opened()
    offered = await federation.answered_by(federation.device("d0", 1, 10, -1))
    return asking, federation.device("d1", 2, 20, -2), AskedBatch.from_json(offered.text)


async def closed_by(federation, asked, openers, attempt):
    """What each of some parties answers to a coordinator that has them close a batch with each other."""
    clients = [client_of(federation, federation.names[one - 1]) for one in openers]
    for client in clients:
        await client.prepare(asked.canonical_json(), attempt, openers)
    closing = (client.close(asked.canonical_json(), attempt, 1 << 20) for client in clients)
    return await asyncio.gather(*closing, return_exceptions=True)


async def test_a_party_back_after_the_opening_opens_nothing_more_whatever_the_coordinator_asks(four, monkeypatch):
    """The coordinator deviates: it still shows the answers, and asks for every other opening that would do."""
    monkeypatch.setattr(closing.Closing, "result", lambda *_: asyncio.Event().wait())
    asking, device, asked = await asked_of_two(four, question(four, largest_cohort=2))
    await four.stop_party("bank")
    await four.answered_by(device)
    await until(lambda: four.process._questions["batch"]._open[asked.question_id].ending is not None)
    first = await closed_by(four, asked, (2, 3, 4), "first")
    assert open_sum(asked.question, [one.share for one in first]).tolist() == [3, 30, -3]

    await four.start_party("bank")
    store = four.parties["bank"]._batches._store
    for number, openers in enumerate([(1, 2, 3), (1, 2, 4), (1, 3, 4), (1, 2, 3, 4)]):
        answers = await closed_by(four, asked, openers, f"attack-{number}")
        assert all(isinstance(one, Exception) for one in answers)
        assert store.find(asked.digest).closed is None
    with pytest.raises(InvalidRequestError, match="3 parties open this batch, not 2"):
        await closed_by(four, asked, (1, 2), "attack-of-two")
    with pytest.raises(InvalidRequestError, match="with others than itself"):
        await client_of(four, "bank").prepare(asked.canonical_json(), "attack-of-others", (2, 3, 4))
    again = await closed_by(four, asked, (2, 3, 4), "once-more")
    assert [one.share for one in again] == [one.share for one in first]
    asking.task.cancel()


@pytest.mark.slow  # as the next one, with another party gone
async def test_an_exact_sum_opens_without_one_of_four_parties(four):
    asking, device, _ = await asked_of_two(four, question(four, largest_cohort=2))
    await four.stop_party("bank")
    await four.answered_by(device)
    result = await asking.result()
    assert (result["sum"], result["devices"]) == ([3.0, 30.0, -3.0], 2)
    assert result["opened_by"] == ["clinic", "shop", "tailor"]
    assert "Only one sum is opened" in result["privacy"]["opening"]


async def test_a_party_that_comes_back_is_told_that_the_batch_has_ended(three):
    asking, device, asked = await asked_of_two(three, question(three, largest_cohort=2, privacy=NOISY, largest=1))
    without_consent = three.device("d2", 1, 1, 1, policy=batch_policy())
    assert not await without_consent.answer(await fetched(without_consent))
    await three.stop_party("clinic")
    await three.answered_by(device)
    result = await asking.result()
    assert result["opened_by"] == ["bank", "shop"]
    assert set(result["standard_errors"]) == {math.sqrt(asked.question.noise.variance(2))}
    assert "can have 2 opened" in result["privacy"]["opening"]
    assert result["privacy"]["views"]["coalition"]["epsilon"] <= 4.0
    await three.start_party("clinic")
    store = three.parties["clinic"]._batches._store
    await until(lambda: store.find(asked.digest).private is None)
    assert store.find(asked.digest).closed is None


@pytest.mark.slow
async def test_what_parties_open_lies_on_no_polynomial_but_adds_up(four):
    """Four shares of degree 2 would tell of each party's noise: here they are shares of an exact sum."""
    asking, device, asked = await asked_of_two(four, question(four, largest_cohort=2))
    await four.answered_by(device)
    result = await asking.result()
    assert (result["sum"], result["opened_by"]) == ([3.0, 30.0, -3.0], list(FOUR))
    shares = [one.share for one in await closed_by(four, asked, (1, 2, 3, 4), "once-more")]
    points = [np.frombuffer(share, dtype="<u8").astype(object) for share in shares]
    for place, weight in enumerate(lagrange_weights([1, 2, 3, 4], 0)):
        points[place] = points[place] * pow(weight, -1, PRIME)
    fourth = sum(weight * point for weight, point in zip(lagrange_weights([1, 2, 3], 4), points, strict=False))
    assert all((fourth - points[3]) % PRIME != 0)


@pytest.mark.slow
async def test_a_party_may_go_when_proofs_were_judged_and_the_others_keep_the_coin(four, monkeypatch):
    asking, device, _ = await asked_of_two(four, question(four, largest_cohort=3, proofs=True))
    stores = {name: party._batches._store for name, party in four.parties.items()}
    fails, coins = set(FOUR), []

    def failing(name, close_batch):
        def close(digest, closed):
            if name in fails:
                coins.append(stores[name].noted_coin(digest))
                raise ServiceError("the disk is full")
            close_batch(digest, closed)

        return close

    for name, store in stores.items():
        monkeypatch.setattr(store, "close_batch", failing(name, store.close_batch))
    await four.answered_by(device, lying(four.device("d2", 0, 0, 0), 0, 5000, 0))
    await until(lambda: len(coins) >= 4)
    await four.stop_party("bank")
    fails.clear()
    result = await asking.result()
    assert (result["sum"], result["rejected"]) == ([3.0, 30.0, -3.0], ["d2"])
    assert result["opened_by"] == ["clinic", "shop", "tailor"]
    assert {*coins, *(stores[name]._db.read("SELECT coin FROM proofs")[0][0] for name in FOUR[1:])} == {coins[0]}


@pytest.mark.slow
async def test_an_opening_that_one_party_has_begun_goes_on_with_the_same_parties_though_another_is_back(
    four, monkeypatch
):
    asking, device, asked = await asked_of_two(four, question(four, largest_cohort=2))
    await four.stop_party("bank")
    stores = {name: party._batches._store for name, party in four.parties.items() if name != "bank"}
    close_batch, fails = stores["shop"].close_batch, [True]

    def failing(digest, closed):
        if fails:
            raise ServiceError("the disk is full")
        close_batch(digest, closed)

    monkeypatch.setattr(stores["shop"], "close_batch", failing)
    await four.answered_by(device)
    await until(lambda: stores["clinic"].find(asked.digest).closed is not None)
    await four.start_party("bank")
    fails.clear()
    result = await asking.result()
    assert (result["sum"], result["opened_by"]) == ([3.0, 30.0, -3.0], ["clinic", "shop", "tailor"])


@pytest.mark.slow
async def test_a_party_that_deviates_brings_three_parties_to_the_two_openings_that_are_charged_and_no_third(
    three, monkeypatch
):
    """One that forgets that it has closed, and a coordinator that tells each of the others that the third is gone."""
    monkeypatch.setattr(closing.Closing, "result", lambda *_: asyncio.Event().wait())
    asking, device, asked = await asked_of_two(three, question(three, largest_cohort=2, privacy=NOISY))
    await three.answered_by(device)
    await until(lambda: three.process._questions["batch"]._open[asked.question_id].ending is not None)
    monkeypatch.setattr(three.parties["clinic"]._batches._store, "close_batch", lambda *_: None)
    deviation = math.sqrt(asked.question.noise.variance(2))
    for openers in ((1, 2), (2, 3)):
        answers = await closed_by(three, asked, openers, f"opening-{openers[0]}")
        opened = open_sum(asked.question, [one.share for one in answers])
        assert all(abs(opened - np.array([3, 30, -3])) < 60 * deviation)
    for openers in ((1, 3), (1, 2, 3)):
        answers = await closed_by(three, asked, openers, f"third-{len(openers)}")
        assert all(isinstance(one, Exception) for one in answers)
    assert asked.question.openings == 2
    asking.task.cancel()


@pytest.mark.slow
async def test_parties_that_deviate_beyond_those_that_may_collude_subtract_two_exact_sums(four, monkeypatch):
    """A known limit: two of four where one may collude, and the coordinator, read one device; the plan says so."""
    monkeypatch.setattr(closing.Closing, "result", lambda *_: asyncio.Event().wait())
    is_second = False
    as_honest = Collection._open

    def leaving_out(self, part, answer, place):
        if is_second and self._position in (2, 3) and part.device == "d2":
            return None
        return as_honest(self, part, answer, place)

    monkeypatch.setattr(Collection, "_open", leaving_out)
    asking, device, asked = await asked_of_two(four, question(four, largest_cohort=3))
    await four.answered_by(device, four.device("d2", 417, -33, 250))
    await until(lambda: four.process._questions["batch"]._open[asked.question_id].ending is not None)
    for name in ("shop", "tailor"):  # they forget what they have seen and closed
        for method in ("close_batch", "note_shown"):
            monkeypatch.setattr(four.parties[name]._batches._store, method, lambda *_: None)
    opened = []
    for openers in ((1, 3, 4), (2, 3, 4)):
        answers = await closed_by(four, asked, openers, f"opening-{openers[0]}")
        opened.append(open_sum(asked.question, [one.share for one in answers]))
        is_second = True
    assert (opened[0] - opened[1]).tolist() == [417, -33, 250]
    assert asked.question.openings == asked.question.colluding == 1
    said = asked.question.privacy_report()["opening"]
    assert said.endswith("with more than 1 that deviate two can be opened, whose difference may be one device")
    asking.task.cancel()


def broken(*_):
    raise ServiceError("the disk is full")


async def deviating_openers(*_):
    return (1, 99)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["find", "note_shown", "rules", "openers"])
async def test_a_party_that_answers_and_cannot_work_is_missing_until_one_has_closed(four, monkeypatch, what):
    """Its store cannot be read, or not written; its owner admits the batch no more; it names openers that cannot be."""
    asking, device, _ = await asked_of_two(four, question(four, largest_cohort=2))
    batches = four.parties["bank"]._batches
    if what == "rules":
        rules = batches._place.rules.model_copy(update={"may_miss": 0})
        batches.use(replace(batches._place, rules=rules))
    elif what == "openers":
        monkeypatch.setattr(batches, "prepare", deviating_openers)
    else:
        monkeypatch.setattr(batches._store, what, broken)
    await four.answered_by(device)
    result = await asking.result()
    assert (result["sum"], result["opened_by"]) == ([3.0, 30.0, -3.0], ["clinic", "shop", "tailor"])
