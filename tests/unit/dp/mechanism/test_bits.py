import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest

from dp.cost.accounting import Adjacency, CalibrationError, epsilon_of_rdp
from dp.cost.events.event import renyi_curve
from dp.mechanism.bits import BIAS_UNIT, RandomizedBits
from entropy import InsecureTestEntropy


def pair_epsilon(bits):
    """Epsilon of two bits, by enumeration of the four reports about 00 and 11: the unit moves to another category."""
    keep, flip = bits.truthful, 1 - bits.truthful
    ratios = [(keep if a == 0 else flip) * (keep if b == 1 else flip) for a in (0, 1) for b in (0, 1)]
    others = [(keep if a == 1 else flip) * (keep if b == 0 else flip) for a in (0, 1) for b in (0, 1)]
    return math.log(max(a / b for a, b in zip(ratios, others, strict=True)))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0])
def test_the_bias_is_the_exact_constant_of_two_bits_and_twice_what_the_paper_allows(epsilon):
    found = RandomizedBits.largest_bias(pair_epsilon, epsilon=epsilon)
    assert float(found.bias) == pytest.approx(math.tanh(epsilon / 4) / 2, abs=2**-20)
    assert pair_epsilon(found) <= epsilon
    assert pair_epsilon(RandomizedBits(found.bias + BIAS_UNIT)) > epsilon


def test_the_papers_constant_spends_half_of_its_epsilon():
    assert pair_epsilon(RandomizedBits(Fraction(1, 32))) == pytest.approx(0.2503, abs=1e-4)


def test_the_event_costs_what_one_bit_does():
    bits = RandomizedBits(Fraction(1, 4))
    curve = renyi_curve(bits.event(Adjacency.REPLACE_ONE))
    assert epsilon_of_rdp(2 * curve, 2, 1e-9).epsilon == pytest.approx(pair_epsilon(bits), rel=1e-3)


@pytest.mark.parametrize("value", [False, True])
def test_a_bit_is_reported_truthfully_as_often_as_stated_and_no_other_rate_fits(value):
    n, bits = 40_000, RandomizedBits(Fraction(1, 7))
    reports = np.full((n // 4, 4), value) ^ bits.draw(InsecureTestEntropy("bits"), (n // 4, 4))
    truthful = int((reports == value).sum())
    assert reports.shape == (n // 4, 4)
    assert binomtest(truthful, n, float(bits.truthful)).pvalue > 1e-3
    for factor in (0.8, 1.2):
        assert binomtest(truthful, n, float(Fraction(1, 2) + bits.bias * Fraction(factor))).pvalue < 1e-6


def test_an_epsilon_too_small_for_any_bias_is_refused():
    with pytest.raises(CalibrationError, match="so small"):
        RandomizedBits.largest_bias(pair_epsilon, epsilon=1e-7)


@pytest.mark.parametrize("bias", [Fraction(0), Fraction(1, 2), Fraction(-1, 4)])
def test_a_bias_out_of_range_is_refused(bias):
    with pytest.raises(ValueError, match="between 0 and 1/2"):
        RandomizedBits(bias)
