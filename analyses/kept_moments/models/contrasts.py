"""Which groups differ in a number, and which columns a line needs: many comparisons of one release at once."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from analyses.kept_moments.answer import (
    N_DRAWS,
    Answer,
    AnswerError,
    Floats,
    block,
    check_rows,
    chosen,
    explaining,
    features_of,
    hidden_left,
    intervals,
    numbers,
    others_than,
    p_values,
)
from analyses.kept_moments.redrawn import check_regular
from analyses.kept_moments.tables import categories_of
from analyses.second_moments.released import ReleasedMoments

_CHOSEN = (
    "warning: a choice by the data itself. Errors, intervals and p-values of the chosen line as if it had been named "
    "beforehand are too small, so none are stated"
)


def contrasts(moments: ReleasedMoments, value: str, by: str, columns: Sequence[str] = ()) -> Answer:
    """Return the difference of a number's mean between each two groups, where the columns that are named are alike.

    They are differences of coefficients of one line of least squares. Errors by noise are of draws, by chance those of
    the classical covariance. `p_value_adjusted` is Holm's, for all pairs together [Holm79].

    Args:
        moments: released.
        value: a number, `party.column`.
        by: a column of categories.
        columns: names of further features, which are held alike.

    Raises:
        AnswerError: a column is not in the release, or stands in two places, there is only noise, or some combination
            of the features does not vary beyond it.
    """
    labels = categories_of(moments, by).labels
    members = features_of(moments, [by])[by]
    others = [one for names in features_of(moments, columns).values() for one in names]
    if {value, by} & {*columns} or value in (by, *members, *others) or {*members} & {*others}:
        raise AnswerError(f"{value!r}, {by!r} and the columns that are held alike must be different columns")
    part = chosen(moments, [*members, *others, value])
    line, noise, chance = (
        one * part.widths[-1] ** power for one, power in zip(_line(part, _drawn(part)), (1, 2, 2), strict=True)
    )
    pairs = list(combinations(range(len(labels)), 2))
    units = np.vstack([np.zeros(len(line)), np.eye(len(line))[: len(members)]])
    differences = np.array([units[b] - units[a] for a, b in pairs])
    values = differences @ line
    by_noise, by_chance = (np.sqrt(np.einsum("pi,ij,pj->p", differences, one, differences)) for one in (noise, chance))
    whole = np.hypot(by_noise, by_chance)
    p = p_values(values, whole)
    return Answer(
        "contrasts",
        {
            by: [labels[b] for _, b in pairs],
            "less": [labels[a] for a, _ in pairs],
            "difference": numbers(values),
            "noise_error": numbers(by_noise),
            "chance_error": numbers(by_chance),
            "interval": intervals(values, whole),
            "p_value": p,
            "p_value_adjusted": _holm(p),
        },
        {"value": value, "alike": list(columns), "n_rows": part.n_rows},
        ("each interval holds for its own pair in 19 of 20 cases; the adjusted p-values for all pairs together",),
    )


def stepwise(moments: ReleasedMoments, label: str, columns: Sequence[str] = ()) -> Answer:
    """Return the line that is left when columns are taken out one after another, while the criterion falls.

    Without a term of d coefficients b of covariance V, the Bayesian information criterion of a line falls by
    d log n - b' V^-1 b. Here V counts the noise of the release too, so that noise alone
    seldom makes a term stay.

    Args:
        moments: released.
        label: what is to be explained.
        columns: terms to begin with, a category for all its values but the first; all others where none is named.

    Raises:
        AnswerError: a column is not in the release or no feature is left, there is only noise, or some combination of
            the features does not vary beyond it.
    """
    explaining(moments, label, columns)
    terms = features_of(moments, columns or others_than(moments, label))
    taken: list[str] = []
    first = [*(one for members in terms.values() for one in members), label]
    drawn = _drawn(chosen(moments, first))
    while True:
        names = [one for members in terms.values() for one in members]
        part = chosen(moments, [*names, label])
        kept = [first.index(one) for one in part.names]
        line, noise, chance = _line(part, block(drawn, kept, kept))
        gains = {}
        for term, members in terms.items():
            at = [names.index(one) for one in members]
            covariance = (noise + chance)[np.ix_(at, at)]
            gains[term] = float(line[at] @ np.linalg.solve(covariance, line[at])) - len(at) * np.log(part.n_rows)
        worst = min(gains, key=lambda term: gains[term])
        if gains[worst] >= 0 or len(terms) == 1:
            break
        taken.append(worst)
        del terms[worst]
    per_unit = part.widths[-1] / part.widths[:-1]
    of_terms = [gains[term] for term, members in terms.items() for _ in members]
    seen = gains[worst] >= 0
    notes = (_CHOSEN,) if seen else (_CHOSEN, f"the data do not show that {worst} explains {label}")
    return Answer(
        "stepwise",
        {"column": names, "per_unit": numbers(line * per_unit), "criterion_without": numbers(np.array(of_terms))},
        {"label": label, "n_rows": part.n_rows, "taken_out": taken},
        notes,
    )


def _drawn(part: ReleasedMoments) -> Floats:
    """Return scatters with further draws of the noise, shape (draws, columns, columns)."""
    return part.scatters(part.matrix + np.stack(list(part.noise(N_DRAWS))))


def _line(part: ReleasedMoments, drawn: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the line of the last column on the others, scaled, and its covariances by noise and by chance.

    Args:
        part: the columns.
        drawn: see `_drawn`.

    Raises:
        AnswerError: there is only noise, or some combination of the features does not vary beyond it.
    """
    check_rows(part)
    scatter, k = part.centred.matrix, len(part.names) - 1
    check_regular(scatter[:k, :k], part.noise_level)

    def of(found: Floats) -> Floats:
        return np.asarray(np.linalg.solve(found[..., :k, :k], found[..., :k, -1:])[..., 0], dtype=np.float64)

    line = of(scatter)
    left = max(float(scatter[-1, -1] - scatter[:k, -1] @ line), hidden_left(part, line)) / max(part.n_rows - 1 - k, 1.0)
    noise: Floats = np.asarray(np.cov(of(drawn).T).reshape(k, k), dtype=np.float64)
    return line, noise, np.asarray(left * np.linalg.inv(scatter[:k, :k]), dtype=np.float64)


def _holm(values: Sequence[float | None]) -> list[float | None]:
    """Return p-values for all comparisons together: each times those that are not smaller, never falling."""
    known = sorted((p, at) for at, p in enumerate(values) if p is not None)
    found: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (p, at) in enumerate(known):
        least = max(least, min(1.0, p * (len(known) - rank)))
        found[at] = least
    return found
