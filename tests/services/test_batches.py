"""Batches over real services: devices' sealed answers, three parties, a coordinator that may lie or be restarted."""

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
from batches import PARTIES, BatchProposal, answer_to, batch_federation, batch_policy, batch_question, fetched
from deadlines import until

from coordinator.batches import closing
from coordinator.questions import batches as questions
from coordinator.stores.batches import GivenAnswer
from coordinator.stores.question import Outcome
from device.questions.batch import BatchDevice
from mpc.secagg.secret.party_shares import SealedVector
from service.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotAllowedError,
    NotFoundError,
    ServiceError,
    WrongStateError,
)
from service.identity import Role
from service.trust import statements
from service.trust.statements import StatementCheck
from transport.batch_codec import decode_answer, encode_answer
from transport.batch_party import BatchPartyClient
from transport.happenings import Counted, Refused
from transport.question_client import QuestionClient, fetch_shares

NOISY = {"epsilon": 4.0, "delta": 1e-6}


@pytest.fixture
async def hub(tmp_path):
    async with batch_federation(tmp_path) as federation:
        yield federation


async def test_devices_answer_and_the_analyst_gets_the_exact_sum(hub):
    asking = BatchProposal(hub, batch_question(largest_cohort=3))
    batch_id = await asking.opened()
    await hub.answered_by(*(hub.device(f"d{i}", i, 10 * i, -1) for i in range(3)))
    result = await asking.result()
    assert result["sum"] == [3.0, 30.0, -3.0]
    assert (result["devices"], result["left_out"], result["batch"]) == (3, [], batch_id.hex())
    assert "guarantee" in json.dumps(result["privacy"]).lower()
    assert any(isinstance(happening, Counted) for happening in asking.happenings)


async def test_means_and_histograms_go_the_same_way(hub):
    asking = BatchProposal(hub, batch_question(analysis="secure-mean", largest_weight=10, largest_cohort=2))
    await asking.opened()
    await hub.answered_by(hub.device("d0", 1, 2, 3, weight=1), hub.device("d1", 5, 6, 7, weight=3))
    result = await asking.result()
    assert (result["mean"], result["total_weight"]) == ([4.0, 5.0, 6.0], 4)
    fields = {"analysis": "secure-histogram", "length": 1, "largest": 3, "edges": (0, 2, 10)}
    asking = BatchProposal(hub, batch_question(largest_cohort=2, **fields))
    await asking.opened()
    await hub.answered_by(hub.device("d2", 1, 1, 5), hub.device("d3", 0, 9, 9))
    assert (await asking.result())["counts"] == [3, 3]


async def test_a_noisy_sum_has_the_noise_of_all_parties_and_each_device_pays_once(hub):
    asking = BatchProposal(hub, batch_question(privacy=NOISY, largest_cohort=2, largest=1))
    await asking.opened()
    devices = [hub.device(f"d{i}", 1, 0, 1) for i in range(2)]
    offered = await hub.answered_by(*devices)
    result = await asking.result()
    (deviation,) = set(result["standard_errors"])
    assert deviation > 0
    assert all(abs(value) < 60 * deviation for value in result["sum"])
    views = result["privacy"]["views"]
    assert views["coordinator"]["epsilon"] < views["coalition"]["epsilon"] <= 4.0
    for device in devices:
        spent = device.budget.standing()["spent_epsilon"]
        assert 0 < spent <= 4.0
        assert await device.answer(offered)  # it was sent, which is all that the device still knows
        assert device.budget.standing()["spent_epsilon"] == spent


async def test_the_same_bytes_again_are_taken_and_others_refused(hub):
    asking = BatchProposal(hub, batch_question(largest_cohort=2))
    batch_id = await asking.opened()
    device = hub.device("d0", 1, 1, 1)
    offered = await fetched(device)
    answer = await answer_to(offered, device)
    for _ in range(2):
        await device.client.answer(batch_id, answer)
    twin = replace(device, store=hub.device("twin").store, budget=hub.device("other-twin").budget)
    other = await answer_to(offered, twin)
    with pytest.raises(AlreadyExistsError, match="has given another answer"):
        await device.client.answer(batch_id, other)
    assert await device.client.fetch(0) is None
    await hub.answered_by(hub.device("d1", 2, 2, 2))
    assert (await asking.result())["sum"] == [3.0, 3.0, 3.0]
    with pytest.raises(WrongStateError, match="too late"):
        await hub.device("d2").client.answer(batch_id, other)


async def test_an_answer_that_was_written_and_not_told_counts_when_it_is_sent_again(hub):
    """As where the connection to a database broke while the answer was committed."""
    asking = BatchProposal(hub, batch_question(largest_cohort=2))
    batch_id = await asking.opened()
    device = hub.device("d0", 1, 1, 1)
    answer = await answer_to(await fetched(device), device)
    assert hub.process._batch_store.take([GivenAnswer(1, "d0", answer)]) == [Outcome.TAKEN]
    await hub.answered_by(hub.device("d1", 2, 2, 2))
    assert hub.process._questions["batch"]._open[batch_id].n_answers == 1
    await device.client.answer(batch_id, answer)
    assert (await asking.result())["sum"] == [3.0, 3.0, 3.0]


async def test_answers_that_are_no_answers_or_somebody_elses_are_refused_at_once(hub):
    asking = BatchProposal(hub, batch_question())
    batch_id = await asking.opened()
    device = hub.device("d0", 1, 1, 1)
    answer = await answer_to(await fetched(device), device)
    stranger = hub.device("d1").client
    with pytest.raises(InvalidRequestError, match=r"not signed by a member"):
        await stranger.answer(batch_id, answer)
    vector = decode_answer(answer).vector
    short = SealedVector(vector.ephemeral_public, (*vector.sealed[:-1], vector.sealed[-1][:-1]))
    for changed in (short, SealedVector(b"", vector.sealed), SealedVector(vector.ephemeral_public, vector.sealed[:2])):
        with pytest.raises(InvalidRequestError, match="no answer to the question"):
            await device.client.answer(batch_id, encode_answer(replace(decode_answer(answer), vector=changed)))
    with pytest.raises(NotFoundError):
        await device.client.answer(bytes(16), answer)
    asking.task.cancel()


async def test_the_certificate_of_the_connection_is_not_checked_a_second_time_and_any_other_is(hub, monkeypatch):
    asking = BatchProposal(hub, batch_question(largest_cohort=2))
    batch_id = await asking.opened()
    device = hub.device("d0", 1, 1, 1)
    answer = await answer_to(await fetched(device), device)
    checked = []
    signer = StatementCheck.signer
    monkeypatch.setattr(StatementCheck, "signer", lambda *of: checked.append(of[-1]) or signer(*of))
    await device.client.answer(batch_id, answer)
    assert checked == []
    async with hub.channel(Role.DEVICE, "d0") as channel:  # under another certificate, as after a renewal
        await QuestionClient("hub", channel, "batch").answer(batch_id, answer)
    assert checked == [Role.DEVICE]
    await hub.answered_by(hub.device("d1", 2, 2, 2))
    assert (await asking.result())["sum"] == [3.0, 3.0, 3.0]


async def test_parties_check_the_issuer_of_a_certificate_in_the_first_batch_that_it_answers(hub, monkeypatch):
    checked = []
    plain = statements.check_issued_by
    monkeypatch.setattr(statements, "check_issued_by", lambda *of: checked.append(of) or plain(*of))
    devices = [hub.device(f"d{i}", i, i, i) for i in range(2)]
    checks_by_batch = []
    for _ in range(2):
        asking = BatchProposal(hub, batch_question(largest_cohort=2))
        await asking.opened()
        for device in devices:
            offered = await fetched(device)
            asked = questions.AskedBatch.from_json(offered.text)
            answer = await asyncio.to_thread(device.answer_once, asked, offered.keys)
            checked.clear()  # what devices have checked of parties
            await device.client.answer(asked.question_id, answer)
        assert (await asking.result())["sum"] == [1.0, 1.0, 1.0]
        checks_by_batch.append(len(checked))
    assert checks_by_batch == [len(devices) * len(PARTIES), 0]


async def test_only_parties_of_the_batch_get_shares_and_only_of_a_closed_one(hub):
    asking = BatchProposal(hub, batch_question())
    batch_id = await asking.opened()
    for role, name, error in ((Role.PARTY, "bank", WrongStateError), (Role.DEVICE, "d0", NotAllowedError)):
        async with hub.channel(role, name) as channel:
            with pytest.raises(error):
                async for _ in fetch_shares("hub", channel, batch_id, 1 << 20):
                    pass
    async with hub.channel(Role.PARTY, "stranger") as channel:
        with pytest.raises(NotAllowedError, match="not a party of this batch"):
            async for _ in fetch_shares("hub", channel, batch_id, 1 << 20):
                pass
    asking.task.cancel()


async def test_questions_that_parties_or_devices_rule_out_are_refused_with_the_reason(hub):
    with pytest.raises(InvalidRequestError, match="this coordinator does not know 'nobody'"):
        await BatchProposal(hub, batch_question(parties=("bank", "nobody"), colluding=1)).task
    for party in hub.parties.values():
        rules = party.config.batches.model_copy(update={"smallest_cohort": 3, "exact_sums": False})
        party._batches.use(replace(party._batches._place, rules=rules))
    with pytest.raises(InvalidRequestError, match="opens no sum of fewer than 3 devices"):
        await BatchProposal(hub, batch_question(privacy=NOISY)).task
    with pytest.raises(InvalidRequestError, match="noisy sums only"):
        await BatchProposal(hub, batch_question(smallest_cohort=3)).task
    with pytest.raises(InvalidRequestError, match=r"with all of their parties only \(set batches.may_miss = 1"):
        await BatchProposal(hub, batch_question(smallest_cohort=3, privacy=NOISY, colluding=1, may_miss=1)).task
    hub.parties["shop"]._batches.use(replace(hub.parties["shop"]._batches._place, rules=None))
    with pytest.raises(InvalidRequestError, match="shop takes part in no batches"):
        await BatchProposal(hub, batch_question(smallest_cohort=3, privacy=NOISY)).task


async def test_who_asks_hears_how_many_devices_refuse(hub):
    asking = BatchProposal(hub, batch_question())
    await asking.opened()
    kinds = {
        "d0": {"policy": batch_policy(parties=frozenset({"bank", "clinic", "another"}))},
        "d1": {"records": {}},
        "d2": {"policy": batch_policy(exact_sums=False), "tells_refusals": False},
    }
    for name, fields in kinds.items():
        device = hub.device(name, **fields)
        assert not await device.answer(await fetched(device))
    await until(lambda: Refused((("policy", 1), ("question", 1))) in asking.happenings)
    asking.task.cancel()


async def test_too_few_answers_are_not_opened(hub, monkeypatch):
    asking = BatchProposal(hub, batch_question(smallest_cohort=3))
    await asking.opened()
    await hub.answered_by(hub.device("d0", 1, 1, 1), hub.device("d1", 1, 1, 1))
    monkeypatch.setattr(hub.process._questions["batch"], "_clock", lambda: 1e11)
    assert "2 devices answered, and at least 3 must" in await asking.reason()


async def closed_by(hub, monkeypatch, asking, reason=True):
    monkeypatch.setattr(hub.process._questions["batch"], "_clock", lambda: 1e11)
    return await (asking.reason() if reason else asking.result())


def with_shares(hub, monkeypatch, change):
    """Let the coordinator hand out other parts: `change(party, parts)` of the whole list."""
    honest = hub.process._questions["batch"].shares

    async def shares(caller, batch_id, only):
        parts = [part async for part in honest(caller, batch_id, only)]
        for part in change(caller.name, parts):
            yield part

    monkeypatch.setattr(hub.process._questions["batch"], "shares", shares)


async def test_parties_refuse_a_cohort_that_is_too_small_whatever_the_coordinator_says(hub, monkeypatch):
    asking = BatchProposal(hub, batch_question(smallest_cohort=3))
    await asking.opened()
    await hub.answered_by(*(hub.device(f"d{i}", 1, 1, 1) for i in range(3)))
    with_shares(hub, monkeypatch, lambda party, parts: parts[:2])
    assert "only 2 devices are in the batch, and at least 3 must be" in await closed_by(hub, monkeypatch, asking)
    for party in hub.parties.values():
        kept = party._batches._store.find(digest_of(hub))
        assert kept.closed is None  # nothing was let out, and nothing is decided


def digest_of(hub, number=0):
    row = hub.process._batch_store._db.connection.execute("SELECT text FROM batches ORDER BY number").fetchall()[number]
    return questions.AskedBatch.from_json(row[0]).digest


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda party, parts: parts[:-1] if party == "shop" else parts, "hub showed different answers"),
        (lambda party, parts: [*parts, parts[-1]], "shows a device twice, or devices out of order"),
        (lambda party, parts: parts[::-1], "shows a device twice, or devices out of order"),
        (
            lambda party, parts: [replace(parts[0], device="aaa"), *parts] if party == "bank" else parts,
            "hub showed different answers",
        ),
    ],
    ids=["one party is shown fewer", "a device twice", "out of order", "an invented device at one party"],
)
async def test_a_coordinator_that_shows_other_answers_ends_the_batch_and_opens_nothing(
    hub, monkeypatch, change, reason
):
    asking = BatchProposal(hub, batch_question())
    await asking.opened()
    await hub.answered_by(*(hub.device(f"d{i}", 1, 1, 1) for i in range(3)))
    with_shares(hub, monkeypatch, change)
    assert reason in await closed_by(hub, monkeypatch, asking)
    assert all(party._batches._store.find(digest_of(hub)).closed is None for party in hub.parties.values())


@pytest.mark.parametrize("n_again", [0, 2])
async def test_a_coordinator_that_shows_less_or_more_again_than_was_left_out_ends_the_batch(hub, monkeypatch, n_again):
    asking = BatchProposal(hub, batch_question())
    await asking.opened()
    await hub.answered_by(*(hub.device(f"d{i}", 1, 1, 1) for i in range(3)))

    def spoil(party, parts):
        if len(parts) < 3:  # shown again
            return (parts * 2)[:n_again]
        bad = replace(parts[1], sealed=bytes(len(parts[1].sealed)))
        return [parts[0], bad if party == "clinic" else parts[1], parts[2]]

    with_shares(hub, monkeypatch, spoil)
    assert "does not show again what it has shown" in await closed_by(hub, monkeypatch, asking)


@pytest.mark.parametrize("where", ["every party", "one party"])
async def test_what_does_not_open_or_is_not_signed_is_left_out_at_all_parties(hub, monkeypatch, where):
    """An invented device, a device under another's name, a share that was altered: the rest is the sum."""
    asking = BatchProposal(hub, batch_question(largest_cohort=8))
    await asking.opened()
    await hub.answered_by(*(hub.device(f"d{i}", 10**i, 0, 0) for i in range(3)))

    def spoil(party, parts):
        if len(parts) < 3:  # shown again
            return parts
        bad = replace(parts[1], sealed=bytes(len(parts[1].sealed)))
        if where == "one party" and party != "clinic":
            bad = parts[1]
        invented = replace(parts[0], device="e0")
        return [parts[0], bad, parts[2], invented]

    with_shares(hub, monkeypatch, spoil)
    monkeypatch.setattr(hub.process._batch_store, "names", lambda number: ["d0", "d1", "d2", "e0"])
    result = await closed_by(hub, monkeypatch, asking, reason=False)
    assert result["sum"] == [101.0, 0.0, 0.0]
    assert (result["devices"], result["left_out"]) == (2, ["d1", "e0"])


async def test_a_share_of_another_batch_is_not_counted(hub, monkeypatch):
    first = BatchProposal(hub, batch_question(largest_cohort=3))
    await first.opened()
    await hub.answered_by(hub.device("d0", 7, 7, 7), hub.device("d1", 7, 7, 7))
    second = BatchProposal(hub, batch_question(largest_cohort=8))
    second_id = await second.opened()
    old = {}
    for party in PARTIES:
        position = PARTIES.index(party)
        rows = hub.process._batch_store.answers(1, "", 10)
        old[party] = [questions.part_of(name, decode_answer(body), position, 3) for name, body in rows]
    for name in ("d2", "d3"):
        device = hub.device(name, 1, 1, 1)
        offered = await device.client.fetch(1)
        assert await device.answer(offered)
    honest = hub.process._questions["batch"].shares

    async def shares(caller, batch_id, only):
        if batch_id == second_id and not only:
            for part in old[caller.name]:
                yield part
        async for part in honest(caller, batch_id, only):
            yield part

    monkeypatch.setattr(hub.process._questions["batch"], "shares", shares)
    names = hub.process._batch_store.names
    monkeypatch.setattr(hub.process._batch_store, "names", lambda n: (["d0", "d1"] if n == 2 else []) + names(n))
    monkeypatch.setattr(hub.process._questions["batch"], "_clock", lambda: 1e11)
    result = await second.result()
    assert (result["sum"], result["left_out"]) == ([2.0, 2.0, 2.0], ["d0", "d1"])
    assert (await first.result())["sum"] == [14.0, 14.0, 14.0]


async def test_a_party_that_stops_before_the_end_is_waited_for_and_nothing_is_lost(hub, monkeypatch):
    monkeypatch.setattr(closing, "MAX_PAUSE_S", 0.1)
    asking = BatchProposal(hub, batch_question(largest_cohort=2))
    await asking.opened()
    await hub.stop_party("clinic")
    await hub.answered_by(hub.device("d0", 1, 2, 3), hub.device("d1", 1, 2, 3))
    await until(lambda: all(one.ending is not None for one in hub.process._questions["batch"]._open.values()))
    await hub.start_party("clinic")
    assert (await asking.result())["sum"] == [2.0, 4.0, 6.0]


async def test_a_party_stopped_after_another_has_closed_goes_on_with_the_same_cohort_and_no_other(hub, monkeypatch):
    """The share of one party is out when another one fails; a second list is then refused, and the first one opened."""
    monkeypatch.setattr(closing, "MAX_PAUSE_S", 0.1)
    asking = BatchProposal(hub, batch_question(largest_cohort=4, privacy=NOISY, largest=1))
    await asking.opened()
    await hub.answered_by(*(hub.device(f"d{i}", 1, 1, 1) for i in range(3)))
    store = hub.parties["clinic"]._batches._store
    honest = store.close_batch
    failed = asyncio.Event()

    def fails(digest, closed):
        hub.process._questions["batch"]._loop.call_soon_threadsafe(failed.set)
        raise ServiceError("the disk is full")

    hub.process._questions["batch"]._loop = asyncio.get_running_loop()
    monkeypatch.setattr(store, "close_batch", fails)
    monkeypatch.setattr(hub.process._questions["batch"], "_clock", lambda: 1e11)
    await failed.wait()
    digest = digest_of(hub)
    await until(lambda: hub.parties["bank"]._batches._store.find(digest).closed is not None)
    out = hub.parties["bank"]._batches._store.find(digest).closed
    assert hub.parties["bank"]._batches._store.find(digest).private is None
    monkeypatch.setattr(store, "close_batch", honest)
    result = await asking.result()
    assert result["devices"] == 3
    again = hub.parties["bank"]._batches._store.find(digest).closed
    assert (again.share, again.cohort.tolist()) == (out.share, out.cohort.tolist())


async def test_a_second_cohort_of_a_closed_batch_is_never_opened(hub):
    asking = BatchProposal(hub, batch_question(largest_cohort=3))
    await asking.opened()
    await hub.answered_by(*(hub.device(f"d{i}", 1, 1, 1) for i in range(3)))
    await asking.result()
    row = hub.process._batch_store._db.connection.execute("SELECT text FROM batches").fetchone()
    before = {name: party._batches._store.find(digest_of(hub)) for name, party in hub.parties.items()}
    clients = [BatchPartyClient(name, hub.process._parties[name].channel) for name in PARTIES]
    for client in clients:
        await client.prepare(row[0], "again")
    shares = await asyncio.gather(*(client.close(row[0], "again", 1 << 20) for client in clients))
    assert [share.share for share in shares] == [kept.closed.share for kept in before.values()]
    for client in clients:
        with pytest.raises(WrongStateError, match="was closed here before"):
            await client.open(row[0])
        with pytest.raises(AlreadyExistsError):
            await client.prepare(row[0], "again")
        with pytest.raises(WrongStateError, match="was not prepared"):
            await client.close(row[0], "unprepared", 1 << 20)


async def test_a_restarted_coordinator_goes_on_with_open_and_with_closed_batches(hub):
    asking = BatchProposal(hub, batch_question(largest_cohort=2))
    batch_id = await asking.opened()
    await hub.answered_by(hub.device("d0", 1, 1, 1))
    await hub.restart_hub()
    assert "goes on when it runs again" in await asking.reason()
    again = BatchProposal(hub, batch_id=batch_id)
    await again.opened()
    await hub.answered_by(hub.device("d1", 2, 2, 2))
    assert (await again.result())["sum"] == [3.0, 3.0, 3.0]
    assert (await BatchProposal(hub, batch_id=batch_id).result())["sum"] == [3.0, 3.0, 3.0]
    with pytest.raises(NotFoundError):
        await BatchProposal(hub, batch_id=batch_id, analyst="bob").task
    assert hub.process._batch_store.answers(1, "", 10) == [("d0", b""), ("d1", b"")]


async def test_the_coordinators_store_has_no_vector_and_no_share_in_the_clear(hub, tmp_path):
    """The bytes of a striking vector, and of its last share, are nowhere in what the coordinator keeps."""
    asking = BatchProposal(hub, batch_question(largest_cohort=2, length=3))
    await asking.opened()
    device = hub.device("d0", 777, 777, 777)
    await hub.answered_by(device)
    question = batch_question(largest_cohort=2)
    plain = question.group.pack(question.group.encode(np.array([777, 777, 777])))
    found = b"".join(path.read_bytes() for path in tmp_path.glob("*.sqlite*"))
    assert b"d0" in found
    assert plain not in found
    asking.task.cancel()


async def test_a_device_that_is_stopped_before_it_has_sent_sends_the_same_bytes_later(hub):
    asking = BatchProposal(hub, batch_question(largest_cohort=2))
    batch_id = await asking.opened()
    device = hub.device("d0", 1, 1, 1)
    offered = await fetched(device)
    body = await answer_to(offered, device)
    again: BatchDevice = replace(device, records={})  # as after a restart, whatever became of its record
    assert await answer_to(offered, again) == body
    await again.client.answer(batch_id, body)
    await hub.answered_by(hub.device("d1", 1, 1, 1))
    assert (await asking.result())["sum"] == [2.0, 2.0, 2.0]


async def test_a_party_that_has_lost_its_keys_ends_the_batch_with_that_reason(hub, monkeypatch):
    asking = BatchProposal(hub, batch_question(largest_cohort=2))
    await asking.opened()
    hub.parties["shop"]._batches._store._db.connection.execute("DELETE FROM batches")
    await hub.answered_by(hub.device("d0", 1, 1, 1), hub.device("d1", 1, 1, 1))
    assert "shop has not agreed to this batch, or has forgotten it" in await asking.reason()
