"""The member's machine: repetitions are answered alike, contradictions never."""

from dataclasses import replace

import numpy as np
import pytest
from masked_sums import PUBLIC_INPUT, OpenRound, entropy_of, make_config, make_member, values_of

from entropy import SystemEntropy
from mpc.errors import PeerViolationError, ShapeError
from mpc.secagg.config import Topology, input_digest
from mpc.secagg.errors import (
    ContradictoryMessageError,
    InvalidSetError,
    OutOfOrderError,
    RoundAbortedError,
    TooFewMembersError,
    UnopenableShareError,
    WrongNeighboursError,
)
from mpc.secagg.graph import Neighbourhood
from mpc.secagg.member import awaiting_members
from mpc.secagg.member.held_shares import SHARE_KIND
from mpc.secagg.member_tree import MemberTree
from mpc.secagg.messages import MemberList, NeighbourList, ShareDelivery, SurvivorList, ring_transcript
from mpc.secagg.secret.keys import RoundKey, SealedChannel

ME = 2


def steps(round_):
    member = round_.members[ME]
    return {
        "advertise": member.advertise,
        "share": lambda: member.share_keys(round_.member_list),
        "mask": lambda: member.mask_input(round_.deliveries[ME], values_of(ME)),
        "sign": lambda: member.sign_survivors(round_.survivors),
        "unmask": lambda: member.unmask(round_.signed),
    }


@pytest.mark.parametrize("last", ["advertise", "share", "mask", "sign", "unmask"])
def test_a_repeated_message_gets_the_same_answer_at_any_later_time(last):
    round_ = OpenRound().up_to(last)
    first = {
        "advertise": "advertisements",
        "share": "sealed",
        "mask": "masked",
        "sign": "signatures",
        "unmask": "unmasking",
    }
    for name, again in steps(round_).items():
        assert again() == getattr(round_, first[name])[ME]
        if name == last:
            break


def test_a_repetition_with_another_vector_gets_the_first_answer():
    round_ = OpenRound().up_to("mask")
    again = round_.members[ME].mask_input(round_.deliveries[ME], np.zeros(12, dtype=np.int64))
    assert again == round_.masked[ME]


@pytest.mark.parametrize("name", ["share", "mask", "sign", "unmask"])
def test_another_message_in_an_answered_stage_aborts(name):
    round_ = OpenRound().up_to("unmask")
    member = round_.members[ME]
    other = {
        "share": lambda: member.share_keys(MemberList(round_.config.round_id, round_.member_list.advertisements[:-1])),
        "mask": lambda: member.mask_input(replace(round_.deliveries[ME], sharers=(1, 2, 3)), values_of(ME)),
        "sign": lambda: member.sign_survivors(replace(round_.survivors, survivors=(1, 2, 3))),
        "unmask": lambda: member.unmask(replace(round_.signed, signatures=round_.signed.signatures[:-1])),
    }
    with pytest.raises(ContradictoryMessageError):
        other[name]()


def test_shares_may_be_checked_before_there_is_a_vector_to_mask():
    round_ = OpenRound().up_to("share")
    for _ in range(2):
        round_.members[ME].check_shares(round_.deliveries[ME])
    masked = round_.members[ME].mask_input(round_.deliveries[ME], values_of(ME))
    round_.members[ME].check_shares(round_.deliveries[ME])  # a repetition, which `mask_input` answers
    assert round_.members[ME].mask_input(round_.deliveries[ME], values_of(ME)) == masked


def altered(delivery):
    return replace(delivery, sealed={j: bytes([sealed[0] ^ 1]) + sealed[1:] for j, sealed in delivery.sealed.items()})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (altered, UnopenableShareError),
        (lambda delivery: replace(delivery, sharers=(1, 2)), TooFewMembersError),
        (lambda delivery: replace(delivery, sealed={}), WrongNeighboursError),
    ],
)
def test_a_delivery_that_cannot_be_masked_for_is_refused_when_it_is_checked_and_the_member_is_aborted(change, error):
    round_ = OpenRound().up_to("share")
    member = round_.members[ME]
    with pytest.raises(error):
        member.check_shares(change(round_.deliveries[ME]))
    with pytest.raises(RoundAbortedError):
        member.mask_input(round_.deliveries[ME], values_of(ME))


def test_shares_are_checked_in_their_turn():
    round_ = OpenRound().up_to("advertise")
    delivery = OpenRound().up_to("share").deliveries[ME]
    with pytest.raises(OutOfOrderError):
        round_.members[ME].check_shares(delivery)
    with pytest.raises(RoundAbortedError):
        round_.members[ME].check_shares(delivery)


@pytest.mark.parametrize("numbers", [(1, 2, 3, 3), (3, 2, 1), (1, 2, 2)])
def test_sets_out_of_order_or_with_repetitions_are_refused(numbers):
    round_ = OpenRound().up_to("mask")
    with pytest.raises(InvalidSetError, match="survivors are out of order"):
        round_.members[ME].sign_survivors(replace(round_.survivors, survivors=numbers))


def test_too_few_members_are_refused():
    round_ = OpenRound().up_to("advertise")
    with pytest.raises(TooFewMembersError, match="only 2 members are left, but this round needs 3"):
        round_.members[ME].share_keys(MemberList(round_.config.round_id, round_.member_list.advertisements[:2]))


def test_a_list_with_other_keys_under_our_name_is_refused():
    round_ = OpenRound().up_to("advertise")
    other = make_member(round_.config, ME, entropy=SystemEntropy()).advertise()
    shown = tuple(other if ad.member == ME else ad for ad in round_.member_list.advertisements)
    with pytest.raises(InvalidSetError, match="keys that we never advertised"):
        round_.members[ME].share_keys(MemberList(round_.config.round_id, shown))


@pytest.mark.parametrize("plaintext", [b"short", bytes(65), bytes(67), b"\xff" * 66])
def test_sealed_shares_that_are_no_shares_name_their_sender(plaintext):
    round_ = OpenRound().up_to("share")
    channel = SealedChannel(
        RoundKey(entropy_of(4).read(64)[32:]),
        round_.advertisements[ME].channel_public,
        transcript=round_.sealed[1].transcript,
        round_id=round_.config.round_id,
        me=4,
        them=ME,
    )
    delivery = round_.deliveries[ME]
    bad = replace(delivery, sealed={**delivery.sealed, 4: channel.seal(SHARE_KIND, plaintext)})
    with pytest.raises(PeerViolationError, match="party-4 sealed invalid shares") as caught:
        round_.members[ME].mask_input(bad, values_of(ME))
    assert caught.value.member == 4


def test_noise_of_another_shape_is_refused():
    round_ = OpenRound().up_to("share")
    with pytest.raises(ShapeError, match="the noise must have the shape and type of the values"):
        round_.members[ME].mask_input(round_.deliveries[ME], values_of(ME), np.zeros(3, dtype=np.int64))


def test_answers_follow_from_the_entropy_alone():
    first, second = OpenRound().up_to("unmask"), OpenRound().up_to("unmask")
    for name in ("advertisements", "sealed", "masked", "signatures", "unmasking"):
        assert getattr(first, name) == getattr(second, name)
    third = OpenRound(make_config(vector="other")).up_to("unmask")
    assert third.masked != first.masked


class TestOnARing:
    """Thirteen of 130 members drop out, all neighbours of member 2: too few holders of its secrets are left."""

    @pytest.fixture
    def present(self, monkeypatch):
        graph = Neighbourhood((ME, *range(3, 131), 1), Topology.ring(130, 6, 13).degree)
        monkeypatch.setattr(awaiting_members, "draw_graph", lambda *arguments: graph)
        dropped_out = set(sorted(graph.neighbours(ME), key=graph.order.index)[:13])
        return [m for m in range(1, 131) if m not in dropped_out]

    @pytest.fixture
    def ring_config(self):
        topology = Topology.ring(130, 6, 13)
        assert topology.degree - 13 < topology.n_required
        return make_config(130, topology=topology)

    @pytest.fixture
    def listed(self, ring_config):
        everybody = {m: make_member(ring_config, m).advertise() for m in range(1, 131)}
        inputs = input_digest(ring_config.round_id, PUBLIC_INPUT)

        def shown(members):
            present = {m: everybody[m] for m in members}
            tree = MemberTree(130, present)
            transcript = ring_transcript(ring_config.digest, inputs, tree.root)
            degree = ring_config.topology.degree
            graph = awaiting_members.draw_graph(130, degree, ring_config.round_id, transcript)
            near = sorted(graph.neighbours(ME) | {ME})
            ads = tuple(present[m] for m in near if m in present)
            return NeighbourList(ring_config.round_id, tree.root, ads, {m: tree.path(m) for m in near})

        return shown

    def test_it_does_not_share_with_too_few_holders(self, ring_config, present, listed):
        member = make_member(ring_config, ME)
        with pytest.raises(TooFewMembersError, match="of our neighbours take part"):
            member.share_keys(listed(present))

    def test_it_does_not_mask_or_sign_with_too_few_holders(self, ring_config, present, listed):
        everybody = listed(range(1, 131))
        for stage in ("mask", "sign"):
            member = make_member(ring_config, ME)
            transcript = member.share_keys(everybody).transcript
            neighbours = member._state.graph.neighbours(ME)
            peers = {j: _sealed_for_me(ring_config, j, everybody, transcript) for j in neighbours}
            left = [j for j in neighbours if j in present]
            sharers, senders = (present, left) if stage == "mask" else (range(1, 131), neighbours)
            delivery = ShareDelivery(
                ring_config.round_id,
                tuple(sharers),
                dict.fromkeys(senders, transcript),
                {j: peers[j] for j in senders},
            )
            if stage == "mask":
                with pytest.raises(TooFewMembersError, match="holders of our shares are left"):
                    member.mask_input(delivery, values_of(ME))
                continue
            member.mask_input(delivery, values_of(ME))
            with pytest.raises(TooFewMembersError, match="holders of our shares have survived"):
                member.sign_survivors(SurvivorList(ring_config.round_id, tuple(present)))


def _sealed_for_me(config, sender, members, transcript):
    """What a neighbour seals for member 2: shares of nothing in particular."""
    channel = SealedChannel(
        RoundKey(entropy_of(sender).read(64)[32:]),
        next(ad for ad in members.advertisements if ad.member == ME).channel_public,
        transcript=transcript,
        round_id=config.round_id,
        me=sender,
        them=ME,
    )
    return channel.seal(SHARE_KIND, bytes(66))
