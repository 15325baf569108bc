"""The search for the least noise: it finds it, in either direction, and refuses what cannot be."""

import math
from fractions import Fraction

import pytest

from dp.cost.accounting import Adjacency, CalibrationError
from dp.cost.calibrate import Ladder, last_enough, least_noise
from dp.cost.composition import composed_epsilon
from dp.cost.events import DiscreteGaussianDpEvent


def spends(variance):
    event = DiscreteGaussianDpEvent(Fraction(1, variance), Adjacency.ADD_OR_REMOVE_ONE)
    return composed_epsilon(event, 1e-6).epsilon


def test_the_least_noise_meets_the_epsilon_and_one_less_does_not():
    found = least_noise(spends, Ladder(2**80), epsilon=0.7, delta=1e-6)
    assert spends(found) <= 0.7 < spends(found - 1)


def test_a_rung_of_the_ladder_is_found_and_the_one_below_does_not_suffice():
    found = least_noise(spends, Ladder(20, lambda rung: 3**rung), epsilon=0.7, delta=1e-6)
    assert found in {3**rung for rung in range(21)}
    assert spends(found) <= 0.7 < spends(found // 3)


def test_a_search_that_may_stop_early_is_off_by_no_more_than_it_says():
    exact = least_noise(spends, Ladder(2**40), epsilon=0.01, delta=1e-6)
    near = least_noise(spends, Ladder(2**40, excess_bits=3), epsilon=0.01, delta=1e-6)
    assert exact <= near <= exact * (1 + 2**-2)


def test_noise_beyond_the_sampler_is_refused():
    with pytest.raises(CalibrationError, match=r"more noise than the sampler can draw \(a range\); use"):
        least_noise(spends, Ladder(2**10, range_=" (a range)"), epsilon=1e-9, delta=1e-9)


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, math.nan, math.inf, 5e-324, "1", None, True])
def test_an_epsilon_that_is_no_budget_is_refused(epsilon):
    with pytest.raises(CalibrationError, match="epsilon"):
        least_noise(spends, Ladder(100), epsilon=epsilon, delta=1e-6)


@pytest.mark.parametrize("delta", [-1.0, 0.0, 1.0, math.nan, math.inf, 5e-324, "1e-5", None, True])
def test_a_delta_that_is_no_probability_is_refused(delta):
    with pytest.raises(CalibrationError, match="delta"):
        least_noise(spends, Ladder(100), epsilon=1.0, delta=delta)


@pytest.mark.parametrize("change", [0, 1, 7, 99, 100])
def test_the_last_that_is_enough_is_found_from_either_side(change):
    assert last_enough(lambda n: n > change, lacking=0, enough=101) == change + 1
    assert last_enough(lambda n: n <= change, lacking=101, enough=0) == change
