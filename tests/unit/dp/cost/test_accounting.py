import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import compute_epsilon

from dp.cost.accounting import (
    ORDERS,
    Adjacency,
    AdjacencyError,
    CalibrationError,
    epsilon_of_rdp,
    round_up,
)
from dp.cost.composition import composed_epsilon
from dp.cost.events.event import renyi_curve
from dp.cost.events.skellam import SkellamDpEvent


def event(squares, mu=1000, adjacency=Adjacency.ADD_OR_REMOVE_ONE) -> SkellamDpEvent:
    """One number that moves by sqrt(squares), noise Sk(mu)."""
    s, size = Fraction(squares), Fraction(math.isqrt(math.ceil(squares)) + 1)
    return SkellamDpEvent(s / mu, s / Fraction(mu) ** 2, size / mu, size / Fraction(mu) ** 2, adjacency)


def exact_bound(e: SkellamDpEvent, order: int) -> Fraction:
    first = order * e.squares / 4
    return first + min(((2 * order - 1) * e.squares_second + 6 * e.sizes_second) / 16, 3 * e.sizes / 4)


def exact_epsilon(e: SkellamDpEvent, delta: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        log_delta = mpmath.log(mpmath.mpf(delta))
        return min(
            mpmath.mpf(b.numerator) / b.denominator
            + mpmath.log1p(-mpmath.mpf(1) / a)
            - (log_delta + mpmath.log(a)) / (a - 1)
            for a in ORDERS.tolist()
            for b in [exact_bound(e, a)]
        )


def test_orders_are_integers_from_2_without_gaps_to_512_and_then_close_together_up_to_2_to_24():
    assert np.array_equal(ORDERS[:511], np.arange(2, 513))
    assert ORDERS[-1] == 2**24
    ratios = ORDERS[511:] / ORDERS[510:-1]
    assert 1 < ratios.min() <= ratios.max() < 1.02


@pytest.mark.parametrize("squares", [1, 100, Fraction(10**9, 7), 10**14])
@pytest.mark.parametrize("mu", [1, 1000, 10**6 + 3])
def test_a_divergence_is_the_formula_rounded_up_by_less_than_one_part_in_a_trillion(squares, mu):
    e = event(squares, mu)
    for order, stated in zip(ORDERS[::50].tolist(), renyi_curve(e)[::50].tolist(), strict=True):
        exact = exact_bound(e, order)
        assert exact <= Fraction(stated) <= exact * (1 + Fraction(1, 10**12))


def test_both_branches_of_the_minimum_occur():
    # Little noise: the branch 3 |d| / (4 mu) is the smaller one.
    small, large = event(1, Fraction(1, 4)), event(1, 10**6)
    for e, uses_sizes in ((small, True), (large, False)):
        branch = 3 * e.sizes / 4
        other = (3 * e.squares_second + 6 * e.sizes_second) / 16
        assert (branch < other) is uses_sizes
        stated = renyi_curve(e, np.array([2]))[0]
        assert math.isclose(stated, float(2 * e.squares / 4 + min(branch, other)), rel_tol=1e-12)


def test_a_cost_beyond_floating_point_is_infinite_and_not_an_error():
    assert round_up(Fraction(10) ** 400) == round_up(Fraction(10) ** 4000 / 3) == math.inf
    assert math.isfinite(round_up(Fraction(10) ** 308))
    hopeless = event(Fraction(10) ** 800)
    assert np.all(np.isposinf(renyi_curve(hopeless)))
    found = composed_epsilon(hopeless, 1e-6)
    assert (found.epsilon, found.order, found.order_at_edge) == (math.inf, 2, True)


@pytest.mark.filterwarnings("error")
def test_a_cost_that_is_finite_at_small_orders_only_gives_its_epsilon():
    huge = event(Fraction(10) ** 306, 1)
    assert np.isinf(renyi_curve(huge)[-1])
    found = composed_epsilon(huge, 1e-6)
    assert 5e305 < found.epsilon < 6e305
    assert found.order == 2


def test_orders_for_which_nothing_is_proven_are_refused():
    for orders in (np.array([1, 2]), np.array([2.5])):
        with pytest.raises(ValueError, match="integer orders"):
            renyi_curve(event(1), orders)


@pytest.mark.parametrize("squares", [Fraction(1, 10**12), 1, 100, 10**6])
@pytest.mark.parametrize("delta", [1e-12, 0.3])
def test_epsilon_is_the_tight_conversion_rounded_up(squares, delta):
    e = event(squares)
    exact, stated = exact_epsilon(e, delta), composed_epsilon(e, delta).epsilon
    if renyi_curve(e)[0] < delta**2:
        # The library's second bound: delta is at least the total variation, hence epsilon 0.
        assert stated < 1e-9
    else:
        assert exact <= stated < max(exact, 0) + 1e-9 * (1 + abs(exact))


def test_an_event_that_moves_nothing_costs_nothing():
    nothing = SkellamDpEvent(*[Fraction(0)] * 4, Adjacency.REPLACE_ONE)
    assert composed_epsilon(nothing, 1e-5).epsilon == 0


def test_divergences_of_several_releases_add_before_they_are_converted():
    one = event(100)
    once, four_times = composed_epsilon(one, 1e-5).epsilon, composed_epsilon([one] * 4, 1e-5).epsilon
    as_one = SkellamDpEvent(4 * one.squares, 4 * one.squares_second, 4 * one.sizes, 4 * one.sizes_second, one.adjacency)
    assert four_times == pytest.approx(composed_epsilon(as_one, 1e-5).epsilon, rel=1e-9)
    assert once < four_times < 4 * once
    assert composed_epsilon([one], 1e-5).epsilon == once


def test_costs_of_different_neighbouring_relations_are_never_added():
    with pytest.raises(AdjacencyError, match="add_or_remove_one and replace_one"):
        composed_epsilon([event(1), event(1, adjacency=Adjacency.REPLACE_ONE)], 1e-5)


def test_a_composition_of_nothing_has_no_neighbouring_relation():
    with pytest.raises(AdjacencyError, match="none"):
        composed_epsilon([], 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, 2.0])
def test_a_delta_that_is_no_probability_of_failure_is_refused(delta):
    with pytest.raises(CalibrationError, match="delta"):
        composed_epsilon(event(1), delta)


def test_epsilon_falls_with_delta_and_with_noise():
    values = [composed_epsilon(event(100), delta).epsilon for delta in (1e-12, 1e-9, 1e-6, 1e-3)]
    assert values == sorted(values, reverse=True)
    values = [composed_epsilon(event(100, mu), 1e-6).epsilon for mu in (10, 100, 1000, 10**6)]
    assert values == sorted(values, reverse=True)


def test_the_best_order_is_flagged_at_either_edge_of_the_grid_and_only_there():
    assert composed_epsilon(event(10**6), 1e-5).order == 2
    assert composed_epsilon(event(10**6), 1e-5).order_at_edge
    inside = composed_epsilon(event(100), 1e-5)
    assert (inside.order, inside.order_at_edge) == (19, False)
    largest = composed_epsilon(event(Fraction(1, 10**20)), 1e-30)
    assert (largest.order, largest.order_at_edge) == (2**24, True)


def test_small_epsilons_find_large_orders():
    found = composed_epsilon(event(Fraction(1, 10**5)), 1e-9)
    assert found.order > 512
    assert not found.order_at_edge


def test_rounding_up_gives_the_nearest_float_that_is_not_below():
    for x in (Fraction(1, 3), Fraction(2, 3), Fraction(0), Fraction(1), Fraction(2**60 + 1), Fraction(1, 10**30)):
        up = round_up(x)
        assert Fraction(up) >= x
        assert x == 0 or Fraction(math.nextafter(up, 0)) < x


def test_an_event_is_a_key_and_cannot_be_changed():
    e = event(7)
    assert {e: "kept"}[event(7)] == "kept"
    with pytest.raises(AttributeError):
        e.squares = Fraction(0)


@pytest.mark.parametrize("squares", [Fraction(1, 10**12), 1, 100, 10**6])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.3])
def test_the_conversion_is_that_of_the_accounting_library_rounded_up(squares, delta):
    rdp = renyi_curve(event(squares))
    ours = epsilon_of_rdp(rdp, 1, delta)
    theirs, order = compute_epsilon(ORDERS.tolist(), rdp.tolist(), delta)
    assert theirs <= ours.epsilon <= theirs + 1e-9 * (1 + theirs)
    assert ours.order == order


def test_a_kept_sum_of_divergences_costs_what_the_list_of_events_costs():
    events = [event(n, 1000 + n) for n in range(1, 200)]
    kept = sum((renyi_curve(e) for e in reversed(events)), np.zeros(len(ORDERS)))
    assert epsilon_of_rdp(kept, len(events), 1e-6).epsilon == pytest.approx(
        composed_epsilon(events, 1e-6).epsilon, rel=1e-12
    )
