import numpy as np
import pytest
from scipy.stats import beta, binom

from dp.cost.binomial import largest_probability, least_probability, quantile


@pytest.mark.parametrize("n", [1, 7, 1000, 10**9])
@pytest.mark.parametrize("level", [1e-9, 0.025, 0.5])
def test_ends_are_those_of_exact_intervals_and_defined_for_no_hit_and_for_all(n, level):
    hits = np.unique(np.array([0, 1, n // 3, n - 1, n]))
    below, above = least_probability(hits, n, level), largest_probability(hits, n, level)
    some, few = hits[1:], hits[:-1]
    np.testing.assert_allclose(below[1:], beta.ppf(level, some, n - some + 1), rtol=1e-9)
    np.testing.assert_allclose(above[:-1], beta.isf(level, few + 1, n - few), rtol=1e-9)
    assert (below[0], above[-1]) == (0, 1)
    if n == 10**9:
        return  # scipy's distribution function is less exact than these ends
    np.testing.assert_allclose(binom.cdf(few, n, above[:-1]), level, rtol=1e-4)


@pytest.mark.parametrize("probability", [0.01, 0.25, 0.5, 0.99])
def test_quantiles_are_the_least_counts_whose_distribution_reaches_the_level(probability):
    levels, n = np.meshgrid(np.array([1e-12, 0.01, 0.3, 0.5, 0.999, 1 - 1e-12]), [0, 1, 2, 9, 500, 10**6])
    found = quantile(levels, n, probability)
    some = n > 0
    np.testing.assert_array_equal(found[some], binom.ppf(levels, n, probability)[some])
    assert (found[~some] == 0).all()
