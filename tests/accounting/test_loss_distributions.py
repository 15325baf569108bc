"""Loss distributions against the hockey-stick divergence itself, by enumeration of small domains in high precision."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from composed import composed_delta
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ive

from dp.cost.accounting import ORDERS, Adjacency, delta_of_rdp, epsilon_of_rdp
from dp.cost.composition import composed_epsilon, covering
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent, DiscreteGaussianShiftsDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.event import renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.events.sampled_bits import SampledBitsDpEvent
from dp.cost.events.sampling import BoundedSampledDpEvent, PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamShiftsDpEvent
from dp.cost.events.sketch import CardinalitySketchDpEvent
from dp.cost.losses.additive import skellam_losses
from dp.cost.losses.distribution import LossDistribution, Losses
from dp.cost.losses.sketch import SketchCell

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
DIGITS = 40
LEFT_OUT = 1e-14
"""Mass that enumerations leave out, and that seems to be lost altogether when the rest is shifted."""


def precise(value):
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else mpmath.mpf(value)


def discrete_laplace(scale, reach):
    r = mpmath.exp(-1 / precise(scale))
    return [(1 - r) / (1 + r) * r ** abs(k) for k in range(-reach, reach + 1)]


def discrete_gaussian(variance, reach):
    raw = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * precise(variance))) for k in range(-reach, reach + 1)]
    total = mpmath.fsum(raw)
    return [mass / total for mass in raw]


def skellam(mu, reach):
    z = 2 * precise(mu)
    return [mpmath.exp(-z) * mpmath.besseli(abs(k), z) for k in range(-reach, reach + 1)]


def shifted(masses, shift):
    """Return the masses of noise + shift on the same points; nothing of weight leaves them."""
    n = len(masses)
    return [masses[i - shift] if 0 <= i - shift < n else mpmath.mpf(0) for i in range(n)]


def product_of(pairs):
    """Return the joint masses of independent releases, each a pair of lists."""
    p, q = [mpmath.mpf(1)], [mpmath.mpf(1)]
    for one, other in pairs:
        p, q = [a * b for a, b in itertools.product(p, one)], [a * b for a, b in itertools.product(q, other)]
    return p, q


def hockey_stick(p, q, epsilon):
    """The larger of both directions."""
    factor = mpmath.exp(epsilon)
    forth = mpmath.fsum(a - factor * b for a, b in zip(p, q, strict=True) if a > factor * b)
    back = mpmath.fsum(b - factor * a for a, b in zip(p, q, strict=True) if b > factor * a)
    return max(forth, back)


def renyi_epsilon(events, delta):
    curve = sum(n * renyi_curve(event) for event, n in Counter(events).items())
    return epsilon_of_rdp(curve, len(events), delta).epsilon


def check(events, worlds, deltas=(1e-2, 1e-4, 1e-7), tight=1.02):
    """Check that no pair of neighbours is told apart better than stated, and the worst nearly as well.

    Args:
        events: what is accounted.
        worlds: all pairs of joint masses that neighbours may have.
        deltas: to state epsilons at.
        tight: how far above the true epsilon the stated one may be, as a factor.
    """
    for delta in deltas:
        stated = composed_epsilon(events, delta).epsilon
        assert stated <= renyi_epsilon(events, delta)
        worst = max(hockey_stick(p, q, stated) for p, q in worlds)
        assert worst <= delta + LEFT_OUT
        if stated > 0.01:
            assert max(hockey_stick(p, q, stated / tight - 1e-3) for p, q in worlds) > delta
    for epsilon in (0.05, 0.4, 1.5):
        found = composed_delta(events, epsilon)
        assert max(hockey_stick(p, q, epsilon) for p, q in worlds) <= found + LEFT_OUT


@pytest.fixture(autouse=True)
def precision():
    with mpmath.workdps(DIGITS):
        yield


@pytest.mark.parametrize(("scale", "most"), [(Fraction(1, 2), 1), (Fraction(1), 3)])
def test_discrete_laplace_noise_on_a_vector_for_every_way_to_split_the_1_norm(scale, most):
    noise = discrete_laplace(scale, 50 * math.ceil(scale) // 2 + 8)
    splits = [(a, most - a) for a in range(most + 1)] + [(0, most - 1)]
    worlds = [product_of([(shifted(noise, a), noise), (shifted(noise, b), noise)]) for a, b in splits]
    check([DiscreteLaplaceDpEvent(most, scale, ADD)], worlds)


def test_no_split_of_the_1_norm_into_three_is_worse_than_one_coordinate():
    # The proof of `dp.cost.losses.additive`, by exact fractions: r = 1/3 stands for e^(-1/b).
    r = Fraction(1, 3)

    def losses(d):  # numbers of steps of 1 / b, with their masses
        masses = {d: 1 / (1 + r), -d: r**d / (1 + r)}
        for j in range(1, d):
            masses[d - 2 * j] = (1 - r) * r**j / (1 + r)
        return masses

    def summed(one, other):
        total = Counter()
        for (a, p), (b, q) in itertools.product(one.items(), other.items()):
            total[a + b] += p * q
        return total

    def divergence(masses, step):
        return sum(p * (1 - r ** (loss - step)) for loss, p in masses.items() if loss > step)

    for split in [(1, 1), (1, 2), (2, 2), (1, 5), (3, 4), (1, 1, 1), (2, 3, 1), (4, 4, 2)]:
        joint = {0: Fraction(1)}
        for d in split:
            joint = summed(joint, losses(d))
        for step in range(-sum(split), sum(split)):
            assert divergence(joint, step) <= divergence(losses(sum(split)), step)


@pytest.mark.parametrize(("mu", "shift"), [(Fraction(1, 3), 1), (Fraction(2), 1), (Fraction(9), 4), (Fraction(40), 3)])
def test_skellam_noise_on_one_number_for_every_shift(mu, shift):
    noise = skellam(mu, 160)
    worlds = [(shifted(noise, d), noise) for d in range(-shift, shift + 1)]
    check([SkellamShiftsDpEvent(shift, 1, mu, ADD)], worlds)


@pytest.mark.parametrize("mu", [Fraction(3), Fraction(8)])
def test_skellam_noise_on_a_table_of_counts_of_which_a_replaced_record_moves_two(mu):
    noise = skellam(mu, 45)
    moves = [(1, -1), (1, 0)]  # or none; by symmetry no other
    worlds = [product_of([(shifted(noise, a), noise), (shifted(noise, b), noise)]) for a, b in moves]
    check([SkellamShiftsDpEvent(1, 2, mu, REPLACE)], worlds)


@pytest.mark.parametrize(("variance", "shift"), [(Fraction(1, 4), 1), (Fraction(5), 2), (Fraction(60), 7)])
def test_discrete_gaussian_noise_on_one_number_for_every_shift(variance, shift):
    noise = discrete_gaussian(variance, 150)
    worlds = [(shifted(noise, d), noise) for d in range(-shift, shift + 1)]
    check([DiscreteGaussianShiftsDpEvent(shift, 1, variance, ADD)], worlds)


@pytest.mark.parametrize(("n_options", "truthful", "n"), [(2, Fraction(3, 5), 5), (4, Fraction(1, 2), 3)])
def test_reports_of_choices(n_options, truthful, n):
    lie = (1 - truthful) / (n_options - 1)
    one = [precise(truthful if i == 0 else lie) for i in range(n_options)]
    other = [precise(truthful if i == 1 else lie) for i in range(n_options)]
    check([RandomizedResponseDpEvent(n_options, truthful)] * n, [product_of([(one, other)] * n)])


def bits_of(truthful, bits):
    """Masses of all reports about independent bits."""
    p = precise(truthful)
    return [
        mpmath.fprod(p if report == bit else 1 - p for report, bit in zip(reports, bits, strict=True))
        for reports in itertools.product((0, 1), repeat=len(bits))
    ]


@pytest.mark.parametrize(("n_bits", "share"), [(1, Fraction(1, 2)), (2, Fraction(1, 10)), (2, Fraction(4, 5))])
def test_sampled_bits_for_every_other_unit_whose_slot_it_might_be(n_bits, share):
    truthful, width = Fraction(2, 3), 2 * n_bits
    empty = bits_of(truthful, [0] * width)
    mine = bits_of(truthful, [1] * n_bits + [0] * n_bits)
    s, worlds = precise(share), []
    for other in itertools.product((0, 1), repeat=width):
        if sum(other) in (0, n_bits):
            theirs = bits_of(truthful, other)
            without = [(1 - s) * r + s * p for r, p in zip(theirs, empty, strict=True)]
            worlds.append(([(1 - s) * r + s * q for r, q in zip(theirs, mine, strict=True)], without))
    check([SampledBitsDpEvent(truthful, n_bits, share)], worlds)


@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 3), Fraction(1)])
@pytest.mark.parametrize(
    ("release", "noise"),
    [
        (SkellamShiftsDpEvent(2, 1, Fraction(4), ADD), lambda: skellam(Fraction(4), 40)),
        (DiscreteLaplaceDpEvent(2, Fraction(1), ADD), lambda: discrete_laplace(Fraction(1), 45)),
        (DiscreteGaussianShiftsDpEvent(1, 1, Fraction(2), ADD), lambda: discrete_gaussian(Fraction(2), 25)),
    ],
)
def test_sampled_releases_in_both_directions(release, noise, rate):
    q, absent = precise(rate), noise()
    shift = getattr(release, "shift", 2)
    present = shifted(absent, shift)
    mixed = [(1 - q) * a + q * b for a, b in zip(absent, present, strict=True)]
    check([PoissonSampledDpEvent(release, rate)], [(mixed, absent)])
    check([PoissonSampledDpEvent(release, rate)] * 2, [product_of([(mixed, absent)] * 2)], deltas=(1e-3,))


@pytest.mark.parametrize("most", [1, 2])
def test_two_steps_about_samples_of_which_no_unit_is_in_more_than_a_bound(most):
    rate, mu = Fraction(1, 3), Fraction(2)
    q, absent = precise(rate), skellam(mu, 22)
    present = shifted(absent, 1)
    second = present if most == 2 else absent
    joint = []
    for (a0, a1), (b0, b1, b2) in itertools.product(
        zip(absent, present, strict=True), zip(absent, present, second, strict=True)
    ):
        joint.append((1 - q) * a0 * ((1 - q) * b0 + q * b1) + q * a1 * ((1 - q) * b0 + q * b2))
    without = [a * b for a, b in itertools.product(absent, absent)]
    release = PoissonSampledDpEvent(SkellamShiftsDpEvent(1, 1, mu, ADD), rate)
    check([BoundedSampledDpEvent(release, 2, most)], [(joint, without)], deltas=(1e-3, 1e-5), tight=2.0)


def test_sketches_of_two_parties():
    event = CardinalitySketchDpEvent(2, 2, 30, 6, 3, ADD)
    cell = SketchCell(1.0, 1, 2, 30, 6, 3)
    without, with_target = ([mpmath.mpf(x) for x in masses.ravel() if x > 1e-15] for masses in cell.outcomes())
    n = min(len(without), len(with_target))
    check([event], [product_of([(with_target[:n], without[:n])] * 2)], deltas=(1e-3, 1e-6), tight=1.05)


def test_a_job_with_releases_of_which_only_the_renyi_curve_is_known():
    # Gaussian noise on a vector counts by its curve; here the vector is a number, so the truth can be enumerated.
    gaussian, laplace = discrete_gaussian(Fraction(4), 30), discrete_laplace(Fraction(2), 60)
    worlds = [product_of([(shifted(gaussian, 1), gaussian), (shifted(laplace, 2), laplace)])]
    events = [DiscreteGaussianDpEvent(Fraction(1, 4), ADD), DiscreteLaplaceDpEvent(2, Fraction(2), ADD)]
    check(events, worlds, tight=1.6)


@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(9), Fraction(400)])
def test_the_distribution_that_covers_a_renyi_curve_shows_no_less_than_the_mechanism(variance):
    curve = renyi_curve(DiscreteGaussianDpEvent(1 / variance, ADD))
    made = covering(curve, 1, 2.0**-7, 1e-14)
    noise = discrete_gaussian(variance, int(30 * max(1, variance) ** 0.5))
    for epsilon in (0.0, 0.013, 0.1, 0.5, 0.777, 1.2):
        assert hockey_stick(shifted(noise, 1), noise, epsilon) <= made.delta(epsilon)
    for epsilon in (0.1, 0.777, 1.2):
        bound = delta_of_rdp(curve, 1, epsilon)
        assert made.delta(epsilon) <= 1.05 * bound + 1e-12


PAIRS = st.lists(
    st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=2, max_size=5
)  # weights under P and under Q


@settings(deadline=None, max_examples=60)
@given(PAIRS, PAIRS, st.integers(1, 3), st.sampled_from([2.0**-3, 2.0**-6, 2.0**-9]))
def test_composed_grids_never_show_less_than_the_exact_product(one, other, n, step):
    def exact(pairs):
        p, q = (sum(weights) for weights in zip(*pairs, strict=True))
        return [Fraction(a, p) for a, _ in pairs], [Fraction(b, q) for _, b in pairs]

    def gridded(pairs):
        p, q = exact(pairs)
        losses = np.array([math.log(a / b) for a, b in zip(p, q, strict=True)])
        masses = np.array([float(a) for a in p])
        return LossDistribution.of(Losses(masses * (1 + 2.0**-50), losses + 2.0**-48), step, 1e-9)

    made = gridded(one).times(n, 1e-9).compose(gridded(other), 1e-9)
    pairs = [exact(one)] * n + [exact(other)]
    p, q = [Fraction(1)], [Fraction(1)]
    for a, b in pairs:
        p, q = [x * y for x, y in itertools.product(p, a)], [x * y for x, y in itertools.product(q, b)]
    for epsilon in (-1.0, 0.0, 0.3, 1.0, 2.5):
        factor = Fraction(math.exp(epsilon)) * (1 - Fraction(1, 2**50))
        true = sum((max(Fraction(0), a - factor * b) for a, b in zip(p, q, strict=True)), Fraction(0))
        assert true - Fraction(1, 2**45) <= Fraction(made.delta(epsilon))


@pytest.mark.parametrize(("mu", "shift", "n"), [(20, 1, 1), (20, 1, 300), (1000, 10, 30)])
def test_the_library_with_an_optimistic_estimate_is_below_and_with_a_pessimistic_one_near(mu, shift, n):
    event = SkellamShiftsDpEvent(shift, n, Fraction(mu), ADD)
    stated = composed_epsilon([event], 1e-6).epsilon
    reach = 12 * math.isqrt(2 * mu)
    noise = ive(np.abs(np.arange(-reach, reach + 1)), 2 * mu).tolist()
    tables = [
        {
            k: math.log(noise[k - s + reach])
            for k in range(-reach + shift, reach + 1 - shift)
            if noise[k - s + reach] > 0
        }
        for s in (0, shift)
    ]
    library = [
        privacy_loss_distribution.from_two_probability_mass_functions(
            *tables, pessimistic_estimate=pessimistic, value_discretization_interval=1e-3 / n**0.5
        )
        .self_compose(n)
        .get_epsilon_for_delta(1e-6)
        for pessimistic in (False, True)
    ]
    assert library[0] <= stated
    assert stated == pytest.approx(library[1], rel=0.02)


@pytest.mark.parametrize(("mu", "shift"), [(2**17 + 2, 300), (2**40, 2**18), (2**80, 2**38)])
def test_noise_in_blocks_costs_what_gaussian_noise_of_its_variance_does_and_no_less(mu, shift):
    event = SkellamShiftsDpEvent(shift, 1, Fraction(mu), ADD)
    sensitivity = mpmath.mpf(shift) / mpmath.sqrt(2 * mpmath.mpf(mu))
    for delta in (1e-3, 1e-6, 1e-10):
        stated = composed_epsilon([event], delta).epsilon
        gaussian = mpmath.ncdf(sensitivity / 2 - stated / sensitivity) - mpmath.exp(stated) * mpmath.ncdf(
            -sensitivity / 2 - stated / sensitivity
        )
        assert 0.98 * delta < gaussian < delta * (1 + 1e-3)


def test_blocks_say_no_less_than_single_masses():
    for mu in (Fraction(1 << 17), Fraction((1 << 17) + 2)):
        found = skellam_losses(200, mu)
        grid = LossDistribution.of(found, 2.0**-8, 1e-14)
        assert grid.epsilon(1e-6) == pytest.approx(1.7, abs=0.05)
    single = LossDistribution.of(skellam_losses(200, Fraction(1 << 17)), 2.0**-8, 1e-14)
    assert single.epsilon(1e-6) <= grid.epsilon(1e-6) * (1 + 1e-4)


def test_a_delta_below_what_floating_point_transforms_can_show():
    event = DiscreteGaussianShiftsDpEvent(1, 4, Fraction(16), ADD)
    stated = composed_epsilon([event], 1e-20).epsilon
    noise = discrete_gaussian(Fraction(16 * 1), 60)
    # Four shifts by 1 at variance 16 are at least as bad as one release of their sum, shift 4 at variance 64.
    total = discrete_gaussian(Fraction(64), 160)
    assert hockey_stick(shifted(total, 4), total, stated) <= mpmath.mpf(10) ** -20 * (1 + mpmath.mpf(10) ** -6)
    assert hockey_stick(shifted(noise, 1), noise, stated) <= mpmath.mpf(10) ** -20
    assert stated < renyi_epsilon([event], 1e-20)
    assert len(ORDERS) == len(renyi_curve(event))
