"""The committed vectors are what this code makes, and what it refuses."""

import json

import numpy as np
import pytest
import secagg_vectors
from masked_sums import PUBLIC_INPUT, make_member, values_of
from secagg_vectors import FOLDER, NOISE, ROUNDS, config_named, from_json, noise_of, to_json

import mpc.errors
import mpc.secagg.errors
from entropy import InsecureTestEntropy
from mpc.errors import ProtocolError, TooFewSharesError
from mpc.secagg.coordinator import SumCoordinator
from mpc.secagg.opened_sum import OpenedSum

BAD = sorted(path.stem for path in FOLDER.glob("bad_*.json"))
TO_COORDINATOR = [name for name in BAD if name.startswith("bad_to_coordinator_")]
TO_MEMBER = sorted(set(BAD) - set(TO_COORDINATOR))
STAGES = ("advertise", "share", "mask", "sign", "unmask")
CLOSING = (
    SumCoordinator.close_advertising,
    SumCoordinator.close_sharing,
    SumCoordinator.close_inputs,
    SumCoordinator.close_signatures,
    SumCoordinator.open_sum,
)


def load(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


def test_all_vectors_are_made_as_committed():
    made = secagg_vectors.all_vectors()
    assert sorted(made) == sorted(path.stem for path in FOLDER.glob("*.json"))
    for name, content in made.items():
        assert json.loads(json.dumps(content)) == load(name), name


@pytest.mark.parametrize("name", ROUNDS)
def test_members_answer_the_committed_messages_with_the_committed_answers(name):
    vector, config = load(f"round_{name}"), config_named(name)
    sent = vector["messages"]
    assert config.digest.hex() == vector["config_digest"]
    for me in sent["unmask"]["from"]:
        member = make_member(config, int(me))
        values = np.array(vector["vectors"][me], dtype=np.int64)
        assert to_json(member.advertise()) == sent["advertise"]["from"][me]
        assert to_json(member.share_keys(from_json(sent["advertise"]["to_all"]))) == sent["share"]["from"][me]
        noise = noise_of(int(me), member.surplus_seeds) if "noise" in vector else None
        if noise is not None:
            assert noise.tolist() == vector["noise"][me]
        delivery = from_json(sent["share"]["to"][me])
        assert to_json(member.mask_input(delivery, values, noise)) == sent["mask"]["from"][me]
        assert to_json(member.sign_survivors(from_json(sent["mask"]["to_all"]))) == sent["sign"]["from"][me]
        assert to_json(member.unmask(from_json(sent["sign"]["to_all"]))) == sent["unmask"]["from"][me]


@pytest.mark.parametrize("name", ROUNDS)
def test_the_coordinator_makes_the_committed_sum_of_the_committed_messages(name):
    vector = load(f"round_{name}")
    sent, coordinator = vector["messages"], SumCoordinator(config_named(name), PUBLIC_INPUT)
    for stage, close in (
        ("advertise", lambda: coordinator.close_advertising()[1]),
        ("share", lambda: dict(coordinator.close_sharing())),
        ("mask", coordinator.close_inputs),
        ("sign", coordinator.close_signatures),
    ):
        for message in sent[stage]["from"].values():
            coordinator.receive(from_json(message))
        assert to_json(close()) == sent[stage].get("to_all", sent[stage].get("to"))
    for message in sent["unmask"]["from"].values():
        coordinator.receive(from_json(message))
    opened = coordinator.open_sum()
    survivors = sent["mask"]["from"]
    added = [np.add(vector["vectors"][m], vector.get("noise", {}).get(m, 0)) for m in survivors]
    assert opened.integers().tolist() == vector["sum"] == np.sum(added, 0).tolist()
    assert to_json(opened.surplus_seeds) == vector["surplus_seeds"]


def test_coordinator_and_members_draw_the_removed_noise_alike():
    """From the committed seeds alone: what the coordinator takes away is what each member had added beside the rest."""
    vector = load("round_noisy")
    seeds = {int(m): tuple(map(bytes.fromhex, chain)) for m, chain in vector["surplus_seeds"].items()}
    assert {len(chain) for chain in seeds.values()} == {1}
    group = config_named("noisy").group
    total = group.encode(np.array(vector["sum"], dtype=np.int64))
    opened = OpenedSum(group, total, tuple(seeds), {}, {}, (), seeds)
    assert NOISE.remove_surplus(opened).integers().tolist() == vector["sum_after_removal"]
    bases = [NOISE.sample_part(InsecureTestEntropy(f"base noise {m}"), NOISE.base_part) for m in seeds]
    values = np.sum([vector["vectors"][str(m)] for m in seeds], 0)
    assert (values + np.sum(bases, 0)).tolist() == vector["sum_after_removal"] != vector["sum"]


def test_one_message_less_opens_nothing():
    sent, coordinator = load("round_powers")["messages"], SumCoordinator(config_named("powers"), PUBLIC_INPUT)
    for stage in ("advertise", "share", "mask", "sign"):
        for message in sent[stage]["from"].values():
            coordinator.receive(from_json(message))
        {
            "advertise": coordinator.close_advertising,
            "share": coordinator.close_sharing,
            "mask": coordinator.close_inputs,
            "sign": coordinator.close_signatures,
        }[stage]()
    for message in list(sent["unmask"]["from"].values())[1:]:
        coordinator.receive(from_json(message))
    with pytest.raises(TooFewSharesError):
        coordinator.open_sum()


@pytest.mark.parametrize("name", TO_MEMBER)
def test_a_bad_message_to_a_member_is_refused_with_the_named_error(name):
    bad, config = load(name), config_named("powers")
    sent, me = load("round_powers")["messages"], str(bad["member"])
    member = make_member(config, bad["member"])
    steps = {
        "share": (member.share_keys, sent["advertise"]["to_all"]),
        "mask": (lambda m: member.mask_input(m, values_of(bad["member"], 6)), sent["share"]["to"][me]),
        "sign": (member.sign_survivors, sent["mask"]["to_all"]),
        "unmask": (member.unmask, sent["sign"]["to_all"]),
    }
    for stage, (answer, good) in steps.items():
        if stage == bad["stage"]:
            break
        answer(from_json(good))
    with pytest.raises(ProtocolError) as caught:
        answer(from_json(bad["message"]))
    assert type(caught.value) is getattr(mpc.secagg.errors, bad["error"])
    assert from_json(bad["message"]) != from_json(good)


@pytest.mark.parametrize("name", TO_COORDINATOR)
def test_a_bad_message_to_the_coordinator_is_refused_with_the_named_error_and_changes_nothing(name):
    bad = load(name)
    sent = load(f"round_{bad['round']}")["messages"]
    coordinator = SumCoordinator(config_named(bad["round"]), PUBLIC_INPUT)
    closing = dict(zip(STAGES, CLOSING, strict=True))
    for stage in STAGES[: STAGES.index(bad["stage"])]:
        for message in sent[stage]["from"].values():
            coordinator.receive(from_json(message))
        closing[stage](coordinator)
    waiting = coordinator.waiting_for()
    with pytest.raises(ProtocolError) as caught:
        coordinator.receive(from_json(bad["message"]))
    assert type(caught.value) is (getattr(mpc.secagg.errors, bad["error"], None) or getattr(mpc.errors, bad["error"]))
    assert caught.value.member == bad["message"]["member"]
    assert coordinator.waiting_for() == waiting
    for message in sent[bad["stage"]]["from"].values():
        assert from_json(message) != from_json(bad["message"])
        coordinator.receive(from_json(message))


def test_there_are_bad_messages_of_every_stage_and_type():
    assert {load(name)["stage"] for name in TO_MEMBER} == set(STAGES[1:])
    assert {load(name)["stage"] for name in TO_COORDINATOR} == set(STAGES)
    assert {load(name)["message"]["type"] for name in BAD} == set(secagg_vectors.TYPES)
