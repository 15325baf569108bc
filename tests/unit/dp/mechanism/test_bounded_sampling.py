import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from dp.cost.accounting import Adjacency
from dp.cost.events.event import renyi_curve
from dp.cost.events.skellam import SkellamDpEvent
from dp.mechanism.bounded_sampling import RATE_UNITS, BoundedPoisson
from entropy import KeyStream

KEY = bytes(range(32))


def participation(sampling, n_units, key=KEY):
    """Which unit takes part in which step: shape (steps, units)."""
    taken = np.zeros((sampling.n_steps, n_units), dtype=bool)
    for step, sample in enumerate(sampling.samples(KeyStream(key), n_units)):
        assert (np.diff(sample) > 0).all()
        taken[step, sample] = True
    return taken


def test_no_unit_takes_part_more_often_than_the_bound_and_some_reach_it():
    taken = participation(BoundedPoisson.with_rate(0.3, 40, 12), 5000)
    assert taken.sum(axis=0).max() == 12
    assert (taken.sum(axis=0) == 12).mean() == pytest.approx(binom.sf(11, 40, 0.3), abs=0.03)


def test_until_its_bound_a_unit_takes_part_as_its_own_coins_say():
    unbounded = participation(BoundedPoisson.with_rate(0.2, 30, 30), 2001)
    bounded = participation(BoundedPoisson.with_rate(0.2, 30, 5), 2001)
    assert (bounded == (unbounded & (unbounded.cumsum(axis=0) <= 5))).all()


@pytest.mark.parametrize("rate", [2.0**-8, 0.1, 0.77])
def test_coins_show_heads_at_the_rate_in_every_step_and_pairs_of_units_are_independent(rate):
    taken = participation(BoundedPoisson.with_rate(rate, 20, 20), 20_000)
    deviation = np.sqrt(rate * (1 - rate) / 20_000)
    assert np.abs(taken.mean(axis=1) - rate).max() < 4.5 * deviation
    both = (taken[:, :-1] & taken[:, 1:]).mean()
    assert abs(both - rate**2) < 5 * rate / np.sqrt(400_000)


def test_who_holds_the_same_key_draws_the_same_samples_and_who_holds_another_draws_others():
    sampling = BoundedPoisson.with_rate(0.5, 4, 4)
    assert (participation(sampling, 100) == participation(sampling, 100)).all()
    assert (participation(sampling, 100) != participation(sampling, 100, bytes(32))).any()


def test_at_rate_1_everybody_takes_part_in_every_step():
    assert participation(BoundedPoisson.with_rate(1.0, 3), 7).all()
    assert BoundedPoisson.with_rate(1.0, 3).most_participations == 3


def test_the_rate_of_the_event_is_the_probability_of_a_coin():
    sampling = BoundedPoisson.with_rate(0.1, 10)
    assert sampling.rate == Fraction(sampling.rate_units, RATE_UNITS)
    assert abs(sampling.rate - Fraction(1, 10)) < Fraction(1, RATE_UNITS)
    release = SkellamDpEvent(*[Fraction(1)] * 4, Adjacency.ADD_OR_REMOVE_ONE)
    event = sampling.sampled_event(release)
    assert (event.n_steps, event.step.rate) == (10, sampling.rate)


def test_by_default_one_unit_in_a_hundred_would_exceed_the_bound():
    sampling = BoundedPoisson.with_rate(0.05, 200)
    assert binom.sf(sampling.most_participations, 200, 0.05) <= 0.01
    assert binom.sf(sampling.most_participations - 1, 200, 0.05) > 0.01


@pytest.mark.parametrize(
    ("rate", "steps", "most", "words"),
    [
        (0.0, 3, 1, "rate"),
        (1.5, 3, 3, "rate"),
        (0.5, 3, 4, "most_participations must be in 1..3"),
        (0.5, 3, 0, "most_participations must be in 1..3"),
        (1.0, 3, 2, "no unit would be left"),
    ],
)
def test_a_sampling_that_is_none_is_refused(rate, steps, most, words):
    with pytest.raises(ValueError, match=words):
        BoundedPoisson.with_rate(rate, steps, most)


def test_who_knows_the_coins_sees_as_many_releases_as_a_unit_takes_part_in():
    release = SkellamDpEvent(Fraction(4, 9), Fraction(4, 81), Fraction(2, 9), Fraction(2, 81), Adjacency.REPLACE_ONE)
    together = BoundedPoisson.with_rate(0.1, 50, 7).participation_event(release)
    assert renyi_curve(together) == pytest.approx(7 * renyi_curve(release), rel=1e-12)
    with pytest.raises(
        ValueError,
        match="a view that knows the coins knows the number of units, so its neighbouring relation must be replace_one",
    ):
        BoundedPoisson.with_rate(0.1, 50, 7).participation_event(
            SkellamDpEvent(*[Fraction(1)] * 4, Adjacency.ADD_OR_REMOVE_ONE)
        )


def test_no_sample_is_larger_than_its_bound_says():
    sampling = BoundedPoisson.with_rate(0.05, 300)
    most = sampling.most_sampled(10_000, -20)
    assert 500 < most < 700
    assert 300 * binom.sf(most, 10_000, 0.05) < 2**-20
    assert sampling.most_sampled(10, -20) == 10


def masses(mu, shift, reach):
    return [mpmath.exp(-2 * mu) * mpmath.besseli(abs(k - shift), 2 * mu) for k in range(-reach, reach + 1)]


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("direction", ["added", "removed"])
def test_two_steps_with_a_bound_cost_no_more_than_two_sampled_releases_by_enumeration(most, direction):
    # One unit of value 1 under Sk(2) in two steps, its coins unknown: the joint distribution of both outcomes, exactly.
    rate, mu, reach = Fraction(3, 10), 2, 22
    sampling = BoundedPoisson(int(rate * RATE_UNITS), 2, most)
    q = mpmath.mpf(sampling.rate.numerator) / sampling.rate.denominator
    with mpmath.workdps(30):
        absent, present = masses(mu, 0, reach), masses(mu, 1, reach)
        without = [a * b for a, b in itertools.product(absent, absent)]
        both_steps = present if most == 2 else absent
        rows = [
            (1 - q) * (1 - q) * a0 * b0 + (1 - q) * q * a0 * b1 + q * (1 - q) * a1 * b0 + q * q * a1 * b2
            for (a0, a1), (b0, b1, b2) in itertools.product(
                zip(absent, present, strict=True), zip(absent, present, both_steps, strict=True)
            )
        ]
        p, r = (rows, without) if direction == "added" else (without, rows)
        for order in (2, 4, 8):
            exact = mpmath.log(mpmath.fsum(x**order * y ** (1 - order) for x, y in zip(p, r, strict=True)))
            exact /= order - 1
            event = SkellamDpEvent(
                Fraction(1, mu), Fraction(1, mu**2), Fraction(1, mu), Fraction(1, mu**2), Adjacency.ADD_OR_REMOVE_ONE
            )
            stated = renyi_curve(sampling.sampled_event(event), np.array([order]))[0]
            assert exact <= stated


@pytest.mark.parametrize("n_steps", [1, 2, 7, 40, 1000, 20_000])
@pytest.mark.parametrize("rate", [2.0**-32, 0.001, 0.02, 0.3, 0.5, 0.99])
def test_a_bound_that_is_not_given_is_the_quantile_that_a_unit_exceeds_in_one_case_of_a_hundred(n_steps, rate):
    found = BoundedPoisson.with_rate(rate, n_steps).most_participations
    assert found == min(n_steps, max(1, int(binom.ppf(0.99, n_steps, rate))))
    assert binom.sf(found, n_steps, rate) <= 0.01
