"""A matrix factorization over devices by real gRPC: rounds in a row, devices that drop out and return, lies about V."""

from dataclasses import replace

import numpy as np
import pytest
from deadlines import SKIPPED_S, until
from factor_devices import (
    DECLARED,
    FEATURES,
    N_ITEMS,
    Contributions,
    ask_factors,
    descent_question,
    factor_question,
    made_up_records,
    rounds_in,
)
from factor_members import (
    Deceived,
    GoneAfter,
    StoppedBefore,
    answering,
    other_value,
    standings_before_messages,
    start_all,
)
from sum_federation import answer_of, reason_of, sum_federation

from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.devices.record import RatedItems
from analyses.matrix_factorization.jobs.earlier import start_of
from analyses.matrix_factorization.serving.new_items import NewItems
from device.budget import series_charge_id
from device.models import KeptModel, newest_model
from device.ratings import KeptRatings
from device.recommend import recommended_items
from ledger.books import JobState
from mpc.secagg.coordinator.collecting_advertisements import CollectingAdvertisements
from transport.happenings import Result, Retried, StageReport


async def test_the_model_is_that_of_one_process_bit_for_bit_though_devices_drop_out_and_return(tmp_path, monkeypatch):
    """walker-2 is stopped within round 1 and started again; walker-4 goes between rounds 0 and 1, for good."""
    contributions = Contributions(monkeypatch)
    asked = factor_question(stage_s=SKIPPED_S)
    async with sum_federation(tmp_path) as federation:
        records = made_up_records(federation.names)

        async def start_again():
            await federation.kill("walker-2")
            federation.start(await answering(federation, "walker-2", records["walker-2"]))

        await start_all(federation, records, without=("walker-2", "walker-4"))
        stopped = StoppedBefore(federation, "walker-2", await federation.client("walker-2"), 1, start_again)
        gone = GoneAfter(federation, "walker-4", await federation.client("walker-4"), 0)
        for name, client in (("walker-2", stopped), ("walker-4", gone)):
            federation.start(await answering(federation, name, records[name], client=client))
        heard = await ask_factors(federation, asked)
        answer = answer_of(heard[-1])
        assert [r.stage for r in heard[:2]] == ["advertise keys, round 0", "share keys, round 0"]
        assert rounds_in(answer) == [
            list(federation.names),
            ["walker-1", "walker-3", "walker-5"],
            ["walker-1", "walker-2", "walker-3", "walker-5"],
        ]
        assert answer["rounds"][1]["vanished"] == {"walker-2": "masked input", "walker-4": "advertise keys"}
        reference = contributions.reference(asked, records, rounds_in(answer))
        assert_same(answer, reference)
        assert answer["ended_early_because"] is None
        for name in ("walker-1", "walker-2"):
            await until(lambda name=name: list((tmp_path / name / "models").glob("[!.]*.json")))
            assert np.array_equal(newest_model(tmp_path / name, "films").model.vectors_q, reference.vectors_q)


async def test_features_and_a_start_from_an_answer_reach_devices_that_drop_out_and_cost_as_a_question_without(
    tmp_path, monkeypatch
):
    """walker-4 goes within the first question. Before the second all records are replaced by one new rating each."""
    asked = factor_question(stage_s=SKIPPED_S, features=FEATURES, rounds=1)
    async with sum_federation(tmp_path) as federation:
        records, devices = made_up_records(federation.names), {}
        for name in federation.names:
            client = await federation.client(name)
            client = GoneAfter(federation, name, client, 0) if name == "walker-4" else client
            device = await answering(federation, name, records[name], client=client)
            kept = KeptRatings(DECLARED, lambda name=name: records[name])
            devices[name] = replace(device, factors=replace(device.factors, ratings={"films": kept}))
            federation.start(devices[name])
        left = [name for name in federation.names if name != "walker-4"]
        contributions = Contributions(monkeypatch)
        first = answer_of((await ask_factors(federation, asked))[-1])
        assert rounds_in(first) == [list(federation.names), left]
        assert_same(first, contributions.reference(asked, records, rounds_in(first)))
        await until(lambda: list((tmp_path / "walker-1" / "models").glob("[!.]*.json")))
        new = {"top": N_ITEMS + 1, "new": NewItems(("new",), np.array([[1.0, 0.0]]))}
        kept = devices["walker-1"].factors.ratings["films"]
        found = recommended_items(kept, newest_model(tmp_path / "walker-1", "films"), **new)
        assert "new" in {one.item for one in found}
        assert found == recommended_items(kept, KeptModel.from_tree(first), **new)

        later = factor_question(stage_s=SKIPPED_S, rounds=1, features=FEATURES, start=start_of(first))
        records |= dict.fromkeys(federation.names, RatedItems(("3",), np.array([2.0])))
        second = answer_of((await ask_factors(federation, later))[-1])
        assert rounds_in(second) == [left, left]
        assert_same(second, contributions.reference(later, records, rounds_in(second)))
        plain = rounds_of(factor_question(rounds=1), 5).privacy_report()
        assert first["privacy"] == second["privacy"] == plain
        standing = devices["walker-1"].budget.standing()
        assert (standing["committed_jobs"], standing["reserved_jobs"]) == (4, 0)


def assert_same(answer, reference):
    """The model of an answer is that of one process, bit for bit."""
    assert (answer["offsets"], answer["vectors"]) == (reference.offsets_q.tolist(), reference.vectors_q.tolist())


async def test_too_few_in_a_later_round_end_the_series_with_the_last_opened_model(tmp_path, monkeypatch):
    contributions = Contributions(monkeypatch)
    asked = factor_question(stage_s=SKIPPED_S, attempts=2)
    async with sum_federation(tmp_path) as federation:
        records = made_up_records(federation.names)
        devices = {}
        for place, name in enumerate(federation.names):
            client = await federation.client(name)
            client = GoneAfter(federation, name, client, 1) if place < 3 else client
            devices[name] = await answering(federation, name, records[name], client=client)
            federation.start(devices[name])
        heard = await ask_factors(federation, asked)
        answer = answer_of(heard[-1])
        assert [type(h) for h in heard if not isinstance(h, StageReport)] == [Retried, Result]
        assert rounds_in(answer) == [list(federation.names)] * 2
        assert "only 2 members answered at stage advertise keys" in answer["ended_early_because"]
        reference = contributions.reference(asked, records, rounds_in(answer))
        assert answer["vectors"] == reference.vectors_q.tolist()
        await until(lambda: list((tmp_path / "walker-5" / "models").glob("[!.]*.json")))
        assert np.array_equal(newest_model(tmp_path / "walker-5", "films").model.vectors_q, reference.vectors_q)
        standing = devices["walker-5"].budget.standing()
        assert (standing["committed_jobs"], standing["reserved_jobs"]) == (2, 0)


async def test_too_few_in_the_first_round_are_a_failure(tmp_path):
    async with sum_federation(tmp_path) as federation:
        await start_all(federation, made_up_records(federation.names), without=federation.names[1:])
        heard = await ask_factors(federation, factor_question(stage_s=SKIPPED_S))
        assert "only 1 members answered at stage advertise keys" in reason_of(heard[-1])


@pytest.mark.parametrize(
    ("change", "number", "words"),
    [
        (other_value, 1, "public input that differs from ours"),
        (lambda inputs: inputs[1], 2, "broadcast the offsets and vectors of another round"),
        (lambda inputs: inputs[1][:-4] + b"\xff\xff\xff\x7f", 1, "not on the plan's lattice"),
        (lambda inputs: inputs[1][:-4], 1, "cannot be read"),
    ],
    ids=["another V", "V of another round", "off the lattice", "cut off"],
)
async def test_a_device_that_is_sent_another_model_leaves_before_its_record_is_read(
    tmp_path, capsys, monkeypatch, change, number, words
):
    contributions = Contributions(monkeypatch)
    async with sum_federation(tmp_path) as federation:
        records = made_up_records(federation.names)
        await start_all(federation, records, without=("walker-1",))
        client = Deceived(await federation.client("walker-1"), change, number)
        device = await answering(federation, "walker-1", records["walker-1"], client=client)
        federation.start(device)
        await ask_factors(federation, factor_question(stage_s=SKIPPED_S))
        await until(lambda: any(r.number == number for n, r in federation.left if n == "walker-1"))
        assert ("walker-1", number) not in contributions.of
        session = next(r.session for _, r in federation.left)
        charge = device.budget._ledger.charge(series_charge_id(session, f"{number}-0"))
        assert charge.state is not JobState.COMMITTED
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("asked", [factor_question, descent_question], ids=["statistics", "sgd"])
async def test_no_vector_leaves_anybody_where_a_coordinator_sends_one_member_another_model(
    tmp_path, capsys, monkeypatch, asked
):
    """The coordinator does not mind: the members find out by the digests that each has signed."""
    receive = CollectingAdvertisements.receive

    def look_away(stage, ad):
        stage.input_digest = ad.input_digest
        receive(stage, ad)

    monkeypatch.setattr(CollectingAdvertisements, "receive", look_away)
    contributions = Contributions(monkeypatch)
    async with sum_federation(tmp_path) as federation:
        records = made_up_records(federation.names)
        await start_all(federation, records, without=("walker-1",))
        client = Deceived(await federation.client("walker-1"), other_value, 1)
        federation.start(await answering(federation, "walker-1", records["walker-1"], client=client))
        answer = answer_of((await ask_factors(federation, asked(stage_s=SKIPPED_S)))[-1])
    assert len(answer["rounds"]) == 1
    assert {number for _, number in contributions.of} == {0}
    assert capsys.readouterr().out.count("has signed a public input that differs from ours") == 5


async def test_all_rounds_are_held_before_the_first_message_and_each_is_committed_before_its_vector(tmp_path):
    async with sum_federation(tmp_path) as federation:
        assert await standings_before_messages(federation, factor_question()) == [
            ("Advertisement", 0, 3),
            ("MaskedInput", 1, 2),
            ("Advertisement", 1, 2),
            ("MaskedInput", 2, 1),
            ("Advertisement", 2, 1),
            ("MaskedInput", 3, 0),
        ]
        assert rounds_of(factor_question(), 5).n_rounds == 3
