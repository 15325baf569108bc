"""Epsilons of [SPCA24] and of our corrections of them, to the two printed decimals."""

import math
from fractions import Fraction

import attr
import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from scipy.stats import binom

from bench.baselines.gaussian import analytic_gaussian_sigma
from dp.cost.accounting import Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.events.sampling import PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamDpEvent
from dp.mechanism.cardinality import highest_of_clusters
from dp.mechanism.gram import NoisyGram
from entropy import KeyStream

DELTA = 1e-5
COORDINATOR_EPSILONS = (0.25, 0.5, 1, 2, 4, 8, 16)
GAMMA = 2**12


def epsilon_of_gaussian(sensitivity: float, sigma: float) -> float:
    return float(get_epsilon_gaussian(sigma / sensitivity, DELTA))


def uniform_noise_event(delta_2: Fraction, delta_1: Fraction, mu: Fraction) -> SkellamDpEvent:
    """tau of [SPCA24, lemma 2]: the same Sk(mu) on every released number."""
    return SkellamDpEvent(
        delta_2**2 / mu, (delta_2 / mu) ** 2, delta_1 / mu, delta_1 / mu**2, Adjacency.ADD_OR_REMOVE_ONE
    )


def gaussian_limit_event(mu: Fraction) -> SkellamDpEvent:
    """tau = a / (4 mu): what remains of it for large mu."""
    return SkellamDpEvent(1 / mu, Fraction(0), Fraction(0), Fraction(0), Adjacency.ADD_OR_REMOVE_ONE)


def calibrated_mu(event_of, target: float) -> Fraction:
    """Return mu, to nine digits, at which the event has epsilon `target`."""
    low, high = Fraction(1, 10**6), Fraction(2**80)
    while high / low > 1 + Fraction(1, 10**9):
        middle = Fraction(math.sqrt(low * high))
        low, high = (low, middle) if composed_epsilon(event_of(middle), DELTA).epsilon <= target else (middle, high)
    return high


def rounded(values) -> list[float]:
    return [round(value, 2) for value in values]


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        # What the paper's tables 1 and 2 print for a party: its factor 4, times a stray 2.
        (8, [0.77, 1.55, 3.15, 6.55, 13.75, 29.78, 69.85]),
        # A replaced row, tight.
        (2, [0.36, 0.73, 1.46, 2.95, 5.98, 12.17, 25.06]),
    ],
)
def test_the_gaussian_limit_of_a_multiplied_divergence(factor, expected):
    found = []
    for target in COORDINATOR_EPSILONS:
        mu = calibrated_mu(gaussian_limit_event, target)
        found.append(composed_epsilon(gaussian_limit_event(mu / factor), DELTA).epsilon)
    assert rounded(found) == expected


@pytest.mark.parametrize(
    "printed",
    [
        [0.77, 1.54, 3.14, 6.53, 13.71, 29.75, 69.84],  # n = 816
        [0.77, 1.54, 3.14, 6.53, 13.73, 29.77, 69.86],  # n = 117
    ],
)
def test_the_rows_that_tables_1_and_2_print_for_a_party_are_those_of_factor_8_and_of_no_other(printed):
    for target, expected in zip(COORDINATOR_EPSILONS, printed, strict=True):
        mu = calibrated_mu(gaussian_limit_event, target)
        found = {f: composed_epsilon(gaussian_limit_event(mu / f), DELTA).epsilon for f in (4, 7, 8, 9)}
        assert found[8] == pytest.approx(expected, rel=0.008)
        assert min(abs(found[f] / expected - 1) for f in (4, 7, 9)) > 0.03


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (816, [0.53, 1.06, 2.14, 4.36, 9.06, 19.56, 40.03]),
        (117, [0.53, 1.07, 2.15, 4.38, 9.11, 19.67, 40.25]),
    ],
)
def test_lemma_2_with_its_second_half_corrected(n, expected):
    # One of N = n parties knows its own noise; the sensitivity is doubled: tau(2 D2, 2 D1, mu (N - 1) / N).
    delta_2 = Fraction(GAMMA**2 + n)
    delta_1 = min(delta_2**2, Fraction(math.isqrt(n * int(delta_2) ** 2)))
    found = []
    for target in COORDINATOR_EPSILONS:
        mu = calibrated_mu(lambda mu: uniform_noise_event(delta_2, delta_1, mu), target)
        found.append(composed_epsilon(uniform_noise_event(2 * delta_2, 2 * delta_1, mu * (n - 1) / n), DELTA).epsilon)
    assert rounded(found) == expected


def test_equation_9_as_printed_squares_the_share_of_unknown_noise_in_its_first_term_too():
    n = 117
    delta_2 = Fraction(GAMMA**2 + n)
    delta_1 = Fraction(math.isqrt(n * int(delta_2) ** 2))
    found = []
    for target in COORDINATOR_EPSILONS:
        mu = calibrated_mu(lambda mu: uniform_noise_event(delta_2, delta_1, mu), target)
        right = uniform_noise_event(2 * delta_2, 2 * delta_1, mu * (n - 1) / n)
        printed = attr.evolve(right, squares=right.squares * n / (n - 1))
        found.append(composed_epsilon(printed, DELTA).epsilon)
    assert rounded(found) == [0.53, 1.07, 2.16, 4.40, 9.16, 19.79, 40.51]


@pytest.mark.parametrize("n", [816, 117])
def test_our_mechanism_gives_a_coalition_of_one_the_tight_factor_of_a_replaced_row(n):
    for target in COORDINATOR_EPSILONS:
        # For infinitely many parties.
        sigma = analytic_gaussian_sigma(sensitivity=1.0, epsilon=target, delta=DELTA)
        limit = epsilon_of_gaussian(math.sqrt(2), sigma)
        mechanism = NoisyGram.calibrate(
            n_columns=n,
            squared_norm_bound=GAMMA**2,
            n_parties=n,
            colluding=1,
            epsilon=target,
            delta=DELTA,
            view="coordinator",
        )
        found = mechanism.epsilon("coalition", DELTA).epsilon
        assert limit - 0.005 < found < limit * (1 + 1 / (n - 1)) + 0.005


def test_the_local_noise_baseline_for_a_replaced_row_of_twice_the_sensitivity():
    found = [
        epsilon_of_gaussian(2.0, analytic_gaussian_sigma(sensitivity=1.0, epsilon=e, delta=DELTA))
        for e in COORDINATOR_EPSILONS
    ]
    assert rounded(found) == [0.53, 1.07, 2.15, 4.39, 9.08, 19.12, 40.92]


def test_the_local_noise_baseline_of_logistic_regression():
    # Table 3: for an epsilon of 0.5 .. 16 of the coordinator.
    found = [
        epsilon_of_gaussian(2.0, analytic_gaussian_sigma(sensitivity=1.0, epsilon=e, delta=DELTA))
        for e in (0.5, 1, 2, 4, 8, 16)
    ]
    assert rounded(found) == [1.07, 2.15, 4.39, 9.08, 19.12, 40.92]


SAMPLING_RATE = Fraction(1, 1000)
LR_COLUMNS = 816


def three_sums_event(gamma: int, multiplier: Fraction, *, party: bool = False) -> SkellamDpEvent:
    """One step of SLR as printed: lemmas 13 and 14 [SPCA24], c_w = 1, mu(h) = gamma^2, ^6, ^4 times the multiplier.

    For a party: the sensitivity doubled, and 1 of N = 816 parties' noise known.
    """
    n, one = LR_COLUMNS, gamma**2 + LR_COLUMNS
    squares = (one, one**3, gamma**2 * one)
    sizes = [min(square, math.isqrt(n * square)) for square in squares]
    scale, known = (4, Fraction(n, n - 1)) if party else (1, Fraction(1))
    size_scale = 2 if party else 1
    mus = [gamma**power * multiplier for power in (2, 6, 4)]
    return SkellamDpEvent(
        sum((scale * known * s / mu for s, mu in zip(squares, mus, strict=True)), Fraction(0)),
        sum((scale * known**2 * s / mu**2 for s, mu in zip(squares, mus, strict=True)), Fraction(0)),
        sum((size_scale * known * a / mu for a, mu in zip(sizes, mus, strict=True)), Fraction(0)),
        sum((size_scale * known**2 * a / mu**2 for a, mu in zip(sizes, mus, strict=True)), Fraction(0)),
        Adjacency.ADD_OR_REMOVE_ONE,
    )


def noise_multiplier(gamma: int, target: float, epochs: int) -> Fraction:
    def spends(multiplier: Fraction) -> float:
        step = PoissonSampledDpEvent(three_sums_event(gamma, multiplier), SAMPLING_RATE)
        return composed_epsilon({step: 1000 * epochs}, DELTA).epsilon

    low, high = Fraction(1, 100), Fraction(100)
    for _ in range(28):
        middle = (low + high) / 2
        low, high = (low, middle) if spends(middle) <= target else (middle, high)
    return high


def party_epsilon(gamma: int, multiplier: Fraction, n_steps: int) -> float:
    return composed_epsilon({three_sums_event(gamma, multiplier, party=True): n_steps}, DELTA).epsilon


TABLE_3 = [
    # coordinator's epsilon, epochs, a party's epsilon for the mean number of steps, that which the paper prints
    (0.5, 5, 24.69, 24.62),
    (1, 8, 48.95, 48.84),
    (2, 10, 90.18, 90.02),
    (4, 10, 133.57, 133.33),
    (8, 20, 330.08, 329.28),
    (16, 20, 465.51, 464.67),
]


@pytest.mark.parametrize(("target", "epochs", "ours", "printed"), TABLE_3)
def test_table_3_of_logistic_regression_with_these_numbers_of_epochs(target, epochs, ours, printed):
    found = party_epsilon(2**14, noise_multiplier(2**14, target, epochs), epochs)
    assert found == pytest.approx(ours, rel=2e-4)
    assert found == pytest.approx(printed, rel=4e-3)


@pytest.mark.parametrize(("target", "epochs", "found"), [(1, 5, 36.07), (2, 8, 76.22)])
def test_the_numbers_of_epochs_in_the_text_do_not_give_table_3(target, epochs, found):
    assert round(party_epsilon(2**14, noise_multiplier(2**14, target, epochs), epochs), 2) == found


@pytest.mark.parametrize("gamma", [2**12, 2**16])
@pytest.mark.parametrize(("target", "epochs", "multiplier"), [(0.5, 5, 2.063), (4, 10, 0.487), (16, 20, 0.264)])
def test_the_noise_multiplier_of_logistic_regression(gamma, target, epochs, multiplier):
    assert round(float(noise_multiplier(gamma, target, epochs)), 3) == multiplier


BUSY_RECORDS = [
    # coordinator's epsilon, its multiplier, mean steps, the busiest record's, what all stay below but with 1e-6
    (0.5, Fraction("2.0625"), (5, 24.67), (17, 59.6), (26, 85.8)),
    (4, Fraction("0.48661"), (10, 133.41), (26, 331), (38, 479)),
    (16, Fraction("0.26377"), (20, 465.02), (42, 967), (57, 1308)),
]


@pytest.mark.parametrize(("target", "multiplier", "mean", "busiest", "quantile"), BUSY_RECORDS)
def test_a_party_learns_more_of_a_busy_record_than_table_3_says(target, multiplier, mean, busiest, quantile):
    step = DiscreteGaussianDpEvent(4 * Fraction(3, 2) / multiplier, Adjacency.ADD_OR_REMOVE_ONE)
    for n_steps, expected in (mean, busiest, quantile):
        assert composed_epsilon({step: n_steps}, DELTA).epsilon == pytest.approx(expected, rel=2e-3)
    n_records, draws = 145_585, 1000 * mean[0]
    assert busiest[0] == binom.isf(1 / n_records, draws, 0.001)
    assert quantile[0] == binom.isf(1e-6 / n_records, draws, 0.001)


def test_scalar_skellam_noise_once_and_a_hundred_times():
    event = uniform_noise_event(Fraction(10), Fraction(10), Fraction(1000))
    assert round(composed_epsilon(event, DELTA).epsilon, 3) == 0.897
    assert round(composed_epsilon([event] * 100, DELTA).epsilon, 2) == 12.31


@pytest.mark.parametrize(("each", "true", "claimed"), [(1, 3.62, 3.16), (4, 16.14, 12.65), (8, 35.6, 25.3)])
def test_ten_releases_cost_more_than_the_root_of_the_sum_of_squared_epsilons(each, true, claimed):
    assert round(each * math.sqrt(10), 2 if each < 8 else 1) == claimed
    sigma = analytic_gaussian_sigma(sensitivity=1.0, epsilon=each, delta=DELTA)
    together = epsilon_of_gaussian(math.sqrt(10), sigma)
    assert round(together, 2 if each < 8 else 1) == true
    ours = DiscreteGaussianDpEvent(Fraction(1 / sigma**2), Adjacency.ADD_OR_REMOVE_ONE)
    assert together < composed_epsilon({ours: 10}, DELTA).epsilon < 1.1 * together


@pytest.mark.parametrize(
    ("n_sketches", "n_clusters", "printed_kb"), [(2048, 5, 81.9), (4096, 5, 163.8), (2048, 8, 131.1), (4096, 8, 262.1)]
)
def test_the_bytes_of_sketches_that_table_1_prints_are_doubles_and_ours_are_an_eighth(
    n_sketches, n_clusters, printed_kb
):
    """[VertClust23, table 1]: M k' numbers per party."""
    assert round(8 * n_sketches * n_clusters / 1000, 1) == printed_kb
    assignment = np.arange(20) % n_clusters
    levels = highest_of_clusters(KeyStream(bytes(32)), assignment, n_clusters, n_sketches)
    assert levels.nbytes == n_sketches * n_clusters


def test_the_bytes_of_local_reports_that_table_1_prints():
    assert 8 * 20_000 / 1000 == 160.0  # one double for each of the n users


@pytest.mark.parametrize(("target", "factor"), [(0.245, 3.81), (0.98, 3.40), (0.1, 4.12), (2, 3.17)])
def test_each_sketch_may_have_a_3_to_4_times_larger_epsilon_than_is_printed(target, factor):
    """[VertClust23]: M sketches of pure epsilon' = epsilon_2 / (4 sqrt(M L)) each, L = ln(1 / delta)."""
    n_sketches, delta = 4096, 0.98 / 40_000
    printed = target / (4 * math.sqrt(n_sketches * math.log(1 / delta)))

    def spent(times: float) -> float:
        # A pure epsilon' costs at most a epsilon'^2 / 2 at order a [CKS20], as this event does.
        event = DiscreteGaussianDpEvent(Fraction(n_sketches * (times * printed) ** 2), Adjacency.ADD_OR_REMOVE_ONE)
        return composed_epsilon(event, delta).epsilon

    assert spent(factor - 0.01) <= target < spent(factor + 0.01)
    assert spent(1) < target / 3
