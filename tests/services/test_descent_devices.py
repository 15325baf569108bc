"""The form sgd over devices by real gRPC: coins that nobody sees, devices that drop out and return, lies about V."""

import json

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
from sum_federation import answer_of, sum_federation

from analyses.matrix_factorization.jobs.earlier import digest_of_model
from device.budget import series_charge_id
from device.models import KeptModel, newest_model
from device.ratings import KeptRatings
from device.recommend import recommended_items
from ledger.books import JobState
from service.errors import InvalidRequestError
from service.identity import Role
from transport.happenings import Result, Retried, StageReport
from transport.question_client import ask

T, K = 4, 2


def paid(device):
    standing = device.budget.standing()
    return standing["committed_jobs"], standing["reserved_jobs"]


async def test_the_model_is_that_of_one_process_bit_for_bit_though_devices_drop_out_and_return(tmp_path, monkeypatch):
    """walker-2 is stopped within round 1 and started again; walker-4 goes between rounds 0 and 1, for good."""
    contributions = Contributions(monkeypatch)
    asked = descent_question(stage_s=SKIPPED_S)
    async with sum_federation(tmp_path) as federation:
        records, devices = made_up_records(federation.names), {}

        async def start_again():
            await federation.kill("walker-2")
            devices["walker-2"] = await answering(federation, "walker-2", records["walker-2"])
            federation.start(devices["walker-2"])

        await start_all(federation, records, without=("walker-1", "walker-2", "walker-4"))
        stopped = StoppedBefore(federation, "walker-2", await federation.client("walker-2"), 1, start_again)
        gone = GoneAfter(federation, "walker-4", await federation.client("walker-4"), 0)
        for name, client in (("walker-1", None), ("walker-2", stopped), ("walker-4", gone)):
            devices[name] = await answering(federation, name, records[name], **({"client": client} if client else {}))
            federation.start(devices[name])
        answer = answer_of((await ask_factors(federation, asked))[-1])
        assert rounds_in(answer) == [
            list(federation.names),
            ["walker-1", "walker-3", "walker-5"],
            ["walker-1", "walker-2", "walker-3", "walker-5"],
            ["walker-1", "walker-2", "walker-3", "walker-5"],
        ]
        reference = contributions.reference(asked, records, rounds_in(answer))
        assert answer["vectors"] == reference.vectors_q.tolist()
        assert set(answer["offsets"]) == {0}
        assert (answer["form"], answer["centre"], answer["largest"]) == ("sgd", -3.0, 6)
        # The coin of the vector that never arrived is not thrown again, and all coins are thrown with one key.
        of_two = [contributions.coins["walker-2", number] for number in range(T)]
        assert [coins.n_before for coins in of_two] == [0, 1, 2, 3]
        assert len({coins.key for coins in of_two}) == 1
        await until(lambda: all(list((tmp_path / n / "models").glob("[!.]*")) for n in ("walker-1", "walker-2")))
        await until(lambda: paid(devices["walker-2"])[1] == 0)
        assert (paid(devices["walker-1"]), paid(devices["walker-2"])) == ((K, 0), (K, 0))
        for name in ("walker-1", "walker-2"):
            kept = newest_model(tmp_path / name, "films")
            assert np.array_equal(kept.model.vectors_q, reference.vectors_q)
            own = KeptRatings(DECLARED, lambda name=name: records[name])
            found = recommended_items(own, kept, top=3)
            assert found == recommended_items(own, KeptModel.from_tree(answer), top=3)
            assert not {one.item for one in found} & set(records[name].items)


async def test_too_few_in_a_later_round_end_the_series_with_the_last_opened_model(tmp_path, monkeypatch):
    contributions = Contributions(monkeypatch)
    asked = descent_question(stage_s=SKIPPED_S, attempts=2)
    async with sum_federation(tmp_path) as federation:
        records = made_up_records(federation.names)
        for place, name in enumerate(federation.names):
            client = await federation.client(name)
            client = GoneAfter(federation, name, client, 1) if place < 3 else client
            federation.start(await answering(federation, name, records[name], client=client))
        heard = await ask_factors(federation, asked)
        answer = answer_of(heard[-1])
        assert [type(h) for h in heard if not isinstance(h, StageReport)] == [Retried, Result]
        assert rounds_in(answer) == [list(federation.names)] * 2
        reference = contributions.reference(asked, records, rounds_in(answer))
        assert answer["vectors"] == reference.vectors_q.tolist()
        await until(lambda: list((tmp_path / "walker-5" / "models").glob("[!.]*.json")))
        assert np.array_equal(newest_model(tmp_path / "walker-5", "films").model.vectors_q, reference.vectors_q)


def negative(inputs):
    return inputs[1][:-4] + b"\xff\xff\xff\xff"


def too_long(inputs):
    return inputs[1][:-4] + (3 * 4096).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("change", "number", "words"),
    [
        (other_value, 1, "public input that differs from ours"),
        (lambda inputs: inputs[1], 2, "broadcast the offsets and vectors of another round"),
        (negative, 1, "an embedding that is negative or too long"),
        (too_long, 1, "an embedding that is negative or too long"),
    ],
    ids=["another V", "V of another round", "negative", "too long"],
)
async def test_a_device_that_is_sent_another_model_leaves_before_its_coin_is_thrown(
    tmp_path, capsys, monkeypatch, change, number, words
):
    contributions = Contributions(monkeypatch)
    async with sum_federation(tmp_path) as federation:
        records = made_up_records(federation.names)
        await start_all(federation, records, without=("walker-1",))
        client = Deceived(await federation.client("walker-1"), change, number)
        device = await answering(federation, "walker-1", records["walker-1"], client=client)
        federation.start(device)
        answer = answer_of((await ask_factors(federation, descent_question(stage_s=SKIPPED_S)))[-1])
        assert ("walker-1", number) not in contributions.of
        assert contributions.coins["walker-1", number + 1].n_before == number  # it is in the next round, and has paid
        charge = device.budget._ledger.charge(series_charge_id(next(r.session for _, r in federation.left), "1-0"))
        assert charge.state is JobState.COMMITTED
        assert "walker-1" in answer["rounds"][-1]["survivors"]
    assert words in capsys.readouterr().out


async def test_what_the_series_costs_is_held_before_the_first_message_and_paid_before_each_vector(tmp_path):
    async with sum_federation(tmp_path) as federation:
        assert await standings_before_messages(federation, descent_question()) == [
            ("Advertisement", 0, 2),
            ("MaskedInput", 1, 1),
            ("Advertisement", 1, 1),
            ("MaskedInput", 2, 0),
            ("Advertisement", 2, 0),
            ("MaskedInput", 2, 0),
            ("Advertisement", 2, 0),
            ("MaskedInput", 2, 0),
        ]


@pytest.mark.parametrize("field", ["features", "start"])
async def test_features_and_a_start_are_refused_by_name_before_any_device_hears_of_the_question(tmp_path, field):
    """As a program would send it that does not check what it sends."""
    asked = json.loads(descent_question().canonical_json())
    model = {"of": "items", "items_digest": asked["items_digest"], "parties": [], "offsets": [0] * N_ITEMS}
    model |= {"vectors": [[0, 0]] * N_ITEMS, "units": 4096, "centre": 0.0, "bounds": [-3.0, 3.0]}
    asked[field] = FEATURES if field == "features" else model | {"digest": digest_of_model(model)}
    async with sum_federation(tmp_path) as federation, federation.channel(Role.ANALYST, "ada") as channel:
        await start_all(federation, made_up_records(federation.names))
        with pytest.raises(InvalidRequestError, match=f'{field}: the form "sgd" has no such parameter'):
            _ = [happening async for happening in ask("hub", channel, "sum", json.dumps(asked))]
        assert federation.left == set()
