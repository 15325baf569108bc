"""Whether words look uniform: the chi-squared statistic of their bytes, at each place of a byte by itself."""

import math

import numpy as np


def chi_squared_of_bytes(words: np.ndarray) -> float:
    """Return the statistic of the bytes of an array, as standard deviations from its mean under uniformity."""
    counts = np.bincount(np.ascontiguousarray(words).view(np.uint8).reshape(-1), minlength=256)
    expected = counts.sum() / 256
    return float((((counts - expected) ** 2 / expected).sum() - 255) / math.sqrt(2 * 255))


def worst_of_places(words: np.ndarray) -> float:
    """Return the largest such statistic among the eight bytes of 64-bit words: the highest one is seen by itself."""
    by_place = np.ascontiguousarray(words, dtype=np.uint64).view(np.uint8).reshape(-1, 8)
    return max(abs(chi_squared_of_bytes(np.ascontiguousarray(by_place[:, place]))) for place in range(8))
