"""Whole distributions of the samplers: the right parameter is accepted AND one a little off is rejected.

False alarms: seeds are fixed, so a passing test stays passing. Over fresh seeds each test alarms wrongly with
probability 1e-6.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, chi2

from dp.draw.discrete import Geometric
from dp.draw.noise import (
    sample_bernoulli,
    sample_binomial,
    sample_categorical,
    sample_discrete_gaussian,
    sample_discrete_laplace,
)
from dp.draw.rejection import sample_offsets
from dp.draw.skellam import sample_skellam
from entropy import InsecureTestEntropy, KeyStream
from entropy.stream import KEY_BYTES

FALSE_ALARM = 1e-6
LONG, CHUNK = 4_000_000, 1_000_000


def drawn(distribution, entropy, n):
    return sample_offsets(distribution, n, KeyStream(entropy.read(KEY_BYTES)))


def laplace_mass(k, scale):
    r = np.exp(-1 / float(scale))
    return (1 - r) / (1 + r) * r ** np.abs(k)


def gaussian_mass(k, variance):
    reach = np.arange(-int(40 * np.sqrt(float(variance))) - 40, int(40 * np.sqrt(float(variance))) + 41)
    return np.exp(-(k**2) / (2 * float(variance))) / np.exp(-(reach**2) / (2 * float(variance))).sum()


def geometric_mass(k, success):
    return np.where(k >= 0, float(success) * (1 - float(success)) ** np.maximum(k, 0), 0.0)


def bernoulli_mass(k, probability):
    return np.where(k == 1, float(probability), np.where(k == 0, 1 - float(probability), 0.0))


def binomial_mass(n):
    return lambda k, probability: binom.pmf(k, n, float(probability))


def three_categories_mass(k, middle):
    # Weights 3, `middle`, 7: the parameter is the middle one.
    weights = np.array([3.0, float(middle), 7.0])
    return np.where((k >= 0) & (k < 3), (weights / weights.sum())[np.clip(k, 0, 2)], 0.0)


CASES = [
    # name, sampler of a size, mass function, parameter
    ("laplace 1/3", lambda e, n: sample_discrete_laplace(e, Fraction(1, 3), n), laplace_mass, Fraction(1, 3)),
    ("laplace 10", lambda e, n: sample_discrete_laplace(e, 10, n), laplace_mass, 10),
    ("laplace 2000/3", lambda e, n: sample_discrete_laplace(e, Fraction(2000, 3), n), laplace_mass, Fraction(2000, 3)),
    ("gaussian 1/2", lambda e, n: sample_discrete_gaussian(e, Fraction(1, 2), n), gaussian_mass, Fraction(1, 2)),
    ("gaussian 100", lambda e, n: sample_discrete_gaussian(e, 100, n), gaussian_mass, 100),
    ("gaussian 1e6/3", lambda e, n: sample_discrete_gaussian(e, Fraction(10**6, 3), n), gaussian_mass, 10**6 / 3),
    ("geometric 1/2", lambda e, n: drawn(Geometric(Fraction(1, 2)), e, n), geometric_mass, Fraction(1, 2)),
    ("geometric 1/300", lambda e, n: drawn(Geometric(Fraction(299, 300)), e, n), geometric_mass, Fraction(1, 300)),
    ("bernoulli 1/3", lambda e, n: sample_bernoulli(e, Fraction(1, 3), n), bernoulli_mass, Fraction(1, 3)),
    ("binomial 5", lambda e, n: sample_binomial(e, 5, Fraction(2, 7), n), binomial_mass(5), Fraction(2, 7)),
    ("binomial 33", lambda e, n: sample_binomial(e, 33, Fraction(1, 2), n), binomial_mass(33), Fraction(1, 2)),
    (
        "binomial 4000",
        lambda e, n: sample_binomial(e, 4000, Fraction(1, 900), n),
        binomial_mass(4000),
        Fraction(1, 900),
    ),
    ("categorical", lambda e, n: sample_categorical(e, [3, 2, 7], n), three_categories_mass, 2),
]
IDS = [case[0] for case in CASES]


def chi_square_p_value(samples: np.ndarray, mass, parameter) -> float:
    """Cells a quarter of a standard deviation wide out to eight; cells that expect fewer than 10 are pooled."""
    centre, deviation = round(samples.mean()), samples.std()
    reach, width = int(8 * deviation) + 2, max(1, round(deviation / 4))
    k = np.arange(centre - reach, centre + reach + 1)
    cells = (k - k[0]) // width
    expected = len(samples) * np.bincount(cells, mass(k, parameter))
    inside = samples[np.abs(samples - centre) <= reach]
    observed = np.bincount((inside - k[0]) // width, minlength=len(expected))
    rare = expected < 10
    # What lies beyond the cells joins the rare ones.
    rest = len(samples) - expected[~rare].sum(), len(samples) - observed[~rare].sum()
    expected, observed = np.append(expected[~rare], max(rest[0], 0.0)), np.append(observed[~rare], rest[1])
    if expected[-1] < 10:
        expected, observed = expected[:-1], observed[:-1]
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


@pytest.mark.parametrize(("name", "draw", "mass", "parameter"), CASES, ids=IDS)
def test_the_mass_function_of_the_right_parameter_is_accepted_and_of_one_10_percent_off_rejected(
    name, draw, mass, parameter
):
    samples = draw(InsecureTestEntropy(f"chi-square {name}"), 300_000).astype(np.int64)
    assert chi_square_p_value(samples, mass, parameter) > FALSE_ALARM
    assert chi_square_p_value(samples, mass, 0.9 * float(parameter)) < FALSE_ALARM
    assert chi_square_p_value(samples, mass, 1.1 * float(parameter)) < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize(("name", "draw", "mass", "parameter"), CASES, ids=IDS)
def test_four_million_samples_fit_the_mass_function_and_none_2_percent_off(name, draw, mass, parameter):
    entropy = InsecureTestEntropy(f"long chi-square {name}")
    samples = np.concatenate([draw(entropy, CHUNK) for _ in range(LONG // CHUNK)]).astype(np.int64)
    assert chi_square_p_value(samples, mass, parameter) > FALSE_ALARM
    assert chi_square_p_value(samples, mass, 0.98 * float(parameter)) < FALSE_ALARM
    assert chi_square_p_value(samples, mass, 1.02 * float(parameter)) < FALSE_ALARM


def test_the_difference_of_two_binomial_variables_of_many_trials_is_nearly_a_skellam_variable():
    # n p = 50 with n = 10^9: within 1e-7 of Poisson in total variation, far below what these samples resolve.
    entropy = InsecureTestEntropy("poisson limit")
    p = Fraction(50, 10**9)
    ours = sample_binomial(entropy, 10**9, p, 200_000) - sample_binomial(entropy, 10**9, p, 200_000)
    theirs = sample_skellam(entropy, 50, 200_000)
    low, high = -60, 60
    counts = [np.bincount(np.clip(x, low, high) - low, minlength=high - low + 1) for x in (ours, theirs)]
    total = counts[0] + counts[1]
    used = total > 20
    statistic = ((counts[0] - counts[1])[used] ** 2 / total[used]).sum()
    assert chi2.sf(statistic, used.sum()) > FALSE_ALARM
