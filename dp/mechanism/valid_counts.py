"""Counts that are possible, from noisy ones. This is post-processing, so it has no privacy cost."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def valid_counts(raw: Floats, n_rows: float | None = None) -> Floats:
    """Return the non-negative counts of a given sum that are closest to noisy ones, by Euclidean distance.

    If the noise is independent with equal variance, this is the maximum-likelihood table with that sum. All counts are
    shifted by the same number and negative ones are set to zero. So the noise of many empty cells does not add up to a
    spurious mass, as it does if each cell is clipped on its own.

    Args:
        raw: any shape; finite.
        n_rows: what the counts shall add up to; default: the sum of the noisy ones, at least 0.

    Returns:
        same shape; all 0 where `n_rows` is not positive.
    """
    total = float(raw.sum()) if n_rows is None else n_rows
    if total <= 0:
        return np.zeros(raw.shape)
    descending = np.sort(raw.reshape(-1))[::-1]
    # With the r largest counts above the cut, the cut is (their sum - total) / r; take the last r that is consistent.
    cuts = (np.cumsum(descending) - total) / np.arange(1, len(descending) + 1)
    cut = cuts[np.flatnonzero(descending > cuts)[-1]]
    counts: Floats = np.maximum(raw - cut, 0.0)
    return counts
