import itertools
import math
from fractions import Fraction

import pytest
from composed import composed_delta, renyi_epsilon

from dp.cost import composition
from dp.cost.accounting import Adjacency, AdjacencyError, CalibrationError, epsilon_of_rdp
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.event import PrivacyEvent, renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.events.sampling import PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamDpEvent

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
    curve = sum(renyi_curve(event) for event in EVENTS)
    expected = epsilon_of_rdp(curve, len(EVENTS), 1e-6).epsilon  # but for the order in which floats are added
    assert renyi_epsilon(EVENTS, 1e-6).epsilon == pytest.approx(expected, rel=1e-12)
    assert composed_epsilon(EVENTS, 1e-6).epsilon > max(composed_epsilon(event, 1e-6).epsilon for event in EVENTS)


def test_the_order_of_the_releases_changes_no_bit_of_their_curve():
    """A set has another order in each process, and all parties of a job must compute the same plan."""
    counted = [(event, n) for n, event in enumerate([*EVENTS, *(gaussian(v) for v in (3, 7, 11, 19))], start=1)]
    curves = {
        composition._curve_of(order).tobytes()
        for order in itertools.islice(itertools.permutations(counted), 0, None, 997)
    }
    assert len(curves) == 1


@pytest.mark.parametrize("compose", [lambda e: composed_epsilon(e, 1e-6), lambda e: composed_delta(e, 1.0)])
def test_costs_under_different_neighbouring_relations_are_not_composed(compose):
    with pytest.raises(AdjacencyError, match="add_or_remove_one and replace_one"):
        compose([gaussian(4), RandomizedResponseDpEvent(2, Fraction(3, 4))])
    with pytest.raises(AdjacencyError, match="none"):
        compose([])


def test_a_release_repeated_costs_what_the_copies_cost():
    assert composed_epsilon({skellam(): 3}, 1e-6) == composed_epsilon([skellam()] * 3, 1e-6)
    assert composed_epsilon(skellam(), 1e-6) == composed_epsilon([skellam()], 1e-6)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 1e-4])
def test_epsilon_and_delta_are_inverse_to_each_other(event, delta):
    bound = composed_epsilon(event, delta)
    assert composed_delta(event, bound.epsilon) == pytest.approx(delta, rel=1e-6)
    assert composed_delta(event, bound.epsilon * 2) < delta


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, math.nan, math.inf, 5e-324, "1", None, True])
def test_an_epsilon_that_is_no_budget_is_refused(epsilon):
    with pytest.raises(CalibrationError, match="epsilon"):
        composed_delta(gaussian(4), epsilon)


@pytest.mark.parametrize("delta", [-1.0, 0.0, 1.0, math.nan, math.inf, 5e-324, "1e-5", None, True])
def test_a_delta_that_is_no_probability_is_refused(delta):
    with pytest.raises(CalibrationError, match="delta"):
        composed_epsilon(gaussian(4), delta)
    with pytest.raises(CalibrationError, match="delta"):
        renyi_epsilon(gaussian(4), delta)


def test_the_curve_of_an_event_is_computed_once_and_cannot_be_written_to():
    curve = renyi_curve(gaussian(4))
    assert renyi_curve(gaussian(4)) is curve
    with pytest.raises(ValueError, match="read-only"):
        curve[0] = 0.0


def test_an_unknown_event_has_no_cost():
    with pytest.raises(TypeError, match="unknown"):
        renyi_curve(PrivacyEvent())


def test_sampling_is_refused_where_amplification_is_not_proven():
    with pytest.raises(AdjacencyError, match="add_or_remove_one only"):
        PoissonSampledDpEvent(skellam(adjacency=REPLACE), Fraction(1, 2))
    with pytest.raises(ValueError, match="sampling rate"):
        PoissonSampledDpEvent(skellam(), Fraction(3, 2))


def test_beyond_the_orders_of_amplification_a_sampled_release_costs_what_it_does_without_sampling():
    # The best order is beyond 256.
    event = PoissonSampledDpEvent(gaussian(10**6), Fraction(1, 2))
    bound = composed_epsilon(event, 1e-9)
    assert bound.order > 256
    assert not bound.order_at_edge
    assert bound.epsilon <= composed_epsilon(event.release, 1e-9).epsilon


def test_ten_thousand_mixed_events_are_accounted_exactly_as_their_curves():
    different = [kind(1000 + i) for kind in (gaussian, skellam) for i in range(500)]
    curve = 10 * sum(renyi_curve(event) for event in different)
    bound = composed_epsilon(different * 10, 1e-6)
    assert bound.epsilon == pytest.approx(epsilon_of_rdp(curve, 10_000, 1e-6).epsilon, rel=1e-9)
    assert bound == composed_epsilon(dict.fromkeys(different, 10), 1e-6)
