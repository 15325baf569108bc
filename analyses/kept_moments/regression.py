"""Linear regressions of any released column on any others, with errors by noise and by chance."""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from analyses.kept_moments.answer import Answer, AnswerError, Floats, check_rows, chosen, intervals, numbers
from analyses.least_squares.fit import fit
from analyses.least_squares.line import line_of_units
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.ridge import RidgeSolution, solve


def regress(moments: ReleasedMoments, label: str, columns: Sequence[str] = (), *, ridge: float | None = None) -> Answer:
    """Return the line of least squares of a column on others, in their own units: as a job of `least-squares` would.

    Errors by noise are those of `analyses.least_squares.fit`; by chance sigma^2 (S + r)^-1 S (S + r)^-1, with S the
    centred moments of the features, r the ridge and sigma^2 the variance that the line leaves. `error` counts both, and
    `p_value` is that of a normal estimate with this error. With a ridge, all are about the line of the same ridge.

    Args:
        moments: released.
        label: what is to be explained.
        columns: names of features; all others where none is named.
        ridge: penalty on the squared coefficients, in units of scaled rows; None for the least that keeps noise from
            being inverted.

    Raises:
        AnswerError: a column is not in the release or no feature is left, there is only noise, or the features are
            singular.
    """
    features = list(columns or (name for name in moments.names if name != label))
    if label in features or not features:
        raise AnswerError(f"the label {label!r} cannot explain itself: name other columns")
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
    p_values = [2 * NormalDist().cdf(-abs(v / e)) if e > 0 else None for v, e in zip(values, whole, strict=True)]
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
            "p_value": p_values,
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


def _by_chance(part: ReleasedMoments, solution: RidgeSolution, r_squared: float) -> Floats:
    """Return errors of coefficients and intercept by chance, in the columns' own units.

    The intercept is y - b m, with m the features' means: of variance sigma^2 / n + m' C m, C that of b.
    """
    scatter, k = part.centred.matrix, len(part.names) - 1
    left = max(1 - r_squared, 0.0) * max(float(scatter[-1, -1]), 0.0) / _degrees(part)
    inverse = np.linalg.pinv(scatter[:k, :k] + solution.ridge * np.eye(k), hermitian=True)
    of_scaled = left * inverse @ scatter[:k, :k] @ inverse
    per_unit = part.widths[-1] / part.widths[:k]
    of_own = of_scaled * np.outer(per_unit, per_unit)
    mean = part.zeros[:k] + part.widths[:k] * part.centred.mean[:k]
    of_intercept = left * part.widths[-1] ** 2 / part.n_rows + mean @ of_own @ mean
    return np.asarray(np.sqrt(np.maximum(np.append(np.diagonal(of_own), of_intercept), 0.0)), dtype=np.float64)


def _degrees(part: ReleasedMoments) -> float:
    return max(part.n_rows - len(part.names), 1.0)


def _notes(solution: RidgeSolution, has_errors: bool) -> tuple[str, ...]:
    of_ridge = "errors are about the line of the same rows with this ridge" if solution.ridge else ""
    of_errors = "" if has_errors else "the noise hides how large the errors are"
    return tuple(filter(None, (solution.note, of_ridge, of_errors)))
