"""The errors of library functions that accounting allows for, against mpmath, over the ranges in use.

Nobody guarantees them: scipy and numpy state none, and they differ from machine to machine. Each constant in `dp` that
allows for them is named here, with the range of arguments that reaches it, and the largest error found on a dense grid
and at the ends is at most a quarter of what the constant allows.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from dp.cost.accounting import ORDERS, Adjacency, delta_of_rdp, epsilon_of_rdp
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.event import renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent
from dp.cost.losses.sampled_bits import sampled_bits_rdp
from dp.cost.losses.skellam import decay, log_error, log_masses, reach, shift_divergence
from dp.cost.sampling import MAX_ORDER, poisson_sampled_rdp

ADD = Adjacency.ADD_OR_REMOVE_ONE
RNG = np.random.default_rng(20)


@pytest.fixture(autouse=True)
def precision():
    with mpmath.workdps(60):
        yield


def spread(low, high, n=1500):
    """Both ends, their neighbours, n points even in the logarithm and n even ones."""
    ends = [low, math.nextafter(low, high), math.nextafter(high, low), high]
    even = np.linspace(low, high, n)
    geometric = np.exp(np.linspace(math.log(low), math.log(high), n)) if low > 0 else even
    return np.clip(np.concatenate([ends, even, geometric, RNG.uniform(low, high, n)]), low, high)


def worst_relative(computed, exact, arguments):
    worst = 0.0
    for x, found in zip(arguments.tolist(), computed.tolist(), strict=True):
        true = exact(mpmath.mpf(x))
        error = abs(mpmath.mpf(found) - true)
        worst = max(worst, float(error / abs(true)) if true else float(error > 0))
    return worst


@pytest.mark.parametrize(
    ("function", "exact", "low", "high", "allowed"),
    [
        # Allowed: 2^-44 in dp.cost.losses.distribution, 2^-40 in dp.cost.losses.additive and dp.cost.losses.of_events,
        # 2^-46 for sums.
        (np.exp, mpmath.exp, -700.0, -1e-300, 2.0**-50),
        (np.exp, mpmath.exp, 1e-300, 700.0, 2.0**-50),
        (np.expm1, mpmath.expm1, -700.0, -1e-12, 2.0**-50),
        (np.expm1, mpmath.expm1, 1e-300, 700.0, 2.0**-50),
        (np.log, mpmath.log, 1e-300, 1e300, 2.0**-50),
        (np.log1p, mpmath.log1p, -0.5, -1e-300, 2.0**-49),
        (np.log1p, mpmath.log1p, 1e-300, 1e300, 2.0**-50),
        (np.arcsinh, mpmath.asinh, 1e-18, 1e6, 2.0**-49),  # `decay`: 2^-48
        (np.sqrt, mpmath.sqrt, 1e-300, 1e300, 2.0**-51),
    ],
)
def test_the_elementary_functions_are_within_what_is_allowed_for_them(function, exact, low, high, allowed):
    arguments = -spread(-high, -low) if high < 0 else spread(low, high)
    assert worst_relative(function(arguments), exact, arguments) <= allowed


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p"])
def test_the_functions_of_the_mathematical_library_are_within_what_is_allowed_for_them(name):
    # Calibrations and conversions call these on single numbers.
    low, high = {"exp": (-700.0, 700.0), "expm1": (1e-15, 700.0), "log": (1e-300, 1e300), "log1p": (1e-300, 1e10)}[name]
    arguments = spread(low, high)
    computed = np.array([getattr(math, name)(x) for x in arguments.tolist()])
    assert worst_relative(computed, getattr(mpmath, name), arguments) <= 2.0**-50


def test_the_error_function_is_within_what_is_allowed_for_the_delta_of_a_gaussian():
    # `dp.cost.losses.rounded_gaussian`: 2^-36 for Phi down to -37, as erfc of an argument that was rounded.
    arguments = spread(-37.0, 37.0)
    computed = np.array([math.erfc(-x / math.sqrt(2)) / 2 for x in arguments.tolist()])
    assert worst_relative(computed, mpmath.ncdf, arguments) <= 2.0**-38


def test_the_logarithm_of_the_gamma_function_for_every_binomial_coefficient_of_amplification():
    # `dp.cost.sampling`: parts * 2^-46, where the parts are at least 2000; `dp.cost.losses.sampled_bits` uses
    # arguments up to 9.
    n = np.arange(1, MAX_ORDER + 3, dtype=np.float64)
    error = max(abs(mpmath.mpf(float(gammaln(x))) - mpmath.loggamma(int(x))) for x in n)
    assert 3 * error < mpmath.mpf(2000 * 2.0**-46) / 4


@pytest.mark.parametrize("size", [2, 3, 257])
def test_sums_in_the_logarithm_lose_no_more_than_is_allowed(size):
    for scale in (1e-3, 1.0, 50.0, 5000.0):
        terms = RNG.uniform(-scale, scale, (40, size))
        for row, found in zip(terms, logsumexp(terms, axis=1), strict=True):
            true = mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(float(x))) for x in row))
            assert abs(mpmath.mpf(float(found)) - true) <= (2000 + scale) * 2.0**-46 / 4
        first, second = terms[:, 0], terms[:, 1]
        for a, b, found in zip(first, second, np.logaddexp(first, second), strict=True):
            true = mpmath.log(mpmath.exp(mpmath.mpf(float(a))) + mpmath.exp(mpmath.mpf(float(b))))
            assert abs(mpmath.mpf(float(found)) - true) <= (2 + scale) * 2.0**-46 / 4


def fraction(value):
    return mpmath.mpf(value.numerator) / value.denominator


def exact_curve(event, order):
    """The formulas of the docstrings in high precision."""
    a = mpmath.mpf(order)
    match event:
        case DiscreteGaussianDpEvent():
            return a / 2 * fraction(event.squares)
        case DiscreteLaplaceDpEvent():
            d = event.l1_sensitivity / fraction(event.scale)
            r, s = mpmath.exp(-1 / fraction(event.scale)), mpmath.exp(-(2 * a - 1) / fraction(event.scale))
            b = (r - s) / ((1 + r) * (1 - s))
            return mpmath.log((1 - b) * mpmath.exp((a - 1) * d) + b * mpmath.exp(-a * d)) / (a - 1)
        case RandomizedResponseDpEvent():
            p = fraction(event.truthful)
            q = (1 - p) / (event.n_options - 1)
            return mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a) + (event.n_options - 2) * q) / (a - 1)
        case SkellamDpEvent():
            first = a * fraction(event.squares) / 4
            second = ((2 * a - 1) * fraction(event.squares_second) + 6 * fraction(event.sizes_second)) / 16
            return first + min(second, 3 * fraction(event.sizes) / 4)
    raise AssertionError


SOME_ORDERS = np.array([2, 3, 7, 64, 255, 256, 257, 512, 5000, 2**20, 2**24])
EXTREMES = [
    *(DiscreteGaussianDpEvent(Fraction(x), ADD) for x in (Fraction(1, 10**30), Fraction(1, 3), 10**9)),
    *(
        DiscreteLaplaceDpEvent(d, scale, ADD)
        for d in (1, 3, 10**6)
        for scale in (Fraction(1, 400), Fraction(1, 3), Fraction(7), Fraction(10**12))
    ),
    *(
        RandomizedResponseDpEvent(k, truthful)
        for k in (2, 3, 256)
        for truthful in (Fraction(1, 2) + Fraction(1, 1 << 21), Fraction(9, 10), 1 - Fraction(1, 1 << 20))
    ),
    *(
        SkellamDpEvent(Fraction(d * d, mu), Fraction(d * d, mu * mu), Fraction(d, mu), Fraction(d, mu * mu), ADD)
        for d, mu in ((1, 1), (3, 2**100), (2**40, 3), (7, 50))
    ),
]


@pytest.mark.parametrize("event", EXTREMES, ids=str)
def test_curves_are_rounded_up_at_every_order_and_by_little(event):
    with mpmath.workdps(200):
        for order, stated in zip(SOME_ORDERS.tolist(), renyi_curve(event, SOME_ORDERS).tolist(), strict=True):
            true = exact_curve(event, order)
            assert true <= mpmath.mpf(stated)
            largest = {RandomizedResponseDpEvent: 2.0, DiscreteLaplaceDpEvent: 0.0}.get(type(event), float(true))
            if isinstance(event, DiscreteLaplaceDpEvent):
                largest = event.l1_sensitivity / float(event.scale)
            assert mpmath.mpf(stated) <= true + 2.0**-39 * max(true, largest)


@pytest.mark.parametrize("rate", [2.0**-32, 1e-3, 0.5, 1 - 2.0**-32])
@pytest.mark.parametrize("cost", [1e-9, 0.01, 5.0])
def test_amplification_is_rounded_up_at_every_order(rate, cost):
    rdp = cost * np.arange(MAX_ORDER + 1)
    stated = poisson_sampled_rdp(rdp, rate, is_reflected=True)
    q = mpmath.mpf(rate)
    for order in (2, 3, 40, 255, 256):
        terms = [mpmath.binomial(order, k) * (1 - q) ** (order - k) * q**k for k in range(order + 1)]
        moment = mpmath.fsum(
            term * (mpmath.exp((k - 1) * mpmath.mpf(float(rdp[k]))) if k >= 2 else 1) for k, term in enumerate(terms)
        )
        true = mpmath.log(moment) / (order - 1)
        assert true <= mpmath.mpf(float(stated[order - 2])) <= true * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("truthful", [Fraction(1, 2) + Fraction(1, 1 << 21), Fraction(2, 3), 1 - Fraction(1, 1 << 21)])
@pytest.mark.parametrize("share", [Fraction(1, 10**6), Fraction(1, 2), Fraction(1)])
def test_one_sampled_bit_is_rounded_up_at_every_order(truthful, share):
    p, s = fraction(truthful), fraction(share)
    orders = np.array([2, 9, 256, 4096])
    stated = sampled_bits_rdp(truthful, 1, share, orders)
    worlds = []
    for theirs in ((p, 1 - p), (1 - p, p)):  # the other slot: nobody's, or that of a unit with the same bit
        without = [(1 - s) * r + s * x for r, x in zip(theirs, (p, 1 - p), strict=True)]
        present = [(1 - s) * r + s * x for r, x in zip(theirs, (1 - p, p), strict=True)]
        worlds += [(without, present), (present, without)]
    for order, found in zip(orders.tolist(), stated.tolist(), strict=True):
        with mpmath.workdps(120):
            true = max(
                mpmath.log(mpmath.fsum(x**order * y ** (1 - order) for x, y in zip(a, b, strict=True))) / (order - 1)
                for a, b in worlds
            )
            assert true <= mpmath.mpf(found)


def test_conversions_are_rounded_up():
    for squares in (1e-12, 0.3, 40.0):
        rdp = ORDERS * squares / 2
        for delta in (1e-9, 1e-300):
            found = epsilon_of_rdp(rdp, 1, delta)
            true = min(
                mpmath.mpf(float(rdp[i]))
                + mpmath.log1p(-1 / mpmath.mpf(int(a)))
                - (mpmath.log(mpmath.mpf(delta)) + mpmath.log(int(a))) / (int(a) - 1)
                for i, a in enumerate(ORDERS)
            )
            if true > 0:
                assert true <= mpmath.mpf(found.epsilon) <= true * (1 + 1e-9) + 1e-12
        for epsilon in (0.01, 1.0, 30.0):
            exponent = min(
                (int(a) - 1) * (mpmath.mpf(float(rdp[i])) - epsilon + mpmath.log1p(-1 / mpmath.mpf(int(a))))
                - mpmath.log(int(a))
                for i, a in enumerate(ORDERS)
            )
            found = delta_of_rdp(rdp, 1, epsilon)
            if exponent > -700:
                assert min(mpmath.mpf(1), mpmath.exp(exponent)) <= mpmath.mpf(found)


@pytest.mark.parametrize("mu", [Fraction(1, 100), Fraction(1, 3), Fraction(7), Fraction(1024), Fraction(1 << 13)])
def test_skellam_masses_are_within_their_stated_error(mu):
    z = 2 * fraction(mu)
    highest = reach(float(2 * mu)) + 500
    logs = log_masses(mu, highest)
    allowed = log_error(highest, float(np.abs(logs).max()))
    for k in sorted({0, 1, 2, 7, highest // 3, highest // 2, highest - 1, highest}):
        with mpmath.workdps(80):
            true = mpmath.log(mpmath.besseli(k, z, maxterms=10**6)) - z
        assert abs(mpmath.mpf(float(logs[k])) - true) <= allowed / 4


@pytest.mark.parametrize("mu", [Fraction(1, 2), Fraction(5), Fraction(300), Fraction(1024)])
def test_the_divergence_of_a_shift_is_rounded_up_and_below_the_bound_for_vectors(mu):
    orders = np.array([2, 3, 17, 100, 256])
    z = 2 * fraction(mu)
    for shift in (1, 3):
        found = shift_divergence(shift, mu, orders)
        bound = renyi_curve(SkellamShiftsDpEvent(shift, 1, mu, ADD).sums, orders)
        n = 300 + 256 * shift + 14 * math.isqrt(int(2 * mu) + 1)
        with mpmath.workdps(50):
            previous, masses = mpmath.besseli(n + 1, z), [mpmath.besseli(n, z)]
            for k in range(n, 0, -1):
                masses.append(2 * k / z * masses[-1] + previous)
                previous = masses[-2]
            masses = [mass * mpmath.exp(-z) for mass in reversed(masses)]
            for at, order in enumerate(orders.tolist()):
                total = mpmath.fsum(
                    masses[abs(y)] ** order * masses[abs(y + shift)] ** (1 - order) for y in range(shift - n, n - shift)
                )
                true = mpmath.log(total) / (order - 1)
                assert true <= mpmath.mpf(float(found[at])) <= true * (1 + 1e-5)
                assert found[at] <= bound[at]


@pytest.mark.parametrize("z", [1.0, 2.0**14, 2.0**60, 2.0**101])
def test_the_bounds_of_ratios_of_masses_hold_and_their_integral_is_within_its_stated_error(z):
    mpmath.mp.dps = 150  # restored by the fixture
    for x in (1.0, float(math.isqrt(int(z)) + 1), 12.0 * (math.isqrt(int(z)) + 1)):
        exact = mpmath.mpf(x) * mpmath.asinh(mpmath.mpf(x) / z) - mpmath.hypot(x, z) + z
        assert abs(mpmath.mpf(float(decay(x, z))) - exact) <= mpmath.mpf(x) ** 2 / z * 2.0**-48 / 4
    if z > 2.0**20:
        return
    zero = mpmath.besseli(0, z, maxterms=10**6)
    assert zero * mpmath.exp(-z) <= mpmath.sqrt((1 + 2 / mpmath.mpf(z)) / (2 * mpmath.pi * z))
    for k in (1, 5, int(3 * math.sqrt(z)), int(9 * math.sqrt(z))):
        assert mpmath.log(mpmath.besseli(k, z, maxterms=10**6) / zero) <= -mpmath.mpf(float(decay(k, z))) * (
            1 - 2.0**-48
        )
        for d in (1, 4):
            masses = [mpmath.besseli(j, z, maxterms=10**6) for j in (abs(k - d), k)]
            loss = mpmath.log(masses[0] / masses[1])
            stated = float(decay(float(k), z)) - float(decay(float(abs(k - d)), z)) + d * (k + 2) / z**2
            assert loss <= stated + 1e-12
