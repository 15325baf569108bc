"""Skellam noise charged as a rounded Gaussian, against the distributions themselves."""

import functools
import math
from fractions import Fraction

import attr
import mpmath
import numpy as np
import pytest
from composed import composed_delta
from scipy.special import ive, ndtr

from bench.baselines.gaussian import analytic_gaussian_sigma
from dp.cost.accounting import Adjacency, epsilon_of_rdp
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_gaussian import DiscreteGaussianShiftsDpEvent, DiscreteGaussianVectorDpEvent
from dp.cost.events.event import renyi_curve
from dp.cost.events.sampling import PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamShiftsDpEvent, SkellamVectorDpEvent
from dp.cost.losses.rounded_gaussian import (
    LEAST_VARIANCE,
    SECOND_MOMENT,
    Exchanged,
    RoundedGaussian,
    gaussian_delta,
    lower,
    upper,
)
from dp.mechanism.vector import skellam_event

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE


def exact_ratio(k: int, z: int) -> mpmath.mpf:
    """ln(P(k) / Q(k))."""
    root = mpmath.sqrt(2 * z)
    ends = [mpmath.erfc((k + half) / root) for half in (-mpmath.mpf(1) / 2, mpmath.mpf(1) / 2)]
    return mpmath.log(mpmath.exp(-z) * mpmath.besseli(k, z) / ((ends[0] - ends[1]) / 2))


@pytest.mark.parametrize("z", [LEAST_VARIANCE, 400, 10_000])
def test_the_ratio_of_the_masses_lies_within_its_bounds_and_reaches_them(z):
    deviation = math.sqrt(z)
    reached = 0.0
    with mpmath.workdps(120):
        for k in {*range(6), *(round(x * deviation) for x in np.linspace(0, 14, 57))}:
            ratio, x = float(exact_ratio(k, z) * z), k / deviation
            assert -lower(x) <= ratio <= upper(x)
            reached = max(reached, ratio / upper(x))
    # For small z the logarithm of the Skellam masses has more terms, of the other sign.
    assert reached > {LEAST_VARIANCE: 0.4, 400: 0.5, 10_000: 0.9}[z]


@pytest.mark.parametrize("z", [LEAST_VARIANCE, 10_000])
def test_the_masses_of_a_discrete_gaussian_lie_within_the_same_bounds(z):
    deviation, root = math.sqrt(z), mpmath.sqrt(2 * z)
    with mpmath.workdps(120):
        beyond = round(25 * deviation)  # as far out a term is below 10^-135
        total = 1 + 2 * mpmath.fsum(mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * z)) for k in range(1, beyond))
        for k in {*range(6), *(round(x * deviation) for x in np.linspace(0, 14, 57))}:
            ends = [mpmath.erfc((k + half) / root) for half in (-mpmath.mpf(1) / 2, mpmath.mpf(1) / 2)]
            mass = mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * z)) / total
            ratio, x = float(mpmath.log(mass / ((ends[0] - ends[1]) / 2)) * z), k / deviation
            assert -(x**2) / 24 - 1e-9 <= ratio <= 1 / 24
            assert -lower(x) <= ratio <= upper(x)


def test_what_is_exact_of_discrete_gaussian_noise_is_within_the_bound_of_vectors():
    """One number that moves by 30 under variance 40,000: the exact delta, below the bound and by hardly anything."""
    z, shift, delta = 40_000, 30, 1e-6
    vector = DiscreteGaussianVectorDpEvent(Fraction(shift**2, z), ADD, 1, Fraction(z))
    exact = DiscreteGaussianShiftsDpEvent(shift, 1, Fraction(z), ADD)
    truly, bound = composed_epsilon(exact, delta).epsilon, composed_epsilon(vector, delta).epsilon
    assert truly <= bound < 1.01 * truly
    assert bound < epsilon_of_rdp(renyi_curve(vector), 1, delta).epsilon


def test_vectors_of_both_noises_cost_what_one_gaussian_of_both_distances_costs():
    skellam = vector(0.2, 4096, 100)
    masks = DiscreteGaussianVectorDpEvent(Fraction(1, 2500), ADD, 100, Fraction(10**12))
    together = composed_epsilon([skellam, masks], 1e-6)
    assert together.order is None
    assert together.epsilon < 1.002 * RoundedGaussian(math.sqrt(0.04 + 1 / 2500), Exchanged(((1e12, 1),))).epsilon(
        1e-6, 9
    )


def test_the_second_moment_of_the_ratio_is_at_most_what_is_stated():
    # M grows, so rounding is covered by 1 / (2 sqrt(z)) <= 1/32 more.
    more = 1 / (2 * math.sqrt(LEAST_VARIANCE))

    def integrand(x):
        return 2 * mpmath.npdf(x) * max(upper(x + more), lower(x + more)) ** 2

    moment = mpmath.quad(integrand, [0, 1, 1.3, 1.4, 2, 3, 3.5, 4, 6, 10, 30])
    assert 0.9 * SECOND_MOMENT < moment < SECOND_MOMENT


@functools.cache
def masses(z: int, reach: float = 12.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """k, ln P and ln Q for |k| <= reach standard deviations."""
    k = np.arange(-math.ceil(reach * math.sqrt(z)), math.ceil(reach * math.sqrt(z)) + 1)
    root = math.sqrt(z)
    below = -np.abs(k)
    return k, np.log(ive(np.abs(k), z)), np.log(ndtr((below + 0.5) / root) - ndtr((below - 0.5) / root))


@pytest.mark.parametrize("z", [400, 3000])
@pytest.mark.parametrize("probability", [1e-2, 1e-4, 1e-12])
def test_one_number_exceeds_the_slack_as_rarely_as_stated_and_half_of_it_more_often(z, probability):
    _, log_p, log_q = masses(z)
    log = -math.log(probability)
    mine, other = Exchanged(((float(z), 1),)).slack(log, log)
    ratio = log_p - log_q
    for mass, loss, slack in ((np.exp(log_p), ratio, mine), (np.exp(log_q), -ratio, other)):
        assert mass[loss > slack].sum() <= probability
    if probability <= 1e-12:
        assert np.exp(log_p)[ratio > mine / 2].sum() > probability


@pytest.mark.parametrize("probability", [1e-2, 1e-4, 1e-7])
def test_the_sum_over_many_numbers_exceeds_the_slack_as_rarely_as_stated(probability):
    z, n, step, cells = 500, 64, 1e-3, 1 << 17
    _, log_p, log_q = masses(z)
    log = -math.log(probability)
    slacks = Exchanged(((float(z), n),)).slack(log, log)
    for log_mass, loss, slack in zip((log_p, log_q), (log_p - log_q, log_q - log_p), slacks, strict=True):
        at = np.clip(np.floor(loss / step), -1000, 1000).astype(int) + 1000  # rounded down: exceeded less often
        once = np.bincount(at, np.exp(log_mass), cells)
        total = np.fft.irfft(np.fft.rfft(once) ** n, cells)
        values = (np.arange(cells) - 1000 * n) * step
        assert total[values > slack].sum() <= probability


def slack_of_the_docstring(variances, log_one, log_other):
    """The least sum bound that the head of the module proves, over the s that it may choose, in high precision."""
    n_all = sum(n for _, n in variances)
    found = []
    for log, side in ((mpmath.mpf(log_one), "P"), (mpmath.mpf(log_other), "Q")):
        half = log + mpmath.log(2)  # of the probability for what lies beyond K, half for the sum
        t = half + mpmath.log(2 * n_all)  # 2 n e^-G(K)
        parts = []
        for z, n in variances:
            x = mpmath.sqrt(2 * t * (1 + t / (2 * z)))
            one, other = (25 + x**4) / 24 / z, (7 * x**2 / 12 + mpmath.mpf(1) / 50) / z
            second = SECOND_MOMENT / mpmath.mpf(z) ** 2
            parts.append((n, one, second) if side == "P" else (n, other, second * mpmath.exp(one)))

        def bound(s, parts=parts, half=half):
            moment = sum(n * (s + 1) / 2 * mpmath.exp((s + 2) * b) * v for n, b, v in parts)
            return mpmath.exp(-half) + moment + half / s

        tried = [bound(s) for s in np.geomspace(1e-3, 1e9, 600) if s * max(b for _, b, _ in parts) < 50]
        found.append(min(sum(n * b for n, b, _ in parts), *tried))
    return found


@pytest.mark.parametrize(
    "variances",
    [((300.0, 1),), ((300.0, 500),), ((1e4, 3),), ((1e4, 4000),), ((1e6, 10**6),), ((400.0, 20), (2e5, 900))],
)
@pytest.mark.parametrize("logs", [(3.0, 3.0), (20.0, 24.0), (60.0, 61.0)])
def test_the_slack_is_no_less_than_what_is_proven_and_not_much_more(variances, logs):
    with mpmath.workdps(40):
        for stated, least in zip(
            Exchanged(variances).slack(*logs), slack_of_the_docstring(variances, *logs), strict=True
        ):
            assert 0.995 * least <= stated <= 1.1 * least


def test_numbers_with_the_same_noise_add_up():
    releases = [
        (Fraction(1, 9), Fraction(5000), 5),
        (Fraction(1, 9), Fraction(5000), 7),
        (Fraction(1), Fraction(99), 2),
    ]
    found = RoundedGaussian.of(releases)
    assert [n for _, n in found.exchanged.variances] == [2, 12]
    assert [z for z, _ in found.exchanged.variances] == pytest.approx([198, 10_000])
    assert found.distance == pytest.approx(math.sqrt((2 / 9 + 1) / 2))
    assert RoundedGaussian.of([(Fraction(0), Fraction(1), 3)]) is None


def test_the_slack_grows_with_the_square_root_of_many_numbers_and_falls_with_the_variance():
    one, four, finer = (
        sum(Exchanged((part,)).slack(25.0, 25.0)) for part in ((1e7, 10**6), (1e7, 4 * 10**6), (4e7, 10**6))
    )
    assert 1.6 * one < four < 2.1 * one
    assert finer == pytest.approx(one / 4, rel=1e-3)


def exact_delta(z: int, moved: tuple[int, ...], epsilon: float) -> float:
    """The hockey-stick divergence of Skellam noise of one or two numbers that move."""
    k, log_p, _ = masses(z, 9.0)
    worlds = []
    for shift in moved:
        one, zero = log_p[abs(shift) :], log_p[: len(k) - abs(shift)]
        worlds.append((one, zero))
    p, q = worlds[0]
    if len(worlds) == 2:
        p, q = (np.add.outer(a, b) for a, b in zip(worlds[0], worlds[1], strict=True))
    return float(np.maximum(0.0, np.exp(p) - np.exp(epsilon + q)).sum())


@pytest.mark.parametrize(
    ("z", "moved", "epsilon", "within"),
    [
        (2_000_000, (330,), 1.0, 1.01),
        (2_000_000, (330,), 0.5, 1.01),
        (2_000_000, (1200,), 4.0, 1.01),
        (2_000_000, (1200,), 2.0, 1.01),
        (20_000, (120,), 4.0, 1.2),
        (20_000, (40, 35), 1.0, 1.5),
        (20_000, (40, 35), 1.7, 1.8),
        (40_000, (160, -90), 4.0, 1.15),
        (40_000, (200, 200), 8.0, 1.3),
    ],
)
def test_the_stated_delta_is_above_the_exact_one_and_near_it(z, moved, epsilon, within):
    exact = exact_delta(z, moved, epsilon)
    squares = Fraction(2 * sum(d * d for d in moved), z)
    stated = RoundedGaussian.of([(squares, Fraction(z, 2), len(moved))]).delta(epsilon)
    assert exact <= stated < exact * within


def test_without_the_slack_delta_would_be_too_small():
    z, shift, epsilon = 1000, 32, 0.5
    distance = shift / math.sqrt(z)
    assert gaussian_delta(epsilon, distance) < exact_delta(z, (shift,), epsilon)
    exchanged, near = Exchanged(((float(z), 1),)), gaussian_delta(epsilon, distance)
    log = -math.log(near / 4096)
    mine, other = exchanged.slack(log, log + epsilon)
    assert min(mine, other) > 0
    stated = math.exp(mine) * gaussian_delta(epsilon - mine - other, distance) + near / 2048
    assert RoundedGaussian(distance, exchanged).delta(epsilon) == pytest.approx(stated, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 1.0, 4.0, 16.0, 64.0])
@pytest.mark.parametrize("distance", [1e-3, 0.05, 0.2, 1.0, 5.0])
def test_the_delta_of_a_gaussian_is_rounded_up_and_by_little(epsilon, distance):
    with mpmath.workdps(60):
        e, d = mpmath.mpf(epsilon), mpmath.mpf(distance)
        exact = mpmath.ncdf(d / 2 - e / d) - mpmath.exp(e) * mpmath.ncdf(-d / 2 - e / d)
        stated = gaussian_delta(epsilon, distance)
        assert exact <= stated
        if exact > 1e-30:
            assert stated <= exact * (1 + 1e-6)


def vector(distance: float, units: int, n_moved: int, adjacency: Adjacency = ADD) -> SkellamVectorDpEvent:
    """A vector that moves by `units` in its Euclidean norm, `distance` standard deviations."""
    mu = Fraction(round((units / distance) ** 2 / 2))
    l1 = math.isqrt(n_moved * units**2)
    event = skellam_event(units**2, l1, n_moved, mu, adjacency)
    assert isinstance(event, SkellamVectorDpEvent)
    return event


@pytest.mark.parametrize("delta", [1e-9, 1e-6])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 4.0, 10.0])
@pytest.mark.parametrize(("units", "n_moved"), [(4096, 100), (1 << 20, 7000)])
def test_vectors_on_a_fine_lattice_need_the_noise_of_the_analytic_gaussian(epsilon, delta, units, n_moved):
    sigma = analytic_gaussian_sigma(sensitivity=1.0, epsilon=epsilon, delta=delta)
    assert composed_epsilon(vector(1 / (sigma * 1.002), units, n_moved), delta).epsilon <= epsilon
    assert composed_epsilon(vector(1 / (sigma * 0.999), units, n_moved), delta).epsilon > epsilon


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.5, 8.058), (1.0, 4.225), (4.0, 1.194)])
def test_a_fifth_less_noise_is_refused(epsilon, sigma):
    assert composed_epsilon(vector(1 / (0.8 * sigma), 4096, 10), 1e-6).epsilon > 1.15 * epsilon
    z = 4_000_000
    moved = round(math.sqrt(z) / (0.8 * sigma))
    assert exact_delta(z, (moved,), epsilon) > 1.5e-6


def test_the_cost_falls_with_the_noise_and_grows_with_what_moves():
    base = vector(0.3, 400, 50)
    epsilon = composed_epsilon(base, 1e-6).epsilon
    half = {name: getattr(base, name) / 2 for name in ("squares", "sizes", "least_mu")}
    assert composed_epsilon(attr.evolve(base, squares=half["squares"]), 1e-6).epsilon < epsilon
    assert composed_epsilon(attr.evolve(base, n_moved=500), 1e-6).epsilon > epsilon
    assert composed_epsilon(attr.evolve(base, least_mu=half["least_mu"]), 1e-6).epsilon > epsilon
    found = [composed_epsilon(vector(0.3 * 1.05**i, 400, 50), 1e-6).epsilon for i in range(12)]
    assert found == sorted(found)
    deltas = [composed_delta(base, epsilon * 1.1**i) for i in range(-6, 6)]
    assert deltas == sorted(deltas, reverse=True)


def test_epsilon_and_delta_are_inverse_to_each_other():
    event = vector(0.3, 4000, 50)
    for delta in (1e-12, 1e-6, 1e-3):
        epsilon = composed_epsilon(event, delta).epsilon
        assert composed_delta(event, epsilon) == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize("units", [1, 2, 5])
def test_where_the_lattice_is_coarse_the_renyi_curve_is_the_smaller_bound(units):
    event = attr.evolve(vector(0.2, units * 2, 300), n_moved=300)
    curve = epsilon_of_rdp(renyi_curve(event), 1, 1e-6)
    assert composed_epsilon(event, 1e-6) == curve


def test_nothing_is_proven_below_the_least_variance():
    small = Exchanged(((LEAST_VARIANCE - 1.0, 1),))
    assert small.slack(10.0, 10.0) is None
    assert RoundedGaussian(0.1, small).delta(1.0) == 1.0
    assert Exchanged(((float(LEAST_VARIANCE), 1),)).slack(10.0, 10.0) is not None


@pytest.mark.parametrize("mu", [Fraction(1, 10**400), Fraction(200), Fraction(10**9), Fraction(10**400)])
@pytest.mark.parametrize("squares", [Fraction(1, 10**400), Fraction(1), Fraction(10**400)])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-3, 1.0, 50.0, 1e4, 1e15, 1e300])
def test_extreme_releases_have_a_delta_that_is_a_probability_or_no_bound(mu, squares, epsilon):
    releases = RoundedGaussian.of([(squares, mu, 10)])
    assert 0 <= releases.delta(epsilon) <= 1
    for delta in (1e-300, 1e-6, 0.999):
        assert releases.epsilon(delta, epsilon) in (math.inf, pytest.approx(epsilon / 2, abs=epsilon / 2))
    if squares > 10**100:
        assert releases.delta(epsilon) == 1.0


def test_several_releases_cost_what_one_of_their_joint_distance_costs():
    once = vector(0.1, 3000, 40)
    four = attr.evolve(vector(0.2, 6000, 40), least_mu=once.least_mu)
    expected = composed_epsilon(four, 1e-6).epsilon
    assert composed_epsilon({once: 4}, 1e-6).epsilon == pytest.approx(expected, rel=1e-3)
    at_once = composed_epsilon(once.times(4), 1e-6).epsilon
    assert at_once == pytest.approx(composed_epsilon({once: 4}, 1e-6).epsilon, rel=1e-12)
    assert once.times(4).n_moved == 160


def test_vectors_and_numbers_of_one_job_are_charged_together():
    single = SkellamShiftsDpEvent(300, 1, Fraction(4_500_000), ADD)
    one, both = vector(0.1, 3000, 40), composed_epsilon([vector(0.1, 3000, 40), single], 1e-6)
    assert both.epsilon == pytest.approx(composed_epsilon(vector(0.1 * math.sqrt(2), 3000, 41), 1e-6).epsilon, rel=1e-3)
    assert both.epsilon > composed_epsilon(one, 1e-6).epsilon
    curve = renyi_curve(one) + renyi_curve(single)
    assert both.epsilon < 0.95 * epsilon_of_rdp(curve, 2, 1e-6).epsilon


def test_a_release_about_a_sample_costs_at_most_what_it_does_without():
    event = vector(0.2, 4000, 40)
    sampled = PoissonSampledDpEvent(event, Fraction(999, 1000))
    assert composed_epsilon(sampled, 1e-6).epsilon <= composed_epsilon(event, 1e-6).epsilon


def test_a_search_is_told_no_more_than_that_the_target_is_met():
    event = vector(0.2, 4000, 40)
    epsilon = composed_epsilon(event, 1e-6).epsilon
    assert composed_epsilon(event, 1e-6, near=epsilon * 1.0001).epsilon <= epsilon * 1.0001
    assert composed_epsilon(event, 1e-6, near=epsilon * 0.9999).epsilon > epsilon * 0.9999


def test_slack_of_different_variances_lies_between_that_of_each():
    one, other = (Exchanged(((z, 100),)).slack(20.0, 21.0) for z in (1e6, 1e5))
    both = Exchanged(((1e5, 50), (1e6, 50))).slack(20.0, 21.0)
    for few, mixed, much in zip(one, both, other, strict=True):
        assert few < mixed < much
    as_one = Exchanged(((1e5, 100),)).slack(20.0, 21.0)
    assert Exchanged(((1e5, 40), (1e5, 60))).slack(20.0, 21.0) == pytest.approx(as_one)
