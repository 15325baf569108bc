"""Logistic regressions of any released yes or no, or value of a category, on any other columns."""

from collections.abc import Sequence

import numpy as np

from analyses.kept_moments.answer import (
    Answer,
    AnswerError,
    Floats,
    check_rows,
    chosen,
    explaining,
    intervals,
    numbers,
    p_values,
)
from analyses.kept_moments.redrawn import N_DRAWS
from analyses.logistic_regression.link import CentredLabel, LogisticFit, fit_centred
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import SimulatedNoise

_SUPPOSED = (
    "weights by moments: exact for features of a normal distribution; errors do not count what they are off for others"
)


def logistic(moments: ReleasedMoments, label: str, columns: Sequence[str] = ()) -> Answer:
    """Return the weights of a logistic model by moments, in the columns' own units, as a job of `logistic-regression`.

    The direction is that of least squares, length and intercept follow from the same moments
    (`analyses.logistic_regression.link`): right for features that vary as a normal distribution does, and near for
    others. Errors are the deviation over draws of the noise, and of residuals of the label, each fitted anew.

    Args:
        moments: released.
        label: a yes or no with bounds 0 and 1, or one value of a category, `party.column=VALUE`.
        columns: names of features, a category for all its values but the first; all others where none is named.

    Raises:
        AnswerError: a column is not in the release, the label is a number or explains itself, there is only noise, or
            all labels are alike as far as the noise lets see.
    """
    features = explaining(moments, label, columns)
    part = chosen(moments, [*features, label])
    if (part.lower[-1], part.widths[-1]) != (0.0, 1.0):
        raise AnswerError(
            f"the label {label!r} is a number; name a yes or no with bounds 0 and 1, or a category's value"
        )
    check_rows(part)
    found = _fit(part, part.matrix)
    if not found.weights.any():
        raise AnswerError(f"no regression of {label}: {found.note}; ask for a larger epsilon")
    values = _own(part, found)
    noise = chance = np.full(len(values), np.nan)
    if not found.ridge:
        simulated = SimulatedNoise()
        noise = _deviation(part, [part.matrix + draw for draw in part.noise(N_DRAWS)])
        chance = _deviation(part, [part.matrix + _residuals(part, found, simulated) for _ in range(N_DRAWS)])
    whole = np.hypot(noise, chance)
    of_ridge = "a ridge shrinks the weights by an amount that the moments do not tell" if found.ridge else ""
    return Answer(
        "logistic",
        {
            "column": [*features, "intercept"],
            "log_odds_per_unit": numbers(values),
            "noise_error": numbers(noise),
            "chance_error": numbers(chance),
            "interval": intervals(values, whole),
            "p_value": p_values(values, whole),
        },
        {"label": label, "n_rows": part.n_rows, "mean_label": found.mean_label, "ridge": found.ridge},
        tuple(filter(None, (found.note, of_ridge, _SUPPOSED))),
    )


def _fit(part: ReleasedMoments, matrix: Floats, ridge: float | None = None) -> LogisticFit:
    centre = part.centre(matrix)
    least = 1 / (2 * max(centre.n_rows, 1.0))
    mean_label = float(np.clip(part.zeros[-1] + centre.mean[-1], least, 1 - least))
    noise = part.deviation**2
    label = CentredLabel(
        centre.matrix[:-1, :-1],
        centre.matrix[:-1, -1],
        centre.mean[:-1],
        centre.n_rows,
        mean_label,
        noise,
        noise * (1 + (float(centre.mean[-1]) / part.constant) ** 2),
    )
    return fit_centred(label, part.noise_level, ridge)


def _own(part: ReleasedMoments, found: LogisticFit) -> Floats:
    """Return weights per unit of each column, and the intercept."""
    per_unit = found.weights / part.widths[:-1]
    return np.append(per_unit, found.intercept - float(per_unit @ part.zeros[:-1]))


def _deviation(part: ReleasedMoments, matrices: Sequence[Floats]) -> Floats:
    drawn = [_own(part, _fit(part, matrix, 0.0)) for matrix in matrices]
    return np.asarray(np.std(drawn, axis=0, ddof=1), dtype=np.float64)


def _residuals(part: ReleasedMoments, found: LogisticFit, simulated: SimulatedNoise) -> Floats:
    """Return what other residuals of the label add to the moments, of the covariance of ordinary least squares."""
    label = len(part.names) - 1
    others = [at for at in range(label + 2) if at != label]
    values, vectors = np.linalg.eigh(part.matrix[np.ix_(others, others)])
    drawn = (vectors * np.sqrt(found.residual_variance * np.maximum(values, 0.0))) @ simulated.normal(len(others))
    moved = np.zeros_like(part.matrix)
    moved[label, others] = moved[others, label] = drawn
    return moved
