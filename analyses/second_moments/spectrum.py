"""Eigenvalues of a noisy symmetric matrix: which of them pure noise would have, too."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from analyses.second_moments.normal_quantiles import normal_quantiles
from entropy import KeyStream

Floats = NDArray[np.float64]

EDGE_QUANTILE = 0.95
EDGE_DRAWS = 400
"""Draws of pure noise whose largest eigenvalues give the edge; its standard error is a hundredth of the noise."""

_KEY = b"eigenvalues of pure noise, fixed"
_DENSE_COLUMNS = 256  # below it, all eigenvectors take no longer than some


def leading_components(matrix: Floats, k: int) -> tuple[Floats, Floats]:
    """Return all eigenvalues of a symmetric matrix, largest first, and the k leading eigenvectors as rows.

    The sign of a component is arbitrary; the entry of largest size is made positive, so that equal matrices print
    alike.
    """
    values, vectors = np.linalg.eigh(matrix)
    components = vectors[:, ::-1][:, :k].T
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(k), largest])
    return values[::-1], components * signs[:, None]


def some_components(matrix: Floats, k: int) -> tuple[Floats, Floats]:
    """Return the k largest eigenvalues of a symmetric matrix and their eigenvectors as rows, of any sign."""
    n = len(matrix)
    if n <= _DENSE_COLUMNS or k > n // 8:
        values, vectors = np.linalg.eigh(matrix)
        return values[::-1][:k], vectors[:, ::-1][:, :k].T
    from scipy.sparse.linalg import eigsh  # slow to import, and only wide tables need it

    values, vectors = eigsh(matrix, k, which="LA", v0=np.ones(n))
    order = np.argsort(-values)
    return values[order], vectors[:, order].T


class SimulatedNoise:
    """Draws of noise like that of a release, from a key that everybody knows: it protects nothing.

    What is public about a release is the distribution of its noise. Draws of it say how far results may be off. Equal
    releases give equal statements, as the key is fixed.
    """

    def __init__(self, key: bytes = _KEY) -> None:
        """Make draws from a key of `entropy.stream.KEY_BYTES`."""
        self._stream = KeyStream(key)

    def uniform(self, *shape: int) -> Floats:
        """Return numbers uniform in (0, 1)."""
        words = self._stream.words(int(np.prod(shape)))
        numbers: Floats = ((words >> np.uint64(12)).astype(np.float64).reshape(shape) + 0.5) * 2.0**-52
        return numbers

    def normal(self, *shape: int) -> Floats:
        """Return standard normal numbers."""
        return normal_quantiles(self.uniform(*shape))

    def symmetric(self, n: int) -> Floats:
        """Return a symmetric matrix, of variance 1 off the diagonal and 2 on it: `NoisyGram`'s noise, but for scale.

        Skellam variables of such variances are as good as normal.
        """
        draw = self.normal(n, n)
        return np.asarray((draw + draw.T) / np.sqrt(2), dtype=np.float64)


def chained_noise(simulated: SimulatedNoise, sizes: Sequence[int], n: int) -> Floats:
    """Return noise like `SimulatedNoise.symmetric(n)`, in a basis in which it is block tridiagonal, cut off.

    The first block is `sizes[0]` coordinates that stay as they are; rotations of all others, which change nothing about
    the noise, make of their entries beside it a triangle of chi and normal variables, and so on from block to block
    [DumEdel02]. An eigenvector whose eigenvalue lies above the edge of the noise decays from block to block, so its
    first blocks say all of it. With sizes that add up to n nothing is cut off.

    Args:
        simulated: draws.
        sizes: sizes of the blocks, none larger than the one before it.
        n: coordinates in all, at least the sum of the sizes.

    Returns:
        shape (r, r), r the sum of the sizes.
    """
    from scipy.special import gammaincinv

    ends = np.cumsum(sizes)
    found = np.zeros((ends[-1], ends[-1]))
    for at, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        start = end - size
        found[start:end, start:end] = simulated.symmetric(size)
        if at + 1 == len(sizes):
            break
        after, left = sizes[at + 1], n - end
        beside = simulated.normal(size, after)
        # Rows times a rotation of the coordinates that are left: zero above the diagonal, chi variables on it.
        row, column = np.triu_indices(size, 1, after)
        beside[row, column] = 0.0
        degrees = (left - np.arange(after)) / 2
        np.fill_diagonal(beside, np.sqrt(2 * gammaincinv(degrees, simulated.uniform(after))))
        found[start:end, end : end + after] = beside
        found[end : end + after, start:end] = beside.T
    return found


def noise_edge(n: int, deviation: float, lift: float = 0.0) -> float:
    """Return the quantile `EDGE_QUANTILE` of the largest eigenvalue that the noise alone has.

    The noise is D E D, E a symmetric n x n matrix with independent normal entries of a standard deviation off the
    diagonal and sqrt(2) of it on the diagonal, D diagonal with a first entry of sqrt(1 + lift), the others 1
    (`analyses.second_moments.centred`). Householder reflections that leave the first coordinate alone make it
    tridiagonal, with independent entries of known distributions [DumEdel02]: chi variables of n - 1 .. 1 degrees of
    freedom beside the diagonal. Draws of these are taken. Without lift the quantile is near
    deviation (2 sqrt(n) + 0.98 n^(-1/6)).

    Args:
        n: columns.
        deviation: standard deviation of an entry off the diagonal.
        lift: at least 0.
    """
    return deviation * _edge_of_unit_noise(n, lift)


@lru_cache(maxsize=256)
def _edge_of_unit_noise(n: int, lift: float) -> float:
    """Return `noise_edge` for the deviation 1. It is remembered, because it takes tens of milliseconds."""
    from scipy.special import gammaincinv  # slow to import, and few jobs need it

    simulated = SimulatedNoise()
    diagonal = np.sqrt(2) * simulated.normal(EDGE_DRAWS, n)
    diagonal[:, 0] *= 1 + lift
    degrees = np.arange(n - 1, 0, -1)
    beside = np.sqrt(2 * gammaincinv(degrees / 2, simulated.uniform(EDGE_DRAWS, n - 1)))
    beside[:, :1] *= np.sqrt(1 + lift)
    return _quantile_of_largest(diagonal, beside)


@lru_cache(maxsize=256)
def sketch_edge(n: int, s: int) -> float:
    """Return the quantile `EDGE_QUANTILE` of the largest eigenvalue of N^T N / s - 1, N of normal numbers, s x n.

    Householder reflections from both sides make N bidiagonal, with independent chi variables [DumEdel02]: with l the
    larger one of n and s and k the smaller one, of l .. l - k + 1 degrees of freedom on the diagonal and of k - 1 .. 1
    below it. N N^T and N^T N have the same largest eigenvalue.
    """
    from scipy.special import gammaincinv

    simulated, k = SimulatedNoise(), min(n, s)
    on = 2 * gammaincinv(np.arange(max(n, s), max(n, s) - k, -1) / 2, simulated.uniform(EDGE_DRAWS, k))
    below = 2 * gammaincinv(np.arange(k - 1, 0, -1) / 2, simulated.uniform(EDGE_DRAWS, k - 1))
    diagonal = on.copy()
    diagonal[:, 1:] += below
    return _quantile_of_largest(diagonal, np.sqrt(on[:, :-1] * below)) / s - 1


def _quantile_of_largest(diagonal: Floats, beside: Floats) -> float:
    """Return the quantile `EDGE_QUANTILE` of the largest eigenvalues of tridiagonal matrices.

    Args:
        diagonal: shape (draws, n).
        beside: shape (draws, n - 1).
    """
    from scipy.linalg.lapack import dstebz  # slow to import, and few jobs need it

    n = diagonal.shape[1]
    if n == 1:
        return float(np.quantile(diagonal, EDGE_QUANTILE))
    # What `eigvalsh_tridiagonal` calls for the n-th eigenvalue; its checks of small matrices take longer than they do.
    found = [dstebz(d, e, 2, 0.0, 1.0, n, n, 0.0, "E") for d, e in zip(diagonal, beside, strict=True)]
    if any(info for *_, info in found):
        raise np.linalg.LinAlgError("the eigenvalues of simulated noise did not converge")
    return float(np.quantile([values[0] for _, values, *_ in found], EDGE_QUANTILE))


def edge_of_draws(draws: Iterable[Floats]) -> float:
    """Return the quantile `EDGE_QUANTILE` of the largest eigenvalues of some draws of noise."""
    return float(np.quantile([some_components(draw, 1)[0][0] for draw in draws], EDGE_QUANTILE))


def without_noise(eigenvalues: Floats, edge: float, deviation: float) -> Floats:
    """Return about the eigenvalues that a positive semidefinite matrix had before noise was added; see `noise_edge`.

    Those above the edge: noise of n columns makes a lone eigenvalue x into x + n s^2 / x, s its deviation [BenNad11],
    which is undone. All others together have what is left of the trace, to which noise adds nothing on average, and
    each gets an equal part.

    Args:
        eigenvalues: eigenvalues of the noisy matrix, largest first.
        edge: the noise's edge.
        deviation: s.
    """
    n = len(eigenvalues)
    seen = eigenvalues[eigenvalues > edge]
    found = (seen + np.sqrt(np.maximum(seen**2 - 4 * n * deviation**2, 0.0))) / 2
    n_rest = n - len(found)
    rest = max(0.0, float(eigenvalues.sum() - found.sum())) / max(n_rest, 1)
    return np.append(found, np.full(n_rest, min(rest, edge)))
