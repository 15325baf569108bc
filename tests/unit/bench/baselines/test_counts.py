import numpy as np
import pytest

from analyses.pattern_count.reports import PatternReports
from bench.baselines.counts import central_release, reported_counts
from dp.mechanism.bits import BIAS_UNIT, RandomizedBits
from entropy import InsecureTestEntropy


def test_a_central_release_has_the_noise_that_its_epsilon_allows():
    zeros = np.zeros((100, 100), dtype=np.int64)
    found = central_release(zeros, l1=30, epsilon=1.0, entropy=InsecureTestEntropy("central"))
    assert found.shape == zeros.shape
    assert found.std() == pytest.approx(30 * np.sqrt(2), rel=0.1)


def test_noise_of_a_large_epsilon_is_as_small_as_it_may_be():
    zeros, epsilon = np.zeros(100_000, dtype=np.int64), 3.9999
    found = central_release(zeros, l1=1, epsilon=epsilon, entropy=InsecureTestEntropy("central"))
    ratio = np.exp(-epsilon)
    assert found.std() == pytest.approx(np.sqrt(2 * ratio) / (1 - ratio), rel=0.1)


@pytest.mark.parametrize("n_reported", [5000, 2000])
def test_reports_of_all_parties_in_one_process_estimate_the_counts(n_reported):
    rng = np.random.default_rng(1)
    categories = [rng.integers(0, n, 4000) for n in (2, 3)]
    reports = PatternReports((2, 3), 5000, n_reported, RandomizedBits(BIAS_UNIT * 900_000))
    found = reported_counts(categories, reports, InsecureTestEntropy("reports"))
    exact = np.bincount(np.ravel_multi_index(categories, (2, 3)), minlength=6).reshape(2, 3)
    assert np.all(np.abs(found.counts - exact) < 4 * found.standard_errors)
    assert found.standard_errors.max() < 0.3 * exact.mean()
