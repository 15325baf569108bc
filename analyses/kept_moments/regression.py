"""Linear regressions of any released column on any others, with errors by noise and by chance."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analyses.kept_moments.answer import (
    Answer,
    AnswerError,
    Floats,
    check_rows,
    chosen,
    explaining,
    hidden_left,
    intervals,
    numbers,
    others_than,
    p_values,
)
from analyses.kept_moments.models.line_of_terms import regress_terms
from analyses.kept_moments.models.terms import is_plain
from analyses.kept_moments.redrawn import N_DRAWS, Likeness
from analyses.least_squares.fit import fit
from analyses.least_squares.line import line_of_units
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.ridge import RidgeSolution, solve
from analyses.second_moments.spectrum import SimulatedNoise, n_draws


def regress(
    moments: ReleasedMoments,
    label: str,
    columns: Sequence[str] = (),
    *,
    ridge: float | None = None,
    weight: str | None = None,
) -> Answer:
    """Return the line of least squares of a column on others, in their own units: as a job of `least-squares` would.

    Errors by noise are those of `analyses.least_squares.fit`; by chance sigma^2 (S + r)^-1 S (S + r)^-1, with S the
    centred moments of the features, r the ridge and sigma^2 the variance that the line leaves. `error` counts both, and
    `p_value` is that of a normal estimate with this error. With a ridge, all are about the line of the same ridge.

    Args:
        moments: released.
        label: what is to be explained.
        columns: names of features, a category for all its values but the first; all others where none is named.
        ridge: penalty on the squared coefficients, in units of scaled rows; None for the least that keeps noise from
            being inverted.
        weight: released column of the rows' weights. With it, or with terms that are no released columns among
            `columns`, the line is that of `models.line_of_terms`.

    Raises:
        AnswerError: a column is not in the release or no feature is left, there is only noise, or the features are
            singular; see also `regress_terms`.
    """
    if weight is not None or not all(is_plain(moments, one) for one in columns):
        if ridge is not None:
            raise AnswerError("a ridge is for columns as they were released: leave out the ridge, or terms and weight")
        asked = columns or [one for one in others_than(moments, label) if one != weight]
        return regress_terms(moments, label, asked, weight)
    features = explaining(moments, label, columns)
    if ridge is not None and not ridge >= 0:
        raise AnswerError(f"the ridge must be at least 0, got {ridge:g}")
    part = chosen(moments, [*features, label])
    check_rows(part)
    solution = solve(part.matrix, part.constant, part.noise_level, ridge)
    if solution.coefficients is None or solution.intercept is None:
        raise AnswerError(f"no regression of {label}: {solution.note}")
    line = line_of_units(solution.coefficients, solution.intercept, part.zeros, part.widths)
    fitted = fit(part, solution, part.noise_level, ridge)
    nothing = np.full(len(features) + 1, np.nan)
    noise = nothing if fitted is None else np.append(fitted.standard_errors, fitted.intercept_error)
    r_squared = None if fitted is None else fitted.r_squared
    chance = nothing if r_squared is None else _by_chance(part, solution, r_squared)
    values, whole = np.append(line.coefficients, line.intercept), np.hypot(noise, chance)
    adjusted = None if r_squared is None else 1 - (1 - r_squared) * (part.n_rows - 1) / _degrees(part)
    return Answer(
        "regress",
        {
            "column": [*features, "intercept"],
            "per_unit": numbers(values),
            "noise_error": numbers(noise),
            "chance_error": numbers(chance),
            "error": numbers(whole),
            "interval": intervals(values, whole),
            "p_value": p_values(values, whole),
        },
        {
            "label": label,
            "n_rows": part.n_rows,
            "r_squared": r_squared,
            "r_squared_noise_interval": None if fitted is None else list(fitted.interval),
            "r_squared_adjusted": adjusted,
            "ridge": solution.ridge,
        },
        _notes(solution, fitted is not None),
    )


def ridge(moments: ReleasedMoments, label: str, columns: Sequence[str] = ()) -> Answer:
    """Return `regress` with the ridge whose line is expected to miss least, and by how much less than without a ridge.

    For draws of the noise and of residuals about moments like those that were released, the line of each ridge of a
    grid misses the line without noise by d, and predictions by d' S d per row. The least mean of that is taken, so that
    noise that needs much of a ridge, and chance that needs a little, are both counted; where none helps it is 0.

    Args:
        moments: released.
        label: what is to be explained.
        columns: names of features; see `regress`.

    Raises:
        AnswerError: see `regress`.
    """
    features = explaining(moments, label, columns)
    part = chosen(moments, [*features, label])
    check_rows(part)
    grid, missed = _missed(part)
    best = int(np.argmin(missed))
    answer = regress(moments, label, features, ridge=float(grid[best]))
    width = float(part.widths[-1])
    about = {"expected_miss": float(np.sqrt(missed[best])) * width}
    if np.isfinite(missed[0]):
        about["expected_miss_without"] = float(np.sqrt(missed[0])) * width
    return replace(answer, question="ridge", about={**answer.about, **about})


def _missed(part: ReleasedMoments) -> tuple[Floats, Floats]:
    """Return ridges, the first 0, and how far the line of each is expected to miss, squared, per row, scaled."""
    like, k = Likeness(part), len(part.names) - 1
    a, across = like.scatter[:k, :k], like.scatter[:k, -1]
    true = np.linalg.pinv(a, hermitian=True) @ across
    left = max(float(like.scatter[-1, -1] - across @ true), 0.0) / _degrees(part)
    values, vectors = np.linalg.eigh(a)
    root = vectors * np.sqrt(left * np.maximum(values, 0.0))
    unit = max(part.noise_level, float(values[-1]) * 1e-9)
    grid = np.append(0.0, unit * np.logspace(-4, 3, 57))
    missed, draws = np.zeros(len(grid)), SimulatedNoise().normal(n_draws(N_DRAWS, k), k)
    for draw, noise in zip(draws, part.noise(len(draws)), strict=True):
        scatter = like.scatter.copy()
        scatter[:k, -1] = scatter[-1, :k] = across + root @ draw
        again = like.noisy(scatter, noise)
        found, directions = np.linalg.eigh(again[:k, :k])
        lifted = found[:, None] + grid
        lines = directions @ ((directions.T @ again[:k, -1])[:, None] / np.where(lifted > 0, lifted, np.nan))
        off = lines - true[:, None]
        missed += (off * (a @ off)).sum(axis=0) / part.n_rows / len(draws)
    return grid, np.where(np.isnan(missed), np.inf, missed)


def _by_chance(part: ReleasedMoments, solution: RidgeSolution, r_squared: float) -> Floats:
    """Return errors of coefficients and intercept by chance, in the columns' own units; NaN of what does not vary.

    What the line leaves is taken for no less than the noise may hide. The intercept is y - b m, with m the features'
    means, and has the variance sigma^2 / n + m' C m, C that of b.
    """
    scatter, k = part.centred.matrix, len(part.names) - 1
    least = hidden_left(part, np.asarray(solution.coefficients))
    left = max((1 - r_squared) * float(scatter[-1, -1]), least) / _degrees(part)
    inverse = np.linalg.pinv(scatter[:k, :k] + solution.ridge * np.eye(k), hermitian=True)
    of_scaled = left * inverse @ scatter[:k, :k] @ inverse
    per_unit = part.widths[-1] / part.widths[:k]
    of_own = of_scaled * np.outer(per_unit, per_unit)
    mean = part.zeros[:k] + part.widths[:k] * part.centred.mean[:k]
    of_intercept = left * part.widths[-1] ** 2 / part.n_rows + mean @ of_own @ mean
    found = np.append(np.diagonal(of_own), of_intercept)
    return np.asarray(np.sqrt(np.where(found > 0, found, np.nan)), dtype=np.float64)


def _degrees(part: ReleasedMoments) -> float:
    return max(part.n_rows - len(part.names), 1.0)


def _notes(solution: RidgeSolution, has_errors: bool) -> tuple[str, ...]:
    of_ridge = "errors are about the line of the same rows with this ridge" if solution.ridge else ""
    of_errors = "" if has_errors else "the noise hides how large the errors are"
    return tuple(filter(None, (solution.note, of_ridge, of_errors)))
