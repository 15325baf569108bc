"""The bounds against the divergences themselves, summed up over all outcomes."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.special import ive, logsumexp

from dp.cost.accounting import Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.events.event import renyi_curve
from dp.cost.events.skellam import SkellamDpEvent
from dp.mechanism.gram import NoisyGram

REACH = 700
MIDDLE = slice(REACH - 250, REACH + 251)


@functools.cache
def log_mass(mu: float, shift: int) -> np.ndarray:
    """ln P(Sk(mu) + shift = k) for |k| <= REACH, by the series of the Bessel function in log space.

    I_k(2 mu) = mu^k sum_m mu^(2m) / (m! (m + k)!). The `ive` of scipy underflows in the tails, where a divergence of
    high order has its mass.
    """
    k = np.abs(np.arange(-REACH, REACH + 1) - shift)
    m = np.arange(400)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, 2 * REACH + 401)))])
    terms = 2 * m[:, None] * math.log(mu) - log_factorial[m][:, None] - log_factorial[m[:, None] + k[None, :]]
    return k * math.log(mu) + logsumexp(terms, axis=0) - 2 * mu


def renyi_divergence(p: np.ndarray, q: np.ndarray, order: int) -> float:
    return float(logsumexp(order * p - (order - 1) * q) / (order - 1))


def event_of(difference: list[int], mus: list[float]) -> SkellamDpEvent:
    d = [abs(x) for x in difference]
    mu = [Fraction(x) for x in mus]
    pairs = list(zip(d, mu, strict=True))
    return SkellamDpEvent(
        squares=sum((x**2 / m for x, m in pairs), Fraction(0)),
        squares_second=sum((x**2 / m**2 for x, m in pairs), Fraction(0)),
        sizes=sum((x / m for x, m in pairs), Fraction(0)),
        sizes_second=sum((x / m**2 for x, m in pairs), Fraction(0)),
        adjacency=Adjacency.ADD_OR_REMOVE_ONE,
    )


def bound(event: SkellamDpEvent, order: int) -> float:
    return float(renyi_curve(event, np.array([order]))[0])


def test_the_log_mass_used_here_is_that_of_scipy_where_scipy_has_one():
    k = np.arange(-30, 31)
    assert np.allclose(np.exp(log_mass(9.0, 0))[REACH + k], ive(np.abs(k), 18.0), rtol=1e-11)
    assert math.isclose(logsumexp(log_mass(50.0, 7)), 0.0, abs_tol=1e-11)


@pytest.mark.parametrize("mu", [0.5, 2, 16, 128])
@pytest.mark.parametrize("difference", [1, 2, 8])
def test_the_bound_of_one_number_is_above_the_divergence_and_near_it_for_much_noise(mu, difference):
    p, q = log_mass(mu, difference), log_mass(mu, 0)
    for order in (2, 3, 4, 8, 16, 32):
        exact, stated = renyi_divergence(p, q, order), bound(event_of([difference], [mu]), order)
        assert exact <= stated * (1 + 1e-9)
        if mu >= 16 * difference:
            assert stated < 1.2 * exact


@pytest.mark.parametrize(
    ("difference", "mus"), [([1, 1], [4, 2]), ([3, -2], [10, 5]), ([1, 5], [2, 16]), ([0, 4], [3, 9])]
)
def test_the_bound_of_two_numbers_with_noise_of_their_own_is_above_their_joint_divergence(difference, mus):
    p = log_mass(mus[0], difference[0])[MIDDLE, None] + log_mass(mus[1], difference[1])[None, MIDDLE]
    q = log_mass(mus[0], 0)[MIDDLE, None] + log_mass(mus[1], 0)[None, MIDDLE]
    for order in (2, 5, 12):
        exact = renyi_divergence(p.ravel(), q.ravel(), order)
        assert 0.5 * bound(event_of(difference, mus), order) < exact <= bound(event_of(difference, mus), order)


@pytest.mark.parametrize("mu", [4, 30])
def test_no_neighbours_of_a_small_gram_matrix_are_further_apart_than_its_event_says(mu):
    # Two columns, squared norm at most 5, one party; X^T X of any other rows cancels.
    mechanism = NoisyGram(n_columns=2, squared_norm_bound=5, n_parties=2, colluding=1, party_mu=mu)
    rows = [x for x in itertools.product(range(-2, 3), repeat=2) if x[0] ** 2 + x[1] ** 2 <= 5]
    empty = (0, 0)
    orders = (2, 4, 9)
    for view, pairs, noise in (
        ("coordinator", [(x, empty) for x in rows] + [(empty, x) for x in rows], 2 * mu),
        ("coalition", list(itertools.combinations(rows, 2)), mu),
    ):
        differences = {(x[0] ** 2 - y[0] ** 2, x[0] * x[1] - y[0] * y[1], x[1] ** 2 - y[1] ** 2) for x, y in pairs}
        per_entry = {
            (d, m, order): renyi_divergence(log_mass(m, d), log_mass(m, 0), order)
            for d in {abs(x) for t in differences for x in t}
            for m in (noise, noise / 2)
            for order in orders
        }
        for order in orders:
            worst = max(
                per_entry[abs(a), noise, order] + per_entry[abs(b), noise / 2, order] + per_entry[abs(c), noise, order]
                for a, b, c in differences
            )
            stated = bound(mechanism.events(view)[0], order)
            assert worst <= stated
            if mu == 30:
                assert stated < 1.25 * worst


def hockey_stick(p: np.ndarray, q: np.ndarray, eps: float) -> float:
    """Return the least delta at eps: sum max(0, p - e^eps q)."""
    return float(np.maximum(0.0, np.exp(p) - np.exp(eps + q)).sum())


@pytest.mark.parametrize(("mu", "difference", "delta"), [(64, 4, 1e-5), (10, 3, 1e-6), (2, 8, 1e-4), (100, 1, 1e-9)])
def test_the_stated_epsilon_is_not_below_the_true_one(mu, difference, delta):
    p, q = log_mass(mu, difference), log_mass(mu, 0)
    stated = composed_epsilon(event_of([difference], [mu]), delta).epsilon
    assert hockey_stick(p, q, stated) <= delta
    assert hockey_stick(p, q, 0.5 * stated) > delta


def test_a_privacy_loss_distribution_gives_a_little_less_for_one_number():
    k = np.arange(-500, 501)
    p, q = np.log(ive(np.abs(k - 10), 2000.0)), np.log(ive(np.abs(k), 2000.0))
    distribution = privacy_loss_distribution.from_two_probability_mass_functions(
        dict(zip(k.tolist(), p.tolist(), strict=True)),
        dict(zip(k.tolist(), q.tolist(), strict=True)),
        value_discretization_interval=1e-4,
        pessimistic_estimate=True,
    )
    tight = distribution.get_epsilon_for_delta(1e-5)
    stated = composed_epsilon(event_of([10], [1000]), 1e-5).epsilon
    assert round(tight, 3) == 0.819
    assert tight < stated < 1.1 * tight
