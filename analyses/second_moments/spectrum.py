"""Eigenvalues of a noisy symmetric matrix: which of them pure noise would have, too."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from analyses.second_moments.normal_quantiles import normal_quantiles
from analyses.second_moments.tridiagonal import some_eigenvectors
from entropy import KeyStream

Floats = NDArray[np.float64]

EDGE_QUANTILE = 0.95
EDGE_DRAWS = 10_000
"""Draws of pure noise whose largest eigenvalues give the edge: noise exceeds it in 4.4 % to 5.6 % of cases."""

WIDE, DRAWS_OF_WIDE = 256, 40
"""Columns from which on fewer draws of noise suffice, and how many: what follows from wide noise hardly varies."""

_EXACT_DEGREES = 30

_AHEAD = 512
"""Numbers that are drawn at a time, where fewer are asked for."""

_KEY = b"eigenvalues of pure noise, fixed"
_DENSE_COLUMNS = 256  # below it, all eigenvectors take no longer than some
_FEW_STEPS_WIN = 1024  # columns, beyond which iterations take less time than making a matrix tridiagonal


def leading_components(matrix: Floats, k: int, above: float = np.inf) -> tuple[Floats, Floats]:
    """Return all eigenvalues of a symmetric matrix, largest first, and the leading eigenvectors as rows.

    The sign of a component is arbitrary; the entry of largest size is made positive, so that equal matrices print
    alike.

    Args:
        matrix: shape (n, n).
        k: how many eigenvectors at least.
        above: all eigenvalues above it have their eigenvectors, too.
    """

    def n_wanted(values: Floats) -> int:
        return max(k, int(np.count_nonzero(values > above)))

    if len(matrix) <= _DENSE_COLUMNS or k == len(matrix):
        ascending, columns = np.linalg.eigh(matrix)
        values = ascending[::-1]
        components = columns[:, ::-1][:, : n_wanted(values)].T
    else:
        values, components = some_eigenvectors(matrix, n_wanted)
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return values, components * signs[:, None]


def some_components(matrix: Floats, k: int) -> tuple[Floats, Floats]:
    """Return the k largest eigenvalues of a symmetric matrix and their eigenvectors as rows, of any sign."""
    n = len(matrix)
    if n <= _DENSE_COLUMNS or k > n // 8:
        values, vectors = np.linalg.eigh(matrix)
        return values[::-1][:k], vectors[:, ::-1][:, :k].T
    if n <= _FEW_STEPS_WIN:
        values, components = some_eigenvectors(matrix, lambda _: k)
        return values[:k], components
    from scipy.sparse.linalg import eigsh  # slow to import, and only wide tables need it

    values, vectors = eigsh(matrix, k, which="LA", v0=np.ones(n))
    order = np.argsort(-values)
    return values[order], vectors[:, order].T


def n_draws(usual: int, n: int) -> int:
    """Return how many draws of the noise on n columns say how far a result is off, `usual` where they are few."""
    return usual if n <= WIDE else min(usual, DRAWS_OF_WIDE)


class SimulatedNoise:
    """Draws of noise like that of a release, from a key that everybody knows: it protects nothing.

    What is public about a release is the distribution of its noise. Draws of it say how far results may be off. Equal
    releases give equal statements, as the key is fixed.
    """

    def __init__(self, key: bytes = _KEY) -> None:
        """Make draws from a key of `entropy.stream.KEY_BYTES`."""
        self._stream = KeyStream(key)
        self._uniform = self._normal = np.empty(0)  # drawn ahead; the normal numbers are made of the uniform ones

    def uniform(self, *shape: int) -> Floats:
        """Return numbers uniform in (0, 1)."""
        n = self._draw_ahead(shape)
        return self._take(n)[0].reshape(shape)

    def normal(self, *shape: int) -> Floats:
        """Return standard normal numbers."""
        n = self._draw_ahead(shape)
        if len(self._normal) < n:
            self._normal = normal_quantiles(self._uniform)
        return self._take(n)[1].reshape(shape)

    def _draw_ahead(self, shape: Sequence[int]) -> int:
        """Return how many numbers a shape has, and have as many: a few by themselves take as long as hundreds."""
        n = int(np.prod(shape))
        if len(self._uniform) < n:
            words = self._stream.words(max(n - len(self._uniform), _AHEAD))
            numbers = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
            self._uniform, self._normal = np.concatenate([self._uniform, numbers]), np.empty(0)
        return n

    def _take(self, n: int) -> tuple[Floats, Floats]:
        found = self._uniform[:n], self._normal[:n]
        self._uniform, self._normal = self._uniform[n:], self._normal[n:]
        return found

    def chi_squared(self, degrees: Sequence[int], draws: int) -> Floats:
        """Return sums of squares of so many standard normal numbers each, shape (degrees, draws).

        Beyond `_EXACT_DEGREES` by the cube of a normal number [WilHil31], within 0.02 of a chi variable's deviation.
        """
        found = np.empty((len(degrees), draws))
        for row, degree in zip(found, degrees, strict=True):
            if degree > _EXACT_DEGREES:
                part = 2 / (9 * degree)
                row[:] = degree * (1 - part + np.sqrt(part) * self.normal(draws)) ** 3
                continue
            row[:] = -2 * np.log(self.uniform(degree // 2, draws).prod(axis=0))
            if degree % 2:
                row += self.normal(draws) ** 2
        return found

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

    ends, afters = np.cumsum(sizes), [*sizes[1:], 0]
    numbers = simulated.normal(sum(size * (size + after) for size, after in zip(sizes, afters, strict=True)))
    left = np.concatenate([n - end - np.arange(after) for end, after in zip(ends, afters, strict=True)])
    chis = np.sqrt(2 * gammaincinv(left / 2, simulated.uniform(len(left))))
    found = np.zeros((ends[-1], ends[-1]))
    for size, after, end in zip(sizes, afters, ends, strict=True):
        start, split = end - size, size * size
        draw = numbers[:split].reshape(size, size)
        found[start:end, start:end] = (draw + draw.T) / np.sqrt(2)
        # Rows times a rotation of the coordinates that are left: zero above the diagonal, chi variables on it.
        beside = np.tril(numbers[split : split + size * after].reshape(size, after))
        np.fill_diagonal(beside, chis[:after])
        found[start:end, end : end + after] = beside
        found[end : end + after, start:end] = beside.T
        numbers, chis = numbers[split + size * after :], chis[after:]
    return found


def noise_edge(n: int, deviation: float, lift: float = 0.0) -> float:
    """Return the quantile `EDGE_QUANTILE` of the largest eigenvalue that the noise alone has.

    The noise is D E D, E a symmetric n x n matrix with independent normal entries of a standard deviation off the
    diagonal and sqrt(2) of it on the diagonal, D diagonal with a first entry of sqrt(1 + lift), the others 1
    (`analyses.second_moments.centred`). Householder reflections that leave the first coordinate alone make it
    tridiagonal, with independent entries of known distributions [DumEdel02]: chi variables of n - 1 .. 1 degrees of
    freedom beside the diagonal. Draws of these are taken. Without lift the quantile is near
    deviation (sqrt(4 n - 2) + 0.98 n^(-1/6)) [JohMa12].

    Args:
        n: columns.
        deviation: standard deviation of an entry off the diagonal.
        lift: at least 0.
    """
    return deviation * _edge_of_unit_noise(n, lift)


@lru_cache(maxsize=256)
def _edge_of_unit_noise(n: int, lift: float) -> float:
    """Return `noise_edge` for the deviation 1. It is remembered, because it takes tens of milliseconds."""
    simulated, kept = SimulatedNoise(), _coordinates_that_matter(n)
    diagonal = np.sqrt(2) * simulated.normal(kept, EDGE_DRAWS)
    diagonal[0] *= 1 + lift
    beside = simulated.chi_squared(range(n - 1, n - kept, -1), EDGE_DRAWS)
    beside[:1] *= 1 + lift
    return _quantile_of_largest(diagonal, beside)


@lru_cache(maxsize=256)
def sketch_edge(n: int, s: int) -> float:
    """Return the quantile `EDGE_QUANTILE` of the largest eigenvalue of N^T N / s - 1, N of normal numbers, s x n.

    Householder reflections from both sides make N bidiagonal, with independent chi variables [DumEdel02]: with l the
    larger one of n and s and k the smaller one, of l .. l - k + 1 degrees of freedom on the diagonal and of k - 1 .. 1
    below it. N N^T and N^T N have the same largest eigenvalue.
    """
    simulated, k, larger = SimulatedNoise(), min(n, s), max(n, s)
    kept = _coordinates_that_matter(k)
    on = simulated.chi_squared(range(larger, larger - kept, -1), EDGE_DRAWS)
    below = simulated.chi_squared(range(k - 1, k - kept, -1), EDGE_DRAWS)
    diagonal = on.copy()
    diagonal[1:] += below
    return _quantile_of_largest(diagonal, on[:-1] * below) / s - 1


def _coordinates_that_matter(n: int) -> int:
    """Return on how many coordinates of such a chain its largest eigenvalue depends: 10 n^(1/3) [EdePer05]."""
    return min(n, 10 + int(10 * n ** (1 / 3)))


def _quantile_of_largest(diagonal: Floats, squares: Floats) -> float:
    """Return the quantile `EDGE_QUANTILE` of the largest eigenvalues of tridiagonal matrices, by bisection.

    All eigenvalues of a matrix are below x where all pivots of its elimination with x taken off are negative. A matrix
    whose largest eigenvalue lies outside what is left of the interval is not looked at again.

    Args:
        diagonal: shape (n, draws).
        squares: shape (n - 1, draws), squares of the entries beside the diagonal.
    """
    reach = np.abs(diagonal).max() + 2 * np.sqrt(squares.max(initial=0.0))
    low, high = -reach, reach
    n_above = round((1 - EDGE_QUANTILE) * diagonal.shape[1])  # that many lie above the quantile
    while high - low > 1e-9 * reach and diagonal.shape[1] > 0:
        middle = (low + high) / 2
        pivot = diagonal[0] - middle
        is_above = pivot >= 0
        with np.errstate(divide="ignore"):
            for entry, square in zip(diagonal[1:], squares, strict=True):
                pivot = entry - middle - square / pivot
                is_above |= pivot >= 0
        found = np.count_nonzero(is_above)
        if found > n_above:
            low, left = middle, is_above
        else:
            high, left, n_above = middle, ~is_above, n_above - found
        diagonal, squares = diagonal[:, left], squares[:, left]
    return float((low + high) / 2)


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
