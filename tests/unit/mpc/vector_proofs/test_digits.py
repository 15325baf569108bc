"""Digits: exactly the integers of a range have any."""

from itertools import product

import numpy as np
import pytest

from mpc.prime.kernels import PRIME
from mpc.vector_proofs.digits import LARGEST_TOP, Digits


@pytest.mark.parametrize("largest", [*range(1, 40), 255, 256, 300])
def test_digits_reach_every_integer_of_the_range_and_none_beyond(largest):
    digits = Digits.of_range(largest)
    reached = {
        sum(weight * digit for weight, digit in zip(digits.weights, some, strict=True))
        for some in product(*(range(top + 1) for top in digits.tops))
    }
    assert reached == set(range(largest + 1))
    assert digits.largest == largest
    assert max(digits.tops) <= LARGEST_TOP


@pytest.mark.parametrize("largest", [1, 2, 15, 16, 200, 2000, (1 << 21) - 1, 1 << 21, 10**12 + 7])
def test_integers_are_taken_apart_within_the_tops(largest):
    digits = Digits.of_range(largest)
    step = max(1, largest // 1000)
    integers = np.array([*range(0, largest + 1, step), largest], dtype=np.int64)
    found = digits.taken(integers)
    assert (found <= np.array(digits.tops, dtype=np.uint64)).all()
    assert (found.astype(np.int64) @ np.array(digits.weights)).tolist() == integers.tolist()


def test_an_integer_out_of_range_keeps_its_value_and_shows_in_its_first_digit():
    digits = Digits.of_range(200)
    for integer in (201, 1 << 30, -1, -(1 << 30)):
        found = [int(one) for one in digits.taken(np.array([integer]))[0]]
        assert sum(w * d for w, d in zip(digits.weights, found, strict=True)) % PRIME == integer % PRIME
        assert digits.tops[0] < found[0] < PRIME
        assert all(digit <= top for digit, top in zip(found[1:], digits.tops[1:], strict=True))


def test_small_ranges_are_one_digit_and_large_ones_few():
    assert Digits.of_range(1) == Digits((1,), (1,))
    assert Digits.of_range(15).weights == (1,)
    assert len(Digits.of_range(1 << 21).weights) == 6
