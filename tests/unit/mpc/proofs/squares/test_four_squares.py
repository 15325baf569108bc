"""Every number is the sum of four squares that the search finds."""

import numpy as np
import pytest

from mpc.proofs.squares.four_squares import LARGEST, four_squares


def sums(numbers):
    found = four_squares(np.asarray(numbers))
    assert found.min() >= 0
    return (found**2).sum(axis=1)


def test_small_numbers_all():
    numbers = np.arange(1 << 18)
    assert np.array_equal(sums(numbers), numbers)


@pytest.mark.parametrize("bits", [21, 26, 32, 40, 46, 52, 60])
def test_numbers_of_every_size(bits):
    numbers = np.random.default_rng(bits).integers(0, 1 << bits, 20_000, endpoint=True)
    assert np.array_equal(sums(numbers), numbers)


def test_multiples_of_high_powers_of_4_have_few_squares_and_are_found():
    numbers = np.array([m << 2 * a for a in range(30) for m in (1, 2, 3, 7, 14, 15, 28, 60) if m << 2 * a <= LARGEST])
    assert np.array_equal(sums(numbers), numbers)


def test_other_numbers_give_zeros_instead_of_an_error():
    assert not four_squares(np.array([0, -1, LARGEST + 1, -(1 << 63), (1 << 63) - 1])).any()
