"""The tree's accounting against an enumeration of neighbours, and what it finds."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from analyses.clustering.partition_tree import PartitionTree, grouped_sums
from dp.mechanism.release import StepwiseNoise
from entropy import InsecureTestEntropy

WIDTH = 3
ROWS = [np.array(row) for row in itertools.product(range(WIDTH + 1), repeat=2)]


def noise(seed):
    return StepwiseNoise(InsecureTestEntropy(seed))


@pytest.fixture
def releases(monkeypatch):
    """Let every box be cut, and write down each vector before its noise, with the variance of the noise."""
    written = []

    def write_down(noise, values, variance):
        written.append((values.copy(), variance))
        return np.full(values.shape, 10**6)

    monkeypatch.setattr(StepwiseNoise, "added_to", write_down)

    def of(tree, rows, seed):
        written.clear()
        tree.leaves(np.array(rows).reshape(-1, 2), noise("unused"), np.random.default_rng(seed))
        return list(written)

    return of


def squares_between(first, second):
    assert len(first) == len(second)
    return sum(
        Fraction(int(((a - b) ** 2).sum())) / Fraction(variance)
        for (a, variance), (b, _) in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("seed", range(4))
def test_no_neighbours_cost_more_than_the_tree_states(releases, seed):
    tree = PartitionTree(2, WIDTH, Fraction(7, 3), Fraction(5, 2))
    others = [[0, 0], [1, 3], [3, 2]]
    without = releases(tree, others, seed)
    of_row = {tuple(row): releases(tree, [*others, row], seed) for row in ROWS}
    added = max(squares_between(without, release) for release in of_row.values())
    replaced = max(squares_between(a, b) for a, b in itertools.combinations(of_row.values(), 2))
    assert 0 < added <= tree.squares(replace=False)
    assert added < replaced <= tree.squares(replace=True)


def test_two_rows_in_one_leaf_cost_four_times_the_sum(releases, monkeypatch):
    """Opposite corners of a box that is never cut: only its sum tells them apart."""
    tree = PartitionTree(2, WIDTH, Fraction(1000), Fraction(3))
    monkeypatch.setattr(PartitionTree, "levels", 0)
    cost = squares_between(releases(tree, [[0, 0]], 0), releases(tree, [[3, 3]], 0))
    # The squared side is 18, and noise is for the next power of two, 32.
    assert cost == 4 * tree.sum_cost * Fraction(18, 32)
    assert cost <= tree.squares(replace=True) == 4 * tree.sum_cost


def test_a_budget_is_used_up():
    for squares in (Fraction(1, 1000), Fraction(1, 7), Fraction(40)):
        tree = PartitionTree.of_cost(5, 4096, squares)
        assert tree.squares(replace=False) == squares
        assert tree.squares(replace=True) == 2 * squares


def test_leaves_find_clusters_and_lie_in_the_domain():
    rng = np.random.default_rng(0)
    middles = np.array([[500, 500, 3500], [3500, 600, 600], [2000, 2100, 1900]])
    rows = np.clip(middles[rng.integers(0, 3, 6000)] + np.rint(rng.normal(0, 60, (6000, 3))), 0, 4096).astype(int)
    tree = PartitionTree.of_cost(3, 4096, Fraction(1, 20))
    means, weights = tree.leaves(rows, noise("tree"), rng)
    assert means.min() >= 0
    assert means.max() <= 4096
    assert weights.min() >= 0
    distances = np.linalg.norm(means[:, None] - middles, axis=2).min(axis=1)
    assert weights[distances < 300].sum() > 0.95 * weights.sum()
    assert weights.sum() == pytest.approx(6000, rel=0.1)


def test_hardly_any_rows_give_leaves_all_the_same():
    tree = PartitionTree.of_cost(2, 4096, Fraction(1, 1000))
    for seed in range(10):
        means, weights = tree.leaves(np.full((3, 2), 4096), noise(str(seed)), np.random.default_rng(seed))
        assert len(means) == len(weights) >= 2
        assert weights.any()
        assert np.isfinite(means).all()


def test_columns_of_zeros_and_ones_are_cut_between_them():
    rng = np.random.default_rng(1)
    rows = 4096 * rng.integers(0, 2, (4000, 2))
    means, weights = PartitionTree.of_cost(2, 4096, Fraction(1, 10)).leaves(rows, noise("bits"), rng)
    for corner in itertools.product((0, 4096), repeat=2):
        near = np.abs(means - corner).max(axis=1) < 100
        assert weights[near].sum() == pytest.approx(1000, rel=0.2)


def test_grouped_sums_are_exact():
    rows = np.array([[1, -2], [3, 4], [5, 1 << 40]])
    np.testing.assert_array_equal(grouped_sums(rows, np.array([1, 0, 1]), 3), [[3, 4], [6, (1 << 40) - 2], [0, 0]])
