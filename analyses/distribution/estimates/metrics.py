"""What is read off a distribution over buckets of a range, and how far two distributions are apart.

The range has length 1. Within a bucket probability is spread evenly.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def wasserstein(p: Floats, q: Floats) -> float:
    """Return the 1-Wasserstein distance of values put at the middles of buckets: the mean of |F - G| over the edges."""
    return float(np.abs(np.cumsum(p - q)).sum() / len(p))


def kolmogorov_smirnov(p: Floats, q: Floats) -> float:
    """Return the largest |F - G| at an edge."""
    return float(np.abs(np.cumsum(p - q)).max())


def mean_of(p: Floats) -> float:
    """Return the mean of the middles of the buckets."""
    return float(p @ middles(len(p)))


def variance_of(p: Floats) -> float:
    """Return the variance of the middles of the buckets."""
    return float(p @ (middles(len(p)) - mean_of(p)) ** 2)


def quantiles(p: Floats, levels: Floats) -> Floats:
    """Return the points up to which the levels lie, interpolated linearly within buckets.

    Where the distribution has no mass between two points, the lower one.

    Args:
        p: shape (d,).
        levels: shape (l,), in 0..1.
    """
    cumulative = np.concatenate([[0.0], np.cumsum(p)])
    cumulative /= cumulative[-1]
    at = np.clip(np.searchsorted(cumulative, levels, side="left"), 1, len(p))
    below, inside = cumulative[at - 1], cumulative[at] - cumulative[at - 1]
    part = np.where(inside > 0, (levels - below) / np.where(inside > 0, inside, 1.0), 0.0)
    found: Floats = (at - 1 + np.clip(part, 0.0, 1.0)) / len(p)
    return found


def range_probabilities(p: Floats, ranges: Floats) -> Floats:
    """Return the probability of each range.

    Args:
        p: shape (d,).
        ranges: shape (r, 2), lower and upper ends in 0..1.

    Returns:
        shape (r,).
    """
    cumulative = np.concatenate([[0.0], np.cumsum(p)])
    at = np.interp(ranges, np.arange(len(p) + 1) / len(p), cumulative)
    found: Floats = at[:, 1] - at[:, 0]
    return found


def range_query_error(p: Floats, q: Floats, width: float) -> float:
    """Return the mean difference of the two probabilities of a range, over all ranges of buckets of a relative width.

    Args:
        p: shape (d,).
        q: shape (d,).
        width: width of the ranges, 0..1; rounded to whole buckets, at least one.
    """
    n = max(1, round(width * len(p)))
    difference = np.concatenate([[0.0], np.cumsum(p - q)])
    return float(np.abs(difference[n:] - difference[:-n]).mean())


def middles(n_buckets: int) -> Floats:
    """Return the middles of the buckets, shape (n_buckets,)."""
    found: Floats = (np.arange(n_buckets) + 0.5) / n_buckets
    return found
