import math
from fractions import Fraction

import attr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import cost_of

from dp.cost.accounting import Adjacency, CalibrationError
from dp.cost.composition import rounded_gaussian_of
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.sampling import PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent, SkellamVectorDpEvent
from dp.cost.gaussian_filter import (
    GAUSSIAN_PART,
    UNKNOWN,
    GaussianCost,
    GaussianFilter,
    division_of,
    gaussian_cost,
    gaussian_epsilon,
    part_of_budget,
)
from dp.cost.losses.rounded_gaussian import RoundedGaussian, gaussian_delta
from dp.cost.renyi_filter import orders_of_budget

EPSILONS = st.floats(0.01, 20.0)
DELTAS = st.sampled_from([1e-3, 1e-5, 1e-6, 1e-9])


def of_squares(squares: float) -> GaussianCost:
    return GaussianCost(squares, 0.0, 0.0)


@settings(deadline=None)
@given(EPSILONS, DELTAS)
def test_what_is_covered_is_what_one_gaussian_of_the_budget_is_within_one_percent(epsilon, delta):
    distance, slack = 1 / math.sqrt(GaussianFilter(epsilon, delta).used(of_squares(1.0), 1)), 2.0**-11 * epsilon
    assert math.exp(slack) * gaussian_delta(epsilon - 2 * slack, distance) <= delta * (1 - 2.0**-11)
    assert gaussian_delta(epsilon, 1.01 * distance) > delta


def test_parts_add_up_and_each_bound_decides():
    found = GaussianFilter(1.0, 1e-6)
    whole = 1 / found.used(of_squares(1.0), 1)
    assert found.used(of_squares(whole / 4), 1) == pytest.approx(0.25)
    assert found.used(of_squares(whole / 4) + of_squares(whole / 2), 2) == pytest.approx(0.75)
    assert found.used(GaussianCost(whole / 4, 2.0**-12, 0.0), 1) == pytest.approx(0.5)
    assert found.used(GaussianCost(whole / 4, 0.0, 2.0**-11), 1) == pytest.approx(1.0)
    assert found.used(GaussianCost(whole / 4, 0.0, 2.0**-11), 1) > 1 - 1e-9
    assert found.used(GaussianCost(), 0) == 0
    assert found.used(UNKNOWN, 1) == math.inf
    assert found.used(of_squares(whole / 4), 2**80) > 1  # jobs whose noise is unlikely far from Gaussian


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-6), (math.inf, 1e-6), (1.0, 0.0), (1.0, 1.0)])
def test_a_budget_that_is_none_is_refused(epsilon, delta):
    with pytest.raises(CalibrationError):
        GaussianFilter(epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e6, 1e-6), (1e-12, 1e-290), (1.0, 1e-300)])
def test_budgets_for_which_nothing_is_proven_cover_nothing(epsilon, delta):
    assert GaussianFilter(epsilon, delta).used(of_squares(1e-30), 1) > 1


VECTOR = SkellamVectorDpEvent.knowing(
    SkellamDpEvent.of_vector(10**8, 10**5, Fraction(10**10), Adjacency.REPLACE_ONE), 100, Fraction(10**10)
)
SHIFT = SkellamShiftsDpEvent(10**4, 1, Fraction(10**10), Adjacency.REPLACE_ONE)


def test_a_job_is_charged_the_sum_of_its_squares_and_the_worse_of_its_views():
    one, both = cost_of(VECTOR).gaussian, cost_of(VECTOR, SHIFT).gaussian
    assert one.squares == pytest.approx(10**8 / (2 * 10**10))
    assert both.squares == pytest.approx(10**8 / (2 * 10**10) + 10**8 / (2 * 10**10))
    assert 0 < one.above < 1e-6
    larger = SkellamShiftsDpEvent(2 * 10**4, 1, Fraction(10**10), Adjacency.ADD_OR_REMOVE_ONE)
    assert cost_of(SHIFT, coordinator=[larger]).gaussian.squares == pytest.approx(4 * cost_of(SHIFT).gaussian.squares)


@pytest.mark.parametrize(
    "event",
    [
        SkellamDpEvent.of_vector(10**8, 10**5, Fraction(10**10), Adjacency.REPLACE_ONE),  # who knows how many move
        SkellamShiftsDpEvent(1, 1, Fraction(100), Adjacency.REPLACE_ONE),  # too little noise
        SkellamShiftsDpEvent(1, 1, Fraction(10**6), Adjacency.REPLACE_ONE),  # a step of the lattice
        DiscreteLaplaceDpEvent(1, Fraction(10), Adjacency.REPLACE_ONE),
    ],
)
def test_other_noise_coarse_lattices_have_no_such_cost_alone_or_with_others(event):
    assert cost_of(event).gaussian == UNKNOWN
    assert cost_of(VECTOR, event).gaussian == UNKNOWN


def test_samples_have_no_such_cost_and_keep_their_renyi_curve():
    release = attr.evolve(VECTOR, adjacency=Adjacency.ADD_OR_REMOVE_ONE)
    assert rounded_gaussian_of([release]) is not None
    assert rounded_gaussian_of([release, PoissonSampledDpEvent(release, Fraction(1, 100))]) is None


def test_nothing_that_moves_is_no_cost_that_is_known():
    assert gaussian_cost(RoundedGaussian.of([])) == UNKNOWN


@settings(deadline=None)
@given(st.floats(0.1, 3.0), DELTAS.filter(lambda delta: delta <= 1e-5))
def test_the_epsilon_of_jobs_fixed_beforehand_is_that_of_one_gaussian(distance, delta):
    found = gaussian_epsilon(of_squares(distance**2), 3, delta)
    assert gaussian_delta(found, distance) <= delta
    assert found < 1e-9 or gaussian_delta(found * 0.999, distance) > delta
    assert gaussian_epsilon(UNKNOWN, 1, delta) == math.inf
    assert gaussian_epsilon(GaussianCost(1e9, 0.0, 0.0), 1, delta) == math.inf


@pytest.mark.parametrize(
    ("epsilon", "delta", "has_one"),
    [(1.0, 1e-6, True), (35.0, 1e-6, True), (100.0, 1e-6, False), (1.0, 1e-25, False), (1.0, 1e-307, False)],
)
def test_a_budget_yields_no_part_of_delta_to_a_filter_that_would_cover_nothing(epsilon, delta, has_one):
    assert part_of_budget(epsilon, delta) == (GAUSSIAN_PART if has_one else None)


@given(EPSILONS, DELTAS)
def test_both_divisions_of_delta_come_to_delta_at_most(epsilon, delta):
    orders = orders_of_budget(epsilon, delta)
    kept, of_gaussian = division_of(delta, orders, GAUSSIAN_PART, is_gaussian_first=True)
    assert of_gaussian is not None
    assert sum(Fraction(delta) * one.share for one in kept) + Fraction(of_gaussian) <= Fraction(delta)
    assert [one.order for one in kept] == [one.order for one in orders]
    for part, is_first in ((GAUSSIAN_PART, False), (None, True)):
        assert division_of(delta, orders, part, is_gaussian_first=is_first) == (orders, None)
