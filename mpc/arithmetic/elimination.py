"""Matrices modulo one prime, in the clear: what is opened of a masked matrix is inverted here."""

import numpy as np
from numpy.typing import NDArray


def inverse_and_determinant(matrix: NDArray[np.int64], p: int) -> tuple[NDArray[np.int64], int]:
    """Return the inverse and the determinant of a square matrix modulo a prime; of a singular one anything, and 0.

    Gauss and Jordan's elimination. Products of residues below 2^21 and their differences fit int64.

    Args:
        matrix: residues from 0 to p - 1, shape (n, n).
        p: a prime below 2^21.
    """
    n = len(matrix)
    rows = np.concatenate([matrix, np.eye(n, dtype=np.int64)], axis=1)
    determinant = 1
    for column in range(n):
        candidates = np.flatnonzero(rows[column:, column])
        if not candidates.size:
            return rows[:, n:], 0
        pivot = column + int(candidates[0])
        if pivot != column:
            rows[[column, pivot]] = rows[[pivot, column]]
            determinant = -determinant
        leading = int(rows[column, column])
        determinant = determinant * leading % p
        rows[column] = rows[column] * pow(leading, -1, p) % p
        factors = rows[:, column].copy()
        factors[column] = 0
        rows = (rows - factors[:, None] * rows[column]) % p
    return rows[:, n:], determinant
