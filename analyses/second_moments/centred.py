"""Second moments about the mean, from noisy ones about the origin that have a constant column."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CentredMoments:
    """What follows from a noisy matrix of second moments whose last column is constant.

    Attributes:
        matrix: shape (n, n), about the sum over rows of (x - mean)(x - mean)^T.
        mean: shape (n,), of the columns, within what is publicly possible.
        n_rows: about the number of rows, within what is publicly possible.
        lift: |mean|^2 / constant^2, by which noise in the mean's direction is larger: see `centred`.
    """

    matrix: Floats = field(repr=False)
    mean: Floats = field(repr=False)
    n_rows: float
    lift: float


def centred(
    moments: Floats, constant: float, reach: tuple[Floats | float, Floats | float], rows: tuple[int, int]
) -> CentredMoments:
    """Move the origin of second moments to the mean that they tell themselves.

    With c the constant, M = sum (x, c)(x, c)^T and any vector m,

        sum (x - m)(x - m)^T  =  P M P^T,    P = [I, -m / c],

    so noise E on M becomes P E P^T. P has the singular value sqrt(1 + |m|^2 / c^2) in the direction of m, and 1 in all
    others: a symmetric Gaussian E, whose distribution no rotation changes, becomes D E' D with D the diagonal matrix
    of these values and E' of the same distribution with one row less.

    Args:
        moments: symmetric, shape (n + 1, n + 1), the constant column last; with noise or without.
        constant: c > 0.
        reach: the least and the largest value that columns can have, or each of them; the mean is brought within it.
        rows: the smallest and the largest number of rows that there can be; likewise.
    """
    mean, n_rows = _told(moments, constant, reach, rows)
    return CentredMoments(about(moments, mean, constant), mean, float(n_rows), float(mean @ mean) / constant**2)


def scatters(
    moments: Floats, constant: float, reach: tuple[Floats | float, Floats | float], rows: tuple[int, int]
) -> Floats:
    """Return `CentredMoments.matrix` of many moments at once, shape (..., n, n); arguments as of `centred`."""
    return about(moments, _told(moments, constant, reach, rows)[0], constant)


def _told(
    moments: Floats, constant: float, reach: tuple[Floats | float, Floats | float], rows: tuple[int, int]
) -> tuple[Floats, Floats]:
    """Return mean and number of rows, within what is possible."""
    n_rows = np.clip(moments[..., -1, -1] / constant**2, *rows)
    return np.clip(moments[..., :-1, -1] / (constant * n_rows[..., None]), *reach), n_rows


def about(moments: Floats, mean: Floats, constant: float) -> Floats:
    """Return P M P^T of `centred`, symmetric, shape (..., n, n), in n^2 steps: P is a projection but for a column.

    Args:
        moments: M, symmetric, shape (..., n + 1, n + 1), the constant column last.
        mean: m, shape (..., n).
        constant: c > 0.
    """
    shift = mean / constant
    half = moments[..., :-1, -1] - shift * (moments[..., -1, -1] / 2)[..., None]
    crossed = shift[..., :, None] * half[..., None, :]
    inner = moments[..., :-1, :-1]
    found = (inner + inner.swapaxes(-1, -2)) / 2
    found -= crossed
    found -= crossed.swapaxes(-1, -2)
    return np.asarray(found)
