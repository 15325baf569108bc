"""Which of several numbers are larger than noise alone would make any of them."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.forecast import ALL_OF, deviations_of_all
from dp.mechanism.shared_laplace import MEAN_UNIT

Floats = NDArray[np.float64]

_EXACT_VARIANCE = 100.0
"""Variance above which noise is as good as continuous, and Skellam noise as good as normal."""


def beyond_noise(values: Sequence[float], standard_errors: Sequence[float | None]) -> list[bool]:
    """Return which numbers are larger in size than noise alone makes any of them, in 19 of 20 cases.

    Args:
        values: the numbers, which are compared with 0.
        standard_errors: standard errors of the numbers; a number without one is no finding.
    """
    limit = deviations_of_all(len(values))
    return [
        error is not None and abs(value) > limit * error for value, error in zip(values, standard_errors, strict=True)
    ]


def counts_beyond_noise(
    counts: Floats, standard_errors: Floats, privacy: Mapping[str, Any], *, method: str
) -> NDArray[np.bool_]:
    """Return which counts are above 0 by more than noise makes any of them, in 19 of 20 cases; shapes alike.

    The noise under shares is whole numbers, mostly 0 where epsilon is large, and may have the long tails of Laplace's:
    so many standard errors as would do for normal numbers are too few.

    Args:
        counts: the counts.
        standard_errors: standard deviations of their noise.
        privacy: report of the release, whose parameters say what its noise is.
        method: `mpc`, or one whose noise is a sum over many rows.
    """
    mean = float(MEAN_UNIT * int(privacy.get("parameters", {}).get("mean_units", 0))) if method == "mpc" else 0.0
    least = {error: least_count(counts.size, error, mean) for error in np.unique(standard_errors).tolist()}
    limits = np.array([least[error] for error in standard_errors.ravel().tolist()]).reshape(counts.shape)
    return np.asarray((counts > 0) & (counts >= limits))


@lru_cache(maxsize=4096)
def least_count(n: int, standard_error: float, mean: float = 0.0) -> float:
    """Return the least size of a count that noise gives to any of n with a probability of `ALL_OF` at most.

    Args:
        n: how many counts there are.
        standard_error: standard deviation of the noise of one.
        mean: mean of the geometric variables that shares of Laplace noise are parts of; 0 for Skellam noise.
    """
    variance = standard_error**2
    if variance == 0 or (variance > _EXACT_VARIANCE and not mean):
        return deviations_of_all(n) * standard_error
    shape = variance / (2 * mean * (1 + mean)) if mean else 0.0
    if variance > _EXACT_VARIANCE:  # noise of the same shape, in smaller units
        smaller, units = math.sqrt(_EXACT_VARIANCE), standard_error / math.sqrt(_EXACT_VARIANCE)
        return units * least_count(n, smaller, (math.sqrt(1 + 2 * _EXACT_VARIANCE / shape) - 1) / 2)
    at = np.arange(int(40 * standard_error + variance) + 60)
    # Noise is the difference of two variables: of Poisson's, or of Polya's law.
    ratios = (shape + at) / (at + 1) * mean / (1 + mean) if mean else variance / 2 / (at + 1)
    first = -shape * math.log1p(mean) if mean else -variance / 2
    law = np.exp(first + np.append(0.0, np.cumsum(np.log(ratios))))
    differences = np.correlate(law, law, "full")[len(law) :]  # of 1, 2, 3 ...
    beyond = 2 * np.cumsum(differences[::-1])[::-1]
    return 1.0 + float(np.count_nonzero(n * beyond > ALL_OF))
