"""Whole distributions of the sampler: the right parameter is accepted AND one 20 % off is rejected.

False alarms: seeds are fixed, so a passing test stays passing. Over fresh seeds each chi-square test alarms wrongly
with probability 1e-6, each moment test (five standard deviations) with probability 6e-7.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ive
from scipy.stats import chi2, norm

from dp.draw.skellam import sample_skellam
from entropy import InsecureTestEntropy

FALSE_ALARM = 1e-6


def skellam_mass(k: np.ndarray, mu: float) -> np.ndarray:
    """P(Sk(mu) = k) = e^(-2 mu) I_|k|(2 mu)."""
    return ive(np.abs(k), 2 * mu)


def chi_square_p_value(samples: np.ndarray, mu: float) -> float:
    """Chi-square of cells a quarter of a standard deviation wide; cells that expect fewer than 10 are pooled."""
    deviation = np.sqrt(2 * mu)
    reach, width = int(7 * deviation) + 3, max(1, round(deviation / 4))
    k = np.arange(-reach, reach + 1)
    cells = (k + reach) // width
    expected = len(samples) * np.bincount(cells, skellam_mass(k, mu))
    observed = np.bincount((np.clip(samples, -reach, reach) + reach) // width, minlength=len(expected))
    rare = expected < 10
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(observed[~rare], observed[rare].sum())
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


CASES = [
    # mu, samples: enough to tell 20 % apart
    (Fraction(1, 1000), 2_000_000),
    (Fraction(1, 2), 200_000),
    (Fraction(3), 200_000),
    (Fraction(257, 3), 200_000),
    (Fraction(1000), 200_000),
    (Fraction(10**5), 200_000),
]


@pytest.mark.parametrize(("mu", "n_samples"), CASES, ids=str)
def test_the_mass_function_of_the_right_parameter_is_accepted_and_of_one_20_percent_off_rejected(mu, n_samples):
    samples = sample_skellam(InsecureTestEntropy(f"chi-square {mu}"), mu, n_samples)
    assert chi_square_p_value(samples, float(mu)) > FALSE_ALARM
    assert chi_square_p_value(samples, 0.8 * float(mu)) < FALSE_ALARM
    assert chi_square_p_value(samples, 1.2 * float(mu)) < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("mu", [1, 37, 300, 4096, 10**6], ids=str)
def test_six_million_samples_fit_the_mass_function_to_one_percent_of_the_parameter(mu):
    entropy = InsecureTestEntropy(f"long chi-square {mu}")
    samples = np.concatenate([sample_skellam(entropy, mu, 1_000_000) for _ in range(6)])
    assert chi_square_p_value(samples, mu) > FALSE_ALARM
    assert chi_square_p_value(samples, 0.99 * mu) < FALSE_ALARM
    assert chi_square_p_value(samples, 1.01 * mu) < FALSE_ALARM


def assert_moments(samples: np.ndarray, mu: float) -> None:
    """Mean 0, variance 2 mu, kurtosis 3 + 1 / (2 mu), each within five standard deviations of its estimate."""
    z, n = samples / np.sqrt(2.0 * mu), len(samples)
    assert abs(z.mean()) < 5 / np.sqrt(n)
    assert abs((z**2).mean() - 1) < 5 * np.sqrt((2 + 1 / (2 * mu)) / n)
    if mu >= 1000:
        assert abs((z**4).mean() - 3 - 1 / (2 * mu)) < 5 * np.sqrt(96.5 / n)


@pytest.mark.parametrize("mu", [Fraction(1, 1000), 10**6, 2**51, 2**71, 2**100], ids=float)
def test_mean_variance_and_kurtosis_are_right_from_tiny_parameters_to_the_largest(mu):
    samples = sample_skellam(InsecureTestEntropy(f"moments {mu}"), mu, 400_000)
    assert_moments(samples, float(mu))
    with pytest.raises(AssertionError):
        assert_moments(samples, 1.2 * float(mu))
    with pytest.raises(AssertionError):
        assert_moments(samples, 0.8 * float(mu))


@pytest.mark.slow
@pytest.mark.parametrize("mu", [2**51, 2**71, 2**100], ids=float)
def test_large_parameters_have_the_shape_of_a_normal_variable(mu):
    # Sk(mu) is within 1 / sqrt(mu) of normal, far below what 6e6 samples resolve.
    entropy = InsecureTestEntropy(f"shape {mu}")
    cells = np.linspace(-6, 6, 97)
    counts = np.zeros(len(cells) + 1)
    for _ in range(6):
        z = sample_skellam(entropy, mu, 1_000_000) / np.sqrt(2.0 * mu)
        counts += np.bincount(np.searchsorted(cells, z), minlength=len(counts))
    expected = counts.sum() * np.diff(norm.cdf(np.concatenate([[-np.inf], cells, [np.inf]])))
    keep = expected > 10
    statistic = ((counts - expected)[keep] ** 2 / expected[keep]).sum()
    assert chi2.sf(statistic, keep.sum() - 1) > FALSE_ALARM


@pytest.mark.parametrize("mu", [3, 10**6, 2**100], ids=float)
def test_low_bits_of_the_noise_are_uniform(mu):
    # P(Sk(mu) odd) = (1 - e^(-4 mu)) / 2: nothing in the bins or in the random positions favours a residue.
    samples = sample_skellam(InsecureTestEntropy(f"low bits {mu}"), mu, 400_000)
    for modulus in (2, 64) if mu > 3 else (2,):
        counts = np.bincount(samples % modulus, minlength=modulus)
        expected = len(samples) / modulus
        assert chi2.sf(((counts - expected) ** 2 / expected).sum(), modulus - 1) > FALSE_ALARM


def test_neighbouring_samples_are_uncorrelated():
    samples = sample_skellam(InsecureTestEntropy("correlation"), 10**6, 400_000).astype(float)
    for lag in (1, 2, 3):
        assert abs(np.corrcoef(samples[:-lag], samples[lag:])[0, 1]) < 5 / np.sqrt(len(samples))


def test_noise_of_several_parties_adds_up_to_skellam_noise_of_the_sum_of_parameters():
    entropy = InsecureTestEntropy("sum")
    total = sum(sample_skellam(entropy, 40, 200_000) for _ in range(3))
    assert chi_square_p_value(total, 120.0) > FALSE_ALARM
    assert chi_square_p_value(total, 100.0) < FALSE_ALARM
