"""Sketches of clusters: the levels that are drawn, the phantoms, and the calibration."""

from dataclasses import replace

import numpy as np
import pytest
from composed import renyi_epsilon
from scipy.stats import chisquare

from dp.cost.accounting import Adjacency, CalibrationError
from dp.cost.losses.sketch import SketchCell
from dp.mechanism.cardinality import (
    HIGHEST,
    MAX_PHANTOMS,
    PartitionSketch,
    RenyiBound,
    calibrate_sketch,
    highest_of_clusters,
    highest_of_many,
)
from entropy import InsecureTestEntropy, KeyStream

SMALL = PartitionSketch(3, 64, 2, own_phantoms=5, shared_phantoms=2, floor=2)


def stream(name):
    return KeyStream(InsecureTestEntropy(name).read(32))


def publish(sketch, membership, axis=0, keys="keys", own="own"):
    membership = np.asarray(membership, dtype=np.int64)
    streams = stream(keys + " users"), stream(keys + " phantoms")
    return sketch.publish(membership, axis, *streams, sketch.draw(InsecureTestEntropy(own)))


def assert_is_the_largest_of(levels, n_users):
    """Chi-square of levels against (1 - 2^-r)^n, in cells of at least some 20 expected."""
    cdf = np.concatenate([[0.0], (1 - 0.5 ** np.arange(1.0, HIGHEST)) ** n_users, [1.0]])
    expected = np.diff(cdf) * len(levels)
    found = np.bincount(levels, minlength=HIGHEST + 1)[1:]
    edges = np.flatnonzero(np.diff(np.floor(np.cumsum(expected) / 20)) > 0) + 1
    expected, found = np.add.reduceat(expected, np.r_[0, edges]), np.add.reduceat(found, np.r_[0, edges])
    assert chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-4


@pytest.mark.parametrize("n_users", [1, 2, 63, 64, 65, 1000])
def test_the_largest_of_many_users_has_the_distribution_that_is_accounted_for(n_users):
    levels = highest_of_many(stream("many"), n_users, 30_000)
    assert_is_the_largest_of(levels, n_users)
    assert np.all(highest_of_many(stream("none"), 0, 10) == 0)


def test_levels_of_clusters_have_the_same_distribution_and_are_those_of_their_users():
    membership = np.array([2] * 40 + [0] * 9 + [2] * 10)
    levels = highest_of_clusters(stream("hash"), membership, 4, 20_000)
    for cluster, n_users in ((0, 9), (2, 50)):
        assert_is_the_largest_of(levels[:, cluster], n_users)
    assert np.all(levels[:, [1, 3]] == 0)
    # Another party that splits the same users otherwise hashes each of them to the same level.
    together = highest_of_clusters(stream("hash"), np.zeros(59, dtype=np.int64), 1, 20_000)
    assert np.array_equal(together[:, 0], levels.max(axis=1))


def test_shared_phantoms_are_alike_at_both_parties_and_own_ones_are_not():
    nobody = np.zeros(0, dtype=np.int64)
    shared_only = PartitionSketch(3, 200, 2, own_phantoms=0, shared_phantoms=2, floor=1)
    first, second = (publish(shared_only, nobody, axis) for axis in (0, 1))
    # Each holds all nine cells: the largest level over its clusters is the same.
    assert np.array_equal(first.max(axis=1), second.max(axis=1))
    assert not np.array_equal(first, second)
    for cluster in range(3):
        assert_is_the_largest_of(publish(PartitionSketch(3, 9000, 2, 0, 2, 1), nobody)[:, cluster], 6)
    assert not np.array_equal(publish(SMALL, nobody, own="a"), publish(SMALL, nobody, own="b"))
    assert np.array_equal(publish(SMALL, nobody, own="a"), publish(SMALL, nobody, own="a"))


def test_nothing_below_the_floor_is_published():
    high = PartitionSketch(3, 500, 2, own_phantoms=0, shared_phantoms=1, floor=6)
    levels = publish(high, [0, 1, 2])
    assert levels.min() == 6
    assert levels.max() > 6
    assert levels.shape == (500, 3)
    assert levels.dtype == np.uint8


def test_phantoms_are_counted_as_they_are_made():
    sketch = PartitionSketch(3, 1, 4, own_phantoms=7, shared_phantoms=2, floor=1)
    assert sketch.phantoms_of_cluster == 7 + 2 * 27
    assert sketch.phantoms_of_meeting == 2 * 9
    assert sketch.phantoms_of_union == 2 * 61 - 18


def test_sketches_under_several_keys_are_charged_together():
    event = replace(SMALL, n_groups=3).event(Adjacency.ADD_OR_REMOVE_ONE)
    assert (event.n_sketches, event.n_parties, event.own_phantoms, event.shared_phantoms) == (3 * 64, 2, 5, 2)


@pytest.mark.parametrize(("n_clusters", "n_parties", "n_groups"), [(3, 2, 1), (8, 2, 3), (3, 4, 1)])
def test_the_calibrated_sketch_is_within_its_budget_and_fewer_phantoms_would_not_be(n_clusters, n_parties, n_groups):
    found = calibrate_sketch(n_clusters, 256, n_parties, n_groups, 1.0, 1e-6)

    def exact_epsilon(own_phantoms):
        event = replace(found, own_phantoms=own_phantoms).event(Adjacency.ADD_OR_REMOVE_ONE)
        cell = SketchCell(1.0, event.n_sketches, n_parties, event.own_phantoms, event.shared_phantoms, event.floor)
        return cell.epsilon(1e-6)

    # `SketchCell.epsilon` rounds losses up by 0.008 in all, which the calibration does not.
    assert 0.95 < exact_epsilon(found.own_phantoms) <= 1.008
    assert exact_epsilon(found.own_phantoms // 3) > 1.0


def test_a_key_per_pair_needs_fewer_phantoms_than_one_key_for_all():
    pairs, together = calibrate_sketch(8, 4096, 2, 6, 0.5, 1e-6), calibrate_sketch(8, 4096, 4, 1, 0.5, 1e-6)
    assert 3 * pairs.phantoms_of_union < together.phantoms_of_union


def test_a_budget_that_no_phantoms_meet_is_refused():
    with pytest.raises(CalibrationError, match="phantoms"):
        calibrate_sketch(8, 4096, 2, 1, 1e-6, 1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_clusters": 0},
        {"n_sketches": 0},
        {"n_parties": 1},
        {"own_phantoms": -1},
        {"own_phantoms": MAX_PHANTOMS + 1},
        {"shared_phantoms": 0},
        {"floor": 0},
        {"floor": HIGHEST},
    ],
)
def test_a_sketch_that_cannot_be_is_refused(changes):
    good = {
        "n_clusters": 2,
        "n_sketches": 4,
        "n_parties": 2,
        "own_phantoms": 1,
        "shared_phantoms": 1,
        "floor": 1,
    }
    with pytest.raises(CalibrationError):
        PartitionSketch(**{**good, **changes})


def test_users_outside_the_clusters_and_axes_are_refused():
    for bad in ([3], [-1]):
        with pytest.raises(ValueError, match=r"outside 0\.\.2"):
            publish(SMALL, bad)
    with pytest.raises(ValueError, match="axis 2 does not exist"):
        publish(SMALL, [0], axis=2)


@pytest.mark.parametrize("own", [0, 40, 400, 4000])
@pytest.mark.parametrize(("n_sketches", "delta"), [(16, 1e-5), (4096, 1e-6), (65536, 1e-9)])
def test_a_few_orders_decide_as_all_of_them_do(n_sketches, delta, own):
    sketch = PartitionSketch(4, n_sketches, 2, own, 16, 3)
    whole = renyi_epsilon(sketch.event(Adjacency.ADD_OR_REMOVE_ONE), delta).epsilon
    assert RenyiBound(whole * (1 + 1e-9), delta).covers(sketch)
    assert not RenyiBound(whole * (1 - 1e-9), delta).covers(sketch)
    used = RenyiBound(whole * 1.001, delta)  # it begins where the last question ended
    assert used.covers(PartitionSketch(4, n_sketches, 2, 2 * own + 50, 16, 3))
    assert used.covers(sketch)
