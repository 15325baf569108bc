"""Masses against scipy and against convolutions, and the delta of two integers against all sets of a small domain."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from verify.masses import laplace_masses, shifts_delta, skellam_masses


@pytest.mark.parametrize("mu", [Fraction(1, 2), Fraction(7), Fraction(900)])
def test_skellam_masses_are_those_of_the_distribution(mu):
    n = 60 + int(30 * math.sqrt(2 * mu))
    found = skellam_masses(mu, n)
    expected = stats.skellam.pmf(np.arange(20), float(mu), float(mu))
    assert [float(one) for one in found.at[:20]] == pytest.approx(expected, rel=1e-9)
    assert abs(found.at[0] + 2 * sum(found.at[1:]) - 1) < Decimal("1e-20")


@pytest.mark.parametrize(
    ("shape", "mean"), [(Fraction(1), Fraction(3)), (Fraction(3, 2), Fraction(5, 2)), (Fraction(5), Fraction(1, 3))]
)
def test_laplace_masses_are_a_convolution_of_polya_masses(shape, mean):
    k, r = float(shape), float(mean / (1 + mean))
    polya = stats.nbinom.pmf(np.arange(4000), k, 1 - r)
    expected = [float(np.sum(polya[x:] * polya[: 4000 - x])) for x in range(20)]
    found = laplace_masses(shape, mean, 64 + int(120 * (1 + mean)))
    assert [float(one) for one in found.at[:20]] == pytest.approx(expected, rel=1e-9)


def test_one_integer_with_discrete_laplace_noise_gives_the_known_delta():
    """P(X >= c) - e^epsilon P(X >= c + d) in closed form, X discrete Laplace of ratio r."""
    mean, shift, epsilon = Fraction(10), 3, 0.2
    r = 10 / 11
    masses = laplace_masses(Fraction(1), mean, 2000)
    most = max(
        sum((1 - r) / (1 + r) * (r ** abs(y) - math.exp(epsilon) * r ** abs(y + shift)) for y in range(c, 800))
        for c in range(-20, 20)
    )
    found = float(shifts_delta(masses, shift, 1, Fraction(epsilon)))
    assert found == pytest.approx(most, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.0])
def test_two_integers_give_what_all_pairs_of_values_give(epsilon):
    masses = skellam_masses(Fraction(6), 200)
    p = {y: float(masses.at[abs(y)]) for y in range(-150, 151)}
    exact = sum(
        max(0.0, p[a] * p[b] - math.exp(epsilon) * p[a + 2] * p[b + 2]) for a in range(-60, 61) for b in range(-60, 61)
    )
    assert float(shifts_delta(masses, 2, 2, Fraction(epsilon))) == pytest.approx(exact, rel=1e-9)


def test_too_few_points_and_too_many_integers_give_nothing():
    assert skellam_masses(Fraction(1000), 50) is None
    assert shifts_delta(skellam_masses(Fraction(6), 200), 1, 3, Fraction(1)) is None
