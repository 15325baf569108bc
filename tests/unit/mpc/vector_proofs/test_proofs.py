"""Proofs of vectors: what keeps its bounds passes, nothing else does, and what is opened says nothing of it."""

import numpy as np
import pytest

from entropy import KeyStream
from mpc.errors import OutOfRangeError
from mpc.prime import kernels as prime_kernels
from mpc.prime.field import element, elements, inverse, random
from mpc.prime.kernels import PRIME
from mpc.vector_proofs.claim import REPETITIONS, Claim
from mpc.vector_proofs.prover import challenge_of, first_part, second_part
from mpc.vector_proofs.verifier import Verifier, integers_of

N_PARTIES = 3
PLAIN = Claim(10, -100, 100)
NORMED = Claim(10, -100, 100, squared_norm=5000)
COUNTED = Claim(10, 0, 3, largest_sum=5)
WEIGHTED = Claim(5, -40, 40, weight=7)


def stream(number):
    return KeyStream(bytes(32), number)


def added(shares):
    total = shares[0].copy()
    for share in shares[1:]:
        prime_kernels.add_to(total, share)
    return total


def split(vector, number):
    shares = [random(stream(number + i), len(vector)) for i in range(N_PARTIES - 1)]
    last = vector.copy()
    for share in shares:
        prime_kernels.take_from(last, share)
    return [*shares, last]


def verifiers(claim, coin=5):
    return [Verifier(claim, stream(coin), is_first=party == 0) for party in range(N_PARTIES)]


def opened(claim, first, second, challenge, coin=5):
    both = zip(split(first, 10), split(second, 20), strict=True)
    return added([v.share_of(*one, challenge) for v, one in zip(verifiers(claim, coin), both, strict=True)])


def passes(claim, integers, *, alter=lambda first: None, answer=lambda second: None):
    first = first_part(claim, np.array(integers, dtype=np.int64), stream(1))
    alter(first)
    challenge = challenge_of(claim, stream(2))
    second = second_part(claim, first, challenge)
    answer(second)
    return verifiers(claim)[0].accepts(opened(claim, first, second, challenge), challenge)


def vector(claim, *values):
    return [*values, *[0] * (claim.length - len(values))]


@pytest.mark.parametrize("length", [1, 3, 4, 5, 31, 100])
def test_any_vector_within_its_bounds_passes_and_its_shares_add_up_to_it(length):
    claim = Claim(length, -9, 1000)
    integers = np.random.default_rng(length).integers(-9, 1001, length)
    integers[0], integers[-1] = 1000, -9
    first = first_part(claim, integers, stream(1))
    challenge = challenge_of(claim, stream(2))
    second = second_part(claim, first, challenge)
    assert verifiers(claim)[0].accepts(opened(claim, first, second, challenge), challenge)
    shares = [integers_of(claim, one, 1, is_first=i == 0) for i, one in enumerate(split(first, 10))]
    assert added(shares).tolist() == [int(one) % PRIME for one in integers]


@pytest.mark.parametrize(
    ("claim", "integers"),
    [
        (PLAIN, vector(PLAIN, 100, -100)),
        (NORMED, vector(NORMED, 50, -50)),
        (NORMED, vector(NORMED)),
        (COUNTED, vector(COUNTED, 3, 2)),
        (COUNTED, vector(COUNTED)),
        (WEIGHTED, [*vector(WEIGHTED, 40), 7]),
        (WEIGHTED, [*vector(WEIGHTED, -40), 0]),
    ],
)
def test_what_is_at_its_bounds_passes(claim, integers):
    assert passes(claim, integers)


@pytest.mark.parametrize(
    ("claim", "integers"),
    [
        (PLAIN, vector(PLAIN, 101)),
        (PLAIN, vector(PLAIN, 0, -101)),
        (PLAIN, vector(PLAIN, 1 << 30)),
        (PLAIN, vector(PLAIN, -(1 << 62))),
        (NORMED, vector(NORMED, 50, -50, 1)),
        (NORMED, [23] * 10),
        (COUNTED, vector(COUNTED, 3, 3)),
        (COUNTED, vector(COUNTED, 4)),
        (COUNTED, vector(COUNTED, 3, -1)),
        (WEIGHTED, [*vector(WEIGHTED, 40), 8]),
        (WEIGHTED, [*vector(WEIGHTED, 40), -1]),
        (WEIGHTED, [*vector(WEIGHTED, 41), 7]),
    ],
)
def test_what_is_beyond_a_bound_is_rejected(claim, integers):
    assert not passes(claim, integers)


@pytest.mark.parametrize("place", [0, 7, -1])
@pytest.mark.parametrize("claim", [PLAIN, NORMED])
def test_an_altered_element_of_either_part_is_rejected(claim, place):
    def one_more(words):
        words[place] = (int(words[place]) + 1) % PRIME

    assert not passes(claim, vector(claim, 1, 2), answer=one_more)
    first = first_part(claim, np.array(vector(claim, 1, 2)), stream(1))
    challenge = challenge_of(claim, stream(2))
    second = second_part(claim, first, challenge)
    one_more(first)
    assert not verifiers(claim)[0].accepts(opened(claim, first, second, challenge), challenge)


def test_the_proof_of_another_vector_and_that_of_another_challenge_are_rejected():
    challenge, other = challenge_of(PLAIN, stream(2)), challenge_of(PLAIN, stream(3))
    honest = first_part(PLAIN, np.array(vector(PLAIN, 1)), stream(1))
    lie = first_part(PLAIN, np.array(vector(PLAIN, 1 << 30)), stream(1))
    check = verifiers(PLAIN)[0]
    assert not check.accepts(opened(PLAIN, lie, second_part(PLAIN, honest, challenge), challenge), challenge)
    assert not check.accepts(opened(PLAIN, honest, second_part(PLAIN, honest, other), challenge), challenge)
    assert check.accepts(opened(PLAIN, honest, second_part(PLAIN, honest, challenge), challenge), challenge)


def test_a_liar_who_knows_the_challenge_and_the_point_passes_and_who_knows_either_alone_does_not():
    """What the proof rests on: the challenge follows from the shares, and the point is drawn when all is fixed."""
    challenge = challenge_of(PLAIN, stream(2))
    lie = first_part(PLAIN, np.array(vector(PLAIN, 1 << 30)), stream(1))
    second = second_part(PLAIN, lie, challenge)

    def patched(coin):
        """The second part so that both sides agree at the point of this coin."""
        changed, check = second.copy(), verifiers(PLAIN, coin)[0]
        of_rows = opened(PLAIN, lie, second, challenge, coin)
        zeros = np.zeros((1, REPETITIONS), dtype=np.uint64)
        tops = elements(list(PLAIN.table.tops))
        values = of_rows[None, : PLAIN.table.columns].copy()
        prime_kernels.range_sums(zeros, values, tops, np.ascontiguousarray(challenge[:, : PLAIN.table.columns]))
        for repetition in range(REPETITIONS):
            place = repetition * PLAIN.table.base * PLAIN.table.rows
            wanted = int(zeros[0, repetition]) - int(of_rows[PLAIN.table.columns + repetition])
            step = wanted * inverse(int(check._of_quotient[0]))
            changed[place] = element(int(changed[place]) + step)
        return changed

    def is_accepted(words, coin):
        return verifiers(PLAIN, coin)[0].accepts(opened(PLAIN, lie, words, challenge, coin), challenge)

    assert is_accepted(patched(5), 5)
    assert not is_accepted(patched(6), 5)


@pytest.mark.parametrize("claim", [PLAIN, NORMED, COUNTED, WEIGHTED])
def test_what_is_opened_can_be_made_of_any_other_vector(claim):
    """For every vector there are masks of columns with which the very same elements are opened."""
    extra = [] if claim.weight is None else [1]
    challenge, table = challenge_of(claim, stream(2)), claim.table
    one = first_part(claim, np.array(vector(claim, 3, 1) + extra), stream(1))
    other = first_part(claim, np.array(vector(claim, 0, 0, 2) + extra), stream(3))
    seen = opened(claim, one, second_part(claim, one, challenge), challenge)
    unlike = opened(claim, other, second_part(claim, other, challenge), challenge)
    vanishing = inverse(int(verifiers(claim)[0]._of_rows[-1]))
    for column in range(table.columns):
        place = table.rows * table.columns + column
        other[place] = element(int(other[place]) + (int(seen[column]) - int(unlike[column])) * vanishing)
    assert not np.array_equal(one[: table.entry_columns], other[: table.entry_columns])
    assert opened(claim, other, second_part(claim, other, challenge), challenge).tolist() == seen.tolist()


def test_two_proofs_of_one_vector_open_other_values_in_every_column():
    columns = []
    for number in (1, 3):
        first = first_part(PLAIN, np.array(vector(PLAIN, 5)), stream(number))
        challenge = challenge_of(PLAIN, stream(2))
        found = opened(PLAIN, first, second_part(PLAIN, first, challenge), challenge)
        columns.append(found[: PLAIN.table.columns])
    assert (columns[0] != columns[1]).all()


def test_a_point_is_never_one_at_which_columns_show_digits():
    first = first_part(PLAIN, np.array(vector(PLAIN, 1)), stream(1))
    assert all(int(Verifier(PLAIN, stream(coin), is_first=True)._of_rows[-1]) != 0 for coin in range(20))
    assert len(first) == PLAIN.table.first_part


@pytest.mark.parametrize(
    "fields",
    [
        {"length": 0, "lowest": 0, "highest": 1},
        {"length": 1, "lowest": 1, "highest": 2},
        {"length": 1, "lowest": 0, "highest": 0},
        {"length": 1, "lowest": -1, "highest": 1, "largest_sum": 1},
        {"length": 1000, "lowest": -(1 << 30), "highest": 1 << 30, "squared_norm": 1 << 62},
        {"length": 1, "lowest": 0, "highest": 1 << 63},
        {"length": 1 << 22, "lowest": 0, "highest": 20},
    ],
)
def test_claims_that_the_field_cannot_hold_are_refused(fields):
    with pytest.raises(OutOfRangeError):
        Claim(**fields)


def test_the_error_and_the_sizes_of_a_vector_of_a_thousand():
    table = Claim(1000, -(1 << 20), 1 << 20).table
    assert table.log2_error() < -50
    assert (table.first_part + table.second_part) * 8 < 64 << 10
    assert table.opened < 256
