import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import mpmath
import pytest

from dp.draw.discrete import Binomial, DiscreteGaussian, DiscreteLaplace, Geometric

CASES = [
    (DiscreteLaplace(Fraction(1, 2**20)), [0, 1, -1, 40]),
    (DiscreteLaplace(Fraction(10, 3)), [0, 1, -7, 10**6]),
    (DiscreteLaplace(Fraction(2**53)), [-(2**60), 3, 2**62]),
    (DiscreteGaussian(Fraction(1, 2**20)), [0, 1, -2]),
    (DiscreteGaussian(Fraction(200, 7)), [0, 1, -9, 5000]),
    (DiscreteGaussian(Fraction(2**106)), [2**50, -(2**58)]),
    (Geometric(Fraction(1, 2**400)), [0, 1, 9]),
    (Geometric(Fraction(1, 2)), [0, 3, 900]),
    (Geometric(1 - Fraction(1, 2**53)), [1, 2**40, 2**60]),
    (Binomial(33, Fraction(1, 2)), [-16, -3, 0, 1, 16]),
    (Binomial(1000, Fraction(1, 3)), [-333, -20, 5, 667]),
    (Binomial(50, Fraction(1, 2**200)), [0, 1, 3]),
    (Binomial(2**62, Fraction(2, 5)), [-(2**32), 12345, 2**33]),
]


def exact_log_mass(distribution, offset: int) -> mpmath.mpf:
    with mpmath.workdps(250):
        match distribution:
            case DiscreteLaplace(scale):
                return -mpmath.mpf(abs(offset)) * scale.denominator / scale.numerator
            case DiscreteGaussian(variance):
                return -(mpmath.mpf(offset) ** 2) * variance.denominator / (2 * variance.numerator)
            case Geometric(ratio):
                return offset * (mpmath.log(ratio.numerator) - mpmath.log(ratio.denominator))
            case Binomial(n, p):
                m, odds = distribution.mode, p / (1 - p)
                log_odds = mpmath.log(odds.numerator) - mpmath.log(odds.denominator)
                at = [mpmath.loggamma(k + 1) + mpmath.loggamma(n - k + 1) for k in (m, m + offset)]
                return at[0] - at[1] + offset * log_odds


@pytest.mark.parametrize("digits", [5, 25, 60])
@pytest.mark.parametrize(("distribution", "offsets"), CASES, ids=lambda value: "" if isinstance(value, list) else None)
def test_the_bounds_of_the_log_mass_are_right_and_as_close_as_asked(distribution, offsets, digits):
    for offset in offsets:
        low, high = distribution.log_mass(offset, digits)
        assert high - low <= Decimal(1).scaleb(-digits)
        with mpmath.workdps(250):
            assert mpmath.mpf(str(low)) < exact_log_mass(distribution, offset) < mpmath.mpf(str(high))


@pytest.mark.parametrize("n", [2, 33, 1000])
@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(1, 3), Fraction(1, 10**9)])
def test_the_mode_of_a_binomial_variable_is_its_most_probable_value_and_its_prolonged_mass_log_concave(n, p):
    binomial = Binomial(n, p)
    around = range(-min(binomial.mode, 40), min(n - binomial.mode, 40) + 6)
    masses = [float(binomial.log_mass(offset, 30)[0]) for offset in around]
    assert max(masses) <= 1e-12
    slopes = [b - a for a, b in pairwise(masses)]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(slopes))
    assert slopes[-1] < 0


def test_beyond_its_end_the_mass_of_a_binomial_variable_goes_on_as_a_geometric_one():
    binomial = Binomial(40, Fraction(1, 4))
    end = 40 - binomial.mode
    steps = [float(binomial.log_mass(end + i + 1, 30)[0] - binomial.log_mass(end + i, 30)[0]) for i in range(-1, 4)]
    assert steps == pytest.approx([math.log(Fraction(1, 3) / 40)] * 5, rel=1e-12)


@pytest.mark.parametrize("distribution", [case[0] for case in CASES], ids=str)
def test_the_spread_is_about_the_standard_deviation(distribution):
    match distribution:
        case DiscreteLaplace(scale):
            deviation = math.sqrt(2) * scale
        case DiscreteGaussian(variance):
            deviation = math.sqrt(variance)
        case Geometric(ratio):
            deviation = math.sqrt(ratio) / (1 - ratio)
        case Binomial(n, p):
            deviation = math.sqrt(n * p * (1 - p))
    assert deviation * (1 - 1e-9) <= distribution.spread <= deviation * (1 + 1e-9) + 1
