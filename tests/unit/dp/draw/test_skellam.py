import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dp.draw.skellam import MAX_MU, Poisson, sample_skellam
from entropy import InsecureTestEntropy


class CountingEntropy:
    is_secure = False

    def __init__(self) -> None:
        self.n_bytes = 0

    def read(self, n_bytes: int) -> bytes:
        self.n_bytes += n_bytes
        return bytes(n_bytes)


def exact_log_mass(rate: Fraction, offset: int) -> mpmath.mpf:
    with mpmath.workdps(250):
        m = math.floor(rate)
        log_rate = mpmath.log(rate.numerator) - mpmath.log(rate.denominator)
        return offset * log_rate + mpmath.loggamma(m + 1) - mpmath.loggamma(m + offset + 1)


@pytest.mark.parametrize("digits", [5, 25, 60])
@pytest.mark.parametrize(
    ("rate", "offsets"),
    [
        (Fraction(1, 10**30), [0, 1, 7, 200]),
        (Fraction(7, 2), [-3, -2, 1, 40]),
        (Fraction(1000), [-1000, -999, -700, -1, 0, 1, 30, 5000]),
        (Fraction(10**12, 7), [-(10**6), 123_456, 10**9]),
        (Fraction(2**71), [-(2**40), 1, 2**39 + 5]),
        (Fraction(2**100), [-(2**54), -1, 2**50, 2**54 + 1]),
    ],
    ids=lambda value: "" if isinstance(value, list) else f"{float(value):.3g}",
)
def test_the_bounds_of_the_log_mass_are_right_and_as_close_as_asked(rate, offsets, digits):
    for offset in offsets:
        low, high = Poisson(rate).log_mass(offset, digits)
        assert high - low <= Decimal(1).scaleb(-digits)
        with mpmath.workdps(250):
            exact = exact_log_mass(rate, offset)
            assert mpmath.mpf(str(low)) < exact < mpmath.mpf(str(high))


def test_the_mode_is_the_most_probable_value():
    for rate in (Fraction(1, 3), Fraction(7, 2), Fraction(100), Fraction(2**100) - Fraction(1, 2)):
        poisson = Poisson(rate)
        assert poisson.mode == math.floor(rate)
        assert poisson.log_mass(1, 60)[1] < 0
        if poisson.mode:
            assert poisson.log_mass(-1, 60)[0] <= 0


def test_parameter_zero_gives_zeros():
    assert np.array_equal(sample_skellam(InsecureTestEntropy("zero"), 0, 5), np.zeros(5, dtype=np.int64))


@pytest.mark.parametrize("mu", [-1, MAX_MU + 1, Fraction(-1, 2), Fraction(2 * MAX_MU + 1, 2)])
def test_a_parameter_out_of_range_is_refused(mu):
    with pytest.raises(ValueError, match="outside"):
        sample_skellam(InsecureTestEntropy("range"), mu, 1)


def test_a_negative_number_of_samples_is_refused():
    with pytest.raises(ValueError, match="cannot be drawn"):
        sample_skellam(InsecureTestEntropy("size"), 1, -1)


def test_one_key_of_32_bytes_is_read_for_any_number_of_samples():
    entropy = CountingEntropy()
    sample_skellam(entropy, 10**6, 50_000)
    assert entropy.n_bytes == 32


@pytest.mark.parametrize("mu", [Fraction(1, 1000), 3, 10**6, 2**71, MAX_MU])
def test_equal_seeds_give_equal_noise_and_different_seeds_different_noise(mu):
    first = sample_skellam(InsecureTestEntropy("seed"), mu, 4000)
    assert first.dtype == np.int64
    assert np.array_equal(first, sample_skellam(InsecureTestEntropy("seed"), mu, 4000))
    assert not np.array_equal(first, sample_skellam(InsecureTestEntropy("other"), mu, 4000))


def test_two_draws_from_one_entropy_differ():
    entropy = InsecureTestEntropy("twice")
    assert not np.array_equal(sample_skellam(entropy, 100, 100), sample_skellam(entropy, 100, 100))


def test_whole_and_fractional_parameters_of_equal_value_give_equal_noise():
    whole = sample_skellam(InsecureTestEntropy("same"), 12, 100)
    assert np.array_equal(whole, sample_skellam(InsecureTestEntropy("same"), Fraction(24, 2), 100))
