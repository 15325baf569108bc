"""Analysis of variance and covariance: which categories and numbers a number differs by, each given the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from analyses.kept_moments.answer import (
    Answer,
    AnswerError,
    Floats,
    block,
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

_AT_ONCE = 100


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
    lines = _Lines(Likeness(part), degrees)
    f = of_terms / sizes / (left / degrees)
    p_values = _p_values(lines, places, f)
    noise, chance, off = _errors_of_shares(lines, places)
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


def _sums(scatter: Floats, places: dict[str, list[int]]) -> tuple[Floats, Floats]:
    """Return what the line of all terms leaves of the label's scatter, and how much more it is without each.

    Args:
        scatter: shape (..., columns, columns), the label last.
        places: columns of each term.

    Returns:
        shape (...,), and (..., terms).
    """
    k = scatter.shape[-1] - 1
    left = _left(scatter, list(range(k)))
    without = [_left(scatter, [at for at in range(k) if at not in own]) for own in places.values()]
    return left, np.stack(without, axis=-1) - left[..., None]


def _left(scatter: Floats, features: list[int]) -> Floats:
    """Return what the line of some columns leaves of the label's scatter, shape (...,)."""
    across = scatter[..., features, -1]
    line = np.linalg.solve(block(scatter, features, features), across[..., None])[..., 0]
    return np.asarray(scatter[..., -1, -1] - (across * line).sum(axis=-1), dtype=np.float64)


@dataclass(frozen=True)
class _Lines:
    """Rows whose label is a line of their features, with normal residuals about it.

    Attributes:
        like: where the features' scatter A is from.
        degrees: rows less features and 1.
    """

    like: Likeness
    degrees: float

    @cached_property
    def root(self) -> Floats:
        """R with R R' = A."""
        values, vectors = np.linalg.eigh(self.like.scatter[:-1, :-1])
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)), dtype=np.float64)

    @cached_property
    def variance(self) -> float:
        """Variance of the residuals of the line of all features."""
        return max(float(_left(self.like.scatter, list(range(len(self.root))))), 0.0) / self.degrees

    def line(self, others: list[int]) -> Floats:
        """Return the line of some features, zeros for all others."""
        scatter, found = self.like.scatter, np.zeros(len(self.root))
        found[others] = np.linalg.solve(scatter[np.ix_(others, others)], scatter[others, -1])
        return found

    def drawn(self, line: Floats, draws: Floats) -> Floats:
        """Return scatters of other labels of the same features.

        Args:
            line: b, shape (features,); a scatter with the label is A b + u, u of covariance variance * A.
            draws: shape (draws, features + 1), standard normal numbers.

        Returns:
            shape (draws, features + 1, features + 1), the label last.
        """
        a, k = self.like.scatter[:-1, :-1], len(line)
        u = np.sqrt(self.variance) * draws[:, :k] @ self.root.T
        found = np.repeat(self.like.scatter[None], len(draws), axis=0)
        found[:, :k, -1] = found[:, -1, :k] = a @ line + u
        rest = self.degrees + np.sqrt(2 * self.degrees) * draws[:, k] + (draws[:, :k] ** 2).sum(axis=1)
        found[:, -1, -1] = line @ a @ line + 2 * u @ line + self.variance * np.maximum(rest, 0.0)
        return found


def _p_values(lines: _Lines, places: dict[str, list[int]], observed: Floats) -> list[float]:
    """Return how often each F is larger than observed where its term has no effect, by draws of noise and chance."""
    k, larger = len(lines.root), np.zeros(len(places), dtype=np.int64)
    own_lines = [lines.line([at for at in range(k) if at not in own]) for own in places.values()]
    noise, draws = lines.like.part.noise(N_NULL), SimulatedNoise().normal(N_NULL, k + 1)
    for start in range(0, N_NULL, _AT_ONCE):
        of_noise = np.stack(list(islice(noise, _AT_ONCE)))
        for at, (own, line) in enumerate(zip(places.values(), own_lines, strict=True)):
            scatter = lines.like.noisy(lines.drawn(line, draws[start : start + _AT_ONCE]), of_noise)
            left, more = _sums(scatter, {"": own})
            f = more[:, 0] / len(own) / (np.where(left > 0, left, 1.0) / lines.degrees)
            larger[at] += np.count_nonzero((left <= 0) | (f >= observed[at]))
    return [(1 + int(one)) / (1 + N_NULL) for one in larger]


def _errors_of_shares(lines: _Lines, places: dict[str, list[int]]) -> tuple[Floats, Floats, Floats]:
    """Return the deviation of each partial eta^2 by noise and by chance, and by how much noise raises it."""
    like, k = lines.like, len(lines.root)

    def shares(scatter: Floats) -> Floats:
        left, of_terms = _sums(scatter, places)
        return np.asarray(of_terms / (of_terms + np.maximum(left, np.finfo(float).tiny)[..., None]))

    noise = shares(like.noisy(like.scatter, np.stack(list(like.part.noise(N_DRAWS)))))
    chance = shares(lines.drawn(lines.line(list(range(k))), SimulatedNoise().normal(N_DRAWS, k + 1)))
    return noise.std(axis=0, ddof=1), chance.std(axis=0, ddof=1), noise.mean(axis=0) - shares(like.scatter)
