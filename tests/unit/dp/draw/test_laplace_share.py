"""Shares of discrete Laplace noise: arguments, replays, and sums that are what whole noise is."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dp.audit.exact_law import discrete_laplace, laplace_shares
from dp.cost.losses.laplace_share import scale_of
from dp.draw import laplace_share
from dp.draw.laplace_share import MAX_MEAN, MIN_MEAN, sample_laplace_share
from dp.draw.skellam import Poisson
from entropy import InsecureTestEntropy

ENOUGH = 20  # expected samples of each class of a chi-square test


def p_value(samples, law) -> float:
    """Of the chi-square test of samples against a law, values of little mass taken together."""
    expected, found = [], []
    masses = law.masses * len(samples)
    counts = np.bincount(np.clip(samples - law.start, 0, len(masses) - 1), minlength=len(masses))
    mass, count = 0.0, 0
    for m, c in zip(masses, counts, strict=True):
        mass, count = mass + m, count + c
        if mass >= ENOUGH:
            expected.append(mass)
            found.append(count)
            mass, count = 0.0, 0
    expected[-1] += mass
    found[-1] += count
    statistic = float(sum((f - e) ** 2 / e for f, e in zip(found, expected, strict=True)))
    return float(chi2.sf(statistic, len(expected) - 1))


@pytest.mark.parametrize(
    ("shape", "mean"),
    [
        (Fraction(1), Fraction(1)),
        (Fraction(1, 3), Fraction(1, 10)),
        (Fraction(5, 3), Fraction(7, 2)),
        (Fraction(2, 7), Fraction(40)),
        (Fraction(4), Fraction(1, 3)),
    ],
)
def test_shares_have_the_stated_law_and_a_fifth_less_is_noticed(shape, mean, monkeypatch):
    law = laplace_shares(shape, mean)
    assert p_value(sample_laplace_share(InsecureTestEntropy("law"), shape, mean, 12_000), law) > 1e-4
    monkeypatch.setattr(laplace_share, "Poisson", lambda rate: Poisson(rate * Fraction(4, 5)))
    assert p_value(sample_laplace_share(InsecureTestEntropy("law"), shape, mean, 12_000), law) < 1e-5


def test_three_shares_of_a_third_are_discrete_laplace_noise():
    entropy, mean = InsecureTestEntropy("thirds"), Fraction(3)
    total = sum(sample_laplace_share(entropy, Fraction(1, 3), mean, 12_000) for _ in range(3))
    assert p_value(total, discrete_laplace(scale_of(mean))) > 1e-4
    assert p_value(sample_laplace_share(entropy, Fraction(1, 3), mean, 12_000), discrete_laplace(scale_of(mean))) < 1e-6


def test_entries_of_one_call_are_independent():
    samples = sample_laplace_share(InsecureTestEntropy("pairs"), Fraction(1, 2), Fraction(2), 12_000).astype(float)
    assert abs(np.corrcoef(samples[::2], samples[1::2])[0, 1]) < 5 / np.sqrt(6_000)
    sizes = np.abs(samples)
    assert abs(np.corrcoef(sizes[::2], sizes[1::2])[0, 1]) < 5 / np.sqrt(6_000)


@pytest.mark.parametrize("mean", [MIN_MEAN, Fraction(1, 1000), Fraction(10**6), Fraction(MAX_MEAN)], ids=float)
def test_the_same_entropy_gives_the_same_shares_over_the_whole_range(mean):
    shape = Fraction(2, 3)
    first = sample_laplace_share(InsecureTestEntropy("seed"), shape, mean, 1000)
    assert first.dtype == np.int64
    assert np.array_equal(first, sample_laplace_share(InsecureTestEntropy("seed"), shape, mean, 1000))
    if mean > 1:
        assert not np.array_equal(first, sample_laplace_share(InsecureTestEntropy("other"), shape, mean, 1000))
        # Excess kurtosis 3 / shape: the variance errs by 8 % (one s.d.).
        assert np.var(first.astype(float)) == pytest.approx(float(2 * shape * mean * (1 + mean)), rel=0.4)


def test_no_samples_are_none_and_one_key_is_read():
    class Counted:
        is_secure = False
        n_bytes = 0

        def read(self, n_bytes):
            self.n_bytes += n_bytes
            return bytes(n_bytes)

    counted = Counted()
    assert sample_laplace_share(counted, Fraction(1), Fraction(1), 0).shape == (0,)
    assert sample_laplace_share(counted, Fraction(1), Fraction(1), 100).shape == (100,)
    assert counted.n_bytes == 32


@pytest.mark.parametrize(
    ("shape", "mean", "size"),
    [
        (Fraction(0), Fraction(1), 1),
        (Fraction(65), Fraction(1), 1),
        (0.5, Fraction(1), 1),
        (Fraction(1), Fraction(0), 1),
        (Fraction(1), 0.5, 1),
        (Fraction(1), Fraction(MAX_MEAN + 1), 1),
        (Fraction(1), Fraction(1), -1),
    ],
)
def test_arguments_out_of_range_or_inexact_are_refused(shape, mean, size):
    with pytest.raises(ValueError, match=r"shape|mean|samples"):
        sample_laplace_share(InsecureTestEntropy("range"), shape, mean, size)
