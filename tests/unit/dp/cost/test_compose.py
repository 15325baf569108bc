import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import DpEvent

from dp.cost.accounting import ORDERS, Adjacency, AdjacencyError, CalibrationError, SkellamDpEvent
from dp.cost.compose import Cost, Unit, UnitError, compose, least_noise, most_releases
from dp.cost.events import (
    DiscreteGaussianDpEvent,
    DiscreteLaplaceDpEvent,
    PoissonSampledDpEvent,
    PrivacyEvent,
    RandomizedResponseDpEvent,
    renyi_curve,
)

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE


def skellam(mu: int = 100, adjacency: Adjacency = ADD) -> SkellamDpEvent:
    return SkellamDpEvent(*(Fraction(1, mu ** (1 + i % 2)) for i in range(4)), adjacency)


def gaussian(variance: int, adjacency: Adjacency = ADD) -> DiscreteGaussianDpEvent:
    return DiscreteGaussianDpEvent(Fraction(1, variance), adjacency)


EVENTS: list[PrivacyEvent] = [
    skellam(),
    gaussian(40),
    DiscreteLaplaceDpEvent(3, Fraction(10), ADD),
    PoissonSampledDpEvent(gaussian(4), Fraction(1, 100)),
]


def test_curves_of_all_kinds_of_events_add_up_order_by_order():
    total = compose(Cost.of(event, Unit.RECORD) for event in EVENTS)
    assert np.array_equal(total.curve, sum(renyi_curve(event) for event in EVENTS))
    assert total.n_events == 4
    assert total.epsilon(1e-6).epsilon > max(Cost.of(e, Unit.RECORD).epsilon(1e-6).epsilon for e in EVENTS)


def test_costs_under_different_neighbouring_relations_cannot_be_added():
    with pytest.raises(AdjacencyError, match="add_or_remove_one and replace_one"):
        Cost.of(gaussian(4), Unit.RECORD) + Cost.of(RandomizedResponseDpEvent(2, Fraction(3, 4)), Unit.RECORD)


def test_costs_about_different_units_cannot_be_added():
    with pytest.raises(UnitError, match="record and person"):
        Cost.of(gaussian(4), Unit.RECORD) + Cost.of(gaussian(4), Unit.PERSON)


def test_a_release_repeated_costs_what_the_copies_cost():
    once = Cost.of(skellam(), Unit.RECORD)
    assert once.times(3).epsilon(1e-6).epsilon == pytest.approx(compose([once] * 3).epsilon(1e-6).epsilon, rel=1e-12)
    with pytest.raises(ValueError, match="0 times"):
        once.times(0)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 1e-4])
def test_epsilon_and_delta_are_inverse_to_each_other(event, delta):
    cost = Cost.of(event, Unit.RECORD)
    bound = cost.epsilon(delta)
    assert cost.delta(bound.epsilon) == pytest.approx(delta, rel=1e-6)
    assert cost.delta(bound.epsilon * 2) < delta


def test_the_least_noise_meets_the_epsilon_and_one_less_does_not():
    def cost_of(variance: int) -> Cost:
        return Cost.of(gaussian(variance), Unit.RECORD)

    found = least_noise(cost_of, epsilon=0.7, delta=1e-6, most=2**80)
    assert cost_of(found).epsilon(1e-6).epsilon <= 0.7 < cost_of(found - 1).epsilon(1e-6).epsilon


def test_noise_beyond_the_sampler_is_refused():
    with pytest.raises(CalibrationError, match="beyond the sampler"):
        least_noise(lambda v: Cost.of(gaussian(v), Unit.RECORD), epsilon=1e-9, delta=1e-9, most=2**40)


def test_the_number_of_releases_that_a_budget_allows_is_the_largest():
    cost = Cost.of(gaussian(400), Unit.RECORD)
    allowed = most_releases(cost, epsilon=2.0, delta=1e-6)
    assert cost.times(allowed).epsilon(1e-6).epsilon <= 2 < cost.times(allowed + 1).epsilon(1e-6).epsilon
    assert most_releases(Cost.of(gaussian(1), Unit.RECORD), epsilon=0.1, delta=1e-6) == 0


def test_a_release_without_a_cost_has_no_largest_number():
    free = Cost.of(DiscreteGaussianDpEvent(Fraction(0), ADD), Unit.RECORD)
    with pytest.raises(CalibrationError, match="without end"):
        most_releases(free, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, math.nan, math.inf, 5e-324, "1", None, True])
def test_an_epsilon_that_is_no_budget_is_refused(epsilon):
    cost = Cost.of(gaussian(4), Unit.RECORD)
    with pytest.raises(CalibrationError, match="epsilon"):
        cost.delta(epsilon)
    with pytest.raises(CalibrationError, match="epsilon"):
        most_releases(cost, epsilon=epsilon, delta=1e-6)
    with pytest.raises(CalibrationError, match="epsilon"):
        least_noise(lambda v: Cost.of(gaussian(v), Unit.RECORD), epsilon=epsilon, delta=1e-6, most=100)


@pytest.mark.parametrize("delta", [-1.0, 0.0, 1.0, math.nan, math.inf, 5e-324, "1e-5", None, True])
def test_a_delta_that_is_no_probability_is_refused(delta):
    with pytest.raises(CalibrationError, match="delta"):
        Cost.of(gaussian(4), Unit.RECORD).epsilon(delta)


def test_an_unknown_event_has_no_cost():
    with pytest.raises(TypeError, match="unknown"):
        renyi_curve(DpEvent())


def test_sampling_is_refused_where_amplification_is_not_proven():
    with pytest.raises(AdjacencyError, match="add_or_remove_one only"):
        PoissonSampledDpEvent(skellam(adjacency=REPLACE), Fraction(1, 2))
    with pytest.raises(ValueError, match="sampling rate"):
        PoissonSampledDpEvent(skellam(), Fraction(3, 2))


def test_beyond_the_orders_of_amplification_a_sampled_release_costs_what_it_does_without_sampling():
    # The best order is beyond 256.
    event = PoissonSampledDpEvent(gaussian(10**6), Fraction(1, 2))
    bound = Cost.of(event, Unit.RECORD).epsilon(1e-9)
    assert bound.order > 256
    assert not bound.order_at_edge
    assert bound.epsilon <= Cost.of(event.release, Unit.RECORD).epsilon(1e-9).epsilon


def test_ten_thousand_mixed_events_are_accounted_exactly_as_their_curves():
    costs = [Cost.of(gaussian(1000 + i % 500), Unit.RECORD) for i in range(5000)]
    costs += [Cost.of(skellam(1000 + i % 500), Unit.RECORD) for i in range(5000)]
    total = compose(costs)
    at_10 = sum(10 / 2 / (1000 + i % 500) for i in range(5000))
    at_10 += sum(float(renyi_curve(skellam(1000 + i % 500), np.array([10]))[0]) for i in range(5000))
    assert total.curve[np.flatnonzero(ORDERS == 10)[0]] == pytest.approx(at_10, rel=1e-9)
    assert total.n_events == 10_000
