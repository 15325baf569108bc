"""Analysis of variance and covariance: which categories and numbers a number differs by, each given the others."""

from collections.abc import Sequence

import numpy as np

from analyses.kept_moments.answer import (
    Answer,
    AnswerError,
    Floats,
    check_rows,
    chosen,
    features_of,
    intervals,
    numbers,
)
from analyses.kept_moments.redrawn import N_DRAWS, Likeness, check_regular
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import SimulatedNoise

N_NULL = 1_000
"""Draws of moments without an effect that an F is compared with."""


def anova(moments: ReleasedMoments, value: str, columns: Sequence[str]) -> Answer:
    """Return the table of an analysis of variance of type II: a line per term, then what is left.

    A term's sum of squares is what the line of all terms leaves less than that of all others. `p_value` is the share of
    moments without the term's effect that have a larger F: they are drawn with the release's noise in them, so noise is
    not taken for an effect. `share` is partial eta^2, corrected for what noise adds on average; its errors are
    those of draws, by chance with normal residuals.

    Args:
        moments: released.
        value: the number that is to be explained, `party.column`.
        columns: terms: categories, yes or no, and numbers.

    Raises:
        AnswerError: a column is not in the release, `value` explains itself, there is only noise, or some combination
            of the terms does not vary beyond the noise.
    """
    terms = features_of(moments, columns)
    features = [name for names in terms.values() for name in names]
    if value in features or not all(terms.values()):
        raise AnswerError(f"the terms must be other columns than {value!r}, and categories of two values at least")
    part = chosen(moments, [*features, value])
    check_rows(part)
    k = len(features)
    check_regular(part.centred.matrix[:k, :k], part.noise_level)
    places = {name: [features.index(one) for one in names] for name, names in terms.items()}
    degrees = max(part.n_rows - 1 - k, 1.0)
    left, of_terms = _sums(part.centred.matrix, places)
    if left <= 0 or part.centred.matrix[-1, -1] <= part.noise_level:
        raise AnswerError(f"{value} does not vary beyond the noise: ask for a larger epsilon")
    sizes = np.array([len(one) for one in places.values()])
    like = Likeness(part)
    f = of_terms / sizes / (left / degrees)
    p_values = [_p_value(like, places, name, degrees, float(f[at])) for at, name in enumerate(places)]
    noise, chance, off = _errors_of_shares(like, places, degrees)
    share = np.clip(of_terms / (of_terms + left) - off, 0.0, 1.0)
    squared = part.widths[-1] ** 2
    ends = intervals(share, np.hypot(noise, chance), 0.0, 1.0)
    return Answer(
        "anova",
        {
            "term": [*places, "residual"],
            "sum_of_squares": numbers(np.append(of_terms, left) * squared),
            "degrees": [*map(float, sizes), degrees],
            "f": [*numbers(f), None],
            "p_value": [*p_values, None],
            "share": [*numbers(share), None],
            "noise_error": [*numbers(noise), None],
            "chance_error": [*numbers(chance), None],
            "interval": [*ends, None],
        },
        {"value": value, "n_rows": part.n_rows, "residual_deviation": float(np.sqrt(left / degrees * squared))},
        ("each sum of squares is that of type II: given all other terms; errors are those of `share`",),
    )


def _sums(scatter: Floats, places: dict[str, list[int]]) -> tuple[float, Floats]:
    """Return what the line of all terms leaves of the label's scatter, and how much more it is without each."""
    k = len(scatter) - 1
    left = _left(scatter, list(range(k)))
    without = [_left(scatter, [at for at in range(k) if at not in own]) for own in places.values()]
    return left, np.array(without) - left


def _left(scatter: Floats, features: list[int]) -> float:
    across = scatter[features, -1]
    return float(scatter[-1, -1] - across @ np.linalg.solve(scatter[np.ix_(features, features)], across))


def _like(like: Likeness, line: Floats, variance: float, degrees: float, draw: Floats) -> Floats:
    """Return the scatter of rows whose label is a line of their features, with normal residuals about it.

    Args:
        like: where the features' scatter A is from.
        line: b, shape (features,); the scatter with the label is A b + u, u of covariance variance * A.
        variance: variance of the residuals.
        degrees: rows less features and 1.
        draw: shape (features + 1,), standard normal numbers; zeros for the line itself.
    """
    k = len(line)
    a = like.scatter[:k, :k]
    values, vectors = np.linalg.eigh(a)
    u = np.sqrt(variance) * (vectors * np.sqrt(np.maximum(values, 0.0))) @ draw[:k]
    found = like.scatter.copy()
    found[:k, -1] = found[-1, :k] = a @ line + u
    rest = degrees + np.sqrt(2 * degrees) * draw[k] + draw[:k] @ draw[:k]
    found[-1, -1] = line @ a @ line + 2 * line @ u + variance * max(rest, 0.0)
    return found


def _p_value(like: Likeness, places: dict[str, list[int]], name: str, degrees: float, observed: float) -> float:
    """Return how often F is larger than observed where the term has no effect, by draws of noise and chance."""
    k, own = len(like.scatter) - 1, places[name]
    others = [at for at in range(k) if at not in own]
    line = np.zeros(k)
    line[others] = np.linalg.solve(like.scatter[np.ix_(others, others)], like.scatter[others, -1])
    variance = max(_left(like.scatter, list(range(k))), 0.0) / degrees
    draws, larger = SimulatedNoise().normal(N_NULL, k + 1), 0
    for draw, noise in zip(draws, like.part.noise(N_NULL), strict=True):
        scatter = like.noisy(_like(like, line, variance, degrees, draw), noise)
        left = _left(scatter, list(range(k)))
        larger += left <= 0 or (_left(scatter, others) - left) / len(own) / (left / degrees) >= observed
    return (1 + larger) / (1 + N_NULL)


def _errors_of_shares(like: Likeness, places: dict[str, list[int]], degrees: float) -> tuple[Floats, Floats, Floats]:
    """Return the deviation of each partial eta^2 by noise and by chance, and by how much noise raises it."""
    k = len(like.scatter) - 1
    line: Floats = np.asarray(np.linalg.solve(like.scatter[:k, :k], like.scatter[:k, -1]), dtype=np.float64)
    variance = max(_left(like.scatter, list(range(k))), 0.0) / degrees

    def shares(scatter: Floats) -> Floats:
        left, of_terms = _sums(scatter, places)
        return of_terms / (of_terms + max(left, np.finfo(float).tiny))

    noise = np.array([shares(one) for one in like.of_noise()])
    draws = SimulatedNoise().normal(N_DRAWS, k + 1)
    chance = np.array([shares(_like(like, line, variance, degrees, draw)) for draw in draws])
    return noise.std(axis=0, ddof=1), chance.std(axis=0, ddof=1), noise.mean(axis=0) - shares(like.scatter)
