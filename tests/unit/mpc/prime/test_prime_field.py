"""Residues modulo 2^64 - 2^32 + 1: kernels against Python's integers, draws, transforms and weights of values."""

import numpy as np
import pytest

from entropy import KeyStream
from mpc.prime import kernels as prime_kernels
from mpc.prime.field import (
    coefficients_of,
    draw,
    elements,
    inverse,
    random,
    roots_of_unity,
    shifts,
    values_of,
    weights_at,
)
from mpc.prime.kernels import PRIME

EDGES = (
    0,
    1,
    2,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    PRIME // 2,
    (1 << 63) + 5,
    PRIME - (1 << 32),
    PRIME - 2,
    PRIME - 1,
)


@pytest.fixture
def stream():
    return KeyStream(bytes(32))


def some(stream, n=200):
    return [*EDGES, *(int(one) for one in random(stream, n))]


def test_elements_are_added_subtracted_and_multiplied_as_integers_modulo_the_prime(stream):
    for left in EDGES:
        others = some(stream)
        for kernel, expected in (
            (prime_kernels.add_to, lambda a, b: a + b),
            (prime_kernels.take_from, lambda a, b: a - b),
        ):
            found = elements([left] * len(others))
            kernel(found, elements(others))
            assert found.tolist() == [expected(left, right) % PRIME for right in others]
        for right in others:
            assert int(prime_kernels.inner_product(elements([left]), elements([right]))) == left * right % PRIME


def test_sums_of_products_are_reduced(stream):
    left, right = some(stream), some(stream)[::-1]
    product = sum(a * b for a, b in zip(left, right, strict=True)) % PRIME
    assert int(prime_kernels.inner_product(elements(left), elements(right))) == product
    rows = random(stream, 5, 3)
    out = np.empty(3, dtype=np.uint64)
    prime_kernels.combine_rows(out, rows, elements(left[:5]))
    assert out.tolist() == [sum(left[i] * int(rows[i, c]) for i in range(5)) % PRIME for c in range(3)]


@pytest.mark.parametrize("top", [1, 2, 3, 4, 5, 14, 15])
def test_range_products_vanish_on_digits_and_nowhere_else(top):
    values = elements([*range(top + 1), top + 1, PRIME - 1, 1 << 30])[:, None]
    out = np.empty((len(values), 1), dtype=np.uint64)
    prime_kernels.range_sums(out, values, elements([top]), elements([1])[:, None])
    expected = [np.prod([int(w) - v for v in range(top + 1)], dtype=object) % PRIME for w in values[:, 0]]
    assert out[:, 0].tolist() == expected
    assert [one == 0 for one in expected] == [True] * (top + 1) + [False] * 3


def test_drawn_elements_are_below_the_prime_and_words_above_it_are_replaced_in_their_order():
    class Words:
        """A stream that begins with words that are no elements."""

        def __init__(self, *words):
            self._words = list(words)

        def fill(self, out):
            out[:] = self._words[: len(out)]
            del self._words[: len(out)]

        def words(self, n):
            return np.array([self._words.pop(0) for _ in range(n)], dtype=np.uint64)

    out = np.empty(3, dtype=np.uint64)
    draw(Words(PRIME, 5, (1 << 64) - 1, PRIME + 1, 7, PRIME, 8), out)
    assert out.tolist() == [7, 5, 8]


@pytest.mark.parametrize("order", [2, 4, 32])
def test_transforms_take_coefficients_to_values_at_roots_of_unity_and_back(stream, order):
    coefficients = random(stream, order, 3)
    roots = [int(root) for root in roots_of_unity(order)]
    assert len(set(roots)) == order
    assert all(pow(root, order, PRIME) == 1 for root in roots)
    values = values_of(coefficients)
    for k, root in enumerate(roots):
        expected = [sum(int(coefficients[i, c]) * pow(root, i, PRIME) for i in range(order)) % PRIME for c in range(3)]
        assert values[k].tolist() == expected
    assert coefficients_of(values).tolist() == coefficients.tolist()


def test_weights_make_the_value_at_a_point_of_values_on_cosets(stream):
    order, cosets = 8, shifts(3)
    coefficients = [int(one) for one in random(stream, 24)]
    point = 123456789

    def value(t):
        return sum(c * pow(t, i, PRIME) for i, c in enumerate(coefficients)) % PRIME

    roots = [int(root) for root in roots_of_unity(order)]
    on_cosets = elements([value(shift * root % PRIME) for shift in cosets for root in roots])
    weights = weights_at(point, order, cosets).reshape(-1)
    assert int(prime_kernels.inner_product(on_cosets, weights)) == value(point)
    assert len({pow(shift, order, PRIME) for shift in (1, *cosets)}) == 4, "cosets are disjoint"
    assert inverse(7) * 7 % PRIME == 1
