"""A coordinator that attacks: each attack ends in an abort that names it, and opens nothing."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from adversarial_coordinator import AdversarialCoordinator
from masked_sums import (
    entropy_of,
    exact_sum,
    identity_of,
    make_config,
    make_member,
    make_policy,
    make_roster,
    retried,
    sum_noise,
    values_of,
)

from entropy import InsecureTestEntropy
from mpc.errors import TooFewPartiesError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RosterEntry, Topology
from mpc.secagg.errors import (
    ContradictoryMessageError,
    DeclaredDeadError,
    DifferentConfigurationError,
    DifferentInputError,
    ForgedSignatureError,
    InvalidSetError,
    OutOfOrderError,
    PolicyRefusalError,
    RoundAbortedError,
    RoundReusedError,
    ShareKindError,
    SplitMembersError,
    SplitSurvivorsError,
    TooFewMembersError,
    TooFewSignaturesError,
    UnopenableShareError,
    WrongNeighboursError,
    WrongRoundError,
)
from mpc.secagg.journal import ShareKind
from mpc.secagg.messages import UnmaskingShares
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.keys import RoundKey
from mpc.secagg.stage import Stage
from mpc.secagg.vector.encoding import VectorEncoding

VICTIM, TARGET = 2, 4


@pytest.fixture(scope="module")
def advertised_ring():
    safe = Topology(130, degree=14, n_required=8, fewest_survivors=124, n_corrupt=0)
    return AdversarialCoordinator(make_config(130, topology=safe)).up_to("advertise")


@pytest.fixture
def ring_of_130(advertised_ring):
    """Members that have advertised; the victim and whom a test calls anew have heard of nobody yet."""
    advertised_ring.begin_anew(VICTIM)
    return advertised_ring


def is_aborted(round_: AdversarialCoordinator, member: int) -> bool:
    """Whether a member refuses everything and holds no secret any more."""
    machine = round_.members[member]
    with pytest.raises(RoundAbortedError):
        machine.advertise()
    with pytest.raises(RoundAbortedError):
        _ = machine.surplus_seeds
    return machine.stage is Stage.ABORTED and machine._state is None and machine._answered == {}


@pytest.mark.parametrize(
    ("stage", "attack"),
    [
        ("advertise", AdversarialCoordinator.leave_out_of_member_list),
        ("share", AdversarialCoordinator.say_it_shared_nothing),
        ("mask", AdversarialCoordinator.declare_dead),
    ],
)
def test_a_living_member_that_is_said_to_be_dead_aborts(stage, attack):
    round_ = AdversarialCoordinator().up_to(stage)
    with pytest.raises(DeclaredDeadError) as caught:
        attack(round_, VICTIM)
    assert caught.value.member == COORDINATOR
    assert is_aborted(round_, VICTIM)


def test_a_survivor_that_never_sent_anything_is_noticed():
    round_ = AdversarialCoordinator()
    round_.advertise()
    round_.share(dropped_out={5})
    round_.mask()
    with pytest.raises(
        InvalidSetError, match="are out of order or repeated, or some did not take part in the stage before"
    ):
        round_.invent_survivor(VICTIM, 5)
    assert is_aborted(round_, VICTIM)


def test_a_sum_of_fewer_than_the_round_asks_for_is_not_signed():
    round_ = AdversarialCoordinator().up_to("mask")
    with pytest.raises(TooFewMembersError, match="only 2 survivors are left, but this round needs 3"):
        round_.let_too_few_survive(VICTIM, (VICTIM, TARGET))
    assert is_aborted(round_, VICTIM)


@pytest.mark.parametrize("deceived", [{1}, {1, 2}, {3, 5}, {1, 2, 3}])
def test_split_survivors_are_named_when_all_signatures_are_relayed(deceived):
    round_ = AdversarialCoordinator().up_to("mask")
    answers = round_.split_survivors(TARGET, deceived, relay_all=True)
    assert {type(answer) for answer in answers.values()} == {SplitSurvivorsError}
    assert all(is_aborted(round_, m) for m in answers)


@pytest.mark.parametrize("deceived", [{1}, {1, 2}, {3, 5}, {1, 2, 3}])
def test_split_survivors_never_give_shares_to_both_halves(deceived):
    round_ = AdversarialCoordinator().up_to("mask")
    answers = round_.split_survivors(TARGET, deceived, relay_all=False)
    released = {m: a for m, a in answers.items() if isinstance(a, UnmaskingShares)}
    assert {type(answers[m]) for m in answers.keys() - released} == {TooFewSignaturesError}
    assert released.keys() <= deceived or released.keys().isdisjoint(deceived)
    kinds = {TARGET in shares.key_shares for shares in released.values()}
    assert len(kinds) <= 1


@pytest.mark.parametrize("deceived", [{1}, {1, 2}, {1, 2, 3}])
def test_members_that_were_told_different_sharers_do_not_unmask(deceived):
    answers = AdversarialCoordinator().up_to("share").split_sharers(TARGET, deceived)
    assert {type(answer) for answer in answers.values()} == {SplitSurvivorsError}


NOISE = sum_noise(mu=900, length=20_000, levels=(5, 6, 7), n_corrupt=2)
GHOSTS = {6, 7}
"""They never send their vectors."""


@pytest.fixture
def noisy_round():
    """Seven members, two of which may be corrupt, up to five masked vectors with noise; and what each kept."""
    kept = {}

    def noise_of(member, seeds):
        noise = NOISE.draw(InsecureTestEntropy(f"base {member}"), seeds)
        kept[member] = noise - NOISE._components(seeds)  # the base: with seven survivors all is opened
        return noise

    config = make_config(7, NOISE.length, topology=Topology.complete(7, 2), surplus_levels=NOISE.levels)
    round_ = AdversarialCoordinator(config, noise_of=noise_of)
    round_.advertise()
    round_.share()
    round_.mask(dropped_out=GHOSTS)
    return round_, kept


def opened_with_ghosts(round_, corrupt):
    """What the coordinator comes to when it lists the ghosts as survivors, has more noise opened, and removes it.

    Corrupt members tell it their mask keys, those of the first 32 bytes that each reads.
    """
    answers = round_.count_as_survivors(GHOSTS)
    assert not any(answer.key_shares for answer in answers.values())  # nobody is said to have dropped out
    seeds = round_.opened_noise_seeds(answers, 7)
    assert {len(chain) for chain in seeds.values()} == {2}  # five survivors alone would have opened none
    removed = sum(NOISE._components(chain) for chain in seeds.values())
    return round_.take_masks_off(answers, {m: RoundKey(entropy_of(m).read(32)) for m in corrupt}) - removed


@pytest.mark.parametrize("corrupt", [set(), {7}])
def test_dropped_out_members_that_are_listed_as_survivors_keep_the_sum_masked(noisy_round, corrupt):
    """More noise is opened, but nobody releases the key of the masks that the dropouts have in common with the rest."""
    round_, kept = noisy_round
    left = opened_with_ghosts(round_, corrupt) - exact_sum(kept, NOISE.length) - sum(kept.values())
    counts = np.bincount((left % (1 << 20)) >> 12, minlength=256)
    chi_square = float(((counts - NOISE.length / 256) ** 2 / (NOISE.length / 256)).sum())
    assert 132 < chi_square < 420  # 255 degrees of freedom: outside with probability below 1e-9


def test_corrupt_members_that_are_listed_without_a_vector_have_removed_no_more_than_was_said(noisy_round):
    """They hand over their keys, so the sum opens, with more noise gone: what stays is what the report counts on."""
    round_, kept = noisy_round
    opened = opened_with_ghosts(round_, corrupt=GHOSTS)
    noise = opened - exact_sum(kept, NOISE.length)
    assert np.array_equal(noise, sum(kept.values()))
    stays = NOISE.unknown_mu(7, "coalition")
    assert stays == Fraction(5 * NOISE.mu, 7) >= NOISE.least_unknown_mu("coalition")
    # An estimate from 20,000 errs by 1 %: it is off by 6.5 % with probability below 1e-9.
    assert noise.var() == pytest.approx(2 * float(stays), rel=0.065)


def test_a_survivor_signature_of_an_earlier_attempt_is_refused():
    old = AdversarialCoordinator().up_to("sign").signatures[TARGET]
    round_ = AdversarialCoordinator(retried(make_config())).up_to("sign")
    signatures = (*(one for one in round_.signed.signatures if one.member < TARGET), old)
    with pytest.raises(WrongRoundError):
        round_.members[VICTIM].unmask(replace(round_.signed, signatures=signatures))


def test_after_signing_one_set_another_is_refused():
    round_ = AdversarialCoordinator().up_to("sign")
    with pytest.raises(ContradictoryMessageError, match="sign survivors"):
        round_.ask_for_the_other_kind(VICTIM, TARGET)
    assert is_aborted(round_, VICTIM)


def test_after_releasing_shares_another_request_is_refused():
    round_ = AdversarialCoordinator().up_to("unmask")
    with pytest.raises(ContradictoryMessageError, match="unmask"):
        round_.ask_again_with_other_signatures(VICTIM)


def test_after_releasing_shares_another_set_is_refused():
    round_ = AdversarialCoordinator().up_to("unmask")
    with pytest.raises(ContradictoryMessageError):
        round_.ask_for_the_other_kind(VICTIM, TARGET)


@pytest.mark.parametrize("stage", ["advertise", "share", "mask", "sign", "unmask"])
def test_a_restarted_member_does_not_enter_the_round_again(stage):
    round_ = AdversarialCoordinator().up_to(stage)
    with pytest.raises(RoundReusedError, match="session round 3 attempt 0"):
        round_.ask_a_restarted_member(VICTIM)


def test_the_journal_refuses_the_other_kind_even_from_a_restored_member():
    round_ = AdversarialCoordinator().up_to("unmask")
    for owner, kind in ((TARGET, ShareKind.MASK_KEY), (VICTIM, ShareKind.MASK_KEY)):
        with pytest.raises(ShareKindError, match=f"a share of the seed of its own mask of member {owner} was released"):
            round_.journals[VICTIM].record_release(round_.config.round_id, {owner: kind})


def test_no_other_attempt_of_a_round_follows_a_release():
    round_ = AdversarialCoordinator().up_to("unmask")
    with pytest.raises(RoundReusedError, match="so the sum of that attempt may have been opened"):
        round_.retry_after_release(VICTIM, retried(round_.config))


def test_a_retry_before_any_release_is_allowed():
    round_ = AdversarialCoordinator().up_to("sign")
    assert round_.retry_after_release(VICTIM, retried(round_.config)).advertise()


@pytest.mark.parametrize("attack", [AdversarialCoordinator.play_member, AdversarialCoordinator.swap_key])
def test_a_coordinator_that_plays_a_member_is_found_out(attack):
    round_ = AdversarialCoordinator().up_to("advertise")
    with pytest.raises(ForgedSignatureError, match="party-4") as caught:
        attack(round_, TARGET, VICTIM)
    assert caught.value.member == TARGET
    assert is_aborted(round_, VICTIM)


def test_a_roster_of_invented_members_is_refused():
    honest = make_config()
    invented = tuple(
        entry
        if entry.number == VICTIM
        else RosterEntry(entry.number, entry.name, identity_of(90 + entry.number).public_bytes)
        for entry in make_roster(5)
    )
    with pytest.raises(PolicyRefusalError, match="party-1 with an identity key that is not pinned"):
        make_member(make_config(roster=invented), VICTIM, policy=make_policy(honest))


@pytest.mark.parametrize(
    ("changes", "policy", "why"),
    [
        ({}, {"smallest_cohort": 4}, "a sum of 3 members may be opened; at least 4 here"),
        ({}, {"smallest_n_required": 4}, "3 shares open a secret; at least 4 here"),
        ({}, {"corrupt_fraction": Fraction(1, 5)}, "safe with 0 corrupt members of 5"),
        ({}, {"largest_degree": 3}, "4 neighbours; at most 3 here"),
        ({}, {"largest_elements": 11}, "12 elements; at most 11 here"),
        ({}, {"allowed_encodings": frozenset({"stochastic"})}, "encoding toward-zero is not one of stochastic"),
        (
            {"encoding": VectorEncoding(12, 1.0, rotation="r")},
            {"allowed_encodings": frozenset({"toward-zero"})},
            "rotated",
        ),
        ({"round_id": replace(make_config().round_id, attempt=9)}, {}, "attempt 9; at most 8 here"),
    ],
)
def test_a_member_refuses_what_is_below_its_floor(changes, policy, why):
    config = make_config(**changes)
    with pytest.raises(PolicyRefusalError, match=why) as caught:
        make_member(config, VICTIM, policy=make_policy(config, **policy))
    assert caught.value.member == COORDINATOR


@pytest.mark.parametrize("number", [0, 3, 6])
def test_a_member_that_is_given_another_number_refuses(number):
    with pytest.raises(PolicyRefusalError, match=f"does not list this member as number {number}"):
        make_member(make_config(), number, identity=identity_of(VICTIM))


def test_a_ring_with_few_neighbours_is_refused_by_the_member(ring_of_130):
    assert ring_of_130.config.topology.degree < 20
    pinned = {entry.name: entry.identity_public for entry in ring_of_130.config.roster}
    with pytest.raises(PolicyRefusalError, match="neighbours; at least 20 here"):
        ring_of_130.propose(VICTIM, policy=MemberPolicy(pinned=pinned))


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ((5, 4, 2, 3, 0), "both kinds of shares"),
        ((5, 4, 3, 4, 1), "both kinds of shares"),
        ((5, 4, 3, 2, 0), "two different sets of"),
        ((5, 4, 4, 3, 0), "3 survivors cannot open secrets that need 4 shares"),
        ((3, 2, 3, 3, 2), "are corrupt, may contain a single honest member, whose value it would reveal"),
        ((2, 1, 3, 3, 1), "a sum of 2 of 2 members, of whom 1 are corrupt, may contain a single honest member"),
        ((5, 4, 3, 6, 0), "a sum of at least 6 members is never opened, because there are 5"),
        ((5, 2, 2, 3, 0), "members must use the complete graph"),
        (
            (200, 20, 11, 180, 20),
            ("a ring of 200 members with 20 neighbours each and 11 required shares is not safe with"),
        ),
        ((1, 0, 1, 1, 0), "a roster must have 2 to"),
    ],
)
def test_unsafe_topologies_do_not_exist(numbers, why):
    with pytest.raises(TooFewPartiesError, match=why):
        Topology(*numbers)


def test_different_public_inputs_are_named():
    round_ = AdversarialCoordinator.with_another_input_for(VICTIM)
    with pytest.raises(DifferentInputError, match="party-1 has signed a public input"):
        round_.members[VICTIM].share_keys(round_.member_list)
    with pytest.raises(DifferentInputError, match="party-2 has signed a public input") as caught:
        round_.members[TARGET].share_keys(round_.member_list)
    assert caught.value.member == VICTIM
    assert is_aborted(round_, VICTIM)
    assert is_aborted(round_, TARGET)


def test_different_configurations_are_named():
    round_ = AdversarialCoordinator.with_another_configuration_for(VICTIM)
    with pytest.raises(DifferentConfigurationError, match="party-2 has signed a configuration"):
        round_.members[TARGET].share_keys(round_.member_list)


def test_different_member_lists_are_named():
    round_ = AdversarialCoordinator().up_to("advertise")
    with pytest.raises(SplitMembersError, match="party-1 received a list of members that differs from ours") as caught:
        round_.split_member_lists(left_out=5, deceived={1}, hide_it=False)
    assert caught.value.member == 1


def test_different_member_lists_cannot_be_hidden():
    round_ = AdversarialCoordinator().up_to("advertise")
    with pytest.raises(UnopenableShareError, match="sealed shares of party-1 cannot be opened"):
        round_.split_member_lists(left_out=5, deceived={1}, hide_it=True)


@pytest.mark.parametrize(("relabelled", "error"), [(False, WrongRoundError), (True, ForgedSignatureError)])
def test_an_advertisement_of_an_earlier_attempt_is_refused(relabelled, error):
    old = AdversarialCoordinator().up_to("advertise").advertisements[TARGET]
    round_ = AdversarialCoordinator(retried(make_config())).up_to("advertise")
    with pytest.raises(error):
        round_.replay_advertisement(VICTIM, TARGET, old, relabelled)
    assert is_aborted(round_, VICTIM)


def test_sealed_shares_of_an_earlier_attempt_do_not_open():
    old = AdversarialCoordinator().up_to("share").sealed[TARGET].sealed[VICTIM]
    round_ = AdversarialCoordinator(retried(make_config())).up_to("share")
    with pytest.raises(UnopenableShareError, match="party-4"):
        round_.replay_sealed_shares(VICTIM, TARGET, old)


def test_sealed_shares_for_another_member_do_not_open():
    round_ = AdversarialCoordinator().up_to("share")
    with pytest.raises(UnopenableShareError, match="party-4"):
        round_.pass_on_to_the_wrong_member(VICTIM, TARGET, meant_for=3)


@pytest.mark.parametrize("stage", ["advertise", "share", "mask", "sign"])
def test_messages_of_another_round_are_refused_at_every_stage(stage):
    round_ = AdversarialCoordinator().up_to(stage)
    other = AdversarialCoordinator(retried(make_config())).up_to(stage)
    member = round_.members[VICTIM]
    send = {
        "advertise": lambda: member.share_keys(other.member_list),
        "share": lambda: member.mask_input(other.deliveries[VICTIM], values_of(VICTIM)),
        "mask": lambda: member.sign_survivors(other.survivors),
        "sign": lambda: member.unmask(other.signed),
    }
    with pytest.raises(WrongRoundError, match="attempt 1 in session round 3 attempt 0"):
        send[stage]()
    assert is_aborted(round_, VICTIM)


def test_a_coordinator_that_cuts_two_neighbours_apart_is_noticed():
    round_ = AdversarialCoordinator().up_to("share")
    with pytest.raises(WrongNeighboursError):
        round_.deliver_without(VICTIM, TARGET)
    assert is_aborted(round_, VICTIM)


def neighbours_and_others(round_):
    neighbours = round_.ring().neighbours(VICTIM)
    return neighbours, sorted(set(round_.members) - neighbours - {VICTIM})


def test_on_a_ring_the_shares_of_the_neighbours_are_accepted(ring_of_130):
    neighbours, others = neighbours_and_others(ring_of_130)
    assert len(neighbours) == ring_of_130.config.topology.degree < len(others)
    assert ring_of_130.deliver_from(VICTIM, set(neighbours)).elements


@pytest.mark.parametrize("n_dropped", [0, 1, 3])
@pytest.mark.parametrize("is_said", [False, True])
def test_on_a_ring_a_coordinator_that_picks_neighbours_is_noticed(ring_of_130, n_dropped, is_said):
    """Its own members beside or instead of honest neighbours, who are said to have shared, or to have dropped out."""
    neighbours, others = neighbours_and_others(ring_of_130)
    dropped = frozenset(sorted(neighbours)[:n_dropped])
    chosen = set(neighbours - dropped) | set(others[: max(1, n_dropped)])
    with pytest.raises(
        WrongNeighboursError,
        match="the coordinator delivered shares of members that are not our neighbours in the graph",
    ) as caught:
        ring_of_130.deliver_from(VICTIM, chosen, unsaid=dropped if is_said else frozenset())
    assert caught.value.member == COORDINATOR
    assert is_aborted(ring_of_130, VICTIM)


@pytest.fixture(scope="module")
def split_rings(advertised_ring):
    """A member to leave out of some lists, a neighbour of the victim on both rings then, and one on the first only."""
    here = advertised_ring.ring()
    for left_out in range(100, 131):
        there = advertised_ring.ring(advertised_ring.tree(left_out))
        assert there.order != here.order
        both = here.neighbours(VICTIM) & there.neighbours(VICTIM) - {left_out}
        only_here = here.neighbours(VICTIM) - there.neighbours(VICTIM) - {left_out}
        if both and only_here:
            return left_out, min(both), min(only_here)
    raise AssertionError("the rings have nothing in common")


@pytest.mark.parametrize(("hide_it", "error"), [(False, SplitMembersError), (True, UnopenableShareError)])
def test_members_on_different_rings_that_are_neighbours_on_both_notice(ring_of_130, split_rings, hide_it, error):
    left_out, deceived, _ = split_rings
    ring_of_130.begin_anew(deceived)
    with pytest.raises(error, match=f"party-{deceived}") as caught:
        ring_of_130.split_rings(VICTIM, deceived, left_out, hide_it)
    assert caught.value.member == deceived
    assert is_aborted(ring_of_130, VICTIM)
    ring_of_130.begin_anew(deceived)


def test_members_on_different_rings_that_are_neighbours_on_one_notice(ring_of_130, split_rings):
    """The deceived has sealed nothing for the victim, whose neighbour it is."""
    left_out, _, deceived = split_rings
    ring_of_130.begin_anew(deceived)
    with pytest.raises(WrongNeighboursError):
        ring_of_130.split_rings(VICTIM, deceived, left_out, hide_it=True)
    assert is_aborted(ring_of_130, VICTIM)
    ring_of_130.begin_anew(deceived)


def test_a_member_that_is_proposed_another_number_of_neighbours_is_named(ring_of_130, monkeypatch):
    ad = ring_of_130.propose(VICTIM, topology=Topology.ring(130, 6, 6)).advertise()
    monkeypatch.setitem(ring_of_130.advertisements, VICTIM, ad)
    target = min(ring_of_130.ring().neighbours(VICTIM))
    ring_of_130.begin_anew(target)
    with pytest.raises(DifferentConfigurationError, match="party-2 has signed a configuration") as caught:
        ring_of_130.members[target].share_keys(ring_of_130.neighbour_list(target))
    assert caught.value.member == VICTIM
    assert is_aborted(ring_of_130, target)
    ring_of_130.begin_anew(target)


@pytest.mark.parametrize("skipped", ["mask_input", "sign_survivors", "unmask"])
def test_a_skipped_stage_aborts(skipped):
    honest = AdversarialCoordinator().up_to("sign")
    member = make_member(honest.config, VICTIM)
    messages = {
        "mask_input": lambda: member.mask_input(honest.deliveries[VICTIM], values_of(VICTIM)),
        "sign_survivors": lambda: member.sign_survivors(honest.survivors),
        "unmask": lambda: member.unmask(honest.signed),
    }
    with pytest.raises(OutOfOrderError, match="while share keys was due"):
        messages[skipped]()


def test_a_forged_survivor_signature_is_named():
    round_ = AdversarialCoordinator().up_to("sign")
    forged = replace(round_.signatures[TARGET], signature=bytes(64))
    signatures = (*(one for one in round_.signed.signatures if one.member < TARGET), forged)
    with pytest.raises(ForgedSignatureError, match="party-4"):
        round_.members[VICTIM].unmask(replace(round_.signed, signatures=signatures))


def test_signatures_counted_twice_are_refused():
    round_ = AdversarialCoordinator().up_to("sign")
    twice = (round_.signed.signatures[0],) * 3
    with pytest.raises(InvalidSetError, match="the signatures must be in order, with at most one per survivor"):
        round_.members[VICTIM].unmask(replace(round_.signed, signatures=twice))
