"""Intervals contain the true value: against fractions, mpmath-free identities and known digits."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify.interval import PI, Interval, normal_above

NUMBERS = st.fractions(min_value=-1000, max_value=1000, max_denominator=10**9)


def contains(interval: Interval, value: Fraction) -> bool:
    return Fraction(interval.low) <= value <= Fraction(interval.high)


@given(NUMBERS, NUMBERS)
def test_arithmetic_contains_what_fractions_say(x, y):
    a, b = Interval.of(x), Interval.of(y)
    assert contains(a, x)
    assert contains(-a, -x)
    assert contains(a + b, x + y)
    assert contains(a - b, x - y)
    assert contains(a * b, x * y)
    assert contains(3 - a, 3 - x)
    if y:
        assert contains(a / b, x / y)


@pytest.mark.parametrize("n", [10**70 + 1, -(10**70) - 1])
def test_a_whole_number_of_more_digits_lies_between_two(n):
    assert contains(Interval.of(n), n)


ENDS = st.tuples(NUMBERS, NUMBERS).map(sorted)


@given(ENDS, ENDS, st.fractions(0, 1, max_denominator=9), st.fractions(0, 1, max_denominator=9))
def test_arithmetic_of_wide_intervals_contains_what_their_numbers_give(ends, others, part, other_part):
    a, b = (Interval(Interval.of(low).low, Interval.of(high).high) for low, high in (ends, others))
    x, y = (low + (high - low) * at for (low, high), at in ((ends, part), (others, other_part)))
    assert contains(a + b, x + y)
    assert contains(a - b, x - y)
    assert contains(a * b, x * y)
    if not b.low <= 0 <= b.high:
        assert contains(a / b, x / y)


@given(st.fractions(min_value=Fraction(1, 1000), max_value=100, max_denominator=10**6))
def test_functions_undo_each_other_and_are_narrow(x):
    a = Interval.of(x)
    for found in (a.ln().exp(), a.sqrt() * a.sqrt()):
        assert contains(found, x)
        assert Fraction(found.high) - Fraction(found.low) < x * Fraction(1, 10**50)


@pytest.mark.parametrize(
    ("x", "digits"),
    [  # of erfc(x / sqrt(2)) / 2, to 30 digits [DLMF 7.2]
        (0, "0.5"),
        (1, "0.158655253931457051414767454368"),
        (8, "6.22096057427178412351599517259e-16"),
        (-1, "0.841344746068542948585232545632"),
    ],
)
def test_the_normal_distribution_has_known_digits(x, digits):
    found = normal_above(Interval.of(x))
    assert abs(found.low - Decimal(digits)) <= Decimal(digits) * Decimal("1e-29")
    assert found.low <= found.high <= found.low * (1 + Decimal("1e-25"))


def test_far_tails_are_bounded_and_no_more():
    assert normal_above(Interval.of(30)).low == 0
    assert 0 < normal_above(Interval.of(30)).high < Decimal("1e-80")
    assert normal_above(Interval.of(-30)).high == 1


def test_pi_is_between_its_ends():
    assert PI.low < PI.high
    assert contains(PI, Fraction(31415926535897932384626433832795028841971693993751058209749445925, 10**64))


def test_a_divisor_that_may_be_0_and_a_logarithm_that_does_not_exist_are_refused():
    with pytest.raises(ZeroDivisionError):
        Interval.of(1) / Interval(Decimal(-1), Decimal(1))
    with pytest.raises(ValueError, match="not be positive"):
        Interval.of(0).ln()
