"""The binomial distribution read backwards: probabilities from a count [ClopperP34], and a count from a probability.

scipy.special alone: scipy.stats takes a second to import, and services start, and answer, without it.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def least_probability(hits: ArrayLike, n: int, level: float) -> Floats:
    """Return the least probability under which so many hits or more are not less likely than the level; 0 for no hits.

    Args:
        hits: hits of n independent trials, 0 .. n, any shape.
        n: trials, at least 1.
        level: between 0 and 1.

    Returns:
        the shape of `hits`.
    """
    k = np.asarray(hits, dtype=np.float64)
    return np.where(k > 0, scipy.special.betaincinv(np.maximum(k, 1), n - k + 1, level), 0.0)


def largest_probability(hits: ArrayLike, n: int, level: float) -> Floats:
    """Return the largest probability under which so many hits or fewer are not less likely than the level; 1 for n.

    Arguments and result as of `least_probability`.
    """
    k = np.asarray(hits, dtype=np.float64)
    return np.where(k < n, scipy.special.betainccinv(k + 1, np.maximum(n - k, 1), level), 1.0)


def quantile(levels: Floats, n: ArrayLike, probability: float) -> Floats:
    """Return the least count that is exceeded with a probability of 1 less the level at most.

    Args:
        levels: between 0 and 1, both excluded, any shape.
        n: trials, whole numbers from 0 on, of that shape.
        probability: chance of a hit, between 0 and 1, both excluded.

    Returns:
        whole numbers, 0 .. n, the shape of `levels`.
    """
    trials = np.asarray(n, dtype=np.float64)
    some = np.maximum(trials, 1).astype(np.int64)
    found = np.clip(np.ceil(scipy.special.bdtrik(levels, some, probability)), 0, some)  # may be off by one
    below = scipy.special.bdtr(np.maximum(found - 1, 0), some, probability)
    found = np.where((found > 0) & (below >= levels), found - 1, found)
    found = np.where(scipy.special.bdtr(found, some, probability) < levels, found + 1, found)
    return np.where(trials > 0, np.minimum(found, some), 0.0)
