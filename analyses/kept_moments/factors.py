"""Factor analysis: few common factors that correlations of many columns come from, rotated to be told apart."""

from collections.abc import Sequence

import numpy as np

from analyses.job.forecast import NORMAL_95
from analyses.kept_moments.answer import (
    OF_CHANCE,
    SEEN,
    Answer,
    AnswerError,
    Floats,
    check_rows,
    chosen,
    ends,
    numbers,
)
from analyses.kept_moments.redrawn import Likeness
from analyses.kept_moments.statistics import nearest
from analyses.second_moments.released import ReleasedMoments

LEAST_UNIQUE = 0.005
"""Least variance of a standardised column that is its own: at less, the likelihood has no maximum."""

N_DRAWS = 60


def factors(moments: ReleasedMoments, columns: Sequence[str] = (), *, k: int = 1) -> Answer:
    """Return the loadings of k factors on each standardised column, by maximum likelihood and the rotation varimax.

    The correlations are made positive semidefinite where noise left them otherwise. Factors come in the order of what
    they explain, and the largest loading of each is positive. Errors are of draws, fitted and rotated anew, by chance
    as of normal columns.

    Args:
        moments: released.
        columns: names; all where none is named.
        k: number of factors.

    Raises:
        AnswerError: a column is not in the release or does not vary beyond the noise, there is only noise, or there are
            too few columns for so many factors.
    """
    part = chosen(moments, columns)
    p = len(part.names)
    if k < 1 or (p - k) ** 2 < p + k:
        raise AnswerError(
            f"{k} factors are not determined by {p} columns: (columns - k)^2 must be at least columns + k"
        )
    check_rows(part)
    noise = np.sqrt(2) * part.deviation * (1 + (part.centred.mean / part.constant) ** 2)
    hidden = np.diagonal(part.centred.matrix) <= SEEN * noise
    if hidden.any():
        name = part.names[int(np.argmax(hidden))]
        raise AnswerError(f"column {name!r} does not vary beyond the noise: leave it out, or ask for a larger epsilon")
    correlations, is_mended = nearest(_standardised(part.centred.matrix))
    unique = _unique(correlations, k, np.full(p, 0.5))
    loadings = _varimax(_loadings(correlations, unique, k))
    loadings = loadings[:, np.argsort(-(loadings**2).sum(axis=0))]
    loadings = loadings * np.sign(loadings[np.abs(loadings).argmax(axis=0), np.arange(k)])

    def statistic(scatter: Floats) -> Floats:
        again, _ = nearest(_standardised(scatter))
        own = _unique(again, k, unique)
        return np.column_stack([_alike(_varimax(_loadings(again, own, k)), loadings), own])

    spread = Likeness(part).spread(statistic, N_DRAWS)
    table: dict[str, Sequence[object]] = {"column": part.names}
    for at, name in enumerate([*(f"factor_{one + 1}" for one in range(k)), "unique"]):
        values = unique if at == k else loadings[:, at]
        half = NORMAL_95 * np.hypot(spread.noise[:, at], spread.chance[:, at])
        table[name] = numbers(values)
        table[f"{name}_noise_error"] = numbers(spread.noise[:, at])
        table[f"{name}_chance_error"] = numbers(spread.chance[:, at])
        table[f"{name}_interval"] = ends(np.maximum(values - half, -1.0), np.minimum(values + half, 1.0))
    notes = ("noise left no matrix of correlations, so the nearest one with unit diagonal was taken",) * is_mended
    explained = numbers((loadings**2).sum(axis=0) / p)
    return Answer("factors", table, {"n_rows": part.n_rows, "share_explained": explained}, (*notes, OF_CHANCE))


def _standardised(scatter: Floats) -> Floats:
    root = np.sqrt(np.maximum(np.diagonal(scatter), np.finfo(float).tiny))
    found = np.clip(scatter / np.outer(root, root), -1.0, 1.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _unique(correlations: Floats, k: int, start: Floats) -> Floats:
    """Return the columns' own variances u of greatest likelihood [JoeLaw71, sect. 4].

    With the eigenvalues l of u^-1/2 R u^-1/2, in falling order, the loss is the sum of l - log l - 1 over all but the
    first k, and its derivative by log u_i the difference (L L' + u - R)_ii / u_i of the diagonals.
    """
    from scipy.optimize import minimize

    def loss(at: Floats) -> tuple[float, Floats]:
        own = np.exp(at)
        root = np.sqrt(own)
        values, vectors = np.linalg.eigh(correlations / np.outer(root, root))
        rest = np.maximum(values[:-k], np.finfo(float).eps)
        common = (vectors[:, -k:] ** 2) @ np.maximum(values[-k:] - 1, 0.0)
        return float((rest - np.log(rest) - 1).sum()), common + 1 - 1 / own

    bounds = [(float(np.log(LEAST_UNIQUE)), 0.0)] * len(start)
    return np.asarray(
        np.exp(minimize(loss, np.log(start), jac=True, method="L-BFGS-B", bounds=bounds).x), dtype=np.float64
    )


def _loadings(correlations: Floats, unique: Floats, k: int) -> Floats:
    root = np.sqrt(unique)
    values, vectors = np.linalg.eigh(correlations / np.outer(root, root))
    return np.asarray(root[:, None] * vectors[:, : -k - 1 : -1] * np.sqrt(np.maximum(values[: -k - 1 : -1] - 1, 0.0)))


def _varimax(loadings: Floats) -> Floats:
    """Return loadings rotated so that their squares vary most within each factor [Kaiser58], by singular values."""
    rotation, before = np.eye(loadings.shape[1]), 0.0
    for _ in range(200):
        turned = loadings @ rotation
        u, s, v = np.linalg.svd(loadings.T @ (turned**3 - turned * (turned**2).mean(axis=0)))
        rotation = u @ v
        if s.sum() <= before * (1 + 1e-9):
            break
        before = float(s.sum())
    return np.asarray(loadings @ rotation)


def _alike(loadings: Floats, to: Floats) -> Floats:
    """Return loadings whose factors are in the order, and of the signs, of those that they are most like."""
    from scipy.optimize import linear_sum_assignment

    product = loadings.T @ to
    mine, theirs = linear_sum_assignment(-np.abs(product))
    found = np.empty_like(loadings)
    found[:, theirs] = loadings[:, mine] * np.where(product[mine, theirs] < 0, -1.0, 1.0)
    return found
