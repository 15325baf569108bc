import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp.cost.accounting import ORDERS, CalibrationError, epsilon_of_rdp
from dp.cost.renyi_filter import TOP_ORDER, FilterOrder, RenyiFilter, check_orders, main_order, orders_of_budget

EPSILONS = st.floats(0.01, 100.0)
DELTAS = st.sampled_from([1e-3, 1e-5, 1e-6, 1e-9, 1e-12])
GAUSSIAN = ORDERS.astype(np.float64)
PURE = np.ones(len(ORDERS))


@pytest.mark.parametrize(
    ("epsilon", "delta", "orders"),
    [
        (0.1, 1e-6, (166, 332, 990)),
        (1.0, 1e-5, (18, 36, 108)),
        (1.0, 1e-6, (22, 44, 132)),
        (1.0, 1e-9, (35, 70, 210)),
        (4.0, 1e-6, (7, 14, 42)),
        (8.0, 1e-6, (4, 8, 24)),
        (1e6, 1e-6, (2, 4, 12)),
    ],
)
def test_the_orders_of_a_budget_stay_what_they_are_for_ledgers_that_hold_them(epsilon, delta, orders):
    parts = [Fraction(part, 128) for part in (121, 4, 2, 1)]
    assert orders_of_budget(epsilon, delta) == tuple(map(FilterOrder, (*orders, TOP_ORDER), parts))


def test_orders_that_coincide_share_their_parts():
    tiny = orders_of_budget(1e-9, 1e-12)
    assert sum(one.share for one in tiny) == 1
    assert len({one.order for one in tiny}) == len(tiny)


@settings(deadline=None)
@given(EPSILONS, DELTAS)
def test_a_bound_is_what_converts_to_the_budget_at_its_order_alone(epsilon, delta):
    found = RenyiFilter.of_budget(epsilon, delta)
    for one, bound in zip(found.orders, found.bounds(), strict=True):
        only = np.where(one.order == ORDERS, max(bound, 0.0), np.inf)
        assert epsilon_of_rdp(only, 1, delta * float(one.share)).epsilon == pytest.approx(epsilon, rel=1e-9)
    assert sum(one.share for one in found.orders) <= 1


@settings(deadline=None)
@given(EPSILONS, DELTAS.filter(lambda delta: delta <= 1e-5))
def test_gaussian_noise_loses_one_and_a_half_percent_at_most_and_pure_epsilon_next_to_nothing(epsilon, delta):
    found = RenyiFilter.of_budget(epsilon, delta)
    order = GAUSSIAN
    best = np.max((epsilon - np.log1p(-1 / order) + (math.log(delta) + np.log(order)) / (order - 1)) / order)
    assert found.covers(0.985 * best * GAUSSIAN, 1)
    assert not found.covers(1.001 * best * GAUSSIAN, 1)
    assert found.covers((epsilon - 3e-6) * PURE, 1)
    assert not found.covers(epsilon * 1.0001 * PURE, 1)


@settings(deadline=None)
@given(EPSILONS, DELTAS, st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=5))
def test_what_is_covered_is_within_the_budget_at_the_best_order_too(epsilon, delta, jobs):
    found = RenyiFilter.of_budget(epsilon, delta)
    curve = sum(np.minimum(x * epsilon * GAUSSIAN, y * epsilon) for x, y in jobs)
    if found.covers(curve, len(jobs)):
        assert epsilon_of_rdp(curve, len(jobs), delta).epsilon <= epsilon * (1 + 1e-9)


def test_parts_add_up_at_an_order_and_nothing_uses_nothing():
    found = RenyiFilter.of_budget(1.0, 1e-6)
    quarter = GAUSSIAN * found.bounds()[0] / found.orders[0].order / 4
    assert found.used(0 * GAUSSIAN, 0) == 0
    assert found.used(quarter, 1) == pytest.approx(0.25)
    assert found.used(3 * quarter, 3) == pytest.approx(0.75)
    assert found.tightest(PURE / 2, 1) == (TOP_ORDER, pytest.approx(0.5, rel=1e-4))


@pytest.mark.parametrize("strange", [math.inf, math.nan])
def test_a_cost_that_nobody_knows_is_covered_by_nothing(strange):
    found = RenyiFilter.of_budget(1.0, 1e-6)
    assert not found.covers(np.full(len(ORDERS), strange), 1)
    known_at_small_orders = np.where(ORDERS <= 256, 0.01 * GAUSSIAN / 22, strange)
    assert found.covers(known_at_small_orders, 1)


def test_an_order_that_allows_nothing_covers_what_costs_nothing_alone():
    found = RenyiFilter.of_budget(1e-9, 1e-12)
    assert max(found.bounds()) < 1e-9
    assert found.covers(0 * GAUSSIAN, 1)
    assert not found.covers(1e-8 * PURE, 1)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-6), (math.inf, 1e-6), (1.0, 0.0), (1.0, 1.0)])
def test_what_is_no_budget_has_no_filter(epsilon, delta):
    with pytest.raises(CalibrationError):
        RenyiFilter.of_budget(epsilon, delta)
    with pytest.raises(CalibrationError):
        main_order(epsilon, delta)


@pytest.mark.parametrize("orders", [[], [(22, "1"), (2, "1/9")], [(513_000, "1")], [(22, "-1")], [(22, "x")]])
def test_orders_whose_parts_of_delta_exceed_it_are_refused(orders):
    with pytest.raises(ValueError, match=r".+"):
        check_orders(orders)
    with pytest.raises(ValueError, match="filter"):
        RenyiFilter(1.0, 1e-6, ())
