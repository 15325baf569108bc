import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.cluster import KMeans

from analyses.clustering.weighted_clustering import MAX_POWER, cluster, loss, nearest, squared_distances

BLOBS = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])


def blobs(n=400, seed=3):
    rng = np.random.default_rng(seed)
    return BLOBS[rng.integers(0, 4, n)] + rng.normal(0, 0.3, (n, 2))


def test_the_cost_of_k_means_is_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    points, weights = rng.random((300, 3)), rng.random(300)
    theirs = KMeans(6, n_init=20, random_state=0).fit(points, sample_weight=weights)
    found = cluster(points, weights, 6, 2, rng, restarts=20)
    assert found.cost == pytest.approx(theirs.inertia_, rel=0.01)
    assert found.weights.sum() == pytest.approx(weights.sum())


def test_a_weight_counts_like_so_many_equal_points():
    points = blobs(60)
    weights = np.random.default_rng(2).integers(1, 5, 60)
    heavy = cluster(points, weights.astype(float), 4, 2, np.random.default_rng(0))
    repeated = cluster(np.repeat(points, weights, axis=0), np.ones(weights.sum()), 4, 2, np.random.default_rng(0))
    assert heavy.cost == pytest.approx(repeated.cost)


def test_points_without_weight_are_not_seen():
    points = np.vstack([blobs(100), [[1e6, 1e6]]])
    found = cluster(points, np.append(np.ones(100), 0.0), 4, 2, np.random.default_rng(0))
    assert np.abs(found.centres).max() < 10


@pytest.mark.parametrize("p", range(1, MAX_POWER + 1))
def test_one_centre_is_the_point_of_least_sum_of_powers_of_distances(p):
    rng = np.random.default_rng(5)
    points, weights = np.vstack([rng.random((51, 2)), [[9.0, 9.0]]]), rng.random(52)
    best = minimize(lambda c: weights @ np.linalg.norm(points - c, axis=1) ** p, points.mean(axis=0), tol=1e-10)
    found = cluster(points, weights, 1, p, rng)
    assert found.cost == pytest.approx(best.fun, rel=1e-5)
    np.testing.assert_allclose(found.centres[0], best.x, atol=2e-3)


@pytest.mark.parametrize("p", [3, 4])
def test_centres_of_a_higher_power_are_better_in_it_than_means(p):
    rng, points = np.random.default_rng(0), np.vstack([blobs(200), np.full((2, 2), 9.0)])
    means, higher = (cluster(points, np.ones(202), 4, q, rng, restarts=20) for q in (2, p))
    assert loss(points, higher.centres, p) < 0.99 * loss(points, means.centres, p)
    assert higher.cost == pytest.approx(loss(points, higher.centres, p) * 202)


def test_medians_do_not_follow_outliers_as_means_do():
    points = np.vstack([blobs(200), np.full((10, 2), 30.0)])
    rng = np.random.default_rng(0)
    means, medians = (cluster(points, np.ones(210), 4, p, rng, restarts=20) for p in (2, 1))
    assert loss(points, medians.centres, 1) < loss(points, means.centres, 1)


def test_with_fewer_points_than_clusters_the_surplus_is_empty():
    found = cluster(np.array([[0.0], [1.0]]), np.array([2.0, 3.0]), 4, 2, np.random.default_rng(0))
    assert found.cost == 0
    assert sorted(found.weights) == [0, 0, 2, 3]


def test_no_weight_at_all_is_an_error():
    with pytest.raises(ValueError, match="positive weight"):
        cluster(np.zeros((3, 1)), np.zeros(3), 2, 2, np.random.default_rng(0))


def test_distances_and_nearest_centres_are_exact_enough_and_the_first_of_equals_wins():
    points, centres = blobs(20), np.vstack([BLOBS, BLOBS[:1]])
    direct = ((points[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared_distances(points, centres), direct, atol=1e-12)
    at, squared = nearest(points, centres)
    assert at.max() < 4
    np.testing.assert_allclose(squared, direct.min(axis=1), atol=1e-12)
