import numpy as np
import pytest
from sharings import random_words

from mpc.arithmetic.balanced import balanced, inner_products, packed, reduce_in_place
from mpc.arithmetic.field import ResidueField


@pytest.mark.parametrize("n_primes", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 7)])
def test_residues_are_balanced_and_packed_again(n_primes, shape):
    field = ResidueField(n_primes)
    words = random_words(field, shape, "words")
    residues = balanced(field, words)
    assert residues.shape == (n_primes, *shape)
    for part, expected, p in zip(residues, field.residues(words), field.primes, strict=True):
        assert abs(part).max() <= (p - 1) / 2
        np.testing.assert_array_equal(part.astype(int) % p, expected)
    np.testing.assert_array_equal(packed(field, residues), words)


def test_views_without_order_in_memory():
    field = ResidueField(4)
    words = random_words(field, (6, 8), "words")
    np.testing.assert_array_equal(balanced(field, words[:, ::2, 3:5]), balanced(field, words)[:, ::2, 3:5])


@pytest.mark.parametrize("length", [1, 4096, 20_001])
@pytest.mark.parametrize("sign", [-1, 1])
def test_inner_products_of_the_largest_residues_are_exact(length, sign):
    field = ResidueField(3)
    largest = np.array([(p - 1) // 2 for p in field.primes], dtype=float)[:, None, None] * np.ones((2, length))
    found = inner_products(field, largest, sign * largest)
    for part, p in zip(found, field.primes, strict=True):
        assert (part.astype(int) % p == sign * ((p - 1) // 2) ** 2 * length % p).all()


def test_batches_of_matrices():
    field = ResidueField(2)
    a, b = (balanced(field, random_words(field, (3, n, 50), str(n))) for n in (4, 5))
    found = packed(field, inner_products(field, a, b))
    for i, p in enumerate(field.primes):
        expected = np.einsum("rnl,rml->rnm", a[i].astype(object), b[i].astype(object)) % p
        np.testing.assert_array_equal(field.residues(found)[i], expected.astype(int))


def test_sums_are_reduced_where_they_are():
    field = ResidueField(2)
    sums = np.full((2, 3), 2.0**52)
    assert reduce_in_place(field, sums) is sums
    for part, p in zip(sums, field.primes, strict=True):
        assert (part.astype(int) % p == 2**52 % p).all()
