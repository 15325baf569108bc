"""Canonical correlation: the combinations of some columns and of some others that go together most."""

from collections.abc import Sequence

import numpy as np

from analyses.kept_moments.answer import (
    OF_CHANCE,
    Answer,
    AnswerError,
    Floats,
    check_rows,
    chosen,
    features_of,
    intervals,
    numbers,
)
from analyses.kept_moments.redrawn import Likeness, check_regular
from analyses.second_moments.released import ReleasedMoments


def canonical_correlation(
    moments: ReleasedMoments, columns: Sequence[str], others: Sequence[str], *, k: int = 1
) -> Answer:
    """Return the k largest canonical correlations of two sets of columns, such as those of two owners, and the weights.

    Weights are per standard deviation of a column; the combination that they make has variance 1. Correlations
    are corrected for what the noise adds on average; their errors are of draws, by chance as of normal columns. Weights
    have no errors.

    Args:
        moments: released.
        columns: names of the first columns; a category stands for all its values but the first.
        others: names of the second ones.
        k: how many.

    Raises:
        AnswerError: a column is not in the release or stands in both sets, there is only noise, k is not from 1 to the
            number of columns in the smaller set, or some combination of a set does not vary beyond the noise.
    """
    first, second = ([n for names in features_of(moments, one).values() for n in names] for one in (columns, others))
    if set(first) & set(second):
        raise AnswerError(f"column {min(set(first) & set(second))!r} stands on both sides")
    p, most = len(first), min(len(first), len(second))
    if not 1 <= k <= most:
        raise AnswerError(f"k must be from 1 to {most}, the number of columns on the smaller side, got {k}")
    part = chosen(moments, [*first, *second])
    check_rows(part)
    scatter = part.centred.matrix
    for own in (slice(0, p), slice(p, None)):
        check_regular(scatter[own, own], part.noise_level)
    left, found, right = _singular(scatter, p)
    spread = Likeness(part).spread(lambda one: _singular(one, p)[1][:k])
    values = np.clip(found[:k] - spread.off, 0.0, 1.0)
    deviations = np.sqrt(np.diagonal(scatter) / part.n_rows)
    weights = np.vstack([left[:, :k], right[:, :k]]) * np.sqrt(part.n_rows) * deviations[:, None]
    table = {f"weight_{at + 1}": numbers(weights[:, at]) for at in range(k)}
    return Answer(
        "canonical-correlation",
        {"column": part.names, "side": ["first"] * p + ["second"] * (len(part.names) - p), **table},
        {
            "n_rows": part.n_rows,
            "correlation": numbers(values),
            "correlation_noise_error": numbers(spread.noise),
            "correlation_chance_error": numbers(spread.chance),
            "correlation_interval": intervals(values, np.hypot(spread.noise, spread.chance), 0.0, 1.0),
        },
        (OF_CHANCE,),
    )


def _singular(scatter: Floats, p: int) -> tuple[Floats, Floats, Floats]:
    """Return weights of the first p columns, correlations of at most 1, and weights of the others."""
    first, second = _root_of_inverse(scatter[:p, :p]), _root_of_inverse(scatter[p:, p:])
    left, values, right = np.linalg.svd(first @ scatter[:p, p:] @ second, full_matrices=False)
    signs = np.sign(left[np.abs(left).argmax(axis=0), np.arange(left.shape[1])])
    return first @ (left * signs), np.minimum(values, 1.0), second @ (right.T * signs)


def _root_of_inverse(scatter: Floats) -> Floats:
    """Return the symmetric root of the inverse; directions that noise has made negative are left out."""
    values, vectors = np.linalg.eigh(scatter)
    seen = values > 1e-12 * max(float(values[-1]), np.finfo(float).tiny)
    return np.asarray((vectors * np.where(seen, 1 / np.sqrt(np.where(seen, values, 1.0)), 0.0)) @ vectors.T)
