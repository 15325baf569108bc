"""Logistic regressions of a category from released second moments: of its values, or of their order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyses.kept_moments.answer import (
    Answer,
    AnswerError,
    Floats,
    block,
    check_rows,
    chosen,
    intervals,
    numbers,
    p_values,
)
from analyses.kept_moments.models.odds import along, fitted, n_points, shares_of
from analyses.kept_moments.models.population import Errors, Features, Population, errors_of, stated
from analyses.kept_moments.redrawn import check_regular
from analyses.kept_moments.tables import SEEN_GROUP, categories_of
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import SimulatedNoise

_SMALL = 1e-8
_SMALL_OF_DRAWS = 1e-3
_AT_ONCE = 300_000  # numbers of rows of draws that are held together


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
    asked = Choice.of(moments, label, columns, is_ordinal=False)
    found, errors = answered(asked, label)
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
    asked = Choice.of(moments, label, columns, is_ordinal=True)
    found, errors = answered(asked, label)
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
class Choice:
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
    def of(cls, moments: ReleasedMoments, label: str, columns: Sequence[str], *, is_ordinal: bool) -> "Choice":
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

    def fit(self, raw: Floats, start: Floats | None = None) -> Floats:
        """Return weights of columns and of a row of zeros, shape (..., columns + 1, values - 1); NaN where none are.

        Args:
            raw: moments of `part` in the columns' own units, shape (..., m, m).
            start: weights that are near; then steps end at what is small beside errors.

        Raises:
            LinAlgError: some categories do not vary.
        """
        k = len(self.features.names)
        own = [*range(k), raw.shape[-1] - 1]
        target = block(raw, own, range(k, raw.shape[-1] - 1)) / raw[..., -1:, -1:]
        if self.is_ordinal:
            target = target[..., ::-1].cumsum(axis=-1)[..., ::-1]
        whole = block(raw, own, own) / raw[..., -1:, -1:]
        mean = whole[..., -1, :-1]
        variance = np.diagonal(whole, axis1=-2, axis2=-1)[..., :-1] - mean**2
        spread = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
        n_odds = 1 if self.is_ordinal else self.n_odds
        points = along(Population.of(whole, self.features), n_odds, mean, spread)
        mean, spread = mean[..., None], spread[..., None]
        slopes = (target[..., :-1, :] - mean * target[..., -1:, :]) / spread
        target = np.concatenate([slopes, target[..., -1:, :]], axis=-2)
        first = np.zeros_like(target)
        if start is not None:
            last = start[-1] + (mean * start[:-1]).sum(axis=-2, keepdims=True)
            first = np.concatenate([start[:-1] * spread, last], axis=-2)
        small = _SMALL if start is None else _SMALL_OF_DRAWS
        found = fitted(points, target, first, is_shared=self.is_ordinal, small=small)
        slopes = found[..., :-1, :] / spread
        last = found[..., -1:, :] - (mean * slopes).sum(axis=-2, keepdims=True)
        return np.concatenate([slopes, last], axis=-2)


def weights_of(asked: Choice, label: str) -> Floats:
    """Return the weights of each column and of a row of zeros, shape (columns + 1, values - 1).

    Raises:
        AnswerError: there are none.
    """
    try:
        found = asked.fit(asked.part.raw)
    except np.linalg.LinAlgError:
        found = np.full(1, np.nan)
    if np.isnan(found).any():
        raise AnswerError(f"no regression of {label}: some value is separated from the others, or hidden by noise")
    return found


def answered(asked: Choice, label: str) -> tuple[Floats, Errors]:
    """Return the weights and their errors; raises as `weights_of`."""
    part, features = asked.part, asked.features
    k = len(features.names)
    own = [*range(k), len(part.raw) - 1]
    found = weights_of(asked, label)
    rows, weights = Population.of(part.raw[np.ix_(own, own)], features).rows(SimulatedNoise())
    at_once = max(1, _AT_ONCE // (n_points(features, 1 if asked.is_ordinal else asked.n_odds) * (k + 1)))

    def estimate(raw: Floats) -> Floats:
        parts = [raw[at : at + at_once] for at in range(0, len(raw), at_once)]
        return np.concatenate([asked.fit(one, found) for one in parts])

    ranks = np.eye(asked.n_odds + 1)[:, 1:]
    labelled = np.column_stack([np.repeat(rows, len(ranks), axis=0), np.tile(ranks, (len(rows), 1))])
    shares = _shares_of_ranks(rows @ found[:-1] + found[-1], is_ordinal=asked.is_ordinal)
    return found, errors_of(part, estimate, labelled, (weights[:, None] * shares).ravel())


def _shares_of_ranks(odds: Floats, *, is_ordinal: bool) -> Floats:
    """Return the probabilities of all values, shape (rows, values), by log odds of each but the first."""
    if not is_ordinal:
        shares = shares_of(odds)
        return np.column_stack([1 - shares.sum(axis=1), shares])
    above = np.minimum.accumulate(1 / (1 + np.exp(-odds)), axis=1)
    return -np.diff(above, axis=1, prepend=1.0, append=0.0)
