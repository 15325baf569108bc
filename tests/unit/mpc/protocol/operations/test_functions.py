"""Functions of fractions on shares against those of Python, with the errors that their docstrings state."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from programs import opened, run_shared

from mpc.arithmetic import chebyshev
from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldTooSmallError, LocalFaultError
from mpc.protocol.session import COORDINATOR

RNG = np.random.default_rng(9)
FIELD = ResidueField(6)
W = 20
SIZES = np.concatenate([np.arange(9), 1 << np.arange(W), (1 << np.arange(2, W)) - 1, RNG.integers(1, 1 << W, 20)])
"""Integers of at most 20 bits: 0, each power of two and the integer below it, any."""


def errors(body, exact, *values, bound, **options):
    """Return by how many units of the last place each result is off."""
    got = opened(body, *values, bound=bound, field=FIELD, **options)
    return np.abs(got.astype(float) - exact)


def one(method, *arguments, **options):
    async def body(c, x):
        return await getattr(c, method)(x, *arguments, **options)

    return body


@pytest.mark.parametrize(
    ("method", "exponent", "scale", "n_parties", "t"),
    [
        ("reciprocal", -1, 10, 3, 1),
        ("reciprocal", -1, 10, 4, 1),
        ("sqrt", 0.5, 12, 3, 1),
        ("reciprocal_sqrt", -0.5, 11, 5, 2),
    ],
)
def test_powers_are_off_by_less_than_two_and_t_units(method, exponent, scale, n_parties, t):
    exact = np.where(SIZES == 0, 0, 2.0**scale * (np.maximum(SIZES, 1) / 2.0**scale) ** exponent)
    off = errors(one(method, scale), exact, SIZES, bound=(1 << W) - 1, n_parties=n_parties, t=t)
    assert off.max() < 2 + t


@pytest.mark.parametrize(("scale", "least"), [(2, 1), (10, 1000)])
def test_quotients_are_off_by_less_than_two_and_t_units(scale, least):
    divisors = np.where(least > SIZES, 0, SIZES)
    x = RNG.integers(1 - (1 << W), 1 << W, SIZES.size)
    exact = np.where(divisors == 0, 0, x * 2.0**scale / np.maximum(divisors, 1))

    async def body(c, a, b):
        return await c.divide(a, b, scale, least=least)

    assert errors(body, exact, x, divisors, bound=(1 << W) - 1).max() < 3


def test_below_the_least_value_a_quotient_is_wrong_but_of_the_stated_size():
    """Nothing wraps: masks are as long as the bound says."""

    async def body(c, x):
        made = await c.reciprocal(x, 10, least=512)
        assert made.bound < 1 << 13
        return made

    assert opened(body, [1, 3, 511], bound=(1 << W) - 1, field=FIELD).max() < 1 << 12


def test_logarithms_are_off_by_less_than_three_units():
    x = SIZES[SIZES > 0]
    assert errors(one("log", 12), 4096 * np.log(x / 4096), x, bound=(1 << W) - 1).max() < 3


@pytest.mark.parametrize(("scale", "low", "high"), [(16, -8, 0), (12, -4, 4), (8, 1, 3)])
def test_exponentials_are_off_by_less_than_two_units(scale, low, high):
    x = np.concatenate([[low << scale, high << scale], RNG.integers(low << scale, (high << scale) + 1, 60)])
    off = errors(one("exp", scale, interval=(low, high)), 2.0**scale * np.exp(x / 2.0**scale), x, bound=8 << scale)
    assert off.max() < 2.5


@pytest.mark.parametrize(("n_parties", "t", "largest"), [(3, 1, 6), (3, 1, 30), (5, 2, 30)])
def test_a_sigmoid_is_right_near_and_far(n_parties, t, largest):
    scale = 10
    x = np.concatenate([np.array([-largest, 0, largest]) << scale, RNG.integers(-largest << 10, largest << 10, 60)])
    off = errors(one("sigmoid", scale), 1024 / (1 + np.exp(-x / 1024)), x, bound=30 << 10, n_parties=n_parties, t=t)
    assert off.max() < 2.5 + t / 2


def cosine(x: Decimal) -> Decimal:
    term = total = Decimal(1)
    for k in range(1, 40):
        term *= -x * x / (2 * k * (2 * k - 1))
        total += term
    return total


def test_a_function_of_ones_own_is_evaluated():
    x = RNG.integers(-3 << 12, 3 << 12, 60)
    off = errors(one("smooth", cosine, 12), 4096 * np.cos(x / 4096), x, bound=3 << 12)
    assert off.max() < 2.5


def test_means_and_variances_are_those_of_numpy():
    x = RNG.integers(-3000, 3001, (100, 3))
    assert errors(one("mean"), x.mean(0), x, bound=3000).max() < 2
    assert errors(one("variance", 8), x.var(0) / 256, x, bound=3000).max() < 2
    same = np.full((7, 1), 2999)
    assert errors(one("variance", 0), 0, same, bound=3000).max() < 2


def test_sums_by_a_secret_key_are_those_of_each_group():
    keys, values = RNG.integers(0, 5, 40), RNG.integers(-9, 10, (40, 2))

    async def body(c, k, v):
        return await c.group_sums(v, k, 5)

    expected = np.array([values[keys == group].sum(0) for group in range(5)])
    np.testing.assert_array_equal(opened(body, keys, values, bound=10), expected)
    np.testing.assert_array_equal(opened(body, keys, values[:, 0], bound=10), expected[:, 0])


@pytest.mark.parametrize(
    ("body", "error", "why"),
    [
        (one("reciprocal", 18), FieldTooSmallError, "use more primes"),
        (one("reciprocal", 40), LocalFaultError, "can be cut off"),
        (one("power", Fraction(3), 4), LocalFaultError, "exponents -1, 1/2, -1/2, not 3"),
        (one("reciprocal", 4, least=0), LocalFaultError, "least value"),
        (one("exp", 4, interval=(1, 1)), LocalFaultError, "holds nothing"),
        (one("smooth", abs, 4), LocalFaultError, "do not suffice"),
        (one("smooth", Decimal.ln, 4), LocalFaultError, "not defined"),
    ],
)
def test_what_cannot_be_computed_is_refused_before_anything_is_sent(body, error, why):
    with pytest.raises(error, match=why):
        opened(body, SIZES, bound=(1 << W) - 1, field=FIELD)


def test_a_value_that_breaks_a_promise_still_has_the_mantissa_of_some_integer():
    """A negative integer counts as two's complement: the polynomial's interval holds for all."""

    async def body(c, x):
        mantissa, places = await c._taken_apart(x)
        return mantissa + places.sum(0) * (1 << 20)

    x = np.array([-1, -7, 0, 1, 2, 255, -255])
    got = opened(body, x, bound=255, field=FIELD)
    seen = x % 256
    lengths = np.array([int(v).bit_length() for v in seen])
    np.testing.assert_array_equal(got, np.where(seen == 0, 128, (seen << 8 - lengths) + (1 << 20)))


def test_polynomials_are_made_of_whole_numbers_and_no_floating_point():
    """Constants of all members are the same: these were computed with other software [mpmath, 50 digits]."""
    made = chebyshev.polynomial_of(Decimal.exp, -16, 16, 4, 8, 3)
    assert (made.centre, made.half_bits) == (0, 4)
    exact = [1.2660658777520084, 1.1303182079849700, 0.27149533953407656, 0.044336849848663804, 0.0054742404420937]
    assert list(made.coefficients[:5]) == [round(c * (1 << made.coefficient_bits)) for c in exact]


def test_errors_of_polynomials_stay_below_what_is_promised():
    """The worst case of every T_k together, and not only what random masks make of it."""
    for t in (1, 2):
        slip = 2 + (t + 1) // 2
        made = chebyshev.polynomial_of(cosine, -3 << 8, 3 << 8, 8, 8, slip)
        weight = sum(abs(c) * e for c, e in zip(made.coefficients, made.errors, strict=True))
        assert Fraction(weight, 1 << made.cut_bits(8)) < Fraction(3, 10)
        for k, error in enumerate(made.errors[2:], 2):
            h = 1 << (k - 1).bit_length() - 1
            assert error >= 2 * made.errors[h] + 2 * made.errors[k - h] + made.errors[2 * h - k] + 1 + Fraction(t, 2)


def test_all_members_follow_what_holds_no_shares():
    """The coordinator computes with shapes alone, and meets everybody at the opening."""

    async def body(c, x):
        return await c.divide(x, x, 4)

    _, results = run_shared(body, SIZES[1:], bound=(1 << W) - 1, field=FIELD)
    assert np.abs(results[COORDINATOR] - 16).max() < 3
