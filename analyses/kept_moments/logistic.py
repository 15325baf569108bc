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
from analyses.kept_moments.models.choices import Choice, answered, weights_of
from analyses.kept_moments.models.population import UNSTATED, VOUCHED, is_yes_or_no, stated
from analyses.kept_moments.redrawn import N_DRAWS
from analyses.logistic_regression.link import CentredLabel, LogisticFit, fit_centred
from analyses.second_moments.centred import CentredMoments
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import SimulatedNoise

_SUPPOSED = (
    "weights by moments: exact for features of a normal distribution; errors do not count what they are off for others"
)
_OF_CATEGORIES = "no intervals and p-values: by moments alone they do not hold with categories among the features"
_OF_RIDGE = "a ridge shrinks the weights by an amount that the moments do not tell"


def logistic(moments: ReleasedMoments, label: str, columns: Sequence[str] = (), *, normal: bool = False) -> Answer:
    """Return the weights of a logistic model, in the columns' own units.

    They are those of `multinomial` for two values. Where the noise, or too many categories, leave no such population,
    they are by moments alone, as in a job of `logistic-regression`: the direction is that of least squares, length and
    intercept follow (`analyses.logistic_regression.link`), right for features that vary as a normal distribution does.
    Their errors are the deviation over draws of the noise, and of residuals of the label, each fitted anew.

    Args:
        moments: released.
        label: a yes or no with bounds 0 and 1, or one value of a category, `party.column=VALUE`.
        columns: names of features, a category for all its values but the first; all others where none is named.
        normal: whether numbers are known to be near normal; else there are no intervals with them.

    Raises:
        AnswerError: a column is not in the release, the label is a number or explains itself, there is only noise, or
            all labels are alike as far as the noise lets see.
    """
    part = _asked(moments, label, columns)
    names, note, ridge = part.names[:-1], "", 0.0
    try:
        asked = Choice.of(moments, label, columns, is_ordinal=False)
        weights, errors = answered(asked, label)
        values, noise, chance = weights[:, 0], errors.noise[:, 0], errors.chance[:, 0]
        whole, notes = stated(asked.features, errors.whole[:, 0], normal=normal)
    except AnswerError:
        found = _by_moments(part)
        values, note, ridge = _own(part, found), found.note, found.ridge
        noise, chance = _errors_by_moments(part, found)
        has_categories = any(is_yes_or_no(moments, name) for name in names)
        whole = np.hypot(noise, chance) if normal and not has_categories else np.full(len(values), np.nan)
        rule = _OF_CATEGORIES if has_categories else VOUCHED if normal else UNSTATED
        notes = (_SUPPOSED, rule, *((_OF_RIDGE,) if ridge else ()))
    return Answer(
        "logistic",
        {
            "column": [*names, "intercept"],
            "log_odds_per_unit": numbers(values),
            "noise_error": numbers(noise),
            "chance_error": numbers(chance),
            "interval": intervals(values, whole),
            "p_value": p_values(values, whole),
        },
        {"label": label, "n_rows": part.n_rows, "mean_label": _mean_label(part, part.centred), "ridge": ridge},
        tuple(filter(None, (note, *notes))),
    )


def log_odds(moments: ReleasedMoments, label: str, columns: Sequence[str] = ()) -> Floats:
    """Return the weights of `logistic`, shape (columns + 1,), without errors; arguments and errors likewise."""
    part = _asked(moments, label, columns)
    try:
        return weights_of(Choice.of(moments, label, columns, is_ordinal=False), label)[:, 0]
    except AnswerError:
        return _own(part, _by_moments(part))


def _asked(moments: ReleasedMoments, label: str, columns: Sequence[str]) -> ReleasedMoments:
    """Return the moments of features and label; raises as `logistic`."""
    part = chosen(moments, [*explaining(moments, label, columns), label])
    if (part.lower[-1], part.widths[-1]) != (0.0, 1.0):
        raise AnswerError(
            f"the label {label!r} is a number; name a yes or no with bounds 0 and 1, or a category's value"
        )
    check_rows(part)
    return part


def _by_moments(part: ReleasedMoments) -> LogisticFit:
    """Return the weights that follow from moments alone.

    Raises:
        AnswerError: there is only noise.
    """
    found = _fit(part, part.matrix)
    if not found.weights.any():
        raise AnswerError(f"no regression of {part.names[-1]}: {found.note}; ask for a larger epsilon")
    return found


def _mean_label(part: ReleasedMoments, centre: CentredMoments) -> float:
    least = 1 / (2 * max(centre.n_rows, 1.0))
    return float(np.clip(part.zeros[-1] + centre.mean[-1], least, 1 - least))


def _errors_by_moments(part: ReleasedMoments, found: LogisticFit) -> tuple[Floats, Floats]:
    """Return errors of `_own` by noise and by chance; NaN with a ridge."""
    if found.ridge:
        nothing = np.full(len(part.names), np.nan)
        return nothing, nothing
    simulated = SimulatedNoise()
    noise = _deviation(part, [part.matrix + draw for draw in part.noise(N_DRAWS)])
    return noise, _deviation(part, [part.matrix + _residuals(part, found, simulated) for _ in range(N_DRAWS)])


def _fit(part: ReleasedMoments, matrix: Floats, ridge: float | None = None) -> LogisticFit:
    centre = part.centre(matrix)
    noise = part.deviation**2
    label = CentredLabel(
        centre.matrix[:-1, :-1],
        centre.matrix[:-1, -1],
        centre.mean[:-1],
        centre.n_rows,
        _mean_label(part, centre),
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
