import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dp.audit.exact_law import (
    SLACK,
    Law,
    discrete_gaussian,
    discrete_laplace,
    hockey_stick,
    mixture,
    pushed,
    skellam,
    total,
)


def exactly(mass, start, stop):
    """Masses by 40 digits, normed over a range far wider than anything that matters."""
    with mpmath.workdps(40):
        found = [mass(k) for k in range(start, stop)]
        return found, mpmath.fsum(found)


@pytest.mark.parametrize("mu", [Fraction(1, 2), 5, Fraction(100, 3), 200, 40_000])
def test_skellam_masses_are_those_of_the_bessel_function(mu):
    law = skellam(mu)
    with mpmath.workdps(40):
        for k in (0, 1, math.isqrt(int(2 * mu)) + 1, 5 * math.isqrt(int(2 * mu)) + 2):
            x = mpmath.mpf(2 * Fraction(mu).numerator) / Fraction(mu).denominator
            true = mpmath.exp(-x) * mpmath.besseli(k, x)
            for value in (k, -k):
                assert law.masses[value - law.start] == pytest.approx(float(true), rel=1e-10, abs=1e-18)
    assert abs(law.masses.sum() - 1) < SLACK / 100


@pytest.mark.parametrize(
    ("law", "log_mass"),
    [
        (discrete_gaussian(7), lambda k: -(mpmath.mpf(k) ** 2) / 14),
        (discrete_gaussian(Fraction(1, 3)), lambda k: -(mpmath.mpf(k) ** 2) * 3 / 2),
        (discrete_laplace(Fraction(5, 2)), lambda k: -mpmath.mpf(abs(k)) * 2 / 5),
        (discrete_laplace(Fraction(1, 4)), lambda k: -mpmath.mpf(abs(k)) * 4),  # the law reaches few multiples of 1/4
    ],
)
def test_discrete_gaussian_and_laplace_masses_are_normed_exactly(law, log_mass):
    true, norm = exactly(lambda k: mpmath.exp(log_mass(k)), -400, 401)
    for k in range(-12, 13):
        assert law.masses[k - law.start] == pytest.approx(float(true[k + 400] / norm), rel=1e-12)


def test_sums_scales_shifts_and_mixtures_are_those_of_the_enumeration():
    a, b = Law(-1, np.array([0.2, 0.5, 0.3])), Law(2, np.array([0.4, 0.6]))
    found = total([a.scaled(-2), b.shifted(1), a.times(2)])
    true = {}
    for i, p in enumerate(a.masses):
        for j, q in enumerate(b.masses):
            for k, r in enumerate(a.masses):
                for m, s in enumerate(a.masses):
                    at = -2 * (i - 1) + (j + 3) + (k - 1) + (m - 1)
                    true[at] = true.get(at, 0) + p * q * r * s
    for at, mass in true.items():
        assert found.masses[at - found.start] == pytest.approx(mass)
    mixed = mixture([(0.25, a), (0.75, b)])
    assert (mixed.start, mixed.masses.tolist()) == (-1, pytest.approx([0.05, 0.125, 0.075, 0.3, 0.45]))
    assert pushed(a.masses, np.array([3, 3, -1])).masses.tolist() == pytest.approx([0.3, 0, 0, 0, 0.7])
    assert a.within(0, 1).tolist() == [pytest.approx(1.0)]


def test_the_exact_epsilon_of_a_count_is_below_what_its_renyi_curve_says():
    # The audit's old target: Sk(200), sensitivity 10, delta 1e-3. Renyi: 1.550. Exact: 1.349.
    law = skellam(200)
    start, stop = law.start, law.stop + 10
    without, with_row = law.within(start, stop), law.shifted(10).within(start, stop)
    assert hockey_stick(with_row, without, 1.349) == pytest.approx(1e-3, rel=3e-3)
    assert hockey_stick(with_row, without, 1.550) < 0.4e-3


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.7])
def test_the_hockey_stick_divergence_is_attained_by_an_event_and_exceeded_by_none(epsilon):
    generator = np.random.default_rng(5)
    p, q = (x / x.sum() for x in generator.random((2, 10)))
    best = max(sum(p[i] - math.exp(epsilon) * q[i] for i in range(10) if event >> i & 1) for event in range(1 << 10))
    assert hockey_stick(p, q, epsilon) == pytest.approx(max(best, 0.0), abs=1e-12)
