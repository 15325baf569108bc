"""Standard tasks on a synthetic table, beside the release's own answers to the same questions."""

from dataclasses import replace
from typing import Any

import numpy as np

from analyses.kept_moments.answer import AnswerError, Floats, features_of, others_than
from analyses.kept_moments.logistic import log_odds
from analyses.kept_moments.models.odds import fitted
from analyses.kept_moments.regression import regress
from analyses.kept_moments.statistics import correlations
from analyses.kept_moments.synthetic.rows import DrawnColumn, encoded
from analyses.kept_moments.synthetic.sources import Layout
from analyses.second_moments.released import ReleasedMoments

MOST_ROWS = 20_000
"""Rows on which a classifier is trained."""

_NO_NOISE = 1e-9  # deviation of the noise of a synthetic table's moments, as a fraction of the release's


def tasks(layout: Layout, drawn: tuple[DrawnColumn, ...], has: Floats, label: str) -> dict[str, Any]:
    """Return how far a synthetic table leads to the same answers as the release; None where one has no answer.

    Args:
        layout: what was released.
        drawn: the rows.
        has: their moments (`rows.moments_of`).
        label: column to explain; empty for the last that can be.

    Returns:
        `correlation_difference`, mean of absolute differences; `regression_label` and `r_squared`, of the release
        and of the synthetic table; `classification_label`, and `classification_agreement`, the share of
        synthetic rows that a logistic regression trained on them and that of the release put in one class.

    Raises:
        AnswerError: the label is not in the release.
    """
    moments = layout.moments
    if label and label not in moments.names:
        raise AnswerError(f"the release has no column {label!r} to explain; it has {', '.join(moments.names)}")
    alike = replace(
        moments,
        matrix=layout.to_scaled @ has @ layout.to_scaled.T * (moments.n_rows / has[-1, -1]),
        deviation=moments.deviation * _NO_NOISE,
    )
    found: dict[str, Any] = {"correlation_difference": _correlations(moments, alike)}
    singles = [s for s in layout.sources if len(s.columns) == 1 and s.kind in ("number", "yes/no")]
    of_number = label or next((s.name for s in reversed(singles)), "")
    if of_number and len(layout.sources) > 1:
        both = [_r_squared(moments, of_number), _r_squared(alike, of_number)]
        found |= {"regression_label": of_number, "r_squared": None if None in both else both}
    of_class = label if label and _is_yes_no(layout, label) else ""
    of_class = of_class or next((s.name for s in reversed(singles) if s.kind == "yes/no"), "")
    if of_class and len(layout.sources) > 1:
        found |= {
            "classification_label": of_class,
            "classification_agreement": _agreement(layout, drawn, of_class),
        }
    return found


def _is_yes_no(layout: Layout, label: str) -> bool:
    return any(
        source.kind in ("yes/no", "category") and layout.moments.names.index(label) in source.columns
        for source in layout.sources
    )


def _correlations(release: ReleasedMoments, alike: ReleasedMoments) -> float | None:
    if len(release.names) < 2:
        return None
    off = np.abs(correlations(release)[0] - correlations(alike)[0])[np.triu_indices(len(release.names), 1)]
    return None if np.isnan(off).all() else float(np.nanmean(off))


def _r_squared(moments: ReleasedMoments, label: str) -> float | None:
    try:
        found = regress(moments, label).about["r_squared"]
    except AnswerError:
        return None
    return None if found is None else float(found)


def _agreement(layout: Layout, drawn: tuple[DrawnColumn, ...], label: str) -> float | None:
    moments = layout.moments
    try:
        weights = log_odds(moments, label)
    except AnswerError:
        return None
    features = [at for names in features_of(moments, others_than(moments, label)).values() for at in names]
    columns = [moments.names.index(name) for name in features]
    y = encoded(layout, drawn, slice(MOST_ROWS))
    is_yes = y[:, moments.names.index(label)] > 0
    if is_yes.all() or not is_yes.any():
        return None
    varies = [at for at in columns if np.ptp(y[:, at]) > 0]
    rows, even = np.column_stack([y[:, varies], np.ones(len(y))]), np.full(len(y), 1 / len(y))
    try:
        trained = fitted(lambda _: (rows, even, 0.0), (rows.T @ (even * is_yes))[:, None], np.zeros((rows.shape[1], 1)))
    except np.linalg.LinAlgError:
        return None
    if np.isnan(trained).any():
        return None
    own = moments.lower[columns] + moments.widths[columns] * y[:, columns]
    return float(np.mean((rows @ trained[:, 0] > 0) == (own @ weights[:-1] + weights[-1] > 0)))
