"""All eigenvalues of a wide symmetric matrix and some of its eigenvectors: the matrix is made tridiagonal, once.

The eigenvectors of all eigenvalues, which `numpy.linalg.eigh` finds, take twice as long and three times the memory.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def some_eigenvectors(matrix: Floats, n_wanted: Callable[[Floats], int]) -> tuple[Floats, Floats]:
    """Return all eigenvalues of a symmetric matrix, largest first, and the first eigenvectors as rows, of any sign.

    Householder reflections Q make the matrix tridiagonal, Q T Q'. T has the same eigenvalues, and those of its
    eigenvectors that are wanted are reflected back.

    Args:
        matrix: shape (n, n), n at least 2.
        n_wanted: how many eigenvectors, at most n, given the eigenvalues.

    Raises:
        LinAlgError: it has numbers that are not finite.

    Cost: 4/3 n^3 products, and 2 n^2 for each eigenvector; one matrix of memory besides.
    """
    from scipy.linalg import eigh_tridiagonal, lapack  # slow to import, and only wide tables need it

    if not np.isfinite(matrix).all():
        raise np.linalg.LinAlgError("a matrix with numbers that are not finite has no eigenvalues")
    n = len(matrix)
    lwork = int(lapack.dsytrd_lwork(n, lower=1)[0])
    reflections, diagonal, beside, factors, _ = lapack.dsytrd(matrix, lower=1, lwork=lwork)
    values = eigh_tridiagonal(diagonal, beside, eigvals_only=True, lapack_driver="sterf")[::-1]
    k = n_wanted(values)
    if not k:
        return values, np.empty((0, n))
    _, vectors = eigh_tridiagonal(diagonal, beside, select="i", select_range=(n - k, n - 1), lapack_driver="stemr")
    # Q leaves the first coordinate alone. Of the others its reflections are stored as those of a QR decomposition.
    below = np.asfortranarray(vectors[1:])
    stored = np.asfortranarray(reflections[1:, : n - 1])
    lwork = int(lapack.dormqr("L", "N", stored, factors, below, -1)[1][0])
    vectors[1:] = lapack.dormqr("L", "N", stored, factors, below, lwork)[0]
    return values, vectors[:, ::-1].T
