import numpy as np
import pytest
from job_builders import make_schema

from analyses.clustering.local_clustering import FINEST, WIDTH, LocalClustering
from analyses.clustering.weighted_clustering import Choices, loss
from dp.cost.accounting import Adjacency
from dp.cost.events.record import event_from, record_of
from entropy import InsecureTestEntropy

BLOCK = make_schema("bank", 2)  # bounds -1 and 3
VALUES = np.array([[-1.0, 3.0], [1.0, 0.0], [-9.0, 3.5]])


def local(method="tree", noise=FINEST * 20, k=3):
    return LocalClustering(block=BLOCK, k=k, p=2, method=method, noise=noise)


def blobs(n=3000):
    rng = np.random.default_rng(0)
    middles = np.array([[0.0, 0.0], [2.5, 2.5], [2.5, -0.5]])
    return middles[rng.integers(0, 3, n)] + rng.normal(0, 0.1, (n, 2)), middles


def test_values_become_integers_by_public_bounds_and_those_outside_are_counted():
    rows, outside = local().quantise(VALUES)
    np.testing.assert_array_equal(rows, [[0, WIDTH], [WIDTH // 2, WIDTH // 4], [0, WIDTH]])
    np.testing.assert_array_equal(outside, [1, 1])


def released(one, rows, seed):
    entropy = InsecureTestEntropy(seed)
    choices = Choices(entropy)
    return one.release(rows, one.mechanism.draw(entropy), choices)


@pytest.mark.parametrize("method", ["tree", "lloyd"])
def test_released_centres_are_near_the_middles(method):
    values, middles = blobs()
    one = local(method, noise=FINEST * 4)
    rows, _ = one.quantise(values)
    costs = []
    for seed in range(5):
        centres = released(one, rows, f"{method} {seed}")
        assert centres.dtype == np.int64
        assert centres.min() >= 0
        assert centres.max() <= WIDTH
        costs.append(loss(values, one.in_original_units(centres.astype(float))))
    assert min(costs) < 1.2 * loss(values, middles)


@pytest.mark.parametrize("method", ["tree", "lloyd"])
def test_equal_entropy_gives_equal_centres_and_other_entropy_others(method):
    rows, _ = local().quantise(blobs(500)[0])
    first, again, other = (released(local(method), rows, seed) for seed in "aab")
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_row_belongs_to_the_nearest_released_centre():
    rows, _ = local().quantise(VALUES)
    centres = np.array([[0, WIDTH], [WIDTH // 2, 0], [0, WIDTH]])
    np.testing.assert_array_equal(local().memberships(rows, centres), [0, 1, 0])


@pytest.mark.parametrize("method", ["tree", "lloyd"])
def test_the_event_states_the_planned_cost_for_both_kinds_of_neighbours(method):
    one = local(method, noise=FINEST * 20)
    added, replaced = one.mechanism.events("coordinator")[0], one.mechanism.events("coalition")[0]
    assert (added.adjacency, added.squares * 20) == (Adjacency.ADD_OR_REMOVE_ONE, 1)
    assert (replaced.adjacency, replaced.squares * 10) == (Adjacency.REPLACE_ONE, 1)
    assert event_from(record_of(added)) == added
