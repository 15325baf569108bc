"""Batches whose devices prove their vectors, over real services: who lies is left out and counted, and nobody else."""

import asyncio

import pytest
from batches import BatchProposal, batch_federation, batch_policy, batch_question, fetched, lying

from coordinator.batches import closing
from service.errors import InvalidRequestError, ServiceError

NOISY = {"epsilon": 4.0, "delta": 1e-6}


@pytest.fixture
async def hub(tmp_path):
    rules = {"smallest_cohort": 2, "exact_sums": True, "proofs": True}
    async with batch_federation(tmp_path, rules) as federation:
        yield federation


async def test_who_shares_a_vector_out_of_bounds_is_rejected_and_the_sum_of_the_others_is_exact(hub):
    with pytest.raises(InvalidRequestError, match="adds up proven vectors only"):
        await BatchProposal(hub, batch_question()).task
    asking = BatchProposal(hub, batch_question(proofs=True))
    await asking.opened()
    liars = [lying(hub.device("d1", 0, 0, 0), 0, 1 << 30, 0), lying(hub.device("d3", 0, 0, 0), 0, 0, -1001)]
    demanding = hub.device("d0", 1, 10, -1, policy=batch_policy(proofs=True))
    await hub.answered_by(demanding, liars[0], hub.device("d2", 2, 20, -1000), liars[1])
    result = await asking.result()
    assert result["sum"] == [3.0, 30.0, -1001.0]
    assert (result["devices"], result["left_out"], result["rejected"]) == (2, [], ["d1", "d3"])
    assert result["proofs"]["bounds"] == {"lowest": -1000, "highest": 1000}


async def test_a_rejected_device_has_paid_and_the_noise_is_that_of_the_batch(hub):
    asking = BatchProposal(hub, batch_question(proofs=True, privacy=NOISY, largest=1, largest_cohort=3))
    await asking.opened()
    liar = lying(hub.device("d1", 0, 0, 0), 1 << 30, 0, 0)
    honest = hub.device("d0", 1, 0, 1)
    await hub.answered_by(honest, liar, hub.device("d2", 1, 0, 1))
    result = await asking.result()
    (deviation,) = set(result["standard_errors"])
    assert all(abs(value) < 60 * deviation for value in result["sum"])
    assert result["rejected"] == ["d1"]
    assert liar.budget.standing()["spent_epsilon"] == honest.budget.standing()["spent_epsilon"] > 0


async def test_a_party_stopped_after_another_has_closed_goes_on_with_what_that_one_rejected(hub, monkeypatch):
    """The share of one party is out, and its key is gone, when another one's disk fails."""
    monkeypatch.setattr(closing, "MAX_PAUSE_S", 0.1)
    asking = BatchProposal(hub, batch_question(proofs=True, largest_cohort=3))
    await asking.opened()
    stores = {name: party._batches._store for name, party in hub.parties.items()}
    honest, coins, fails_once = stores["clinic"].close_batch, set(), [True]

    def close_batch(digest, closed):
        coins.add(bytes(stores["clinic"]._db.read("SELECT coin FROM proofs")[0][0]))
        if fails_once:
            fails_once.clear()
            raise ServiceError("the disk is full")
        honest(digest, closed)

    monkeypatch.setattr(stores["clinic"], "close_batch", close_batch)
    await hub.answered_by(hub.device("d0", 1, 1, 1), lying(hub.device("d1", 0, 0, 0), 0, 5000, 0))
    await hub.answered_by(hub.device("d2", 2, 2, 2))
    result = await asking.result()
    assert (result["sum"], result["rejected"]) == ([3.0, 3.0, 3.0], ["d1"])
    assert len(coins) == 1
    assert {bytes(store._db.read("SELECT coin FROM proofs")[0][0]) for store in stores.values()} == coins


async def test_the_coordinator_takes_no_answer_of_another_size(hub):
    asking = BatchProposal(hub, batch_question(proofs=True))
    batch_id = await asking.opened()
    device = hub.device("d0", 1, 1, 1)
    offered = await fetched(device)
    asked = device.read(offered.text)
    plain = asked.model_copy(update={"question": batch_question()})
    body = await asyncio.to_thread(device.make, plain, offered.keys)
    with pytest.raises(InvalidRequestError, match="no answer to the question"):
        await device.client.answer(batch_id, body)
    asking.task.cancel()
