"""Rounds on rings: a coordinator that says different things of members to different members, under one root or two."""

from dataclasses import replace

import pytest
from adversarial_coordinator import AdversarialCoordinator
from masked_sums import entropy_of, exact_sum, make_config, make_member, make_policy, retried, run, values_of

from entropy import InsecureTestEntropy
from mpc.errors import PeerViolationError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import Topology
from mpc.secagg.errors import (
    DeclaredDeadError,
    DifferentConfigurationError,
    DifferentInputError,
    ForgedSignatureError,
    InvalidSetError,
    RoundAbortedError,
    SplitMembersError,
    SplitSurvivorsError,
    TooFewMembersError,
    UnopenableShareError,
    UnprovenMemberError,
    WrongNeighboursError,
    WrongRoundError,
)
from mpc.secagg.member_tree import MemberTree
from mpc.secagg.messages import MemberList, NeighbourList, ShareDelivery, SignedSurvivors, SurvivorList
from mpc.secagg.secret.keys import IdentityKey, RoundKey
from mpc.secagg.stage import Stage

VICTIM, N = 2, 130
RING = Topology(N, degree=14, n_required=8, fewest_survivors=124, n_corrupt=0)


@pytest.fixture(scope="module")
def advertised():
    return AdversarialCoordinator(make_config(N, topology=RING)).up_to("advertise")


@pytest.fixture
def ring(advertised):
    """Members that have advertised; the victim has heard of nobody yet."""
    advertised.begin_anew(VICTIM)
    return advertised


@pytest.fixture
def honest(ring):
    return ring.member_lists[VICTIM]


@pytest.fixture
def neighbour(ring):
    return min(ring.ring().neighbours(VICTIM))


def refused(ring, shown, error, match=None, member=COORDINATOR):
    with pytest.raises(error, match=match) as caught:
        ring.members[VICTIM].share_keys(shown)
    assert caught.value.member == member
    with pytest.raises(RoundAbortedError):
        ring.members[VICTIM].advertise()


def without(shown, member):
    return replace(shown, advertisements=tuple(ad for ad in shown.advertisements if ad.member != member))


def with_other(shown, ad):
    return replace(shown, advertisements=tuple(ad if one.member == ad.member else one for one in shown.advertisements))


def test_what_a_member_receives_grows_with_its_neighbours_and_the_logarithm_of_the_members(ring, honest):
    assert isinstance(honest, NeighbourList)
    assert (
        {ad.member for ad in honest.advertisements} == honest.paths.keys() == ring.ring().neighbours(VICTIM) | {VICTIM}
    )
    assert {len(path) for path in honest.paths.values()} == {32 * 8}
    assert set(ring.members[VICTIM].share_keys(honest).sealed) == ring.ring().neighbours(VICTIM)


def test_a_whole_round_on_a_ring_opens_the_sum_of_the_survivors():
    config = make_config(N, topology=RING)
    dropouts = {3: Stage.ADVERTISE, 7: Stage.SHARE, 11: Stage.MASK, 19: Stage.AGREE}
    opened = run(config, dropouts=dropouts)
    assert opened.survivors == tuple(m for m in range(1, N + 1) if m not in (3, 7, 11))
    assert opened.integers().tolist() == exact_sum(opened.survivors).tolist()


def test_a_neighbour_that_is_not_in_the_tree_is_refused(ring, honest, neighbour):
    """Keys that its owner has signed, but that the others are not shown: the tree says that it is absent."""
    tree = ring.tree(left_out=neighbour)
    shown = ring.neighbour_list(VICTIM, tree=tree)
    present = [m for m in shown.paths if m in ring.advertisements]
    if neighbour not in present:  # on the ring of that root it may be no neighbour
        present.append(neighbour)
    everybody = tuple(ring.advertisements[m] for m in sorted(present))
    paths = {m: tree.path(m) for m in sorted({*shown.paths, neighbour})}
    error = UnprovenMemberError if neighbour in shown.paths else WrongNeighboursError
    refused(ring, replace(shown, advertisements=everybody, paths=paths), error, "under the members' root|not our neigh")


def test_keys_of_a_neighbour_that_are_not_those_in_the_tree_are_refused(ring, honest, neighbour):
    """Signed by its owner for this round, as a corrupt member could: others are shown the first ones."""
    second = make_member(ring.config, neighbour, entropy=InsecureTestEntropy("second keys")).advertise()
    refused(ring, with_other(honest, second), UnprovenMemberError, f"party-{neighbour} under the members' root")


def test_a_neighbour_that_takes_part_cannot_be_said_to_be_absent(ring, honest, neighbour):
    refused(ring, without(honest, neighbour), UnprovenMemberError, f"party-{neighbour} under the members' root")


def test_a_neighbour_is_neither_left_out_nor_replaced_by_another_member_of_the_tree(ring, honest, neighbour):
    stranger = min(set(ring.members) - honest.paths.keys())
    paths = {m: path for m, path in honest.paths.items() if m != neighbour}
    shown = replace(without(honest, neighbour), paths=paths)
    refused(ring, shown, WrongNeighboursError, "not our neighbours in the graph, or left some out")
    ring.begin_anew(VICTIM)
    ads = sorted([*shown.advertisements, ring.advertisements[stranger]], key=lambda ad: ad.member)
    shown = replace(shown, advertisements=tuple(ads), paths=paths | {stranger: ring.tree().path(stranger)})
    refused(ring, shown, WrongNeighboursError, "not our neighbours in the graph, or left some out")


def test_one_key_under_many_leaves_is_refused(ring, neighbour):
    """The coordinator puts one advertisement into every other leaf: each must be signed by the leaf's own identity."""
    mine, played = ring.advertisements[VICTIM], ring.advertisements[neighbour]
    copied = {m: replace(played, member=m) for m in ring.advertisements} | {VICTIM: mine}
    tree = MemberTree(N, copied)
    shown = sorted(ring.ring(tree).neighbours(VICTIM) | {VICTIM})
    forged = NeighbourList(
        ring.config.round_id, tree.root, tuple(copied[m] for m in shown), {m: tree.path(m) for m in shown}
    )
    first = next(m for m in shown if m not in (VICTIM, neighbour))
    refused(ring, forged, ForgedSignatureError, f"party-{first} was not signed", member=first)


def test_a_member_that_the_coordinator_plays_is_refused_though_it_is_in_the_tree(ring, neighbour):
    ours = make_member(ring.config, neighbour, entropy=InsecureTestEntropy("coordinator")).advertise()
    forged = replace(ours, signature=IdentityKey(InsecureTestEntropy("coordinator")).sign(ours.signed_bytes()))
    known = ring.advertisements
    for label in range(50):  # until the played one is a neighbour on the ring of the forged root
        others = {m: ad for m, ad in known.items() if m not in (VICTIM, label + 60)}
        tree = MemberTree(N, {**others, VICTIM: known[VICTIM], neighbour: forged})
        if neighbour in ring.ring(tree).neighbours(VICTIM):
            break
    shown = sorted(ring.ring(tree).neighbours(VICTIM) | {VICTIM})
    ads = tuple(forged if m == neighbour else known[m] for m in shown if m != label + 60)
    fake = NeighbourList(ring.config.round_id, tree.root, ads, {m: tree.path(m) for m in shown})
    refused(ring, fake, ForgedSignatureError, f"party-{neighbour}", member=neighbour)


def test_a_tree_without_our_keys_or_with_others_of_ours_is_refused_before_a_ring_is_drawn(ring, honest, monkeypatch):
    """A root that was chosen before we advertised cannot hold our keys, so no ring chosen beforehand is accepted."""
    drawn = []
    monkeypatch.setattr("mpc.secagg.member.awaiting_members.draw_graph", lambda *arguments: drawn.append(arguments))
    refused(ring, without(honest, VICTIM), DeclaredDeadError, "leaves us out")
    ring.begin_anew(VICTIM)
    earlier = make_member(ring.config, VICTIM, entropy=InsecureTestEntropy("other keys")).advertise()
    refused(ring, with_other(honest, earlier), InvalidSetError, "keys that we never advertised")
    ring.begin_anew(VICTIM)
    before = MemberTree(N, {m: ad for m, ad in ring.advertisements.items() if m != VICTIM})
    chosen = replace(honest, root=before.root, paths={m: before.path(m) for m in honest.paths})
    refused(ring, chosen, UnprovenMemberError, "party-2 under the members' root")
    assert drawn == []


def test_the_graph_follows_from_the_root_alone_so_nobody_chooses_it_after_seeing_keys(ring, honest):
    """Paths that fit the same root on another ring's neighbours: whom the coordinator would rather have."""
    liked = sorted(set(ring.members) - honest.paths.keys())[: RING.degree]
    tree, shown = ring.tree(), sorted([*liked, VICTIM])
    ads = tuple(ring.advertisements[m] for m in shown)
    chosen = NeighbourList(ring.config.round_id, tree.root, ads, {m: tree.path(m) for m in shown})
    refused(ring, chosen, WrongNeighboursError, "not our neighbours in the graph")


@pytest.mark.parametrize(("hide_it", "error"), [(False, SplitMembersError), (True, UnopenableShareError)])
def test_two_roots_have_no_key_in_common(ring, hide_it, error):
    """Two members are shown different trees, in which both take part: nothing that one seals opens at the other."""
    here = ring.ring()
    for left_out in range(100, 131):
        both = here.neighbours(VICTIM) & ring.ring(ring.tree(left_out)).neighbours(VICTIM) - {left_out}
        if both:
            break
    deceived = min(both)
    ring.begin_anew(deceived)
    with pytest.raises(error, match=f"party-{deceived}"):
        ring.split_rings(VICTIM, deceived, left_out, hide_it)
    ring.begin_anew(deceived)


def test_a_neighbour_that_is_proven_absent_cannot_be_said_to_have_shared(ring):
    """Under one root all see the same absence, and who is absent seals nothing: it counts as nobody."""
    absent = min(ring.ring().neighbours(VICTIM))
    for absent in range(3, N + 1):
        tree = ring.tree(left_out=absent)
        if absent in ring.ring(tree).neighbours(VICTIM):
            break
    shown = ring.neighbour_list(VICTIM, left_out=absent)
    mine = ring.members[VICTIM].share_keys(shown)
    delivery = ShareDelivery(
        ring.config.round_id,
        tuple(sorted(ring.advertisements)),
        dict.fromkeys(mine.sealed, mine.transcript),
        dict.fromkeys(mine.sealed, b""),
    )
    with pytest.raises(InvalidSetError, match="some did not take part"):
        ring.members[VICTIM].mask_input(delivery, values_of(VICTIM))


@pytest.mark.parametrize("is_complete", [False, True])
def test_the_form_of_the_other_graph_is_refused(ring, honest, is_complete):
    config = make_config(5) if is_complete else ring.config
    member = make_member(config, VICTIM, policy=make_policy(config))
    ads = (member.advertise(),)
    shown = NeighbourList(config.round_id, bytes(32), ads, {}) if is_complete else MemberList(config.round_id, ads)
    with pytest.raises(PeerViolationError, match="have to be listed" if is_complete else "have to be proven"):
        member.share_keys(shown)


@pytest.mark.parametrize("change", ["reversed", "repeated", "beyond the roster"])
def test_keys_out_of_order_twice_or_of_nobody_are_refused(ring, honest, change):
    ads = honest.advertisements
    changed = {
        "reversed": ads[::-1],
        "repeated": (ads[0], *ads),
        "beyond the roster": (*ads, replace(ads[-1], member=N + 1)),
    }
    refused(ring, replace(honest, advertisements=changed[change]), InvalidSetError, "out of order or repeated, or some")


def test_keys_of_a_stranger_beside_those_of_all_neighbours_are_refused(ring, honest):
    """Its path is not shown, so nothing is proven of it."""
    stranger = max(set(ring.members) - honest.paths.keys())
    ads = sorted([*honest.advertisements, ring.advertisements[stranger]], key=lambda ad: ad.member)
    refused(ring, replace(honest, advertisements=tuple(ads)), WrongNeighboursError, "not our neighbours in the graph")


def shown_with(ring, made):
    """A neighbour of the victim, and the list in which that one has advertised what `made` returns for it."""
    for member in range(3, N + 1):
        tree = MemberTree(N, {**ring.advertisements, member: made(member)})
        if member in ring.ring(tree).neighbours(VICTIM):
            return member, with_other(ring.neighbour_list(VICTIM, tree=tree), made(member))
    raise AssertionError("somebody is a neighbour")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("another configuration", DifferentConfigurationError),
        ("another public input", DifferentInputError),
        ("another attempt", WrongRoundError),
    ],
)
def test_a_neighbour_that_has_signed_another_round_is_refused_though_it_is_in_the_tree(ring, change, error):
    config, options = ring.config, {}
    if change == "another configuration":
        config = replace(config, vector="something else")
    elif change == "another attempt":
        config = retried(config)
    else:
        options["public_input"] = b"another model"
    neighbour, shown = shown_with(ring, lambda member: make_member(config, member, **options).advertise())
    refused(ring, shown, error, member=COORDINATOR if error is WrongRoundError else neighbour)


def test_a_list_of_another_attempt_is_refused(ring, honest):
    other = retried(ring.config).round_id
    refused(ring, replace(honest, round_id=other), WrongRoundError, "it may be a replay")


def test_a_tree_in_which_too_few_neighbours_take_part_is_refused(ring):
    """A member that few can open secrets of would have them opened by few, or its masked vector would never open."""
    for n_present in range(60, N):
        tree = MemberTree(N, {m: ad for m, ad in ring.advertisements.items() if m <= n_present})
        shown = ring.neighbour_list(VICTIM, tree=tree)
        shown = replace(shown, advertisements=tuple(ad for ad in shown.advertisements if ad.member <= n_present))
        if len(shown.advertisements) - 1 < RING.n_required:
            break
    with pytest.raises(TooFewMembersError, match=r"only \d of our neighbours take part, but 8"):
        ring.members[VICTIM].share_keys(shown)


def test_fewer_sharers_than_may_survive_are_refused(ring):
    neighbours = ring.ring().neighbours(VICTIM)
    for member in neighbours:
        ring.begin_anew(member)
    strangers = sorted(set(ring.members) - neighbours - {VICTIM})
    with pytest.raises(TooFewMembersError, match="only 123 members that shared keys are left"):
        ring.deliver_from(VICTIM, set(neighbours), frozenset(strangers[:7]))
    for member in neighbours:
        ring.begin_anew(member)


def told_without(delivery, member):
    """The delivery with that member as one that has not shared."""
    transcripts, sealed = ({m: p[m] for m in p if m != member} for p in (delivery.transcripts, delivery.sealed))
    sharers = tuple(m for m in delivery.sharers if m != member)
    return replace(delivery, sharers=sharers, transcripts=transcripts, sealed=sealed)


@pytest.mark.parametrize("is_deceived", [False, True])
def test_a_member_that_is_told_of_other_sharers_releases_nothing_and_takes_nobody_out_of_what_opens(is_deceived):
    """The victim hears that an honest neighbour has not shared, so the two have but one half of a mask in common.

    All others are told the truth, sign and release. With or without the neighbour's vector a mask stays on the sum:
    nobody who is named a survivor can be kept out of it by other words to some.
    """
    round_ = AdversarialCoordinator(make_config(N, topology=RING)).up_to("share")
    left_out = min(round_.ring().neighbours(VICTIM))
    told = told_without(round_.deliveries[VICTIM], left_out)
    if is_deceived:
        round_.deliveries[VICTIM] = told
    survivors = round_.mask()
    signatures = tuple(round_.members[m].sign_survivors(survivors) for m in survivors.survivors if m != VICTIM)
    if is_deceived:
        round_.members[VICTIM].sign_survivors(SurvivorList(round_.config.round_id, told.sharers))
        shown = tuple(one for one in signatures if one.member != left_out)
        with pytest.raises(SplitSurvivorsError):
            round_.members[VICTIM].unmask(SignedSurvivors(round_.config.round_id, shown))
    enough = SignedSurvivors(round_.config.round_id, signatures[: RING.n_signatures])
    answers = round_._ask_all([one.member for one in signatures], enough)
    masked = dict(round_.masked)
    for kept_out in ((), (left_out,)) if is_deceived else ((),):
        round_.masked = {m: vector for m, vector in masked.items() if m not in kept_out}
        is_open = round_.take_masks_off(answers, {}).tolist() == exact_sum(round_.masked).tolist()
        assert is_open is not is_deceived


@pytest.mark.parametrize("n_required", [8, 9])
def test_a_coordinator_that_names_whom_it_likes_as_dropped_out_opens_a_part_where_two_runs_have_enough_corrupt_members(
    monkeypatch, n_required
):
    """On a ring with one corrupt member in each of two runs of 7 neighbours, as 8 shares require: 7 and 1.

    The coordinator says that the honest members of both runs have dropped out. So it knows their mask keys, as it knows
    those of the corrupt ones, and what is left between the runs are two parts. Where 9 are required nobody opens the
    own masks of those beside the runs. No topology is accepted in which a coordinator would find such a ring.
    """
    monkeypatch.setattr(Topology, "_check_ring", lambda topology: None)
    topology = Topology(N, degree=14, n_required=n_required, fewest_survivors=N - 12, n_corrupt=2)
    round_ = AdversarialCoordinator(make_config(N, topology=topology)).up_to("share")
    order = round_.ring().order
    (corrupt, *first), (other, *second) = order[:7], order[60:67]
    round_.mask(dropped_out=(*first, *second))
    masked = dict(round_.masked)
    if n_required == 9:  # who stands beside a run has 8 holders left, and does not sign that
        with pytest.raises(TooFewMembersError, match="only 8 holders of our shares have survived, but 9"):
            round_.members[order[7]].sign_survivors(round_.survivors)
        return
    answers = round_._ask_all(round_.survivors.survivors, round_.sign())
    mask_keys = {m: RoundKey(entropy_of(m).read(32)) for m in (corrupt, other, *first, *second)}
    for m in (*first, *second):  # of these it has the shares only
        shares = {holder: each.key_shares[m] for holder, each in answers.items() if m in each.key_shares}
        assert RoundKey(round_._recombine(shares)).public_bytes == mask_keys[m].public_bytes
    for part in (order[7:60], order[67:]):
        round_.masked = {m: masked[m] for m in part}
        assert round_.take_masks_off(answers, mask_keys).tolist() == exact_sum(part).tolist()
