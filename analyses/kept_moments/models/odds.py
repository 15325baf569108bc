"""Weights of log odds by Newton's steps, and the points of a population that make their sums exact.

Probabilities p(x) depend on a row through n log odds B'x + b alone. Numbers that are normal about a mean with the
covariance W = R R' move with them along the n columns of R Q, Q an orthonormal basis of R'B; what is left is
independent of the odds, of mean 0 and the covariance W - R Q Q'R'. So for each cell of the categories

    E[p x] = E[p E[x | odds]],    E[p' x x'] = E[p' (E[x | odds] E[x | odds]' + Cov[x | odds])]

are integrals over n standard normal numbers, whatever the number of columns is: by Gauss and Hermite's rule, where rows
drawn from a population would move all weights by a part of their error that falls with no number of rows released.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from analyses.kept_moments.answer import Floats
from analyses.kept_moments.models.population import Features, Population, balanced
from analyses.second_moments.spectrum import SimulatedNoise

Points = Callable[[Floats], tuple[Floats, Floats, Floats | float]]
"""Function of weights, shape (..., columns, odds): rows, the last column 1, shape (..., rows, columns); how much each
counts, of sum 1, shape (..., rows); the covariance that rows have about each of them, shape (..., columns, columns)."""

N_POINTS = 1_024
"""Points, about, that all cells have together."""

_FEWEST, _MOST = 6, 32  # points of the rule for each of several numbers, where there is room for so many
_MOST_EXACT = 3  # numbers that odds move along by the rule; more have points drawn once
_STEPS = 50
_SMALL = 1e-8
_FURTHEST = 30.0
"""Log odds per standard deviation of a column at which values count as separated."""


def n_points(features: Features, n_odds: int) -> int:
    """Return how many rows `along` makes."""
    return features.n_cells * len(_rule(min(n_odds, len(features.numbers)), features.n_cells)[1])


def along(population: Population, n_odds: int, mean: Floats, spread: Floats) -> Points:
    """Return the points of a population for sums of what depends on log odds; see above.

    Args:
        population: one, or several by leading axes.
        n_odds: log odds that have weights of their own.
        mean: what is subtracted from each column, shape (..., columns).
        spread: what columns are divided by then, likewise.
    """
    features = population.features
    numbers, n_columns = list(features.numbers), len(features.names)
    at, parts = _rule(min(n_odds, len(numbers)), features.n_cells)
    values, vectors = np.linalg.eigh(population.within)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :] / spread[..., numbers, None]
    several = population.shares.shape[:-1]
    whole = np.empty((*several, len(population.cells), n_columns))
    whole[..., features.indicators] = population.cells
    whole[..., numbers] = population.centre[..., None, :] + population.cells @ population.slopes
    whole = (whole - mean[..., None, :]) / spread[..., None, :]
    weights = (population.shares[..., :, None] * parts).reshape(*several, -1)

    def points(found: Floats) -> tuple[Floats, Floats, Floats | float]:
        rows = np.repeat(whole[..., :, None, :], len(parts), axis=-2)
        beyond = np.zeros((*several, n_columns + 1, n_columns + 1))
        if numbers:
            moves = root.swapaxes(-1, -2) @ found[..., numbers, :n_odds]
            turned = root @ np.linalg.qr(moves)[0]
            rows[..., numbers] += (at @ turned.swapaxes(-1, -2))[..., None, :, :]
            left = root @ root.swapaxes(-1, -2) - turned @ turned.swapaxes(-1, -2)
            beyond[..., np.array(numbers)[:, None], numbers] = left
        rows = rows.reshape(*several, -1, n_columns)
        return np.concatenate([rows, np.ones((*rows.shape[:-1], 1))], axis=-1), weights, beyond

    return points


@lru_cache(maxsize=8)
def _rule(n: int, n_cells: int) -> tuple[Floats, Floats]:
    """Return points of n standard normal numbers, shape (points, n), and their weights of sum 1."""
    if not n:
        return np.zeros((1, 0)), np.ones(1)
    each = min(_MOST, int((N_POINTS / n_cells) ** (1 / n)))
    if n > _MOST_EXACT:
        points = balanced(SimulatedNoise(), max(n + 2, -(-N_POINTS // (2 * n_cells))), n)
        return points, np.full(len(points), 1 / len(points))
    at, weights = np.polynomial.hermite_e.hermegauss(max(_FEWEST, each))
    places = np.indices((len(at),) * n).reshape(n, -1)
    return at[places].T, np.asarray((weights / weights.sum())[places].prod(axis=0), dtype=np.float64)


def fitted(points: Points, target: Floats, start: Floats, *, is_shared: bool = False, small: float = _SMALL) -> Floats:
    """Return the weights whose mean of p(x) x is the target, by Newton's steps; NaN where there are none.

    Args:
        points: rows that stand for a population, by the weights.
        target: shape (..., columns, odds).
        start: weights to begin with, likewise.
        is_shared: whether odds have all weights but the last in common, and their targets are added up.
        small: step at which they end; what is left is about its square.

    Raises:
        LinAlgError: rows of some are alike.
    """
    *several, k, n = target.shape
    free = np.zeros((k, n, k - 1 + n)) if is_shared else np.eye(k * n).reshape(k, n, k * n)
    if is_shared:
        free[np.arange(k - 1), :, np.arange(k - 1)] = 1.0
        free[k - 1, np.arange(n), k - 1 + np.arange(n)] = 1.0
    flat = free.reshape(k * n, -1)
    found, is_lost = start.copy(), np.zeros(tuple(several), dtype=np.bool_)
    for _ in range(_STEPS):
        rows, weights, beyond = points(found)
        across, odds = rows.swapaxes(-1, -2), rows @ found
        shares = 1 / (1 + np.exp(-odds)) if is_shared else shares_of(odds)
        slope = (across @ (weights[..., None] * shares) - target).reshape(*several, k * n) @ flat
        curves = np.zeros((*several, k, n, k, n))
        for a in range(n):
            for b in range(a, a + 1 if is_shared else n):
                here = weights * shares[..., a] * ((a == b) - shares[..., b])
                curve = across @ (here[..., None] * rows) + here.sum(axis=-1)[..., None, None] * beyond
                curves[..., :, a, :, b] = curves[..., :, b, :, a] = curve
        curvature = flat.T @ curves.reshape(*several, k * n, k * n) @ flat
        step = np.linalg.solve(curvature, slope[..., None])[..., 0]
        moved = (step @ flat.T).reshape(*several, k, n)
        largest = np.abs(moved).max(axis=(-1, -2))
        found = found - moved / np.maximum(1.0, largest / 2)[..., None, None]
        is_lost |= ~(np.abs(found).max(axis=(-1, -2)) < _FURTHEST)
        found[is_lost], largest = 0.0, np.where(is_lost, 0.0, largest)
        if (largest < small).all():
            break
    found[is_lost | ~(largest < small)] = np.nan
    return found


def shares_of(odds: Floats) -> Floats:
    """Return the probabilities of values but the first by their log odds against it."""
    top = np.maximum(odds.max(axis=-1, keepdims=True), 0.0)
    found = np.exp(odds - top)
    return np.asarray(found / (found.sum(axis=-1, keepdims=True) + np.exp(-top)), dtype=np.float64)
