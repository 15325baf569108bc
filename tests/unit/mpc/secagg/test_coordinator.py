"""The coordinator's machine: repetitions, late and wrong messages, lies about shares."""

from dataclasses import replace

import numpy as np
import pytest
from masked_sums import PUBLIC_INPUT, OpenRound, exact_sum, identity_of, make_config, make_member, retried

from mpc.errors import LocalFaultError, PeerViolationError
from mpc.secagg.config import Topology
from mpc.secagg.coordinator import SumCoordinator
from mpc.secagg.errors import (
    ContradictoryMessageError,
    DifferentConfigurationError,
    DifferentInputError,
    ForgedSignatureError,
    InvalidSetError,
    LateMessageError,
    RoundAbortedError,
    SplitMembersError,
    SplitSurvivorsError,
    TooFewMembersError,
    WrongNeighboursError,
    WrongRoundError,
    WrongSharesError,
)
from mpc.secagg.member.context import MemberContext
from mpc.secagg.stage import Stage

STAGES = ("advertise", "share", "mask", "sign", "unmask")
SENT = {"advertise": "advertisements", "share": "sealed", "mask": "masked", "sign": "signatures", "unmask": "unmasking"}


def changed(message):
    """The same member's message with other content."""
    field = {
        "Advertisement": "mask_public",
        "SealedShares": "transcript",
        "MaskedInput": "elements",
        "SurvivorSignature": "signature",
        "UnmaskingShares": "seed_shares",
    }[type(message).__name__]
    value = getattr(message, field)
    return replace(message, **{field: value[::-1] if isinstance(value, bytes) else {}})


@pytest.mark.parametrize("stage", STAGES[:4])
def test_repeated_messages_change_nothing_even_when_their_stage_is_over(stage):
    round_ = OpenRound().up_to(stage)
    for message in getattr(round_, SENT[stage]).values():
        round_.coordinator.receive(message)
    for following in STAGES[STAGES.index(stage) + 1 : -1]:
        getattr(round_, following)()
    assert np.array_equal(round_.unmask().integers(), exact_sum(range(1, 6)))


@pytest.mark.parametrize("stage", STAGES[:4])
def test_a_second_different_message_is_refused(stage):
    round_ = OpenRound().up_to(stage)
    with pytest.raises(ContradictoryMessageError, match="party-2 sent a second, different answer"):
        round_.coordinator.receive(changed(getattr(round_, SENT[stage])[2]))


@pytest.mark.parametrize("stage", STAGES[:4])
def test_the_first_message_of_a_member_is_refused_when_its_stage_is_over(stage):
    round_ = OpenRound()
    for name in STAGES[: STAGES.index(stage)]:
        getattr(round_, name)()
    complete = OpenRound().up_to(stage)
    getattr(round_, stage)(dropped_out={5})
    with pytest.raises(LateMessageError, match=r"party-5 answered at the stage .* when it was over"):
        round_.coordinator.receive(getattr(complete, SENT[stage])[5])


def test_a_message_of_a_later_stage_is_refused():
    round_ = OpenRound().up_to("mask")
    early = OpenRound().coordinator
    with pytest.raises(LocalFaultError, match="masked input arrived while the round is at stage advertise keys"):
        early.receive(round_.masked[1])


@pytest.mark.parametrize("stage", STAGES[:4])
def test_messages_of_another_attempt_and_of_strangers_are_refused(stage):
    round_ = OpenRound()
    for name in STAGES[: STAGES.index(stage)]:
        getattr(round_, name)()
    other = OpenRound(retried(make_config())).up_to(stage)
    message = getattr(other, SENT[stage])[3]
    with pytest.raises(WrongRoundError):
        round_.coordinator.receive(message)
    stranger = replace(message, round_id=round_.config.round_id, member=17)
    with pytest.raises(InvalidSetError, match="member 17 does not take part"):
        round_.coordinator.receive(stranger)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"signature": bytes(64)}, ForgedSignatureError),
        ({"mask_public": bytes([9] * 32)}, ForgedSignatureError),
    ],
)
def test_advertisements_that_members_would_refuse_are_not_taken(change, error):
    ad = make_member(make_config(), 2).advertise()
    with pytest.raises(error):
        SumCoordinator(make_config(), PUBLIC_INPUT).receive(replace(ad, **change))


@pytest.mark.parametrize(("name", "value"), [("seed_digest", b"short"), ("surplus_anchor", bytes(32))])
def test_commitments_of_a_wrong_length_are_not_taken(name, value):
    ad = replace(make_member(make_config(), 2).advertise(), **{name: value})
    ad = replace(ad, signature=identity_of(2).sign(ad.signed_bytes()))
    with pytest.raises(PeerViolationError, match="party-2 advertised commitments of a wrong length"):
        SumCoordinator(make_config(), PUBLIC_INPUT).receive(ad)


def test_members_with_another_configuration_or_input_do_not_take_part():
    coordinator = SumCoordinator(make_config(), PUBLIC_INPUT)
    with pytest.raises(DifferentConfigurationError):
        coordinator.receive(make_member(make_config(vector="other"), 2).advertise())
    with pytest.raises(DifferentInputError):
        coordinator.receive(make_member(make_config(), 2, public_input=b"other").advertise())
    assert coordinator.waiting_for() == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda s: {"transcript": bytes(32)}, SplitMembersError),
        (lambda s: {"sealed": {j: c for j, c in s.sealed.items() if j != 1}}, WrongNeighboursError),
        (lambda s: {"sealed": {**s.sealed, 3: b"x"}}, WrongNeighboursError),
        (lambda s: {"sealed": {**s.sealed, 1: b"x"}}, PeerViolationError),
    ],
)
def test_sealed_shares_of_wrong_shape_are_not_taken(change, error):
    round_ = OpenRound().up_to("advertise")
    shares = round_.members[3].share_keys(round_.member_list)
    with pytest.raises(error) as caught:
        round_.coordinator.receive(replace(shares, **change(shares)))
    assert caught.value.member == 3
    round_.coordinator.receive(shares)


@pytest.mark.parametrize("elements", [b"", bytes(29), bytes(31)])
def test_masked_vectors_of_another_length_are_not_taken(elements):
    round_ = OpenRound().up_to("share")
    masked = round_.members[3].mask_input(round_.deliveries[3], np.zeros(12, dtype=np.int64))
    assert len(masked.elements) == 30
    with pytest.raises(PeerViolationError, match="party-3 sent an invalid masked vector"):
        round_.coordinator.receive(replace(masked, elements=elements))


def test_signatures_of_another_set_or_another_hand_are_not_taken():
    round_ = OpenRound().up_to("mask")
    signature = round_.members[3].sign_survivors(round_.survivors)
    with pytest.raises(SplitSurvivorsError, match="party-3"):
        round_.coordinator.receive(replace(signature, set_digest=bytes(32)))
    with pytest.raises(ForgedSignatureError, match="party-3"):
        round_.coordinator.receive(replace(signature, signature=bytes(64)))


@pytest.mark.parametrize(
    "change",
    [
        lambda s: {"seed_shares": {**s.seed_shares, 5: s.seed_shares[1]}},
        lambda s: {"key_shares": {}},
        lambda s: {"key_shares": {**s.key_shares, 1: s.key_shares[5]}},
        lambda s: {"surplus_shares": {1: s.seed_shares[1]}},
        lambda s: {"seed_shares": {**s.seed_shares, 1: b"x"}},
    ],
)
def test_other_shares_than_those_due_are_not_taken(change):
    round_ = OpenRound()
    round_.advertise()
    round_.share()
    round_.mask(dropped_out={5})
    round_.sign()
    shares = round_.members[3].unmask(round_.signed)
    with pytest.raises(PeerViolationError, match="party-3 released") as caught:
        round_.coordinator.receive(replace(shares, **change(shares)))
    assert caught.value.member == 3


def unmask_with_lies(config, liars):
    """All but member 5 survive; the liars add one to every share that they release."""
    round_ = OpenRound(config)
    round_.advertise()
    round_.share()
    round_.mask(dropped_out={5})
    round_.sign()

    def lie(shares):
        return {j: (int.from_bytes(s, "big") ^ 1).to_bytes(33, "big") for j, s in shares.items()}

    for m in sorted(round_.coordinator.waiting_for()):
        shares = round_.members[m].unmask(round_.signed)
        if m in liars:
            shares = replace(
                shares,
                seed_shares=lie(shares.seed_shares),
                key_shares=lie(shares.key_shares),
                surplus_shares=lie(shares.surplus_shares),
            )
        round_.coordinator.receive(shares)
    return round_.coordinator.open_sum()


def test_a_holder_that_lies_is_named_and_the_sum_is_right():
    config = make_config(7, surplus_levels=(4, 5, 6, 7))
    opened = unmask_with_lies(config, {2})
    assert opened.liars == (2,)
    assert np.array_equal(opened.integers(), exact_sum((1, 2, 3, 4, 6, 7)))
    assert set(opened.surplus_seeds) == {1, 2, 3, 4, 6, 7}


def test_lies_without_spare_shares_open_nothing():
    with pytest.raises(WrongSharesError, match="do not recombine to the secret that it committed to"):
        unmask_with_lies(make_config(5, topology=Topology.complete(5, 0, 4)), {1, 2})


def test_members_get_as_many_signatures_as_they_ask_for_and_all_that_signed_are_asked_for_shares():
    """Each signature goes to everybody, and is checked by everybody; more of them would prove nothing more."""
    round_ = OpenRound(make_config(9, topology=Topology.complete(9, 1)))
    round_.advertise()
    round_.share()
    round_.mask(dropped_out={2})
    round_.sign(dropped_out={3})
    signers = {1, 4, 5, 6, 7, 8, 9}
    assert round_.config.topology.n_signatures == 6
    assert [one.member for one in round_.signed.signatures] == [1, 4, 5, 6, 7, 8]
    assert round_.coordinator.waiting_for() == signers
    assert np.array_equal(round_.unmask().integers(), exact_sum(signers | {3}))


def test_stages_are_closed_in_order_and_an_aborted_round_takes_nothing():
    round_ = OpenRound()
    with pytest.raises(LocalFaultError, match="cannot be closed"):
        round_.advertise() and round_.coordinator.close_advertising()
    with pytest.raises(TooFewMembersError):
        round_.coordinator.close_sharing()
    assert round_.coordinator.stage is Stage.ABORTED
    for refused in (
        lambda: round_.coordinator.receive(round_.advertisements[1]),
        round_.coordinator.close_sharing,
    ):
        with pytest.raises(RoundAbortedError, match="only 0 members answered at stage share keys, but"):
            refused()


def test_it_says_for_whom_it_waits():
    round_ = OpenRound()
    assert round_.coordinator.waiting_for() == {1, 2, 3, 4, 5}
    round_.coordinator.receive(round_.members[2].advertise())
    assert round_.coordinator.waiting_for() == {1, 3, 4, 5}
    round_.advertise(dropped_out={4})
    assert round_.coordinator.waiting_for() == {1, 2, 3, 5}
    round_.share()
    round_.mask()
    round_.sign()
    round_.unmask()
    assert round_.coordinator.waiting_for() == frozenset()


def test_a_stage_has_its_quorum_when_the_round_can_go_on_without_those_that_are_missing():
    held = OpenRound(make_config(7, topology=Topology.complete(7, 1)))
    fewest = held.config.topology.fewest_survivors
    assert fewest == 5
    messages = {m: member.advertise() for m, member in held.members.items()}
    for n, message in enumerate(messages.values(), start=1):
        assert held.coordinator.n_missing == len(held.coordinator.waiting_for()) == 8 - n
        held.coordinator.receive(message)
        assert held.coordinator.has_quorum() is (n >= fewest)
    held.coordinator.close_advertising()
    assert not held.coordinator.has_quorum()


@pytest.mark.parametrize("topology", [Topology.complete(9, 1), Topology.ring(130, 6, 6)])
def test_the_last_stage_has_its_quorum_when_every_secret_can_be_opened(topology, monkeypatch):
    monkeypatch.setattr(MemberContext, "check_signature", lambda *_: None)  # 130 members check those of all: seconds
    held = OpenRound(make_config(topology.n_members, topology=topology)).up_to("advertise")
    held.share()
    held.mask(dropped_out=(2,))
    held.sign()
    graph, counts = held.coordinator._graph, dict.fromkeys(held.deliveries, 0)
    for m in held.survivors.survivors:
        assert held.coordinator.has_quorum() is (min(counts.values()) >= topology.n_required)
        held.coordinator.receive(held.members[m].unmask(held.signed))
        for owner in graph.holders(m) & counts.keys():
            counts[owner] += 1
    assert held.coordinator.has_quorum()
    assert np.array_equal(held.coordinator.open_sum().integers(), exact_sum(held.survivors.survivors))


def test_a_round_is_infeasible_when_more_have_declined_than_may_drop_out():
    held = OpenRound(make_config(7, topology=Topology.complete(7, 1)))
    assert [held.coordinator.is_infeasible(n) for n in range(5)] == [False, False, False, True, True]
    held.advertise()
    assert not held.coordinator.is_infeasible(7)
