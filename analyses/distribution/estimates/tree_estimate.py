"""Consistent estimates over a tree: by weighted least squares, and the same without negative frequencies.

Every level holds frequencies of its nodes with one variance for the level. A consistent estimate gives each node the
sum of its children, and the root 1.
"""

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates.frequencies import Level

Floats = NDArray[np.float64]

TOLERANCE = 1e-8
"""Tolerance of the alternating-directions method: largest difference of the two copies, and largest change in one
round."""

MAX_ROUNDS = 20_000

_MAX_VARIANCE = 1e12
"""Stands for levels about which nobody answered."""


def least_squares(levels: list[Level], branching: int, root: float = 1.0) -> list[Floats]:
    """Return the consistent estimate that minimises the sum of (estimate - frequency)^2 / variance [Hay10].

    Upwards, each node gets the mean of its own frequency and the sum of its children's, weighted by the inverses of
    their variances. Downwards, what a node's estimate exceeds the sum of its children's is divided among them in
    proportion to their variances. Takes O(nodes), for trees whose last nodes have fewer children, too.

    Args:
        levels: from below the root down to the leaves; node v has the children branching * v .. of the next level.
        branching: branching of the tree.
        root: what all leaves sum up to.

    Returns:
        the estimates of each level.
    """
    targets = [level.frequencies for level in levels]
    return _projected(targets, _variances(levels), branching, root)


def non_negative(levels: list[Level], branching: int) -> tuple[Floats, bool]:
    """Return the leaves of the consistent estimate without negative frequencies, by ADMM (HH-ADMM of [SW20]).

    Minimises the same sum as `least_squares` under the further constraint that no frequency is negative. Two copies of
    the estimate alternate: the consistent one, and the one without negative entries. The penalty of a level is the
    inverse of its variance, so the consistent copy is a least squares over the tree with half of the variances.

    Args:
        levels: see `least_squares`.
        branching: branching of the tree.

    Returns:
        shape (leaves,), not negative, with sum 1; and whether the tolerance was met.
    """
    targets, variances = [level.frequencies for level in levels], _variances(levels)
    halves = [v / 2 for v in variances]
    positive = [np.maximum(level, 0.0) for level in _projected(targets, variances, branching)]
    dual = [np.zeros_like(level) for level in positive]
    has_converged = False
    for _ in range(MAX_ROUNDS):
        middle = [(y + z - u) / 2 for y, z, u in zip(targets, positive, dual, strict=True)]
        consistent = _projected(middle, halves, branching)
        after = [np.maximum(x + u, 0.0) for x, u in zip(consistent, dual, strict=True)]
        dual = [u + x - z for u, x, z in zip(dual, consistent, after, strict=True)]
        gap = max(float(np.abs(x - z).max()) for x, z in zip(consistent, after, strict=True))
        change = max(float(np.abs(z - old).max()) for z, old in zip(after, positive, strict=True))
        positive = after
        if max(gap, change) < TOLERANCE:
            has_converged = True
            break
    leaves = positive[-1]
    return leaves / leaves.sum(), has_converged


def _variances(levels: list[Level]) -> list[float]:
    return [min(level.variance, _MAX_VARIANCE) for level in levels]


def total_of(levels: list[Level], branching: int) -> float:
    """Return the root of the consistent estimate by least squares where the root is not known: the sum of all leaves.

    With the root held at this value, least squares gives the other nodes the estimates that it gives them without.

    Args:
        levels: see `least_squares`, of counts or of frequencies.
        branching: branching of the tree.
    """
    means, _ = _upwards([level.frequencies for level in levels], _variances(levels), branching)
    return float(means[0].sum())


def variance_of_total(levels: list[Level], branching: int) -> float:
    """Return the variance of `total_of`; arguments as there."""
    _, spreads = _upwards([level.frequencies for level in levels], _variances(levels), branching)
    return float(spreads[0].sum())


def _upwards(targets: list[Floats], variances: list[float], branching: int) -> tuple[list[Floats], list[Floats]]:
    """Return what each node and all nodes below it say of the node, and the variance of that."""
    n_levels = len(targets)
    means, spreads = [np.empty(0)] * n_levels, [np.empty(0)] * n_levels
    means[-1], spreads[-1] = targets[-1], np.full(len(targets[-1]), variances[-1])
    for level in range(n_levels - 2, -1, -1):
        starts = np.arange(0, len(means[level + 1]), branching)
        sums, spread = np.add.reduceat(means[level + 1], starts), np.add.reduceat(spreads[level + 1], starts)
        own = variances[level]
        means[level] = (targets[level] * spread + sums * own) / (spread + own)
        spreads[level] = spread * own / (spread + own)
    return means, spreads


def _projected(targets: list[Floats], variances: list[float], branching: int, root: float = 1.0) -> list[Floats]:
    """See `least_squares`."""
    means, spreads = _upwards(targets, variances, branching)
    found, parents, width = [], np.full(1, root), len(means[0])
    for level in range(len(targets)):
        starts = np.arange(0, len(means[level]), width)
        sums, spread = np.add.reduceat(means[level], starts), np.add.reduceat(spreads[level], starts)
        per_variance = (parents - sums) / spread
        parent_of = np.arange(len(means[level])) // width
        parents = means[level] + spreads[level] * per_variance[parent_of]
        found.append(parents)
        width = branching
    return found
