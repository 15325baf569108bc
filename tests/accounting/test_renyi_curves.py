"""Curves of single mechanisms against the divergences themselves, in 60 digits by mpmath or summed over outcomes."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dp.cost.accounting import ORDERS, Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.event import renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.events.sampling import PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamDpEvent
from dp.cost.sampling import MAX_ORDER, poisson_sampled_rdp

ADD = Adjacency.ADD_OR_REMOVE_ONE


def divergence(p, q, order):
    """In whatever arithmetic the masses have."""
    return mpmath.log(mpmath.fsum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))) / (order - 1)


def laplace_masses(scale, shift, reach):
    r = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
    return [(1 - r) / (1 + r) * r ** abs(k - shift) for k in range(-reach, reach + 1)]


@pytest.mark.parametrize(
    ("scale", "shift"), [(Fraction(1, 2), 7), (Fraction(3), 1), (Fraction(3), 2), (Fraction(17, 2), 7)]
)
def test_the_curve_of_discrete_laplace_noise_is_its_divergence(scale, shift):
    with mpmath.workdps(60):
        p, q = (laplace_masses(scale, at, 900) for at in (shift, 0))
        for order in (2, 3, 11, 40):
            exact = divergence(p, q, order)
            stated = renyi_curve(DiscreteLaplaceDpEvent(shift, scale, ADD), np.array([order]))[0]
            assert exact <= stated <= exact * (1 + mpmath.mpf(10) ** -9)


@pytest.mark.parametrize("split", [(1, 4), (2, 3), (1, 1, 3)])
def test_a_sensitivity_split_over_coordinates_costs_no_more_than_in_one(split):
    for order in (2, 5, 30):
        parts = sum(renyi_curve(DiscreteLaplaceDpEvent(d, Fraction(4), ADD), np.array([order]))[0] for d in split)
        assert parts < renyi_curve(DiscreteLaplaceDpEvent(5, Fraction(4), ADD), np.array([order]))[0]


def test_at_a_fine_scale_the_curve_is_that_of_the_continuous_laplace_distribution():
    # [Mironov17, table 2] with lambda = scale / sensitivity.
    scale, shift = Fraction(10**9), 2 * 10**8
    for order in (2, 7, 200):
        x = shift / float(scale)
        terms = order / (2 * order - 1) * math.exp((order - 1) * x)
        terms += (order - 1) / (2 * order - 1) * math.exp(-order * x)
        found = renyi_curve(DiscreteLaplaceDpEvent(shift, scale, ADD), np.array([order]))[0]
        assert found == pytest.approx(math.log(terms) / (order - 1), rel=1e-7)


def test_the_curve_of_discrete_laplace_noise_never_exceeds_its_pure_epsilon_and_reaches_it():
    for scale in (Fraction(1, 2**20), Fraction(1, 3), Fraction(2**53)):
        curve = renyi_curve(DiscreteLaplaceDpEvent(3, scale, ADD))
        assert np.all(np.diff(curve) >= -1e-12 * float(3 / scale))
        assert curve[-1] <= float(3 / scale) * (1 + 1e-15)
    assert renyi_curve(DiscreteLaplaceDpEvent(3, Fraction(1), ADD))[-1] == pytest.approx(3, rel=1e-6)


@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(5), Fraction(20)], ids=str)
@pytest.mark.parametrize("shift", [1, 3])
def test_the_curve_of_discrete_gaussian_noise_is_above_its_divergence_and_near_it(variance, shift):
    with mpmath.workdps(40):
        masses = [
            [mpmath.exp(-mpmath.mpf((k - at) ** 2) / 2 / variance.numerator * variance.denominator) for k in span]
            for span in [range(-130, 131)]
            for at in (shift, 0)
        ]
        p, q = ([x / mpmath.fsum(m) for x in m] for m in masses)
        for order in (2, 5, 12):
            exact = divergence(p, q, order)
            stated = renyi_curve(DiscreteGaussianDpEvent(shift**2 / variance, ADD), np.array([order]))[0]
            # An integer order shifts the product density by an integer: there is nothing between the two.
            assert exact * (1 - mpmath.mpf(10) ** -20) <= stated <= exact * (1 + mpmath.mpf(10) ** -12)


@pytest.mark.parametrize(("n_options", "truthful"), [(2, Fraction(3, 4)), (5, Fraction(2, 5)), (16, Fraction(1, 16))])
def test_the_curve_of_randomized_response_is_its_divergence(n_options, truthful):
    other = (1 - truthful) / (n_options - 1)
    with mpmath.workdps(60):
        p = [mpmath.mpf(x.numerator) / x.denominator for x in [truthful] + [other] * (n_options - 1)]
        q = [p[1], p[0], *p[2:]]
        for order in (2, 9, 300):
            exact = divergence(p, q, order)
            stated = renyi_curve(RandomizedResponseDpEvent(n_options, truthful), np.array([order]))[0]
            assert exact <= stated <= exact * (1 + mpmath.mpf(10) ** -9) + mpmath.mpf(10) ** -12


@pytest.mark.parametrize("truthful", [Fraction(1, 3), Fraction(1), Fraction(0)])
def test_a_report_that_lies_more_often_than_not_or_never_is_refused(truthful):
    with pytest.raises(ValueError, match="randomized response"):
        renyi_curve(RandomizedResponseDpEvent(2, truthful))


def skellam_masses(mu, shift, reach):
    return [mpmath.exp(-2 * mu) * mpmath.besseli(abs(k - shift), 2 * mu) for k in range(-reach, reach + 1)]


def skellam_event(mu, shift):
    m = Fraction(mu)
    return SkellamDpEvent(shift**2 / m, (shift / m) ** 2, shift / m, shift / m**2, ADD)


@pytest.mark.parametrize(("mu", "shift"), [(2, 1), (20, 3)])
@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(3, 10), Fraction(1)], ids=str)
def test_the_curve_of_sampled_skellam_noise_is_above_the_divergence_in_both_directions(mu, shift, rate):
    with mpmath.workdps(40):
        without = skellam_masses(mu, 0, 120)
        present = skellam_masses(mu, shift, 120)
        q = mpmath.mpf(rate.numerator) / rate.denominator
        mixture = [(1 - q) * a + q * b for a, b in zip(without, present, strict=True)]
        for order in (2, 3, 8, 16):
            exact = max(divergence(mixture, without, order), divergence(without, mixture, order))
            stated = renyi_curve(PoissonSampledDpEvent(skellam_event(mu, shift), rate), np.array([order]))[0]
            assert exact <= stated
            if mu == 20 and order <= 8:
                assert stated < 1.5 * exact


@pytest.mark.parametrize("rate", [0.01, 0.3])
def test_adding_is_the_worse_direction_where_a_reflection_swaps_the_two(rate):
    # What makes the factor 3 unnecessary: dp.cost.sampling's proof, on masses.
    with mpmath.workdps(40):
        without, present = skellam_masses(3, 0, 100), skellam_masses(3, 2, 100)
        mixture = [(1 - rate) * a + rate * b for a, b in zip(without, present, strict=True)]
        for order in (1.5, 2, 7, 20):
            assert divergence(mixture, without, order) > divergence(without, mixture, order)


def test_the_sum_over_terms_is_that_of_mpmath_and_the_general_bound_triples_terms_from_the_third():
    rdp = np.arange(MAX_ORDER + 1) * 0.05
    for is_reflected, factor in ((True, 1), (False, 3)):
        found = poisson_sampled_rdp(rdp, 0.02, is_reflected=is_reflected)
        for order in (2, 3, 50, 256):
            with mpmath.workdps(60):
                q = mpmath.mpf(0.02)
                exact = mpmath.fsum(
                    (factor if k >= 3 else 1)
                    * mpmath.binomial(order, k)
                    * (1 - q) ** (order - k)
                    * q**k
                    * (mpmath.exp((k - 1) * mpmath.mpf(rdp[k])) if k >= 2 else 1)
                    for k in range(order + 1)
                )
                exact = mpmath.log(exact) / (order - 1)
                assert exact <= found[order - 2] <= exact * (1 + mpmath.mpf(10) ** -8) + mpmath.mpf(10) ** -9


def test_sampling_everybody_costs_what_the_release_costs_and_sampling_nobody_nothing():
    rdp = np.arange(MAX_ORDER + 1) * 0.05
    assert poisson_sampled_rdp(rdp, 1.0, is_reflected=True) == pytest.approx(rdp[2:], rel=1e-8)
    assert not poisson_sampled_rdp(rdp, 0.0, is_reflected=True).any()


SAMPLED_STEPS = [
    # coordinator's epsilon, epochs, noise parameter printed by the paper, a party's epsilon for the mean number of
    # steps that use its record
    (0.5, 5, 2.063, 24.67),
    (4.0, 10, 0.487, 133.41),
    (16.0, 20, 0.264, 465.02),
]


def three_gradient_releases(mu: Fraction, factor: int = 1) -> DiscreteGaussianDpEvent:
    """One step of sampled logistic regression [SPCA24]: three sums of a / (4 mu) each, for fine scales."""
    return DiscreteGaussianDpEvent(factor * Fraction(3, 2) / mu, ADD)


@pytest.mark.parametrize(("target", "epochs", "printed_mu", "party_epsilon"), SAMPLED_STEPS)
def test_sampled_logistic_regression_of_table_3(target, epochs, printed_mu, party_epsilon):
    def spends(mu: Fraction) -> float:
        step = PoissonSampledDpEvent(three_gradient_releases(mu), Fraction(1, 1000))
        return composed_epsilon({step: 1000 * epochs}, 1e-5).epsilon

    low, high = Fraction(1, 100), Fraction(100)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if spends(middle) <= target else (middle, high)
    # The printed parameter has the terms of a finite scale, which the limit leaves out.
    assert float(high) == pytest.approx(printed_mu, rel=1.5e-3)
    party = composed_epsilon({three_gradient_releases(high, 4): epochs}, 1e-5)
    assert party.epsilon == pytest.approx(party_epsilon, abs=0.03)


def test_the_busiest_record_of_table_3_is_used_three_times_as_often_as_the_mean_and_costs_accordingly():
    # 17 steps instead of 5 at 0.5, 26 instead of 10 at 4, 42 instead of 20 at 16.
    for mu, n_steps, epsilon in ((2.0625, 17, 59.6), (0.48661, 26, 331), (0.26377, 42, 967)):
        bound = composed_epsilon({three_gradient_releases(Fraction(mu), 4): n_steps}, 1e-5)
        assert bound.epsilon == pytest.approx(epsilon, rel=2e-3)


def test_every_curve_is_monotone_in_the_order():
    for event in (
        DiscreteGaussianDpEvent(Fraction(1, 7), ADD),
        DiscreteLaplaceDpEvent(2, Fraction(9), ADD),
        RandomizedResponseDpEvent(3, Fraction(1, 2)),
        PoissonSampledDpEvent(skellam_event(20, 2), Fraction(1, 10)),
    ):
        curve = renyi_curve(event, ORDERS)
        known = curve[np.isfinite(curve)]
        assert np.all(np.diff(known) >= -1e-9 * known.max())
