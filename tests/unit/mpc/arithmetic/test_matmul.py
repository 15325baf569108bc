import numpy as np
import pytest
from sharings import as_integers, random_words

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.matmul import matrix_product
from mpc.errors import ShapeError


def exact(field, a, b):
    """By Python integers."""
    product = as_integers(field, a).dot(as_integers(field, b)) % field.order
    return np.where(product > field.half_order, product - field.order, product)


@pytest.mark.parametrize("n_primes", [1, 3, 4, 6])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 2), (1, 40, 7), (4, 0, 3), (0, 2, 2)], ids=str)
def test_small_products_equal_those_of_python_integers(n_primes, shape):
    field = ResidueField(n_primes)
    n, k, m = shape
    a, b = random_words(field, (n, k), "a"), random_words(field, (k, m), "b")
    np.testing.assert_array_equal(as_integers(field, matrix_product(field, a, b)), exact(field, a, b))


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_longer_than_float64_could_hold_are_exact(sign):
    """20000 products of residues near the largest balanced ones add up to more than 2^54 in size."""
    field, depth = ResidueField(3), 20000
    rng = np.random.default_rng(1)
    large = [[(p - 1) // 2 - rng.integers(0, 1000, depth) for p in field.primes] for _ in range(2)]
    a = field.pack([r % p for r, p in zip(large[0], field.primes, strict=True)])[:, None, :]
    b = field.pack([sign * r % p for r, p in zip(large[1], field.primes, strict=True)])[:, :, None]
    pairs = zip(*large, field.primes, strict=True)
    expected = [sign * sum(int(x) * int(y) for x, y in zip(left, right, strict=True)) % p for left, right, p in pairs]
    assert [int(r[0, 0]) for r in field.residues(matrix_product(field, a, b))] == expected


def test_products_of_several_tiles_and_of_transposed_views_equal_those_of_contiguous_pieces():
    field = ResidueField(3)
    a, b = random_words(field, (1030, 9), "a"), random_words(field, (1100, 9), "b")
    whole = matrix_product(field, a, b.transpose(0, 2, 1))
    rows, columns = np.array([0, 5, 1023, 1024, 1029]), np.array([3, 1023, 1024, 1099])
    picked = matrix_product(field, a[:, rows], np.ascontiguousarray(b[:, columns].transpose(0, 2, 1)))
    np.testing.assert_array_equal(whole[:, rows][:, :, columns], picked)
    np.testing.assert_array_equal(
        as_integers(field, picked), exact(field, a[:, rows], b[:, columns].transpose(0, 2, 1))
    )


@pytest.mark.parametrize(("left", "right"), [((2, 3), (2, 3)), ((3,), (3, 2)), ((2, 3), (3,))], ids=str)
def test_what_has_no_product_is_refused(left, right):
    field = ResidueField(3)
    with pytest.raises(ShapeError):
        matrix_product(field, field.zeros(left), field.zeros(right))
