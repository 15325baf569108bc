"""Weights of a grid of cells, estimated from noisy counts. This is post-processing, so it has no privacy cost."""

import math
from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from analyses.clustering.estimators.cells import GridWeights, Pair
from dp.mechanism.valid_counts import valid_counts

TOLERANCE = 1e-4
"""2PEst ends when no pair is off by more than this share of all rows, or after MAX_SWEEPS."""

MAX_SWEEPS = 200

SWEEPS_OF_DRAW = 10
"""Sweeps for weights that only show how far others may be off."""


def pairs_of_weights(weights: GridWeights) -> dict[Pair, NDArray[np.float64]]:
    """Return the sums of a grid over all axes but two, for every two axes."""
    axes = range(weights.ndim)
    return {pair: weights.sum(axis=tuple(axis for axis in axes if axis not in pair)) for pair in combinations(axes, 2)}


def deviations_of_products(
    weights: GridWeights, n_slots: int, noise: float, noise_if_true: float
) -> NDArray[np.float64]:
    """Return the standard deviations of counts that are sums over slots of products of one noisy indicator per owner.

    An indicator is 1 where the row of a slot is in the owner's cluster, with noise of variance w, and 0 elsewhere, with
    noise of variance v. With m_l the indicator itself, the product of S of them has the second moment
    prod (v + (1 + w - v) m_l), which is a sum over the sets of owners, and the squared mean prod m_l.

    Args:
        weights: rows of each cell, shape (k',) * S.
        n_slots: with a row or without.
        noise: v.
        noise_if_true: w.

    Returns:
        shape of `weights`.
    """
    axes = range(weights.ndim)
    found = n_slots * noise**weights.ndim - weights
    for size in range(1, weights.ndim + 1):
        for inside in combinations(axes, size):
            others = tuple(axis for axis in axes if axis not in inside)
            rows = weights.sum(axis=others, keepdims=True)
            found = found + rows * (1 + noise_if_true - noise) ** size * noise ** len(others)
    return np.asarray(np.sqrt(np.maximum(found, 0.0)), dtype=np.float64)


def weights_of_pairs(
    pairs: Mapping[Pair, NDArray[np.float64]], shape: tuple[int, ...], n_rows: float, max_sweeps: int = MAX_SWEEPS
) -> GridWeights:
    """Return weights of the whole grid from the counts of every two parties: 2PEst [VertClust23, algorithm 5].

    Begins with independent memberships and sweeps over all pairs; each step spreads the difference between a pair's
    counts and the grid's own sums. The paper spreads it evenly over the cells concerned and takes pairs at random; here
    it is spread in proportion to their weights (iterative proportional fitting), pair after pair, which keeps weights
    non-negative and cells empty that some pair says are empty, and needs no step size. Deterministic.

    Args:
        pairs: (l, m), l < m, to the noisy counts of axes l and m, shape (k_l, k_m); all pairs of the axes of `shape`.
        shape: shape of the grid, at least two axes.
        n_rows: sum of the weights.
        max_sweeps: fewer are quicker and less exact.

    Returns:
        shape `shape`, non-negative, of sum `n_rows`; all 0 where that is not positive.

    Cost: at most 200 sweeps over all pairs; for 4 axes of 8 (4096 cells) some 20 ms.
    """
    axes = range(len(shape))
    if n_rows <= 0:
        return np.zeros(shape)
    targets = {pair: valid_counts(pairs[pair], n_rows) for pair in sorted(pairs)}
    grid = np.full(shape, float(n_rows))
    for axis in axes:
        sums = [t.sum(axis=1 - pair.index(axis)) for pair, t in targets.items() if axis in pair]
        along = [1] * len(shape)
        along[axis] = shape[axis]
        grid *= (np.mean(sums, axis=0) / n_rows).reshape(along)
    for _ in range(max_sweeps):
        worst = 0.0
        for pair, target in targets.items():
            others = tuple(axis for axis in axes if axis not in pair)
            found = grid.sum(axis=others)
            worst = max(worst, float(np.abs(found - target).sum()))
            factor = np.divide(target, found, out=np.zeros_like(target), where=found > 0)
            grid *= np.expand_dims(factor, others)
        if worst <= TOLERANCE * n_rows:
            break
    return grid * (n_rows / total) if (total := float(grid.sum())) > 0 else np.full(shape, n_rows / math.prod(shape))
