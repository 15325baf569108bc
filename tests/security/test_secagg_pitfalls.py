"""Fifteen ways in which systems for masked sums have failed, each with the test that ours does not."""

import dataclasses
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from adversarial_coordinator import AdversarialCoordinator
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from masked_sums import (
    OpenRound,
    entropy_of,
    exact_sum,
    make_config,
    make_member,
    make_policy,
    make_roster,
    retried,
    run,
    sum_noise,
    values_of,
)

from entropy import InsecureTestEntropy, SystemEntropy
from mpc.errors import PeerViolationError
from mpc.secagg.config import RosterEntry, RoundConfig, Topology
from mpc.secagg.coordinator import SumCoordinator
from mpc.secagg.errors import (
    DifferentInputError,
    EncodingOverflowError,
    ForgedSignatureError,
    LateMessageError,
    PolicyRefusalError,
    RoundAbortedError,
    RoundReusedError,
    ShareKindError,
)
from mpc.secagg.journal import MemoryJournal, ShareKind
from mpc.secagg.messages import Advertisement, UnmaskingShares
from mpc.secagg.secret.keys import IdentityKey, RoundKey, SealedChannel, pair_mask_key, self_mask_key
from mpc.secagg.secret.mask import Mask, apply_masks
from mpc.secagg.secret.secret_sharing import SHARE_BYTES, recombine_secret
from mpc.secagg.stage import Stage
from mpc.secagg.vector.encoding import Rounding, VectorEncoding
from mpc.secagg.vector.group import RingGroup
from mpc.transcript import RoundId

ROUND = RoundId("session", 3, 0)


def own_mask(member, transcript, seed, group, length=12):
    key = self_mask_key(seed, transcript=transcript, round_id=ROUND, vector="gradient", member=member)
    total = group.zeros(length)
    apply_masks(group, total, [Mask(key, is_negative=False)])
    return total


def test_pitfall_01_never_both_kinds_of_shares_of_one_peer():
    """Flower releases both on request. Here a request has no room for it, and the journal refuses it."""
    round_ = OpenRound()
    round_.advertise()
    round_.share(dropped_out={4})
    round_.mask(dropped_out={5})
    round_.sign()
    round_.unmask()
    for shares in round_.unmasking.values():
        assert set(shares.seed_shares) == {1, 2, 3}
        assert set(shares.key_shares) == {5}
    for member in round_.unmasking:
        for owner, kind in ((1, ShareKind.MASK_KEY), (5, ShareKind.SELF_MASK_SEED)):
            with pytest.raises(ShareKindError):
                round_.journals[member].record_release(ROUND, {owner: kind})


def test_pitfall_01_a_journal_that_cannot_write_keeps_the_shares_inside():
    class FullDisk(MemoryJournal):
        def record_release(self, round_id, kinds):
            raise OSError("no space left on device")

    round_ = OpenRound(member_options={2: {"journal": FullDisk()}}).up_to("sign")
    member = round_.members[2]
    with pytest.raises(OSError, match="no space"):
        member.unmask(round_.signed)
    assert (member.stage, member._state, member._answered, member._surplus) == (Stage.ABORTED, None, {}, None)
    with pytest.raises(RoundAbortedError, match="OSError in this member"):
        member.unmask(round_.signed)


def test_pitfall_02_no_two_survivor_sets_are_ever_both_accepted():
    """All ways to deceive some of five members about one of them: shares of both kinds never add up to an opening."""
    for n_deceived in range(1, 5):
        for deceived in combinations((1, 2, 3, 5), n_deceived):
            round_ = AdversarialCoordinator().up_to("mask")
            answers = round_.split_survivors(4, set(deceived), relay_all=False).values()
            released = [a for a in answers if isinstance(a, UnmaskingShares)]
            n_key_shares = sum(4 in a.key_shares for a in released)
            n_seed_shares = sum(4 in a.seed_shares for a in released)
            assert n_key_shares == 0 or n_seed_shares == 0


def test_pitfall_02_the_complete_graph_requires_a_majority_beyond_the_corrupt():
    for n in range(3, 40):
        for n_corrupt in range(n // 2):
            topology = Topology.complete(n, n_corrupt)
            assert 2 * topology.n_required > n + n_corrupt
            assert 2 * topology.n_signatures > n + n_corrupt


def test_pitfall_02_three_members_choose_between_one_loss_and_one_colluder():
    assert (Topology.complete(3, 0).n_required, Topology.complete(3, 0).fewest_survivors) == (2, 2)
    assert (Topology.complete(3, 1).n_required, Topology.complete(3, 1).fewest_survivors) == (3, 3)


def test_pitfall_03_keys_are_signed_by_a_pinned_identity():
    """Unsigned keys let the coordinator play all peers; an open roster lets it invent them."""
    round_ = AdversarialCoordinator().up_to("advertise")
    with pytest.raises(ForgedSignatureError):
        round_.play_member(target=4, victim=2)
    stranger = RosterEntry(6, "party-6", IdentityKey(InsecureTestEntropy("sybil")).public_bytes)
    config = make_config(6, roster=(*make_roster(5), stranger))
    with pytest.raises(PolicyRefusalError, match="party-6 with an identity key that is not pinned"):
        make_member(config, 2, policy=make_policy(make_config(5)))


def test_pitfall_04_masks_are_aes_256_in_counter_mode_under_256_bit_keys():
    """Not Mersenne Twister on 32 bits, not PCG64, not the rank as the seed."""
    key = bytes(range(32))
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(4 * 70_000 + 8))
    total = RingGroup(32).zeros(70_000)
    apply_masks(RingGroup(32), total, [Mask(key, is_negative=False)])
    assert total.tobytes() == stream[: 4 * 70_000]
    entropy = InsecureTestEntropy("counted")
    sizes = []
    counted = type("Counted", (), {"is_secure": False, "read": lambda self, n: sizes.append(n) or entropy.read(n)})()
    member = make_member(make_config(), 1, entropy=counted)
    assert sizes == [32, 32, 32, 32]  # mask key, channel key, own seed, end of the surplus chain
    assert len({member.advertise().mask_public, member.advertise().channel_public}) == 2


def test_pitfall_05_no_mask_is_ever_used_twice():
    """Session, round, attempt, vector, pair and transcript each make another mask; a used round is refused."""
    a, b = RoundKey(bytes([1] * 32)), RoundKey(bytes([2] * 32))
    base = {"transcript": b"t" * 32, "round_id": ROUND, "vector": "weights", "pair": (1, 2)}
    changed = [
        {},
        {"transcript": b"u" * 32},
        {"round_id": RoundId("another", 3, 0)},
        {"round_id": RoundId("session", 4, 0)},
        {"round_id": RoundId("session", 3, 1)},
        {"vector": "auxiliary"},
        {"pair": (1, 3)},
    ]
    keys = [pair_mask_key(a, b.public_bytes, **{**base, **change}) for change in changed]
    own = {name: value for name, value in base.items() if name != "pair"}
    keys += [
        self_mask_key(bytes(32), **{**own, **{k: v for k, v in c.items() if k != "pair"}}, member=1)
        for c in changed[:-1]
    ]
    keys.append(self_mask_key(bytes(32), **own, member=2))
    assert len(set(keys)) == len(keys)
    journal = MemoryJournal()
    make_member(make_config(), 1, journal=journal)
    with pytest.raises(RoundReusedError):
        make_member(make_config(), 1, journal=journal)


def test_pitfall_06_a_sum_that_might_wrap_is_refused_before_it_starts():
    fits = VectorEncoding(12, 13106.0)  # 5 * 13106 = 65530 <= 65535 = (2^17 - 2) / 2
    make_config(5, encoding=fits, group=RingGroup(17))
    with pytest.raises(EncodingOverflowError, match="may add up to 65540, but the largest integer of"):
        make_config(5, encoding=VectorEncoding(12, 13108.0), group=RingGroup(17))
    with pytest.raises(EncodingOverflowError):
        make_config(5, encoding=fits, group=RingGroup(17), noise_bound=6)
    with pytest.raises(EncodingOverflowError):
        make_config(5, encoding=VectorEncoding(12, 100.0, largest_weight=132), group=RingGroup(17))
    with pytest.raises(EncodingOverflowError):
        make_config(5, encoding=VectorEncoding(12, 1.0, units=1 << 30), group=RingGroup(32))


def test_pitfall_06_a_value_beyond_the_proof_is_refused_by_its_own_member():
    round_ = OpenRound().up_to("share")
    values = values_of(1)
    values[3] = 101
    with pytest.raises(EncodingOverflowError, match="the absolute value of an element is larger than 100"):
        round_.members[1].mask_input(round_.deliveries[1], values)


def test_pitfall_07_masked_vectors_are_uniform_and_sums_exact():
    """Floating-point masks are neither. Chi-square of the masked bytes of a constant vector."""
    length = 40_000
    config = make_config(3, length, encoding=VectorEncoding(length, 100.0), group=RingGroup(16))
    round_ = OpenRound(config).up_to("share")
    masked = round_.members[1].mask_input(round_.deliveries[1], np.full(length, 77, dtype=np.int64)).elements
    counts = np.bincount(np.frombuffer(masked, dtype=np.uint8), minlength=256)
    chi_square = float(((counts - len(masked) / 256) ** 2 / (len(masked) / 256)).sum())
    assert 160 < chi_square < 370  # 255 degrees of freedom: outside with probability below 1e-5
    assert np.array_equal(run(config).integers(), exact_sum((1, 2, 3), length))


def test_pitfall_08_the_coordinator_cannot_lower_a_members_floor():
    config = make_config(5)
    for floor in (
        {"smallest_cohort": 4},
        {"smallest_n_required": 4},
        {"largest_degree": 3},
        {"allowed_encodings": frozenset()},
    ):
        with pytest.raises(PolicyRefusalError):
            make_member(config, 2, policy=make_policy(config, **floor))


def test_pitfall_09_a_late_vector_stays_secret_and_a_retry_has_fresh_keys():
    """Member 5 masks its vector, is counted as dropped out, its mask key is opened, and then the vector arrives."""
    round_ = OpenRound().up_to("share")
    late = round_.members[5].mask_input(round_.deliveries[5], values_of(5))
    round_.mask(dropped_out={5})
    round_.sign()
    opened = round_.unmask()
    assert opened.survivors == (1, 2, 3, 4)
    with pytest.raises(LateMessageError, match="party-5 answered at the stage masked input when it was over"):
        round_.coordinator.receive(late)
    # What the coordinator can do with the opened key: take off the masks that member 5 has in common with the others.
    shares = {m: answer.key_shares[5] for m, answer in round_.unmasking.items()}
    private = RoundKey(recombine_secret(shares, 3))
    assert private.public_bytes == round_.advertisements[5].mask_public
    transcript, group = round_.sealed[1].transcript, round_.config.group
    total = group.unpack(late.elements, 12).copy()
    for j in (1, 2, 3, 4):
        key = pair_mask_key(
            private,
            round_.advertisements[j].mask_public,
            transcript=transcript,
            round_id=ROUND,
            vector="gradient",
            pair=(5, j),
        )
        apply_masks(group, total, [Mask(key, is_negative=True).opposite()])
    # What is left is its vector under its own mask, of whose seed no share was released.
    seed = entropy_of(5).read(96)[64:]
    assert not any(5 in answer.seed_shares for answer in round_.unmasking.values())
    assert not np.array_equal(group.decode(total), values_of(5))
    group.deduct(total, own_mask(5, transcript, seed, group))
    assert np.array_equal(group.decode(total), values_of(5))


def test_pitfall_09_a_retry_repeats_no_key():
    first = make_member(make_config(), 5, entropy=SystemEntropy()).advertise()
    second = make_member(retried(make_config()), 5, entropy=SystemEntropy()).advertise()
    for name in ("mask_public", "channel_public", "seed_digest", "signature"):
        assert getattr(first, name) != getattr(second, name)


def test_pitfall_10_losses_before_sharing_and_at_unmasking_are_survived():
    opened = run(make_config(7), dropouts={1: Stage.SHARE, 2: Stage.AGREE, 3: Stage.UNMASK})
    assert np.array_equal(opened.integers(), exact_sum((2, 3, 4, 5, 6, 7)))
    assert opened.dropped_out == {1: Stage.SHARE}
    assert opened.silent_after == {2: Stage.AGREE, 3: Stage.UNMASK}


def test_pitfall_11_members_with_different_models_share_no_mask():
    """The model-inconsistency attack gives one member another model, to tell its contribution apart in the sum."""
    round_ = AdversarialCoordinator.with_another_input_for(2)
    for member in round_.members.values():
        with pytest.raises(DifferentInputError):
            member.share_keys(round_.member_list)


def test_pitfall_11_the_public_input_is_part_of_every_key():
    transcripts = set()
    for public_input in (b"model 7", b"model 8"):
        options = {m: {"public_input": public_input} for m in range(1, 6)}
        round_ = OpenRound(member_options=options)
        advertisements = tuple(m.advertise() for m in round_.members.values())
        coordinator = SumCoordinator(round_.config, public_input)
        for ad in advertisements:
            coordinator.receive(ad)
        transcripts.add(round_.members[1].share_keys(coordinator.close_advertising()[1]).transcript)
    assert len(transcripts) == 2


def test_pitfall_12_masks_of_different_rounds_have_nothing_in_common():
    """Equal vectors in three rounds: no two masked ones differ by something that repeats."""
    masked = []
    for number in range(3):
        config = make_config(3, 4096, encoding=VectorEncoding(4096, 100.0), round_id=RoundId("session", number, 0))
        options = {m: {"entropy": InsecureTestEntropy(f"{number} {m}")} for m in range(1, 4)}
        round_ = OpenRound(config, options).up_to("share")
        elements = round_.members[1].mask_input(round_.deliveries[1], np.zeros(4096, dtype=np.int64)).elements
        masked.append(config.group.unpack(elements, 4096).astype(np.int64))
    for a, b in combinations(masked, 2):
        assert np.count_nonzero(a == b) < 5  # expected: 4096 / 2^20
    assert len(np.unique(masked[1] - masked[0])) > 4000
    assert len(np.unique(masked[2] - 2 * masked[1] + masked[0])) > 4000


def test_pitfall_12_a_sum_of_too_few_contributors_is_refused():
    with pytest.raises(PolicyRefusalError, match="a sum of 2 members may be opened; at least 3 here"):
        make_member(make_config(3), 1, policy=make_policy(make_config(3), smallest_cohort=3))


@pytest.mark.parametrize("dropouts", [{}, {2: Stage.MASK}, {2: Stage.SHARE, 4: Stage.MASK, 5: Stage.UNMASK}])
def test_pitfall_13_noise_does_not_fall_short_when_members_drop_out(dropouts):
    """Sizing each share for the expected members leaves too little noise; sizing it for the fewest leaves too much.

    A whole round with losses is opened. The variance of 20,000 coordinates errs by 1 %, so it is off by 7 % with
    probability below 1e-9; with one member more or less it would be off by at least 14 %.
    """
    length, levels = 20_000, (5, 6, 7)
    noise = sum_noise(900, length, levels, n_corrupt=0)
    config = make_config(
        7, length, topology=Topology.complete(7, 0, 5), surplus_levels=levels, noise_bound=noise.tail_bound(-40)
    )

    def noise_of(member, seeds):
        return noise.draw(InsecureTestEntropy(f"base {member}"), seeds)

    opened = run(config, noise_of=noise_of, dropouts=dropouts)
    lost = {m for m, stage in dropouts.items() if stage is not Stage.UNMASK}
    assert set(opened.survivors) == set(range(1, 8)) - lost
    exact = exact_sum(opened.survivors, length)
    left = noise.remove_surplus(opened).integers() - exact
    assert left.var() == pytest.approx(2 * 900, rel=0.07)
    assert abs(left.mean()) < 6.2 * (2 * 900 / length) ** 0.5
    before = (opened.integers() - exact).var()
    assert before == pytest.approx(2 * 900 * len(opened.survivors) / 5, rel=0.07)


def test_pitfall_14_shares_travel_sealed_and_bound_to_their_context():
    """FedML sends shares in the clear; Flower shares a PEM file and derives keys without salt or context."""
    round_ = OpenRound().up_to("share")
    secrets = [entropy_of(m).read(96) for m in range(1, 6)]
    relayed = b"".join(sealed for shares in round_.sealed.values() for sealed in shares.sealed.values())
    for secret in secrets:
        assert secret[:32] not in relayed
        assert secret[64:] not in relayed
    assert {len(s) for shares in round_.sealed.values() for s in shares.sealed.values()} == {2 * SHARE_BYTES + 16}
    a, b = RoundKey(bytes([1] * 32)), RoundKey(bytes([2] * 32))
    base = {"transcript": b"t" * 32, "round_id": ROUND}
    sealed = SealedChannel(a, b.public_bytes, me=1, them=2, **base).seal("shares", b"x" * 66)
    assert SealedChannel(b, a.public_bytes, me=2, them=1, **base).open("shares", sealed) == b"x" * 66
    for change in (
        {"me": 2, "them": 3},
        {"me": 3, "them": 1},
        {"transcript": b"u" * 32},
        {"round_id": RoundId("session", 3, 1)},
    ):
        with pytest.raises(InvalidTag):
            SealedChannel(b, a.public_bytes, **{"me": 2, "them": 1, **base, **change}).open("shares", sealed)
    with pytest.raises(InvalidTag):
        SealedChannel(b, a.public_bytes, me=2, them=1, **base).open("other kind", sealed)


LOW_ORDER = [
    bytes(32),
    bytes([1]) + bytes(31),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]


@pytest.mark.parametrize("point", LOW_ORDER)
@pytest.mark.parametrize("name", ["mask_public", "channel_public"])
def test_pitfall_15_low_order_points_abort_and_name_the_peer(point, name):
    """A malicious member advertises a point whose shared secret everybody knows."""
    round_ = OpenRound().up_to("advertise")
    bad = replace(round_.advertisements[4], **{name: point})
    signer = Ed25519PrivateKey.from_private_bytes(InsecureTestEntropy("identity 4").read(32))
    bad = replace(bad, signature=signer.sign(bad.signed_bytes()))
    with pytest.raises(PeerViolationError, match="party-4 advertised a key that is not a usable") as caught:
        SumCoordinator(round_.config, b"model 7").receive(bad)
    assert caught.value.member == 4
    shown = tuple(bad if ad.member == 4 else ad for ad in round_.member_list.advertisements)
    with pytest.raises(PeerViolationError, match=f"party-4 advertised a {name.removesuffix('_public')} key") as caught:
        round_.members[1].share_keys(replace(round_.member_list, advertisements=shown))
    assert caught.value.member == 4


def test_every_field_of_an_advertisement_is_signed():
    ad = make_member(make_config(), 1).advertise()
    for name in (f.name for f in dataclasses.fields(Advertisement) if f.name != "signature"):
        changed = {"round_id": RoundId("x", 0, 0), "member": 2}.get(name, b"\1" * 32)
        assert replace(ad, **{name: changed}).signed_bytes() != ad.signed_bytes()


def test_every_field_of_a_configuration_is_in_its_digest():
    config = make_config(6)
    others = {
        "round_id": RoundId("session", 4, 0),
        "roster": tuple(replace(entry, name=entry.name + "x") for entry in config.roster),
        "topology": Topology.complete(6, 1),
        "group": RingGroup(21),
        "vector": "weights",
        "encoding": replace(config.encoding, rounding=Rounding.STOCHASTIC),
        "noise_bound": 1,
        "surplus_levels": (4, 6),
    }
    assert others.keys() == {f.name for f in dataclasses.fields(RoundConfig)}
    digests = {replace(config, **{name: other}).digest for name, other in others.items()} | {config.digest}
    assert len(digests) == len(others) + 1
