"""Sampling never costs more than no sampling: for one step and for many, in both views."""

from fractions import Fraction

import numpy as np
import pytest

from dp.cost.accounting import ORDERS, Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.event import renyi_curve
from dp.cost.events.sampling import BoundedSampledDpEvent, PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent
from dp.cost.views import VIEWS
from dp.mechanism.bounded_sampling import BoundedPoisson
from dp.mechanism.sampled import SampledSkellam
from dp.mechanism.vector import SharedSkellam, VectorSensitivity

ADD = Adjacency.ADD_OR_REMOVE_ONE
RELEASES = [
    SkellamDpEvent(Fraction(9, 40), Fraction(9, 1600), Fraction(5, 40), Fraction(5, 1600), ADD),
    SkellamShiftsDpEvent(3, 1, Fraction(40), ADD),
    SkellamShiftsDpEvent(1, 2, Fraction(10**7), ADD),
    DiscreteGaussianDpEvent(Fraction(1, 10**6), ADD),
    DiscreteLaplaceDpEvent(2, Fraction(9), ADD),
]
RATES = [Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 2), Fraction(999, 1000), Fraction(1)]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("release", RELEASES)
def test_one_sampled_step_costs_at_every_order_no_more_than_the_release(release, rate):
    sampled, unsampled = renyi_curve(PoissonSampledDpEvent(release, rate)), renyi_curve(release)
    assert np.isfinite(sampled).all()
    assert np.all(sampled <= unsampled * (1 + 1e-15))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("n_steps", "most"), [(1, 1), (20, 20), (200, 5), (200, 116)])
def test_bounded_steps_cost_no_more_than_the_releases_that_a_unit_is_in(release, rate, n_steps, most):
    event = BoundedSampledDpEvent(PoissonSampledDpEvent(release, rate), n_steps, most)
    assert np.all(renyi_curve(event) <= most * renyi_curve(release) * (1 + 1e-14))
    for delta in (1e-3, 1e-12):
        sampled = composed_epsilon(event, delta).epsilon
        known = composed_epsilon({release: most}, delta).epsilon
        assert sampled <= known * (1 + 1e-9) + 1e-12
        steps = composed_epsilon({event.step: n_steps}, delta).epsilon
        assert sampled <= steps * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("mu", [50, 10**8])
@pytest.mark.parametrize(("rate", "n_steps", "most"), [(0.5, 200, 5), (0.5, 200, None), (0.01, 30, None), (1.0, 4, 4)])
@pytest.mark.parametrize(("length", "squared_l2", "l1"), [(1, 100, 10), (5, 100, 17), (7, 1, 1)])
def test_a_sampled_job_costs_no_more_than_the_same_job_without_sampling(
    view, mu, rate, n_steps, most, length, squared_l2, l1
):
    sensitivities = {v: VectorSensitivity(squared_l2, l1) for v in VIEWS}
    step = SharedSkellam(length, sensitivities, 3, 1, mu)
    sampled = SampledSkellam(step, BoundedPoisson.with_rate(rate, n_steps, most))
    n_releases = sampled.sampling.most_participations
    unsampled = SharedSkellam(length, sensitivities, 3, 1, mu, n_releases)
    for delta in (1e-5, 1e-9):
        found = sampled.epsilon(view, delta).epsilon
        assert found <= unsampled.epsilon(view, delta).epsilon * (1 + 1e-9) + 1e-12


def test_200_steps_of_rate_one_half_that_no_unit_is_in_more_than_five_of():
    # 200 sampled releases alone would be stated at 17.3; five unsampled ones cost 4.04.
    step = SharedSkellam(3, {view: VectorSensitivity(100, 17) for view in VIEWS}, 3, 1, 110)
    found = SampledSkellam(step, BoundedPoisson.with_rate(0.5, 200, 5))
    (event,) = found.events("coordinator")
    assert composed_epsilon({event.step: 200}, 1e-5).epsilon > 15
    assert found.epsilon("coordinator", 1e-5).epsilon < 5


def test_no_order_is_left_out():
    event = PoissonSampledDpEvent(RELEASES[0], Fraction(1, 2))
    assert renyi_curve(event).shape == ORDERS.shape
