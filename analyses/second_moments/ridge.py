"""Linear regression from a noisy estimate of second moments, with a note on how reliable the answer is."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RIDGE_FRACTION = 0.5
"""The chosen ridge raises the smallest eigenvalue to this fraction of the noise's level.

The level is about the largest eigenvalue of the noise, and half of it the root of the mean of their squares.
"""

ROUNDING = 1e-9
"""Part of the label's variation that is no less than nothing."""


@dataclass(frozen=True)
class RidgeSolution:
    """The regression line that follows from a matrix of second moments.

    Attributes:
        coefficients: shape (features,), in scaled units; None where there is none.
        intercept: coefficient of the constant column, likewise.
        ridge: the penalty used, in squared scaled units.
        smallest_eigenvalue: smallest eigenvalue of the features' centred second moments.
        r_squared: share of the label's variation explained, by the same moments; None where they do not tell: where
            the label's variation is noise, or with the noise the line leaves less than none of it.
        note: what is to be said about it; empty if nothing.
    """

    coefficients: Floats | None
    intercept: float | None
    ridge: float
    smallest_eigenvalue: float | None
    r_squared: float | None
    note: str = ""


def solve(
    moments: Floats, constant: float, noise_level: float, ridge: float | None, smallest: float | None = None
) -> RidgeSolution:
    """Solve min over (b, b_0) of |X b + b_0 - y|^2 + ridge |b|^2 from second moments alone.

    The intercept is not penalised: the constant column is eliminated first, which centres features and label. Left are
    S b = r with S, r the centred moments. Where no ridge is given it is chosen as in AdaSSP [Wang18]: just large enough
    to lift the smallest eigenvalue of S to a share of the level of the noise, `RIDGE_FRACTION`, so that S + ridge is
    positive definite and no direction that consists of noise is inverted.

    Args:
        moments: symmetric, order features + 2: features, label, constant column, in this order.
        constant: value of the constant column.
        noise_level: about the spectral norm of the noise on the moments.
        ridge: the penalty, at least 0; None to choose it.
        smallest: about the smallest eigenvalue of S, where it is known; computing it takes five times as long as the
            rest.

    Returns:
        Without coefficients where the rows cannot be told from noise, or where S + ridge is not positive definite.
    """
    n_rows_seen = moments[-1, -1]
    if n_rows_seen <= noise_level:
        return RidgeSolution(None, None, ridge or 0.0, None, None, "too few rows for this epsilon: there is only noise")
    across = moments[:-1, -1]
    centred = moments[:-1, :-1] - np.outer(across, across) / n_rows_seen
    features, with_label, label = centred[:-1, :-1], centred[:-1, -1], float(centred[-1, -1])
    if smallest is None:
        smallest = float(np.linalg.eigvalsh(features)[0])
    is_singular = smallest <= noise_level
    used = max(0.0, RIDGE_FRACTION * noise_level - smallest) if ridge is None else ridge
    if smallest + used <= 0:
        note = "singular: with the noise, the features' moments are not positive definite; give a larger ridge or none"
        return RidgeSolution(None, None, used, smallest, None, note)
    b = np.linalg.solve(features + used * np.eye(len(features)), with_label)
    intercept = float(across[-1] - across[:-1] @ b) * constant / n_rows_seen
    explained = None
    left = float(label - 2 * b @ with_label + b @ features @ b)
    if label > noise_level and left > -ROUNDING * label:
        explained = min(1.0, 1 - left / label)
    note = ""
    if is_singular:
        how = "a ridge lifts it" if used > 0 else "the coefficients are unstable"
        note = f"singular up to noise: some combination of features does not vary beyond the noise; {how}"
    return RidgeSolution(b, intercept, used, smallest, explained, note)
