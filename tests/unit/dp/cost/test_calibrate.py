"""The search for the least noise: it finds it, in either direction, and refuses what cannot be."""

import math
from fractions import Fraction

import pytest

from dp.cost.accounting import Adjacency, CalibrationError
from dp.cost.calibrate import Ladder, last_enough, least_noise, remembered
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.mechanism import gram
from dp.mechanism.gram import NoisyGram


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


def counted_calibration():
    asked = []

    @remembered
    def calibrate(cls, *, sensitivities, epsilon):
        asked.append(epsilon)
        if epsilon > 1:
            raise CalibrationError("too large")
        return cls, dict(sensitivities), epsilon

    return calibrate, asked


def test_a_calibration_of_the_same_parameters_is_made_once():
    calibrate, asked = counted_calibration()
    first = calibrate(int, sensitivities={"coordinator": 2, "coalition": 3}, epsilon=0.5)
    assert first == (int, {"coordinator": 2, "coalition": 3}, 0.5)
    assert calibrate(int, sensitivities={"coordinator": 2, "coalition": 3}, epsilon=0.5) is first
    assert asked == [0.5]


@pytest.mark.parametrize(
    "other",
    [
        {"cls": float},
        {"sensitivities": {"coordinator": 2, "coalition": 4}},
        {"sensitivities": {"coordinator": 2}},
        {"epsilon": 0.25},
    ],
    ids=str,
)
def test_a_calibration_of_other_parameters_is_made_anew(other):
    calibrate, asked = counted_calibration()
    same = {"cls": int, "sensitivities": {"coordinator": 2, "coalition": 3}, "epsilon": 0.5}

    def ask(cls, **named):
        return calibrate(cls, **named)

    assert ask(**same) != ask(**{**same, **other})
    assert len(asked) == 2


def test_a_refusal_is_not_remembered():
    calibrate, asked = counted_calibration()
    for _ in range(2):
        with pytest.raises(CalibrationError):
            calibrate(int, sensitivities={}, epsilon=2.0)
    assert asked == [2.0, 2.0]


def test_the_mechanisms_calibrate_once_for_equal_parameters(monkeypatch):
    same = {"n_columns": 7, "squared_norm_bound": 991, "n_parties": 3, "colluding": 1, "epsilon": 0.875, "delta": 1e-7}
    first = NoisyGram.calibrate(**same, view="coordinator")
    monkeypatch.setattr(gram, "least_noisy", None)
    assert NoisyGram.calibrate(**same, view="coordinator") is first
    with pytest.raises(TypeError):
        NoisyGram.calibrate(**same, view="coalition")


def test_the_least_noise_far_below_the_most_is_what_halving_finds_in_a_third_of_the_steps():
    def found_by_halving(is_enough, top):
        lacking, n_asked = 0, 0
        while top - lacking > 1:
            middle, n_asked = (lacking + top) // 2, n_asked + 1
            lacking, top = (lacking, middle) if is_enough(middle) else (middle, top)
        return top, n_asked

    for top in (2**100, 10**30 + 7, 3):
        for least in (1, 2, 3, 1000, 10**6 + 3):
            asked = []

            def is_enough(n, least=least, asked=asked):
                asked.append(n)
                return n >= least

            expected, n_asked = found_by_halving(is_enough, max(top, least))
            asked.clear()
            assert last_enough(is_enough, lacking=0, enough=max(top, least)) == expected == least
            assert len(asked) <= n_asked + 2
            assert top == 3 or len(asked) < 0.4 * n_asked
