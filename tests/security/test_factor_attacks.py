"""Attacks on the printed federated matrix factorization [SGDMF22], which convict it and acquit ours."""

import math
from fractions import Fraction

import numpy as np
import pytest

from analyses.matrix_factorization.descent.descent_plan import DescentParams, plan_descent
from analyses.matrix_factorization.descent.horizontal_descent import HorizontalMember
from analyses.matrix_factorization.descent.projected_descent import first_embeddings, moved
from analyses.matrix_factorization.descent.projection import (
    gradient_bound,
    integer_gradients,
    squared_sensitivity,
)
from analyses.matrix_factorization.plan import Members
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.unit_vectors import sensitivity
from analyses.sums.noise import SumNoise, survivor_levels
from dp.cost.accounting import ORDERS, Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.events.event import renyi_curve
from dp.cost.events.sampling import PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamDpEvent
from dp.cost.views import VIEWS
from entropy import InsecureTestEntropy

SQUARED = 1 << 40
"""Of a sensitivity so fine that Skellam noise costs what Gaussian noise does."""


def gaussian_like(multiplier: float) -> SkellamDpEvent:
    mu = Fraction(multiplier) ** 2 * SQUARED / 2
    return SkellamDpEvent(SQUARED / mu, SQUARED / mu**2, SQUARED / mu, SQUARED / mu**2, Adjacency.ADD_OR_REMOVE_ONE)


# -- local setting: noise in two rounds ----------------------------------------------------------------------------


def conditional_variance(covariance: np.ndarray) -> float:
    """Of the first variable, given all others."""
    rest = covariance[1:, 1:]
    return float(covariance[0, 0] - covariance[0, 1:] @ np.linalg.pinv(rest) @ covariance[1:, 0])


def printed_two_rounds(omega: float, n: int = 40) -> float:
    """Variance that is left of the printed LFL noise, over the intended one, for who keeps both rounds' messages.

    Round 1 opens sum xi_i, var xi_i = 1 / ((1 - omega) n); round 2 opens each -xi_i + xi'_i, whose new noise has
    var xi'_i = 1 / n when all survive: the sum that is used has the intended variance 1, and the view less.
    """
    first, second = 1 / ((1 - omega) * n), 1 / n
    covariance = np.zeros((n + 1, n + 1))
    covariance[0, 0] = n * first  # the sum of all xi
    for i in range(1, n + 1):
        covariance[0, i] = covariance[i, 0] = -first
        covariance[i, i] = first + second
    return conditional_variance(covariance)


@pytest.mark.parametrize(("omega", "left"), [(0.3, 0.588), (0.6, 0.714)])
def test_the_printed_two_round_noise_keeps_little_of_its_variance(omega, left):
    assert printed_two_rounds(omega) == pytest.approx(left, abs=0.001)
    cost = composed_epsilon([gaussian_like(4.05 * math.sqrt(left))], 1e-5).epsilon
    assert cost == pytest.approx({0.3: 1.34, 0.6: 1.20}[omega], abs=0.03)


def test_at_the_fewest_survivors_half_of_it_is_left():
    """With (1 - omega) n survivors both parts have variance 1, and half of it is left: epsilon 1 is 1.47."""
    cost = composed_epsilon([gaussian_like(4.05 * math.sqrt(0.5))], 1e-5).epsilon
    assert cost == pytest.approx(1.47, abs=0.03)


def test_opened_components_say_nothing_about_the_noise_that_stays():
    """Ours: what is opened are whole components, independent of base and rest: all of the intended variance is left."""
    n, fewest = 40, 28
    sensitivities = {view: sensitivity(1000, 10, view, "user") for view in VIEWS}
    noise = SumNoise(4000, 1, survivor_levels(fewest, n), 0, sensitivities)
    parts = [noise.mu * part for part in (noise.base_part, *noise.component_parts)]
    for survivors in (28, 33, 40):
        n_opened = survivors - fewest
        # Variables: the opened sum of each survivor's parts, then each opened component of each survivor.
        opened = [2 * float(mu) for mu in parts[1 : 1 + n_opened]]
        covariance = np.diag([survivors * sum(2 * float(mu) for mu in parts), *opened * survivors])
        covariance[0, 1:] = covariance[1:, 0] = opened * survivors
        assert conditional_variance(covariance) == pytest.approx(2 * noise.mu, rel=1e-9)


# -- horizontal setting: a single rating as the unit ---------------------------------------------------------------


def fitted(values: np.ndarray, vectors: np.ndarray, largest: float) -> float:
    """A user's embedding of rank 1, fitted to its ratings by least squares, projected."""
    return float(np.clip(values @ vectors / (vectors @ vectors), 0.0, math.sqrt(largest)))


def test_one_rating_moves_all_gradients_of_its_user_far_beyond_the_printed_bound():
    """R = 5, p = 1, 1000 ratings of 5 on items of .001; one more, 0 on an item of sqrt 5: 390.7, claimed 22.36."""
    largest, vectors, values = 5.0, np.full(1000, 0.001), np.full(1000, 5.0)
    more_vectors, more_values = np.append(vectors, math.sqrt(largest)), np.append(values, 0.0)

    def gradient(vectors, values):
        u = fitted(values, vectors, largest)
        return -2 * u * (values - u * vectors)

    before, after = gradient(vectors, values), gradient(more_vectors, more_values)
    moved_by = math.hypot(np.linalg.norm(after[:1000] - before), after[1000])
    claimed = math.sqrt(squared_sensitivity(5, 1, unit="rating", theta=1, both=False))
    assert claimed == pytest.approx(22.36, abs=0.01)
    assert moved_by == pytest.approx(390.7, abs=0.5)


def test_the_unit_of_a_rating_is_refused_and_a_whole_user_is_within_its_bound():
    members = Members(5, 1, 5)
    params = DescentParams(
        "horizontal", n_users=100, n_items=20, rank=1, largest=5, theta=4, steps=1, sampling_rate=1.0
    )
    with pytest.raises(Exception, match="protect a user"):
        plan_descent(
            DescentParams(**{**vars(params), "unit": "rating"}), members, epsilon=4.0, delta=1e-3, view="coordinator"
        )
    plan = plan_descent(params, members, epsilon=4.0, delta=1e-3, view="coordinator")
    items = first_embeddings(plan, 20, "V")
    rng = np.random.default_rng(2)
    bound = squared_sensitivity(5, plan.params.units, unit="user", theta=4, both=False)
    for _ in range(20):
        n = int(rng.integers(1, 20))
        user = Ratings.of(np.zeros(n), rng.permutation(20)[:n], rng.choice([0.0, 5.0], n), 1, 20)
        moved_by = HorizontalMember(plan, user, items, InsecureTestEntropy("a")).gradient(items)
        assert (moved_by**2).sum() <= bound


# -- sampling rows, accounting ratings -----------------------------------------------------------------------------


def test_a_sample_of_rows_amplifies_a_rating_linearly_and_not_quadratically():
    """At z = 1, rate .01, order 2: true .01704, accounted .000172."""
    rate, z = 0.01, 1.0
    accounted = float(renyi_curve(PoissonSampledDpEvent(gaussian_like(z), Fraction(1, 100)))[0])
    assert ORDERS[0] == 2
    assert accounted == pytest.approx(0.000172, abs=2e-6)
    # The row's other ratings tell whether it was sampled. Far apart from the rest, they reveal it, and what is left is
    # the unsampled release with probability `rate`: order 2 of the mixture, (1 - rate) + rate exp(D_2), D_2 = 1 / z^2.
    true = math.log(1 - rate + rate * math.exp(1 / z**2))
    assert true == pytest.approx(0.01704, abs=1e-5)
    # By integration over outputs: one other rating of 40 in the row, the target adds 1.
    x = np.linspace(-12, 55, 400_001)

    def density(mean):
        return np.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi)

    p, q = (1 - rate) * density(0) + rate * density(41), (1 - rate) * density(0) + rate * density(40)
    integrated = math.log(float(np.sum(p**2 / np.maximum(q, 1e-300)) * (x[1] - x[0])))
    assert integrated == pytest.approx(true, rel=1e-3)
    assert integrated > 90 * accounted


def test_rows_are_refused_for_ratings():
    params = DescentParams("vertical", n_users=100, n_items=20, unit="rating", sampled="row", steps=5)
    with pytest.raises(Exception, match="no amplification"):
        plan_descent(params, Members(5, 1, 5), epsilon=4.0, delta=1e-3, view="coordinator")


# -- a start that is not projected ---------------------------------------------------------------------------------


def test_an_unprojected_start_breaks_the_bound_and_is_refused():
    largest, units = 5, 64
    own, other = np.array([[3.0, 3.0]]), np.array([[4.0, 4.0]])  # standard normal starts of higher rank are as long
    printed = -2 * other * (0.0 - (own * other).sum())
    assert (printed**2).sum() > gradient_bound(largest, 1)
    with pytest.raises(ValueError, match="not been projected"):
        integer_gradients(own, other, np.zeros(1), largest, units)


def test_the_start_and_every_iterate_of_ours_are_projected():
    params = DescentParams("horizontal", n_users=100, n_items=50, rank=20, largest=5, steps=5, sampling_rate=0.5)
    plan = plan_descent(params, Members(5, 1, 5), epsilon=4.0, delta=1e-3, view="coordinator")
    points = first_embeddings(plan, 50, "V")
    rng = np.random.default_rng(1)
    for _ in range(4):
        assert (points >= 0).all()
        assert (points**2).sum(axis=1).max() <= 5 * plan.params.factor_units**2
        points = moved(plan, points, rng.integers(-(10**7), 10**7, points.shape))


# -- a divisor that depends on the data ----------------------------------------------------------------------------


def printed_step(sampled: np.ndarray) -> float:
    """The printed normalised gradient of an item: divided by how many ratings were sampled."""
    return float(sampled.sum() / len(sampled))


def test_a_divisor_that_depends_on_the_data_moves_more_than_the_noise_is_for():
    """Noise z Delta_2 / |sample| covers one summand; one more rating also divides all the others by another number."""
    bound = math.sqrt(squared_sensitivity(5, 1, unit="rating", theta=1, both=False))
    others = np.full(3, bound)
    neighbour = np.append(others, -bound)
    moved_by = abs(printed_step(others) - printed_step(neighbour))
    covered = bound / len(neighbour)
    assert moved_by == pytest.approx(2 * covered)


def test_a_step_of_ours_moves_by_a_unit_over_a_public_constant():
    params = DescentParams("horizontal", n_users=100, n_items=4, rank=1, largest=5, theta=4, steps=5, sampling_rate=1.0)
    plan = plan_descent(params, Members(5, 1, 5), epsilon=4.0, delta=1e-3, view="coordinator")
    items = first_embeddings(plan, 4, "V")
    few = Ratings.of(np.zeros(4), np.arange(4), np.zeros(4), 1, 4)
    many = Ratings.of(np.repeat(np.arange(9), 4), np.tile(np.arange(4), 9), np.zeros(36), 9, 4)
    one = HorizontalMember(plan, few, items, InsecureTestEntropy("a")).gradient(items)
    nine = HorizontalMember(plan, many, items, InsecureTestEntropy("a")).gradient(items)
    np.testing.assert_array_equal(nine, 9 * one)  # a sum: no user's part depends on how many others there are
