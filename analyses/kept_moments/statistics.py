"""Means, deviations, covariances and correlations from released second moments, with their errors."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from analyses.job.forecast import NORMAL_95
from analyses.kept_moments.answer import (
    N_DRAWS,
    OF_CHANCE,
    SEEN,
    Answer,
    AnswerError,
    Floats,
    check_rows,
    chosen,
    ends,
    intervals,
    noise_of_products,
    numbers,
)
from analyses.kept_moments.redrawn import check_regular
from analyses.second_moments.released import ReleasedMoments

CLEAR_OF_PAIRS = 1.0
"""Noise levels above which partial correlations are stated: their intervals, on the scale of z, hold from there on."""

_HIDDEN = "does not vary beyond the noise, so nothing is said of how it varies"


def means(moments: ReleasedMoments, columns: Sequence[str] = ()) -> Answer:
    """Return the mean and the standard deviation of columns, in their own units.

    The error of a mean by noise is that of `noisy_means`; by chance it is the deviation over the root of the number of
    rows, and of half of the bounds' width where the deviation is not seen. That of a deviation by noise is found by
    drawing; by chance it is that of a normal distribution, sd / sqrt(2 n).

    Raises:
        AnswerError: a column is not in the release, or there is only noise.
    """
    part = chosen(moments, columns)
    check_rows(part)
    n = part.n_rows
    mean, noise = noisy_means(part)
    deviation = np.where(_varies(part), np.sqrt(np.maximum(np.diagonal(part.centred.matrix), 0.0) / n), np.nan)
    deviation = deviation * part.widths
    chance = np.where(np.isnan(deviation), part.widths / 2, deviation) / np.sqrt(n)  # no deviation is larger
    whole = np.hypot(noise, chance)
    of_deviation = _spread(part, lambda matrix: _deviations(part, matrix))
    notes = [f"{_those(part, ~_varies(part))} {_HIDDEN}"] if not _varies(part).all() else []
    return Answer(
        "means",
        {
            "column": part.names,
            "mean": numbers(mean),
            "noise_error": numbers(noise),
            "chance_error": numbers(chance),
            "interval": intervals(mean, whole, part.lower, part.lower + part.widths),
            "standard_deviation": numbers(deviation),
            "deviation_noise_error": numbers(np.where(np.isnan(deviation), np.nan, of_deviation)),
            "deviation_chance_error": numbers(deviation / np.sqrt(2 * n)),
        },
        _rows(part),
        (*notes, OF_CHANCE),
    )


def noisy_means(part: ReleasedMoments) -> tuple[Floats, Floats]:
    """Return the means of all columns in their own units, shape (columns,), and their standard errors by noise.

    A mean is a ratio of noisy numbers, u' R 1 / 1' R 1 with R the moments: its error follows by the delta method from
    `noise_of_products`.
    """
    k = len(part.names)
    mean = part.zeros + part.widths * part.centred.mean
    units = np.eye(k + 1)
    noise = noise_of_products(part, units, np.tile(units[k], (k + 1, 1)))
    squared = np.diagonal(noise)[:k] - 2 * mean * noise[:k, k] + mean**2 * noise[k, k]
    return mean, np.sqrt(np.maximum(squared, 0.0)) / part.n_rows


def covariance(moments: ReleasedMoments, columns: Sequence[str] = ()) -> Answer:
    """Return the covariance of each pair of columns, in their own units, with errors as for `correlation`.

    Raises:
        AnswerError: a column is not in the release, or there is only noise.
    """
    part = chosen(moments, columns)
    check_rows(part)
    scale = np.outer(part.widths, part.widths)

    def of(matrix: Floats) -> Floats:
        centre = part.centre(matrix)
        return np.asarray(centre.matrix * scale / max(centre.n_rows - 1, 1.0), dtype=np.float64)

    found, noise = of(part.matrix), _spread(part, of)
    variance = np.maximum(np.diagonal(found), 0.0)
    chance = np.sqrt((np.outer(variance, variance) + found**2) / max(part.n_rows - 1, 1.0))
    pairs = np.triu_indices(len(part.names))
    whole = np.hypot(noise, chance)[pairs]
    return Answer(
        "covariance",
        {
            **_pair_names(part, pairs),
            "covariance": numbers(found[pairs]),
            "noise_error": numbers(noise[pairs]),
            "chance_error": numbers(chance[pairs]),
            "interval": intervals(found[pairs], whole),
        },
        _rows(part),
        (OF_CHANCE,),
    )


def correlation(moments: ReleasedMoments, columns: Sequence[str] = ()) -> Answer:
    """Return Pearson's correlation of each pair of columns.

    The error by noise is found by adding draws of the release's own noise; that by chance is (1 - r^2) / sqrt(n - 1),
    as of normal columns, with r nearer to 0 by the error that noise makes. The interval counts both, on the scale of
    Fisher's z, so it lies within -1 and 1.

    Raises:
        AnswerError: a column is not in the release, fewer than two are asked for, or there is only noise.
    """
    part, notes = _at_least_two(moments, columns)
    found, is_mended = correlations(part)
    noise = _spread(part, lambda matrix: np.clip(_correlations(part, matrix), -1, 1))
    if is_mended:
        notes.append("noise left no matrix of correlations, so the nearest one with unit diagonal was taken")
    pairs = np.triu_indices(len(part.names), 1)
    return _of_coefficients("correlation", part, pairs, found[pairs], noise[pairs], 0, notes)


def correlations(part: ReleasedMoments) -> tuple[Floats, bool]:
    """Return the nearest correlations, NaN of columns that the noise hides, and whether they are not the noisy ones."""
    found, is_mended = nearest(_correlations(part, part.matrix))
    hidden = ~_varies(part)
    found[hidden, :] = found[:, hidden] = np.nan
    return found, is_mended


def partial_correlation(moments: ReleasedMoments, columns: Sequence[str] = ()) -> Answer:
    """Return the correlation of each pair of columns, given all others that are asked for; errors as `correlation`.

    Raises:
        AnswerError: see `correlation`; or some combination of the columns does not vary beyond the noise.
    """
    part, notes = _at_least_two(moments, columns)
    check_regular(part.centred.matrix, part.noise_level, CLEAR_OF_PAIRS)

    def of(matrix: Floats) -> Floats:
        inverse = np.linalg.pinv(part.centre(matrix).matrix, hermitian=True)
        root = np.sqrt(np.maximum(np.diagonal(inverse), np.finfo(float).tiny))
        with np.errstate(over="ignore"):  # a variance that noise made negative stands for a correlation of 1
            return np.asarray(np.clip(-inverse / np.outer(root, root), -1, 1), dtype=np.float64)

    pairs = np.triu_indices(len(part.names), 1)
    given = len(part.names) - 2
    return _of_coefficients(
        "partial-correlation", part, pairs, of(part.matrix)[pairs], _spread(part, of)[pairs], given, notes
    )


def inflation(moments: ReleasedMoments, columns: Sequence[str] = ()) -> Answer:
    """Return each column's variance inflation factor, the diagonal of the inverse correlations, and how singular it is.

    With R^2 of a column by the others a factor is 1 / (1 - R^2), so its logarithm has an error by chance of
    2 R / sqrt(n), as for normal columns. The interval is that of the logarithm. `condition_number` is the ratio of the
    largest to the smallest singular value of the standardised columns.

    Raises:
        AnswerError: see `partial_correlation`.
    """
    part, notes = _at_least_two(moments, columns)
    check_regular(part.centred.matrix, part.noise_level)

    def of(matrix: Floats) -> Floats:
        return np.asarray(np.diagonal(np.linalg.pinv(_correlations(part, matrix), hermitian=True)), dtype=np.float64)

    values = np.linalg.eigvalsh(_correlations(part, part.matrix))
    about = {"condition_number": float(np.sqrt(values[-1] / values[0])) if values[0] > 0 else None}
    found, noise = np.maximum(of(part.matrix), 1.0), _spread(part, of)
    of_logarithm = 2 * np.sqrt((1 - 1 / found) / part.n_rows)
    growth = np.exp(NORMAL_95 * np.hypot(noise / found, of_logarithm))
    table = {
        "column": part.names,
        "variance_inflation": numbers(found),
        "noise_error": numbers(noise),
        "chance_error": numbers(found * of_logarithm),
        "interval": ends(np.maximum(found / growth, 1.0), found * growth),
    }
    return Answer("inflation", table, _rows(part) | about, (*notes, OF_CHANCE))


def _at_least_two(moments: ReleasedMoments, columns: Sequence[str]) -> tuple[ReleasedMoments, list[str]]:
    part = chosen(moments, columns)
    if len(part.names) < 2:
        raise AnswerError("a correlation needs two columns at least")
    check_rows(part)
    seen = _varies(part)
    return part, [] if seen.all() else [f"{_those(part, ~seen)} {_HIDDEN}"]


def _varies(part: ReleasedMoments) -> np.ndarray:
    """Return which columns vary beyond the noise of their own variance, shape (columns,)."""
    mean = part.centred.mean
    noise = np.sqrt(2) * part.deviation * (1 + (mean / part.constant) ** 2)
    return np.asarray(np.diagonal(part.centred.matrix) > SEEN * noise)


def _deviations(part: ReleasedMoments, matrix: Floats) -> Floats:
    centre = part.centre(matrix)
    return np.asarray(np.sqrt(np.maximum(np.diagonal(centre.matrix), 0.0) / centre.n_rows) * part.widths)


def _correlations(part: ReleasedMoments, matrix: Floats) -> Floats:
    scatter = part.centre(matrix).matrix
    root = np.sqrt(np.maximum(np.diagonal(scatter), np.finfo(float).tiny))
    root = np.where(np.diagonal(scatter) > 0, root, np.inf)  # nothing correlates with noise
    found = scatter / np.outer(root, root)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found, dtype=np.float64)


def nearest(found: Floats) -> tuple[Floats, bool]:
    """Return a positive semidefinite matrix with unit diagonal near this one, and whether it is another.

    Alternating projections [HigCor02], without Dykstra's correction where they converge at once.
    """
    if np.linalg.eigvalsh(found)[0] >= -1e-12:
        return found.copy(), False
    y, correction = found.copy(), np.zeros_like(found)
    for _ in range(200):
        r = y - correction
        values, vectors = np.linalg.eigh(r)
        x = (vectors * np.maximum(values, 0.0)) @ vectors.T
        correction = x - r
        y = x.copy()
        np.fill_diagonal(y, 1.0)
        if np.linalg.eigvalsh(y)[0] >= -1e-9:
            break
    return np.clip(y, -1, 1), True


def _spread(part: ReleasedMoments, statistic: Callable[[Floats], Floats]) -> Floats:
    """Return the standard deviation of a statistic over draws of the noise, added to the released matrix."""
    drawn = [statistic(part.matrix + noise) for noise in part.noise(N_DRAWS)]
    return np.asarray(np.std(drawn, axis=0, ddof=1), dtype=np.float64)


def _of_coefficients(
    question: str,
    part: ReleasedMoments,
    pairs: tuple[np.ndarray, ...],
    found: Floats,
    noise: Floats,
    n_given: int,
    notes: list[str],
) -> Answer:
    degrees = max(part.n_rows - 3 - n_given, 1.0)
    nearer = np.maximum(np.abs(found) - noise, 0.0)  # noise may have moved it to 1, where chance would seem to end
    chance = (1 - nearer**2) / np.sqrt(max(part.n_rows - 1 - n_given, 1.0))
    inner = np.clip(found, -1 + 1e-9, 1 - 1e-9)
    half = NORMAL_95 * np.hypot(noise / (1 - inner**2), 1 / np.sqrt(degrees))
    middle = np.arctanh(inner)
    table: dict[str, Sequence[Any]] = {
        **_pair_names(part, pairs),
        question.replace("-", "_"): numbers(found),
        "noise_error": numbers(np.where(np.isnan(found), np.nan, noise)),
        "chance_error": numbers(chance),
        "interval": ends(np.tanh(middle - half), np.tanh(middle + half)),
    }
    return Answer(question, table, _rows(part), (*notes, OF_CHANCE))


def _pair_names(part: ReleasedMoments, pairs: tuple[np.ndarray, ...]) -> dict[str, list[str]]:
    first, second = pairs
    return {"column": [part.names[i] for i in first], "with": [part.names[i] for i in second]}


def _rows(part: ReleasedMoments) -> dict[str, float]:
    return {"n_rows": part.n_rows, "n_rows_noise_error": part.n_rows_error}


def _those(part: ReleasedMoments, which: np.ndarray) -> str:
    names = [name for name, is_so in zip(part.names, which, strict=True) if is_so]
    return names[0] if len(names) == 1 else f"{', '.join(names[:4])}{' and others' if len(names) > 4 else ''} each"
