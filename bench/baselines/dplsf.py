"""Central clustering by private trees of hyperplanes, after DPLSF [ChangKamath21]. FOR COMPARISON ONLY."""

import numpy as np
from numpy.typing import NDArray

from analyses.clustering.weighted_clustering import Choices, cluster
from bench.baselines.gaussian import analytic_gaussian_sigma
from entropy import SystemEntropy

Floats = NDArray[np.float64]

DEPTH = 20
SHARE_OF_COUNTS = 0.2
"""Of the budget, as in Google's library; sums get the rest."""


def dplsf(rows: Floats, k: int, p: int, *, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """Return k centres: rows are parted by the sides of random hyperplanes through the origin, while counts allow it.

    A row is in one node of each level, DEPTH + 1 counts at most, and in the sum of one leaf, of norm R = sqrt(columns):
    with variances c and s of Gaussian noise it costs as much as one Gaussian release with
    1 / variance = (DEPTH + 1) / c + R^2 / s. A node is parted where its noisy count is three times what a leaf needs:
    four deviations of a count, and at least a tenth of an even share of rows; a smaller part of a node is left out.

    Args:
        rows: shape (rows, columns), scaled to [-1, 1].
        k: how many clusters.
        p: 2 for means, 1 for medians.
        epsilon: for adding or removing one row.
        delta: likewise.
        rng: not cryptographic.

    Returns:
        shape (k, columns).
    """
    sigma = analytic_gaussian_sigma(sensitivity=1.0, epsilon=epsilon, delta=delta)
    radius = rows.shape[1] ** 0.5
    of_counts = sigma * ((DEPTH + 1) / SHARE_OF_COUNTS) ** 0.5
    of_sums = sigma * radius / (1 - SHARE_OF_COUNTS) ** 0.5
    total = len(rows) + rng.normal(0.0, of_counts)
    least = max(4 * of_counts, total / (10 * k))
    middles, weights, nodes = [], [], [(np.arange(len(rows)), total, 0)]
    while nodes:
        mine, count, depth = nodes.pop()
        if depth < DEPTH and count >= 3 * least:
            sides = rows[mine] @ rng.normal(size=rows.shape[1]) >= 0
            children = [
                (part, len(part) + rng.normal(0.0, of_counts), depth + 1) for part in (mine[sides], mine[~sides])
            ]
            kept = [one for one in children if one[1] >= least]
            nodes += kept
            if kept:
                continue
        noisy = rows[mine].sum(axis=0) + rng.normal(0.0, of_sums, rows.shape[1])
        middles.append(np.clip(noisy / max(count, 1.0), -1, 1))
        weights.append(max(count, 0.0))
    return cluster(np.array(middles), np.array(weights), k, p, Choices(SystemEntropy())).centres
