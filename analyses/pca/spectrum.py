"""From the noisy matrix to principal components: centred, scaled if asked for, and how far noise may have moved it."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyses.job.forecast import NORMAL_95
from analyses.pca.plan import PcaPlan
from analyses.second_moments.centred import CentredMoments, about, centred
from analyses.second_moments.spectrum import (
    DRAWS_OF_WIDE,
    WIDE,
    SimulatedNoise,
    chained_noise,
    edge_of_draws,
    leading_components,
    n_draws,
    noise_edge,
    some_components,
    without_noise,
)

Floats = NDArray[np.float64]

LEAST_DEVIATIONS = 3.0
"""A column is scaled to variance 1 where its sum of squares is so many standard deviations of its noise above 0."""

DRAWS = 120
COORDINATES, _BLOCKS = 512, 3
"""Wide noise: smallest number of coordinates that are drawn, and of their blocks."""

FAR = 2.0
"""Edges above which an eigenvalue tells well enough how noise moved it."""

APART = 6.0
"""Edges between an eigenvalue and its neighbours from which on the bootstrap knows how noise mixed their directions."""


@dataclass(frozen=True)
class Spectrum:
    """Principal components, in units of scaled rows.

    Attributes:
        eigenvalues: eigenvalues of the whole noisy matrix that was decomposed, largest first.
        components: shape (k, n), unit vectors as rows.
        noise_edge: the largest eigenvalue that the noise alone has, in 19 of 20 cases no more.
        ratio: share of the whole variance along each component; of the sum of squares where nothing was centred.
        centre: mean and number of rows; None where nothing was centred.
        divisors: divisors of the columns, shape (n,); 1 where none was divided.
        left_out: whether a column varies too little to be scaled, shape (n,); components have 0 there.
        variance: about the variance of the data along each component, shape (k,); None where nothing was centred.
        intervals: in which it lies in 19 of 20 cases, shape (k, 2); NaN for a component less than `FAR` edges above 0
            or less than `APART` edges from another; None where none is known.
    """

    eigenvalues: Floats
    components: Floats
    noise_edge: float
    ratio: Floats
    centre: CentredMoments | None
    divisors: Floats = field(repr=False)
    left_out: NDArray[np.bool_] = field(repr=False)
    variance: Floats | None = None
    intervals: Floats | None = None

    @property
    def n_above_noise(self) -> int:
        """How many eigenvalues are above the edge."""
        return int(np.count_nonzero(self.eigenvalues > self.noise_edge))


def spectrum(matrix: Floats, plan: PcaPlan) -> Spectrum:
    """Return the principal components that follow from the opened matrix; all of it is post-processing.

    Args:
        matrix: noisy X^T X in units of scaled rows, the constant column last where the job centres.
        plan: the job's plan.
    """
    k, deviation = plan.params.components, plan.noise_deviation
    if not plan.params.center:
        n = len(matrix)
        eigenvalues, components = leading_components(matrix, k)
        ratio = _ratio(eigenvalues[:k], float(np.trace(matrix)))
        edge = noise_edge(n, deviation)
        return Spectrum(eigenvalues, components, edge, ratio, None, np.ones(n), np.zeros(n, dtype=bool))
    centre = _centred(matrix, plan)
    if plan.params.scale:
        return _of_correlations(centre, plan)
    n = len(centre.matrix)
    edge = noise_edge(n, deviation, centre.lift)
    eigenvalues, vectors = leading_components(centre.matrix, n if n <= WIDE else k, above=edge)
    off, errors = _errors(vectors, without_noise(eigenvalues, edge, deviation), centre, plan)
    found, half = eigenvalues[:k] / centre.n_rows - off, NORMAL_95 * errors
    intervals = np.column_stack([found - half, found + half])
    # Close to the edge the bootstrap's own matrix is uncertain. But whatever the data, noise adds no more to any
    # direction than its largest eigenvalue; and hardly less than it may take from a single entry. The estimate is
    # brought between these; no interval is stated, as these would cover far more than 95 %.
    near = eigenvalues[:k] <= FAR * edge
    widest = np.column_stack(
        [eigenvalues[:k] - edge, eigenvalues[:k] + NORMAL_95 * np.sqrt(2) * deviation * (1 + centre.lift)]
    )
    intervals[near] = widest[near] / centre.n_rows
    # Rounding moves an entry by less than a unit, so a deviation along v by less than the sum of all |v_i|.
    moved = plan.unit * np.abs(vectors[:k]).sum(axis=1)[:, None] * np.array([-1.0, 1.0])
    intervals = np.maximum(np.sqrt(np.maximum(intervals, 0.0)) + moved, 0.0) ** 2
    variance = np.clip(found, *intervals.T)
    gaps = np.concatenate([[np.inf], -np.diff(eigenvalues), [np.inf]])
    intervals[near | (np.minimum(gaps[:k], gaps[1 : k + 1]) < APART * edge)] = np.nan
    return Spectrum(
        eigenvalues,
        vectors[:k],
        edge,
        _ratio(variance, float(np.trace(centre.matrix)) / centre.n_rows),
        centre,
        np.ones(n),
        np.zeros(n, dtype=bool),
        variance,
        intervals,
    )


def _centred(matrix: Floats, plan: PcaPlan) -> CentredMoments:
    return centred(matrix, plan.constant * plan.unit, plan.reach, plan.possible_rows)


def _ratio(variance: Floats, total: float) -> Floats:
    """Return shares of the total, which is at least what the components have."""
    found = np.maximum(variance, 0.0)
    whole = max(total, float(found.sum()))
    return found / whole if whole > 0 else found


def _errors(vectors: Floats, whole: Floats, centre: CentredMoments, plan: PcaPlan) -> tuple[Floats, Floats]:
    """Return by how much noise raises eigenvalues / rows above the variance along the components, and its deviation.

    A parametric bootstrap: a matrix like the one that was released, but without noise, gets draws of the noise whose
    distribution is public, and for each of them what would be released is compared with what is true of that matrix.
    The variance that is asked for is that of the data along the released component, not along the best one.

    Args:
        vectors: eigenvectors of the centred matrix as rows: all, or of more than `WIDE` columns those of all
            eigenvalues above the edge.
        whole: its eigenvalues, about as they were without noise.
        centre: what was released.
        plan: the job's plan.

    Returns:
        two vectors of shape (k,), in units of squared scaled rows.
    """
    n, k, c = len(whole), plan.params.components, plan.constant * plan.unit
    simulated, found = SimulatedNoise(), []
    if n <= WIDE:
        scatter, mean = (vectors.T * whole) @ vectors, centre.mean
        reach: tuple[Floats | float, Floats | float] = plan.reach
        draws = (simulated.symmetric(n + 1) for _ in range(DRAWS))
    else:
        scatter, mean, sizes = _few_coordinates(vectors, whole, centre.mean, k)
        reach = (-np.inf, np.inf)  # of columns, which these coordinates are not
        draws = (_constant_last(chained_noise(simulated, sizes, n + 1)) for _ in range(DRAWS_OF_WIDE))
    extended = np.append(mean, c)
    moments = centre.n_rows * np.outer(extended, extended)
    moments[:-1, :-1] += scatter
    for draw in draws:
        again = centred(moments + plan.noise_deviation * draw, c, reach, plan.possible_rows)
        values, components = some_components(again.matrix, k)
        true = np.einsum("ki,ij,kj->k", components, scatter, components, optimize=True) / centre.n_rows
        found.append(values / again.n_rows - true)
    return np.mean(found, axis=0), np.std(found, axis=0, ddof=1)


def _few_coordinates(vectors: Floats, whole: Floats, mean: Floats, k: int) -> tuple[Floats, Floats, list[int]]:
    """Return the bootstrap's matrix, its mean and the blocks of its noise in a basis in which few coordinates matter.

    `without_noise` has made all eigenvalues below the edge equal. So beside the others' eigenvectors and what of the
    mean is orthogonal to them all directions are alike, and noise in them needs a few blocks only (`chained_noise`).

    Returns:
        scatter, shape (r, r); mean, shape (r,); sizes of blocks of r + 1 coordinates, the constant among the first.
    """
    n, n_seen = len(whole), int(np.count_nonzero(whole > whole[-1]))
    seen = vectors[:n_seen]
    along = seen @ mean
    beside = float(np.sqrt(max(0.0, float(mean @ mean - along @ along))))
    first = min(n, n_seen + 1) + 1
    r = min(n + 1, max(COORDINATES, _BLOCKS * first, 2 * k))
    sizes = [first] * (r // first) + ([r % first] if r % first else [])
    small = np.zeros(r - 1)
    small[:n_seen] = along
    if n_seen < n:
        small[n_seen] = beside
    return np.diag(whole[: r - 1]), small, sizes


def _constant_last(noise: Floats) -> Floats:
    """Return the noise with its first coordinate, which is that of the constant, as the last one."""
    return np.roll(noise, (-1, -1), axis=(0, 1))


def _of_correlations(centre: CentredMoments, plan: PcaPlan) -> Spectrum:
    """Return the components of the columns divided by their noisy standard deviations.

    A column whose variance is not well above its noise is left out: it would be noise divided by noise. The diagonal
    of P E P^T (`analyses.second_moments.centred`) has entries of deviation sqrt(2) s (1 + m_i^2 / c^2).
    """
    deviation, c = plan.noise_deviation, plan.constant * plan.unit
    squares = np.diagonal(centre.matrix)
    left_out = squares <= LEAST_DEVIATIONS * np.sqrt(2) * deviation * (1 + (centre.mean / c) ** 2)
    divisors = np.sqrt(np.where(left_out, centre.n_rows, squares) / centre.n_rows)
    weights = np.where(left_out, 0.0, 1 / divisors)

    def scaled(matrix: Floats) -> Floats:
        return weights[:, None] * matrix * weights

    eigenvalues, components = leading_components(scaled(centre.matrix), plan.params.components)
    simulated, n = SimulatedNoise(), len(weights)
    draws = (simulated.symmetric(n + 1) for _ in range(n_draws(DRAWS, n)))
    edge = deviation * edge_of_draws(scaled(about(draw, centre.mean, c)) for draw in draws)
    k, total = plan.params.components, float(np.count_nonzero(~left_out))
    variance = np.maximum(eigenvalues[:k] / centre.n_rows, 0.0)
    return Spectrum(eigenvalues, components, edge, _ratio(variance, total), centre, divisors, left_out, variance)
