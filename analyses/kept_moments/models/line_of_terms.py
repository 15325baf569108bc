"""The line of least squares on terms that are no released columns, or whose rows have weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyses.kept_moments.answer import (
    N_DRAWS,
    SEEN,
    Answer,
    AnswerError,
    Floats,
    check_rows,
    chosen,
    intervals,
    numbers,
    p_values,
)
from analyses.kept_moments.models.terms import Polynomial, TermMoments, Terms, columns_in, of_names
from analyses.kept_moments.redrawn import check_regular
from analyses.second_moments.released import ReleasedMoments

_ONE: Polynomial = {(): 1.0}

_MIDDLES = "mid() takes a value of an interval for the middle of it: the line is that of the middles"
_WEIGHTED = (
    "errors by chance suppose that weights go with nothing that the line leaves; by weights that are inverse variances "
    "they are larger than need be"
)


def regress_terms(moments: ReleasedMoments, label: str, columns: Sequence[str], weight: str | None) -> Answer:
    """Return the line of least squares of a column on terms (`models.terms`), its rows weighted by a released column.

    All sums that the normal equations need are linear in released moments, so errors by noise are the deviation over
    draws of it. Errors by chance are sigma^2 S^-1, S the centred moments of the terms and sigma^2 the variance that the
    line leaves. With weights w they are sigma^2 (sum of w^2) / (sum of w) S^-1, which is the variance
    S^-1 (sum of w^2 r^2 x x') S^-1 where w goes with neither x nor r.

    Args:
        moments: released.
        label: what is to be explained: a released column.
        columns: the terms.
        weight: released column of which each row's weight is the value; None for rows that count alike.

    Raises:
        AnswerError: a column is not in the release, a term has the label in it, a weight may be negative, the release
            does not hold a sum that is needed, there is only noise, or some combination of the terms does not vary
            beyond it.
    """
    check_rows(moments)
    terms = Terms(moments)
    features = of_names(terms, columns)
    target, weights = _column(terms, label), _ONE if weight is None else _column(terms, weight)
    for term in features:
        if columns_in(target) & columns_in(term.polynomial):
            raise AnswerError(f"the label {label!r} cannot explain itself: leave out the term {term.name!r}")
    if weight is not None and moments.lower[moments.names.index(weight)] < 0:
        raise AnswerError(f"the weight {weight!r} may be negative by its bounds; weights are at least 0")
    whole = [*(one.polynomial for one in features), target, _ONE]
    solved = _Solved.of(moments, terms.moments_of(whole, weights))
    errors = np.hypot(solved.noise, solved.chance)
    return Answer(
        "regress",
        {
            "column": [*(one.name for one in features), "intercept"],
            "per_unit": numbers(solved.line),
            "noise_error": numbers(solved.noise),
            "chance_error": numbers(solved.chance),
            "error": numbers(errors),
            "interval": intervals(solved.line, errors),
            "p_value": p_values(solved.line, errors),
        },
        {
            "label": label,
            "weight": weight,
            "n_rows": moments.n_rows,
            "r_squared": numbers(np.array([solved.r_squared]))[0],
            "r_squared_noise_error": numbers(np.array([solved.r_squared_error]))[0],
        },
        _notes(columns, weight, solved),
    )


@dataclass(frozen=True)
class _Solved:
    """A line with its errors; NaN where there is none.

    Attributes:
        line: coefficients, the intercept last.
        noise, chance: their standard errors.
        r_squared: part of the label's variance that the line explains, less what the noise adds to it on average.
        r_squared_error: standard error of it by noise.
    """

    line: Floats
    noise: Floats
    chance: Floats
    r_squared: float
    r_squared_error: float

    @classmethod
    def of(cls, moments: ReleasedMoments, terms: TermMoments) -> "_Solved":
        """Return the line of the last term but one on those before it; the last term is 1.

        Noise differs between combinations of terms, so each is compared with what noise does to that one; where it is
        alike for all, that is the rule of `check_regular`.

        Raises:
            AnswerError: some combination of the terms does not vary beyond the noise, or the weights do not add up.
        """
        part = moments.part(terms.names)
        sums, squared = terms.of(part.raw)
        drawn, _ = terms.of(part.in_own_units(part.matrix + np.stack(list(part.noise(N_DRAWS)))))
        if not sums[-1, -1] > SEEN * drawn[:, -1, -1].std():
            raise AnswerError("the sum of the weights is not distinguishable from noise: ask for a larger epsilon")
        scatter, mean = _centred(sums)
        scatters, means = _centred(drawn)
        k = len(scatter) - 1
        spread = np.sqrt(np.maximum(np.diagonal(scatter), 0.0))[:k]
        spread = np.where(spread > 0, spread, 1.0)
        scale = np.outer(spread, spread)
        check_regular(scatter[:k, :k] / scale, 0.0)
        root = np.linalg.inv(np.linalg.cholesky(scatter[:k, :k] / scale))
        moved = root @ ((scatters[:, :k, :k] - scatter[:k, :k]) / scale) @ root.T
        check_regular(np.eye(k), float(np.abs(np.linalg.eigvalsh(moved)).max(axis=1).mean()))
        line, r_squared = _line(scatter, mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            lines, of_draws = _line(scatters, means)
        noise = lines.std(axis=0, ddof=1)
        degrees = max(part.n_rows - k - 1, 1.0)
        least = float(((1 - of_draws) * scatters[:, -1, -1]).std(ddof=1))  # what the noise may hide
        left = max(float((1 - r_squared) * scatter[-1, -1]), least) / sums[-1, -1] * part.n_rows / degrees
        left = left * float(squared) / sums[-1, -1] if squared > 0 else np.nan
        covariance = left * np.linalg.inv(scatter[:k, :k] / scale) / scale
        of_intercept = left / sums[-1, -1] + mean[:k] @ covariance @ mean[:k]
        chance = np.sqrt(np.append(np.diagonal(covariance), of_intercept))
        off = float(of_draws.mean()) - float(r_squared)
        return cls(line, noise, chance, min(1.0, float(r_squared) - off), float(of_draws.std(ddof=1)))


def _centred(sums: Floats) -> tuple[Floats, Floats]:
    """Return moments about the weighted mean, of all terms but the last, and these means; of many by leading axes."""
    total = sums[..., -1:, -1:]
    mean = sums[..., :-1, -1:] / total
    found = sums[..., :-1, :-1] - mean @ mean.swapaxes(-1, -2) * total
    return (found + found.swapaxes(-1, -2)) / 2, mean[..., 0]


def _line(scatter: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Return the line of the last column on the others, its intercept last, and what it explains."""
    line = np.linalg.solve(scatter[..., :-1, :-1], scatter[..., :-1, -1:])[..., 0]
    intercept = mean[..., -1] - (mean[..., :-1] * line).sum(axis=-1)
    explained = (scatter[..., :-1, -1] * line).sum(axis=-1) / scatter[..., -1, -1]
    return np.concatenate([line, intercept[..., None]], axis=-1), explained


def _column(terms: Terms, name: str) -> Polynomial:
    """Return a released column as a term.

    Raises:
        AnswerError: it is none.
    """
    chosen(terms.moments, [name])
    (found,) = terms.of(name)
    return found.polynomial


def _notes(columns: Sequence[str], weight: str | None, solved: _Solved) -> tuple[str, ...]:
    hidden = "the noise hides how large the errors by chance are" if np.isnan(solved.chance).any() else ""
    middles = _MIDDLES if any("mid(" in one for one in columns) else ""
    return tuple(filter(None, (middles, _WEIGHTED if weight is not None else "", hidden)))
