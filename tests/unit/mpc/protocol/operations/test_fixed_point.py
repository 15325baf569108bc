"""Fractions of a declared scale against Python's."""

from fractions import Fraction

import numpy as np
import pytest
from programs import ROSTERS, opened

from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldTooSmallError, LocalFaultError
from mpc.protocol.operations.fixed_point import from_fixed, to_fixed

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("n_primes", [3, 4])
@pytest.mark.parametrize(("n_parties", "t"), ROSTERS)
def test_what_is_truncated_is_off_by_less_than_one_and_half_of_t(n_parties, t, n_primes):
    x = RNG.integers(-1000, 1001, 500)

    async def body(c, shared):
        return await c.truncate(shared, 4)

    got = opened(body, x, bound=1000, n_parties=n_parties, t=t, field=ResidueField(n_primes))
    errors = [Fraction(int(y)) - Fraction(int(v), 16) for y, v in zip(got, x, strict=True)]
    assert max(map(abs, errors)) < 1 + Fraction(t, 2)
    assert abs(sum(errors)) < 0.15 * len(errors)  # rounding is unbiased


def test_errors_fill_the_range_that_is_stated():
    """What the bound excludes nearly happens: it is no looser than it must be."""

    async def body(c, shared):
        return await c.truncate(shared, 4)

    x = np.repeat([7, 10], 3000)
    errors = opened(body, x, bound=1000) - x / 16
    assert errors.max() == 22 / 16
    assert errors.min() == -23 / 16


def test_products_of_fractions_keep_their_scale():
    x, y = RNG.uniform(-4, 4, (2, 200))
    scale = 8
    fixed_x, fixed_y = to_fixed(x, scale), to_fixed(y, scale)

    async def body(c, a, b):
        return await c.multiply_fixed(a, b, scale)

    got = opened(body, fixed_x, fixed_y, bound=4 << scale, field=ResidueField(4))
    exact = fixed_x * fixed_y / (1 << scale)
    assert np.abs(got - exact).max() < 1.5
    assert np.abs(from_fixed(got, scale) - x * y).max() < 0.03


def test_a_matrix_product_of_fractions_is_truncated_once_per_entry():
    x, y = RNG.uniform(-1, 1, (2, 6, 6))
    scale = 8
    fixed_x, fixed_y = to_fixed(x, scale), to_fixed(y, scale)

    async def body(c, a, b):
        return await c.matmul_fixed(a, b, scale)

    got = opened(body, fixed_x, fixed_y, bound=1 << scale, field=ResidueField(4))
    assert np.abs(got - fixed_x @ fixed_y / (1 << scale)).max() < 1.5


def test_a_scale_too_fine_for_the_field_is_refused():
    async def body(c, shared):
        return await c.truncate(shared, 8)

    with pytest.raises(FieldTooSmallError):
        opened(body, [1], bound=1 << 40)
    for n_bits in (0, 63):

        async def out_of_range(c, shared, n_bits=n_bits):
            return await c.truncate(shared, n_bits)

        with pytest.raises(LocalFaultError, match="can be cut off"):
            opened(out_of_range, [1], bound=1)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_what_is_no_number_of_a_scale_is_refused(value):
    with pytest.raises(LocalFaultError, match="not finite"):
        to_fixed([value], 4)
