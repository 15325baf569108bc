"""All neighbours of small tables, and everything that two parties with two clusters each publish in one sketch."""

import itertools
import math

import numpy as np
import pytest

from dp.cost.accounting import Adjacency, CalibrationError
from dp.cost.events.event import renyi_curve
from dp.cost.events.sketch import CardinalitySketchDpEvent
from dp.cost.losses.sketch import SketchCell
from dp.mechanism.cardinality import PartitionSketch

LEVELS = 9
"""Levels from here on are one: post-processing, so a bound has to hold all the same."""

CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))
ORDERS = np.array([2, 4, 16, 64])


def published(counts, own, shared, floor):
    """Return the probabilities of all (A_0, A_1, B_0, B_1): shape (LEVELS,) * 4, entry i is level i + 1.

    P(A_a <= r_a, B_b <= s_b) is a product over users and phantoms of 1 - 2^-(smallest bound on their level).
    """
    below = 1 - 0.5 ** np.arange(1.0, LEVELS + 1)
    below[-1] = 1.0
    levels = np.arange(LEVELS)
    cdf = np.ones((LEVELS,) * 4)
    for (a, b), n in zip(CELLS, counts, strict=True):
        axes_a, axes_b = np.meshgrid(levels, levels, indexing="ij")
        table = below[np.minimum(axes_a, axes_b)] ** (n + shared)
        cdf *= table.reshape([LEVELS if axis in (a, 2 + b) else 1 for axis in range(4)])
    for axis in range(4):
        cdf *= (below**own).reshape([LEVELS if i == axis else 1 for i in range(4)])
        cdf[(slice(None),) * axis + (slice(0, floor - 1),)] = 0.0
    masses = cdf
    for axis in range(4):
        masses = np.diff(masses, axis=axis, prepend=0.0)
    return masses.ravel()


def neighbours(adjacency):
    """Return pairs of cell counts of at most two users that differ in one user."""
    tables = [t for t in itertools.product(range(3), repeat=4) if sum(t) <= 2]
    for first, second in itertools.permutations(tables, 2):
        change = np.subtract(first, second)
        if adjacency is Adjacency.ADD_OR_REMOVE_ONE and np.abs(change).sum() == 1:
            yield first, second
        if adjacency is Adjacency.REPLACE_ONE and np.abs(change).sum() == 2 and change.sum() == 0:
            yield first, second


def largest_log_ratio(adjacency, own, shared, floor):
    worst = 0.0
    for first, second in neighbours(adjacency):
        p, q = published(first, own, shared, floor), published(second, own, shared, floor)
        seen = (p > 1e-12) & (q > 1e-12)
        worst = max(worst, float(np.log(p[seen] / q[seen]).max()))
    return worst


@pytest.mark.parametrize(("own", "floor"), [(1, 1), (2, 2), (3, 2)])
def test_the_published_sketch_exceeds_what_it_claims_for_two_parties(own, floor):
    per_party = math.log1p(1 / own)
    assert floor == math.ceil(math.log2(1 / -math.expm1(-per_party)) - 1e-9)
    claimed = 2 * per_party
    assert largest_log_ratio(Adjacency.ADD_OR_REMOVE_ONE, own, 0, floor) > claimed + 0.3


@pytest.mark.parametrize(("own", "floor"), [(1, 1), (2, 2), (3, 2)])
def test_phantoms_that_both_parties_share_keep_the_claim_of_one_for_both(own, floor):
    claimed = math.log1p(1 / own)
    assert largest_log_ratio(Adjacency.ADD_OR_REMOVE_ONE, own, own, floor) <= claimed * (1 + 1e-3)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("own", "shared", "floor"), [(0, 1, 1), (1, 2, 2), (3, 1, 1), (4, 2, 3)])
def test_no_neighbours_exceed_the_curve_of_the_event(adjacency, own, shared, floor):
    bound = renyi_curve(PartitionSketch(2, 1, 2, own, shared, floor).event(adjacency), ORDERS)
    worst = np.zeros(len(ORDERS))
    for first, second in neighbours(adjacency):
        p, q = published(first, own, shared, floor), published(second, own, shared, floor)
        seen = (p > 1e-12) & (q > 1e-12)
        log_ratio = np.log(p[seen] / q[seen])
        for i, order in enumerate(ORDERS):
            worst[i] = max(worst[i], np.log(np.sum(q[seen] * np.exp(order * log_ratio))) / (order - 1))
    assert np.all(worst <= bound * (1 + 1e-4))
    # Not loose either: the bound leaves out what else is in the clusters, here the phantoms of the three other cells.
    assert np.all(worst >= bound / (2 if adjacency is Adjacency.ADD_OR_REMOVE_ONE else 4))


def test_the_curve_is_above_the_exact_composition_and_near_it():
    event = CardinalitySketchDpEvent(256, 2, 200, 8, 4, Adjacency.ADD_OR_REMOVE_ONE)
    cell = SketchCell(1.0, 256, 2, 200, 8, 4)
    exact = cell.epsilon(1e-6)
    order = np.arange(2, 2000)
    converted = renyi_curve(event, order) + np.log1p(-1 / order) - (math.log(1e-6) + np.log(order)) / (order - 1)
    assert exact * 0.99 <= converted.min() <= exact * 1.25


def test_many_sketches_cost_as_many_times_as_one():
    one, many = (CardinalitySketchDpEvent(m, 3, 50, 4, 3, Adjacency.ADD_OR_REMOVE_ONE) for m in (1, 100))
    assert renyi_curve(many) == pytest.approx(100 * renyi_curve(one))


def test_a_user_who_moves_costs_both_directions_with_half_of_the_own_phantoms():
    event = CardinalitySketchDpEvent(1, 2, 9, 2, 3, Adjacency.REPLACE_ONE)
    enters, leaves = SketchCell(1.0, 1, 2, 4, 2, 3).renyi(ORDERS)
    assert renyi_curve(event, ORDERS) == pytest.approx(enters + leaves)


def test_without_shared_phantoms_no_curve_is_stated():
    with pytest.raises(CalibrationError, match="share"):
        renyi_curve(CardinalitySketchDpEvent(1, 2, 1000, 0, 5, Adjacency.ADD_OR_REMOVE_ONE))
