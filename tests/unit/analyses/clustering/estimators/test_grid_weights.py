import itertools

import numpy as np
import pytest

from analyses.clustering.estimators.grid_weights import weights_of_pairs


def pairs_of(grid):
    axes = range(grid.ndim)
    return {
        pair: grid.sum(axis=tuple(axis for axis in axes if axis not in pair))
        for pair in itertools.combinations(axes, 2)
    }


@pytest.mark.parametrize("total", [0.0, -3.0])
def test_without_rows_all_weights_are_zero(total):
    assert not weights_of_pairs({(0, 1): np.ones((2, 2))}, (2, 2), total).any()


def test_pairs_of_two_parties_are_the_grid():
    counts = np.array([[5.0, 0.0, 1.0], [2.0, 4.0, 8.0], [1.0, 1.0, 0.0]])
    np.testing.assert_allclose(weights_of_pairs({(0, 1): counts}, (3, 3), 22.0), counts, atol=1e-2)


def test_weights_of_pairs_have_the_counts_of_all_pairs():
    grid = np.random.default_rng(4).integers(1, 100, (3, 3, 3, 3)).astype(float)
    found = weights_of_pairs(pairs_of(grid), grid.shape, grid.sum())
    assert found.min() >= 0
    for pair, counts in pairs_of(found).items():
        np.testing.assert_allclose(counts, pairs_of(grid)[pair], atol=2e-3 * grid.sum() / 9)


def test_pairs_tell_clusters_in_a_large_grid_apart_where_single_memberships_do_not():
    """Four parties, eight local clusters: 4096 cells, of which eight hold the rows."""
    true = np.zeros((8, 8, 8, 8))
    for cluster in range(8):
        true[cluster, (3 * cluster) % 8, (5 * cluster) % 8, cluster] = 2500
    rng = np.random.default_rng(0)
    noisy = {pair: counts + rng.normal(0, 30, (8, 8)) for pair, counts in pairs_of(true).items()}
    found = weights_of_pairs(noisy, true.shape, 20000.0)
    assert np.abs(found - true).sum() < 0.05 * 20000
    assert found.sum() == pytest.approx(20000)
