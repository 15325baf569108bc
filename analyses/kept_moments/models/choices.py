"""Logistic regressions of a category from released second moments: of its values, or of their order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyses.kept_moments.answer import Answer, AnswerError, Floats, check_rows, chosen, intervals, numbers, p_values
from analyses.kept_moments.models.population import Errors, Features, Population, errors_of, stated
from analyses.kept_moments.redrawn import check_regular
from analyses.kept_moments.tables import SEEN_GROUP, categories_of
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import SimulatedNoise

N_POINTS = 1_024
"""Rows, about, that sums over the population are taken of."""

_STEPS = 50
_FURTHEST = 30.0
"""Log odds per standard deviation of a column at which values count as separated."""


def multinomial(moments: ReleasedMoments, label: str, columns: Sequence[str] = (), *, normal: bool = False) -> Answer:
    """Return a multinomial logistic model: log odds of each value of a category against its first one.

    The score equations, sums of (y - p(x)) x = 0, have sums of y x from the release, and sums of p(x) x of the
    population of `models.population`. Errors are of draws, each fitted anew.

    Args:
        moments: released.
        label: a category, `party.column`, or a yes or no.
        columns: names of features, a category for all its values but the first; all others where none is named.
        normal: whether numbers are known to be near normal; else there are no intervals with them.

    Raises:
        AnswerError: a column is not in the release, the label is a number or explains itself, there is only noise, a
            value is not seen in it, or values are separated.
    """
    asked = _Asked.of(moments, label, columns, is_ordinal=False)
    found, errors = _answered(asked, label)
    k, n = len(asked.features.names), asked.n_odds
    values = found.T.ravel()
    whole, notes = stated(asked.features, errors.whole.T.ravel(), normal=normal)
    return Answer(
        "multinomial",
        {
            "value": [one for one in asked.values[1:] for _ in range(k + 1)],
            "column": [*asked.features.names, "intercept"] * n,
            "log_odds_per_unit": numbers(values),
            "noise_error": numbers(errors.noise.T.ravel()),
            "chance_error": numbers(errors.chance.T.ravel()),
            "interval": intervals(values, whole),
            "p_value": p_values(values, whole),
        },
        {"label": label, "against": asked.values[0], "n_rows": asked.part.n_rows},
        notes,
    )


def ordinal(moments: ReleasedMoments, label: str, columns: Sequence[str] = (), *, normal: bool = False) -> Answer:
    """Return a model of proportional odds: log odds of being above a value, in the order in which its owner lists them.

    Log odds of being above a value are w.x and a constant of that value. The likelihoods of the logistic models of all
    values are multiplied, with one w: their score equations have sums of y x alone, as those of `multinomial`. Where
    odds are proportional this is right, and its errors are a little larger than those of greatest likelihood.

    Args:
        moments: released.
        label: a category, `party.column`.
        columns: see `multinomial`.
        normal: see `multinomial`.

    Raises:
        AnswerError: see `multinomial`.
    """
    asked = _Asked.of(moments, label, columns, is_ordinal=True)
    found, errors = _answered(asked, label)
    k = len(asked.features.names)

    def of_all(one: Floats) -> Floats:
        return np.append(one[:k, 0], one[k])

    values = of_all(found)
    whole, notes = stated(asked.features, of_all(errors.whole), normal=normal)
    return Answer(
        "ordinal",
        {
            "column": [*asked.features.names, *(f"above {one}" for one in asked.values[:-1])],
            "log_odds_per_unit": numbers(values),
            "noise_error": numbers(of_all(errors.noise)),
            "chance_error": numbers(of_all(errors.chance)),
            "interval": intervals(values, whole),
            "p_value": p_values(values, whole),
        },
        {"label": label, "order": list(asked.values), "n_rows": asked.part.n_rows},
        (*notes, "odds are supposed to be proportional: a column moves the odds of being above each value alike"),
    )


@dataclass(frozen=True)
class _Asked:
    """A category that is to be explained.

    Attributes:
        part: moments of the features and then of the label's values but the first.
        features: the features.
        values: names of the label's values.
        is_ordinal: whether their order is meant.
    """

    part: ReleasedMoments
    features: Features
    values: tuple[str, ...]
    is_ordinal: bool

    @classmethod
    def of(cls, moments: ReleasedMoments, label: str, columns: Sequence[str], *, is_ordinal: bool) -> "_Asked":
        """Return what is asked, checked."""
        category = categories_of(moments, label)
        members = [name for name in moments.names if name.startswith(f"{label}=")][1:] or [label]
        features = Features.of(moments, label, columns)
        if set(members) & set(features.names):
            raise AnswerError(f"the label {label!r} cannot explain itself: name other columns")
        part = chosen(moments, [*features.names, *members])
        check_rows(part)
        k = len(features.names)
        check_regular(part.centred.matrix[:k, :k], part.noise_level)
        sizes = part.raw[-1, k:-1]
        sizes = np.append(part.raw[-1, -1] - sizes.sum(), sizes)
        seen = sizes > SEEN_GROUP * part.deviation * np.sqrt(len(members)) / part.constant
        if not seen.all():
            hidden = category.labels[int(np.argmin(seen))]
            raise AnswerError(
                f"rows of {label} = {hidden} are not distinguishable from noise: ask for a larger epsilon"
            )
        return cls(part, features, category.labels, is_ordinal)

    @property
    def n_odds(self) -> int:
        """Values but the first."""
        return len(self.values) - 1

    def fit(self, raw: Floats, features: Features, start: Floats | None = None) -> Floats | None:
        """Return weights of each column and of a row of zeros, shape (columns + 1, values - 1); None where none are.

        Args:
            raw: moments of `part` in the columns' own units.
            features: which of its columns are categories and which numbers.
            start: weights to begin with.
        """
        k = len(features.names)
        own = [*range(k), len(raw) - 1]
        target = raw[np.ix_(own, range(k, len(raw) - 1))] / raw[-1, -1]
        if self.is_ordinal:
            target = target[:, ::-1].cumsum(axis=1)[:, ::-1]
        try:
            rows, weights = Population.of(raw[np.ix_(own, own)], features).rows(SimulatedNoise(), N_POINTS)
        except np.linalg.LinAlgError:
            return None
        mean = weights @ rows
        spread = np.sqrt(np.maximum(weights @ (rows - mean) ** 2, np.finfo(float).tiny))
        scaled = np.column_stack([(rows - mean) / spread, np.ones(len(rows))])
        target[:-1] = (target[:-1] - np.outer(mean, target[-1])) / spread[:, None]
        first = None
        if start is not None:
            first = start * np.append(spread, 1.0)[:, None]
            first[-1] += mean @ start[:-1]
        found = _fit(scaled, weights, target, first, is_shared=self.is_ordinal)
        if found is None:
            return None
        found[:-1] /= spread[:, None]
        found[-1] -= mean @ found[:-1]
        return found


def _answered(asked: _Asked, label: str) -> tuple[Floats, Errors]:
    """Return the weights and their errors."""
    part, features = asked.part, asked.features
    found = asked.fit(part.raw, features)
    if found is None:
        raise AnswerError(f"no regression of {label}: some value is separated from the others, or hidden by noise")
    nothing = np.full(found.shape, np.nan)

    def estimate(raw: Floats) -> Floats:
        again = asked.fit(raw, features, found)
        return nothing if again is None else again

    k, simulated = len(features.names), SimulatedNoise()
    own = [*range(k), len(part.raw) - 1]
    rows, weights = Population.of(part.raw[np.ix_(own, own)], features).rows(simulated)
    above = _above(rows @ found[:-1] + found[-1], is_ordinal=asked.is_ordinal)
    rank = (simulated.uniform(len(rows))[:, None] < above).sum(axis=1)
    errors = errors_of(part, estimate, np.column_stack([rows, np.eye(asked.n_odds + 1)[rank][:, 1:]]), weights)
    return found, errors


def _above(odds: Floats, *, is_ordinal: bool) -> Floats:
    """Return the probabilities of each row to have the value of a column or a later one, shape as `odds`."""
    if is_ordinal:
        return np.asarray(np.minimum.accumulate(1 / (1 + np.exp(-odds)), axis=1))
    return np.asarray(_shares(odds)[:, ::-1].cumsum(axis=1)[:, ::-1])


def _shares(odds: Floats) -> Floats:
    """Return the probabilities of values but the first by their log odds against it."""
    top = np.maximum(odds.max(axis=1, keepdims=True), 0.0)
    found = np.exp(odds - top)
    return np.asarray(found / (found.sum(axis=1, keepdims=True) + np.exp(-top)), dtype=np.float64)


def _fit(rows: Floats, weights: Floats, target: Floats, start: Floats | None, *, is_shared: bool) -> Floats | None:
    """Return the weights whose mean of p(x) x is the target, by Newton's steps; None where there are none.

    Args:
        rows: shape (rows, columns), the last one 1.
        weights: weights of the rows, of sum 1.
        target: shape (columns, odds).
        start: weights to begin with; None for zeros.
        is_shared: whether odds have all weights but the last in common, and their targets are added up.
    """
    k, n = target.shape
    free = np.zeros((k, n, k - 1 + n)) if is_shared else np.eye(k * n).reshape(k, n, k * n)
    if is_shared:
        free[np.arange(k - 1), :, np.arange(k - 1)] = 1.0
        free[k - 1, np.arange(n), k - 1 + np.arange(n)] = 1.0
    flat = free.reshape(k * n, -1)
    found = np.zeros((k, n)) if start is None else start.copy()
    for _ in range(_STEPS):
        odds = rows @ found
        shares = 1 / (1 + np.exp(-odds)) if is_shared else _shares(odds)
        slope = flat.T @ (rows.T @ (weights[:, None] * shares) - target).ravel()
        curves = np.empty((k, n, k, n))
        for a in range(n):
            for b in range(n):
                if is_shared and a != b:
                    curves[:, a, :, b] = 0.0
                    continue
                here = shares[:, a] * ((a == b) - shares[:, b])
                curves[:, a, :, b] = rows.T @ ((weights * here)[:, None] * rows)
        try:
            step = np.linalg.solve(flat.T @ curves.reshape(k * n, k * n) @ flat, slope)
        except np.linalg.LinAlgError:
            return None
        moved = (flat @ step).reshape(k, n)
        found = found - moved / max(1.0, float(np.abs(moved).max()) / 2)
        if not np.abs(found).max() < _FURTHEST:
            return None
        if np.abs(moved).max() < 1e-8:
            return found
    return None
