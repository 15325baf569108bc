"""The two baselines of [SPCA24]. FOR COMPARISON ONLY: floating-point Gaussian noise, and one pooled table.

Neither is private in production: the low bits of floating-point noise reveal the data (Mironov 2012), and the first one
    needs one participant who holds all data.
"""

import math

import numpy as np
from numpy.typing import NDArray

from analyses.job.declared_rows import MAX_ROWS
from analyses.second_moments.centred import centred
from analyses.second_moments.spectrum import leading_components
from bench.baselines.gaussian import analytic_gaussian_sigma

Floats = NDArray[np.float64]


def central_components(
    moment: Floats, k: int, *, epsilon: float, delta: float, rng: np.random.Generator, constant: float = 0.0
) -> Floats:
    """Return the leading components of `central_moment`, arguments as there.

    Args:
        moment: X^T X; with a constant, `moment_with_constant`, and the noisy mean is subtracted.
        k: how many components.
        epsilon: as for `central_moment`.
        delta: likewise.
        rng: likewise.
        constant: c, 0 where nothing is centred.

    Returns:
        shape (k, n), orthonormal rows.
    """
    noisy = central_moment(moment, epsilon=epsilon, delta=delta, rng=rng)[0]
    if constant > 0:
        noisy = centred(noisy, constant, (-1.0, 1.0), (1, MAX_ROWS)).matrix
    return leading_components(noisy, k)[1]


def moment_with_constant(rows: Floats, constant: float) -> Floats:
    """Return the second moments of rows with a constant column, the last; of the rows alone where the constant is 0."""
    n = rows.shape[1]
    if constant == 0:
        return np.asarray(rows.T @ rows, dtype=np.float64)
    moment = np.empty((n + 1, n + 1))
    moment[:n, :n] = rows.T @ rows
    moment[:n, n] = moment[n, :n] = rows.sum(axis=0) * constant
    moment[n, n] = len(rows) * constant**2
    return moment


def central_moment(moment: Floats, *, epsilon: float, delta: float, rng: np.random.Generator) -> tuple[Floats, float]:
    """Analyze Gauss [AnalyzeGauss14]: somebody holds all rows and adds symmetric Gaussian noise to X^T X.

    Args:
        moment: X^T X, shape (n, n), of rows of norm at most 1.
        epsilon: for adding or removing one row; the sensitivity is 1 in the Frobenius norm.
        delta: likewise.
        rng: not cryptographic: a comparison, not a release.

    Returns:
        The noisy matrix, and about the spectral norm of its noise.
    """
    n = moment.shape[0]
    sigma = analytic_gaussian_sigma(sensitivity=1.0, epsilon=epsilon, delta=delta)
    noise = np.triu(rng.normal(0.0, sigma, (n, n)))
    return moment + noise + np.triu(noise, 1).T, float(2 * sigma * math.sqrt(n))


def local_noise_components(
    rows: Floats, k: int, *, epsilon: float, delta: float, rng: np.random.Generator, center: bool = False
) -> Floats:
    """The local-noise baseline [SPCA24, algorithm 3]: each party publishes its entries plus Gaussian noise.

    The number of rows is seen by all, so the adjacency is replace_one. Rows here have norm at most 1 and no negative
    entries, so two of them are at most sqrt 2 apart.

    Args:
        rows: shape (m, n), non-negative, of norm at most 1.
        k: how many components.
        epsilon: for replacing one row.
        delta: likewise.
        rng: not cryptographic.
        center: whether the mean of the noisy rows is subtracted.

    Returns:
        shape (k, n), orthonormal rows.
    """
    n = rows.shape[1]
    noisy_moment, total = np.zeros((n, n)), np.zeros(n)
    for start in range(0, rows.shape[0], 8192):
        noisy = noisy_rows(rows[start : start + 8192], epsilon=epsilon, delta=delta, rng=rng)
        noisy_moment += noisy.T @ noisy
        total += noisy.sum(axis=0)
    if center:
        noisy_moment -= np.outer(total, total) / len(rows)
    return leading_components(noisy_moment, k)[1]


def noisy_rows(rows: Floats, *, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """Return rows as parties publish them, arguments as of `local_noise_components`."""
    sigma = analytic_gaussian_sigma(sensitivity=math.sqrt(2.0), epsilon=epsilon, delta=delta)
    return np.asarray(rows + rng.normal(0.0, sigma, rows.shape), dtype=np.float64)
