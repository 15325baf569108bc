"""The cost of shares of discrete Laplace noise: against mpmath, against enumeration, and over all neighbours."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from composed import composed_delta

from dp.audit.exact_law import hockey_stick, laplace_shares
from dp.cost.accounting import ORDERS, Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent, LaplaceSharesDpEvent
from dp.cost.events.event import renyi_curve
from dp.cost.group import for_rows
from dp.cost.losses import laplace_share
from dp.cost.losses.laplace_share import log_error, log_masses, most_loss, reach, scale_of

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
SHAPES = [Fraction(1), Fraction(3, 2), Fraction(5, 3), Fraction(7)]
EPSILONS = [0.0, 0.1, 0.5, 1.0, 2.0, 3.0]


def exact_mass(shape: Fraction, mean: Fraction, x: int) -> mpmath.mpf:
    """(1 - r)^2k r^x (k)_x / x! 2F1(k, k + x; x + 1; r^2), the sum over j of polya(j) polya(j + x)."""
    with mpmath.workdps(40):
        k, r = mpmath.mpf(shape.numerator) / shape.denominator, mpmath.mpf(mean.numerator) / mean.denominator
        r = r / (1 + r)
        series = mpmath.hyp2f1(k, k + x, x + 1, r**2)
        return (1 - r) ** (2 * k) * r**x * mpmath.rf(k, x) / mpmath.factorial(x) * series


@pytest.mark.parametrize("mean", [Fraction(1, 10**7), Fraction(1, 3), Fraction(20)], ids=float)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masses_are_those_of_mpmath_within_the_stated_error(shape, mean):
    n = reach(shape, mean)
    logs = log_masses(shape, mean, n)
    bound = log_error(n + 60 + int(60 * mean), float(np.abs(logs).max()))
    assert bound < 1e-6
    for x in (0, 1, 2, 5, n // 3, n):
        assert abs(logs[x] - float(mpmath.log(exact_mass(shape, mean, x)))) < bound


@pytest.mark.parametrize("mean", [Fraction(1, 10), Fraction(3)], ids=float)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masses_are_log_concave_and_losses_below_that_of_the_ratio(shape, mean):
    logs = log_masses(shape, mean, reach(shape, mean))
    steps = np.diff(logs)
    assert (np.diff(steps) < 1e-9).all()
    assert -steps.min() <= most_loss(1, mean) + 1e-9


@pytest.mark.parametrize(("mean", "shift"), [(Fraction(1, 4), 1), (Fraction(2), 1), (Fraction(8), 5)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_loss_distribution_is_the_hockey_stick_divergence(shape, mean, shift):
    law = laplace_shares(shape, mean)
    start, stop = law.start - shift, law.stop + shift
    still, moved = law.within(start, stop), law.shifted(shift).within(start, stop)
    event = LaplaceSharesDpEvent(shift, 1, shape, mean, ADD)
    for epsilon in EPSILONS[1:]:
        exact = max(hockey_stick(moved, still, epsilon), hockey_stick(still, moved, epsilon))
        stated = composed_delta(event, epsilon)
        assert exact - 1e-9 <= stated <= exact * 1.02 + 1e-7


@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_two_numbers_that_move_cost_what_their_product_does(shape):
    mean = Fraction(2)
    law = laplace_shares(shape, mean)
    window = law.start - 1, law.stop + 1
    still, up, down = (law.shifted(d).within(*window) for d in (0, 1, -1))
    event = LaplaceSharesDpEvent(1, 2, shape, mean, REPLACE)
    for epsilon in (0.3, 0.8):
        exact = hockey_stick(np.outer(up, down).ravel(), np.outer(still, still).ravel(), epsilon)
        assert exact - 1e-9 <= composed_delta(event, epsilon) <= exact * 1.02 + 1e-7


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_renyi_curves_are_divergences_rounded_up(shape):
    mean, shift = Fraction(2), 2
    law = laplace_shares(shape, mean)
    logs = log_masses(shape, mean, 400)
    y = np.arange(-300, 301)
    loss = logs[np.abs(y)] - logs[np.abs(y + shift)]
    orders = np.array([2, 3, 8, 64])
    stated = renyi_curve(LaplaceSharesDpEvent(shift, 1, shape, mean, ADD), orders)
    for order, bound in zip(orders, stated, strict=True):
        exact = math.log(np.exp(logs[np.abs(y)] + (order - 1) * loss).sum()) / (order - 1)
        assert exact * (1 - 1e-9) <= bound <= exact * (1 + 1e-4)
    assert abs(law.masses.sum() - 1) < 1e-9
    # At the orders where it is not computed the curve of the whole discrete Laplace variable holds.
    whole = DiscreteLaplaceDpEvent(shift, scale_of(mean), ADD)
    assert (renyi_curve(LaplaceSharesDpEvent(shift, 1, shape, mean, ADD)) <= renyi_curve(whole) * (1 + 1e-12)).all()
    assert len(ORDERS) > len(orders)


@pytest.mark.parametrize("mean", [Fraction(1, 2**60), Fraction(1, 10), Fraction(10**3), Fraction(2**50)], ids=float)
def test_the_scale_is_rounded_down_and_by_little(mean):
    with mpmath.workdps(40):
        exact = 1 / mpmath.log1p(mpmath.mpf(mean.denominator) / mean.numerator)
        stated = mpmath.mpf(scale_of(mean).numerator) / scale_of(mean).denominator
        assert exact * (1 - mpmath.mpf(2) ** -38) < stated < exact
        assert most_loss(1, mean) > 1 / exact


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_no_split_of_rows_of_a_person_costs_more_than_is_stated(shape):
    """Three rows of a person, which move one count by 3, or two by 2 and 1; the former attains it at shape 1."""
    mean = Fraction(5, 2)
    law = laplace_shares(shape, mean)
    window = law.start - 3, law.stop + 3
    absent, *moved = (law.shifted(d).within(*window) for d in (0, 1, 2, 3))
    event = for_rows(LaplaceSharesDpEvent(1, 1, shape, mean, ADD), 3)
    assert event == DiscreteLaplaceDpEvent(3, scale_of(mean), ADD)
    for epsilon in (0.3, 1.0):
        stated = composed_delta(event, epsilon)
        in_one = hockey_stick(moved[2], absent, epsilon)
        in_two = hockey_stick(np.outer(moved[1], moved[0]).ravel(), np.outer(absent, absent).ravel(), epsilon)
        assert max(in_one, in_two) <= stated + 1e-9
        if shape == 1:
            assert in_one == pytest.approx(stated, rel=0.01)


def test_more_shares_and_less_movement_never_cost_more():
    for shape, mean in product(SHAPES, (Fraction(1, 5), Fraction(3), Fraction(10**6))):
        cost = composed_epsilon(LaplaceSharesDpEvent(2, 1, shape, mean, ADD), 1e-6).epsilon
        more = composed_epsilon(LaplaceSharesDpEvent(2, 1, shape + 1, mean, ADD), 1e-6).epsilon
        less = composed_epsilon(LaplaceSharesDpEvent(1, 1, shape, mean, ADD), 1e-6).epsilon
        assert more <= cost * (1 + 1e-9)
        assert less <= cost <= 2 * math.log1p(1 / mean) * (1 + 1e-9)


def test_less_than_a_whole_variable_has_no_cost():
    with pytest.raises(ValueError, match="at least 1"):
        LaplaceSharesDpEvent(1, 1, Fraction(2, 3), Fraction(1), ADD)


def test_an_error_of_the_masses_would_be_noticed(monkeypatch):
    """The check above fails for masses of a shape that is a tenth too large."""
    shape, mean = Fraction(3, 2), Fraction(2)
    law = laplace_shares(shape, mean)
    window = law.start - 1, law.stop + 1
    exact = hockey_stick(law.shifted(1).within(*window), law.within(*window), 0.3)
    monkeypatch.setattr(laplace_share, "log_masses", lambda k, s, n: log_masses(k * Fraction(11, 10), s, n))
    event = LaplaceSharesDpEvent(1, 1, shape + Fraction(1, 10**9), mean, ADD)  # no result of another test is reused
    assert composed_delta(event, 0.3) < exact - 1e-6
