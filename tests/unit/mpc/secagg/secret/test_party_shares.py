"""Additive shares for parties: they add up, any but one of them say nothing, and each opens for its party alone."""

from itertools import combinations

import numpy as np
import pytest
from uniformity import chi_squared_of_bytes

from entropy import InsecureTestEntropy, SystemEntropy
from mpc.errors import LocalFaultError, OutOfRangeError, ShapeError
from mpc.secagg.secret.keys import RoundKey
from mpc.secagg.secret.party_shares import (
    SEED_BYTES,
    TAG_BYTES,
    SealingTerms,
    ShareSum,
    answer_digest,
    open_share,
    seal,
    share_bytes,
    split,
)
from mpc.secagg.vector.group import RingGroup

PARTIES = ("bank", "clinic", "shop")
TERMS = SealingTerms(bytes(32), "ann", PARTIES)


def keys(n=3):
    return [RoundKey(SystemEntropy().read(32)) for _ in range(n)]


@pytest.mark.parametrize("n_parties", [2, 3, 5])
@pytest.mark.parametrize("bits", [16, 22, 32, 40, 64])
def test_the_shares_of_many_devices_add_up_to_their_sum(bits, n_parties):
    group, length = RingGroup(bits), 301
    rng = np.random.default_rng(bits)
    vectors = [rng.integers(-1000, 1000, length) for _ in range(4)]
    sums = [ShareSum(group, length, place, n_parties) for place in range(n_parties)]
    for vector in vectors:
        shares = split(group, group.encode(vector), n_parties, SystemEntropy())
        assert [len(share) for share in shares] == [share_bytes(group, length, p, n_parties) for p in range(n_parties)]
        for of_party, share in zip(sums, shares, strict=True):
            of_party.check(share)
            of_party.add([share])
    total = group.zeros(length)
    for of_party in sums:
        group.accumulate(total, group.unpack(group.pack(of_party.total), length))
    assert group.decode(total).tolist() == sum(vectors).tolist()


def test_what_was_added_can_be_taken_away_again():
    group = RingGroup(22)
    for place in range(3):
        of_party = ShareSum(group, 70, place, 3)
        shares = [split(group, group.encode(np.arange(70)), 3, SystemEntropy())[place] for _ in range(3)]
        of_party.add(shares)
        before = group.pack(of_party.total)
        more = split(group, group.encode(np.arange(70)), 3, SystemEntropy())[place]
        of_party.add([more])
        assert group.pack(of_party.total) != before
        of_party.take_away([more])
        assert group.pack(of_party.total) == before


def test_the_vector_itself_is_not_changed():
    group = RingGroup(32)
    elements = group.encode(np.array([1, 2, 3]))
    split(group, elements, 3, SystemEntropy())
    assert group.decode(elements).tolist() == [1, 2, 3]


def test_one_party_alone_gets_no_share():
    with pytest.raises(LocalFaultError, match="at least two parties"):
        split(RingGroup(32), RingGroup(32).zeros(3), 1, SystemEntropy())


@pytest.mark.parametrize("value", [0, 12345, -1])
@pytest.mark.parametrize("known", list(combinations(range(3), 2)))
def test_any_two_of_three_shares_look_uniform_whatever_the_vector(known, value):
    """A constant vector would show in any share, or sum of shares, that is not masked by one that is not known."""
    group, length = RingGroup(32), 1 << 15
    shares = split(group, group.encode(np.full(length, value)), 3, SystemEntropy())
    together = group.zeros(length)
    for place in known:
        one = ShareSum(group, length, place, 3)
        one.add([shares[place]])
        assert abs(chi_squared_of_bytes(one.total)) < 9  # beyond with probability 1e-13
        group.accumulate(together, one.total)
    assert abs(chi_squared_of_bytes(together)) < 9


def test_all_three_do_not_look_uniform():
    group, length = RingGroup(32), 1 << 15
    shares = split(group, group.encode(np.full(length, 12345)), 3, SystemEntropy())
    together = group.zeros(length)
    for place, share in enumerate(shares):
        one = ShareSum(group, length, place, 3)
        one.add([share])
        group.accumulate(together, one.total)
    assert chi_squared_of_bytes(together) > 1000


def test_shares_of_one_vector_are_drawn_anew_each_time():
    group = RingGroup(32)
    entropy = SystemEntropy()
    first, second = (split(group, group.zeros(5), 3, entropy) for _ in range(2))
    assert not set(first) & set(second)


def test_each_share_opens_for_its_party_and_for_no_other():
    group, parties = RingGroup(32), keys()
    shares = split(group, group.zeros(9), 3, SystemEntropy())
    vector = seal(TERMS, shares, [key.public_bytes for key in parties], SystemEntropy())
    assert [len(one) for one in vector.sealed] == [SEED_BYTES + TAG_BYTES] * 2 + [36 + TAG_BYTES]
    for place, share in enumerate(shares):
        assert open_share(TERMS, place, parties[place], vector.ephemeral_public, vector.sealed[place]) == share
        for other in range(3):
            if other != place:
                with pytest.raises(ValueError, match="does not open"):
                    open_share(TERMS, place, parties[other], vector.ephemeral_public, vector.sealed[place])
                with pytest.raises(ValueError, match="does not open"):
                    open_share(TERMS, other, parties[place], vector.ephemeral_public, vector.sealed[place])


@pytest.mark.parametrize(
    "terms",
    [
        SealingTerms(bytes([1]) * 32, "ann", PARTIES),
        SealingTerms(bytes(32), "ben", PARTIES),
        SealingTerms(bytes(32), "ann", ("bank", "clinic")),
        SealingTerms(bytes(32), "ann", ("another", "clinic", "shop")),
    ],
    ids=["another batch", "another device", "another number of parties", "another party"],
)
def test_a_share_does_not_open_under_other_terms(terms):
    parties = keys()
    vector = seal(TERMS, [bytes(32)] * 3, [key.public_bytes for key in parties], SystemEntropy())
    with pytest.raises(ValueError, match="does not open"):
        open_share(terms, 0, parties[0], vector.ephemeral_public, vector.sealed[0])


def test_an_altered_share_and_an_unusable_key_are_refused():
    parties = keys()
    vector = seal(TERMS, [bytes(32)] * 3, [key.public_bytes for key in parties], SystemEntropy())
    altered = bytes([vector.sealed[0][0] ^ 1]) + vector.sealed[0][1:]
    with pytest.raises(ValueError, match="does not open"):
        open_share(TERMS, 0, parties[0], vector.ephemeral_public, altered)
    for public in (bytes(32), b"short"):
        with pytest.raises(ValueError):  # noqa: PT011 - of the library
            open_share(TERMS, 0, parties[0], public, vector.sealed[0])
        with pytest.raises(ValueError):  # noqa: PT011
            seal(TERMS, [bytes(32)] * 3, [public] * 3, SystemEntropy())


def test_no_share_of_another_length_is_added():
    group = RingGroup(22)
    for place, wrong in ((0, bytes(31)), (0, bytes(33)), (2, bytes(32))):
        with pytest.raises(ValueError, match="another length"):
            ShareSum(group, 70, place, 3).check(wrong)
    packed = bytearray(group.wire_bytes(69))
    packed[-1] = 0xFF  # an unused bit
    with pytest.raises((OutOfRangeError, ShapeError)):
        ShareSum(group, 69, 2, 3).check(bytes(packed))


def test_the_digest_of_an_answer_holds_all_that_is_in_it():
    digests = [bytes([place]) * 32 for place in range(3)]
    other_parties = SealingTerms(bytes(32), "ann", ("clinic", "bank", "shop"))
    found = {
        answer_digest(TERMS, bytes(32), digests),
        answer_digest(TERMS, bytes([1]) * 32, digests),
        answer_digest(TERMS, bytes(32), digests[::-1]),
        answer_digest(SealingTerms(bytes([1]) * 32, "ann", PARTIES), bytes(32), digests),
        answer_digest(SealingTerms(bytes(32), "ben", PARTIES), bytes(32), digests),
        answer_digest(other_parties, bytes(32), digests),
    }
    assert len(found) == 6


def test_nothing_secret_is_shown():
    of_party = ShareSum(RingGroup(32), 3, 0, 3)
    of_party.add([InsecureTestEntropy("seed").read(32)])
    assert "total" not in repr(of_party)
