"""From estimates with negative frequencies to distributions: isotonic cumulative distributions."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def isotonic(frequencies: Floats) -> Floats:
    """Return the distribution whose cumulative sums are nearest to those of the frequencies.

    The frequencies are first shifted by one constant so that they sum up to 1, the least squares under that constraint.
    Least squares over the inner edges under "not falling, and within 0 and 1": the isotonic regression by pools of
    adjacent violators, cut off at 0 and 1. What is cut off is the solution of the bounded problem.

    Args:
        frequencies: shape (d,).

    Returns:
        shape (d,), not negative, with sum 1.
    """
    from scipy.optimize import isotonic_regression  # slow to import, and few jobs need it

    shifted = frequencies + (1 - frequencies.sum()) / len(frequencies)
    inner = np.cumsum(shifted)[:-1]
    fitted = isotonic_regression(inner).x if len(inner) else inner
    found: Floats = np.diff(np.concatenate([[0.0], np.clip(fitted, 0.0, 1.0), [1.0]]))
    return found
