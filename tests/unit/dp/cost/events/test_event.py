from fractions import Fraction

import attr
import numpy as np
import pytest

from dp.cost.accounting import ORDERS, Adjacency, round_up
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.event import differs_in_neighbours_only, renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent
from dp.cost.events.sketch import CardinalitySketchDpEvent
from dp.cost.job_cost import JobCost

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_OR_REMOVE_ONE
OF_DIFFERENCES = [
    (SkellamDpEvent.of_vector(9, 5, Fraction(1000), REPLACE), ("squares", "squares_second", "sizes", "sizes_second")),
    (DiscreteGaussianDpEvent(Fraction(1, 7), REPLACE), ("squares",)),
    (DiscreteLaplaceDpEvent(2, Fraction(9, 2), REPLACE), ("l1_sensitivity", "scale")),
    (RandomizedResponseDpEvent(4, Fraction(2, 3), REPLACE), ("n_options",)),
]


@pytest.mark.parametrize(("event", "names"), OF_DIFFERENCES)
def test_an_event_of_known_differences_costs_the_same_for_both_neighbours(event, names):
    other = attr.evolve(event, adjacency=ADD)
    assert differs_in_neighbours_only(event, other)
    assert np.array_equal(renyi_curve(event), renyi_curve(other))
    for name in names:
        assert not differs_in_neighbours_only(event, attr.evolve(other, **{name: 2 * getattr(event, name)}))
    truth = RandomizedResponseDpEvent(4, Fraction(3, 4), ADD)
    assert not differs_in_neighbours_only(event, truth)


def test_nothing_is_assumed_of_events_whose_curve_depends_on_the_neighbours():
    sketch = CardinalitySketchDpEvent(1000, 3, 40, 40, 1, REPLACE)
    other = attr.evolve(sketch, adjacency=ADD)
    assert not np.array_equal(renyi_curve(sketch), renyi_curve(other))
    assert not differs_in_neighbours_only(sketch, other)
    shifts = SkellamShiftsDpEvent(1, 1, Fraction(10), REPLACE)
    assert not differs_in_neighbours_only(shifts, shifts)


def test_the_curve_of_a_job_is_the_largest_of_its_views():
    weak, strong = DiscreteGaussianDpEvent(Fraction(1, 50), REPLACE), DiscreteGaussianDpEvent(Fraction(1, 5), REPLACE)
    alike = JobCost({"coordinator": (attr.evolve(weak, adjacency=ADD),), "coalition": (weak,)}, "record", 1)
    assert np.array_equal(alike.curve, renyi_curve(weak))
    assert not alike.curve.flags.writeable
    for coordinator, coalition in ((weak, strong), (strong, weak)):
        views = {"coordinator": (attr.evolve(coordinator, adjacency=ADD),), "coalition": (coalition,)}
        assert np.array_equal(JobCost(views, "record", 1).curve, renyi_curve(strong))
    twice = {"coordinator": (attr.evolve(weak, adjacency=ADD),) * 2, "coalition": (weak,)}
    assert np.array_equal(JobCost(twice, "record", 1).curve, 2 * renyi_curve(weak))


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(2), Fraction(3**50, 7**40), Fraction(10**400, 10**399 + 1)])
def test_a_cost_is_rounded_up_to_the_next_float_also_where_its_parts_are_beyond_floats(x):
    up = round_up(x)
    assert Fraction(up) >= x > Fraction(np.nextafter(up, 0))
    assert round_up(Fraction(10**400)) == np.inf


def test_orders_as_floats_are_those_of_any_array_of_orders():
    event = DiscreteLaplaceDpEvent(2, Fraction(9, 2), REPLACE)
    assert np.array_equal(renyi_curve(event), renyi_curve(event, ORDERS.copy()))
