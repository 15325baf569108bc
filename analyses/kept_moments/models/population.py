"""A population with the second moments that were released: what a likelihood needs beyond them is supposed.

The score equations of a generalised linear model [McCuNel89] are sums of y x, which second moments hold, against sums
of mu(x) x, which they do not. A polynomial for mu on an interval that is fixed beforehand makes moments of the second
[HugAdaBro17]; here the features are taken to be those of the population of greatest entropy that has their moments: the
cells of the categories by their pairs, and numbers that are normal within each cell, with a mean that is additive in
the categories and one covariance. It is exact for one or two categories and numbers that vary so, and near for others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from analyses.kept_moments.answer import AnswerError, Floats, block, chosen, explaining, features_of, others_than
from analyses.kept_moments.redrawn import N_DRAWS
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import SimulatedNoise

MAX_CELLS = 512
"""Most combinations of the categories' values."""

N_POINTS = 2_048
"""Rows, about, that stand for a population where a sum over it has no closed form."""

_SWEEPS = 40
_KEY_OF_ROWS = b"rows of other samples, fixed key"
"""Key of draws of other rows: with that of the population's points, one draw would be these points."""

_YES_OR_NO = 0.02
"""Part of the sum of x, or of 1 - x, that the sum of x - x^2 may be in a yes or no, beside what noise makes of it."""

SUPPOSED = (
    "an approximation: numbers are taken to be normal within each combination of the categories, with one covariance; "
    "errors do not count what that is off"
)
UNSTATED = (
    "intervals and p-values are left out: they would hold only if the numbers were near normal, which moments do not "
    "show; say normal = true if you know it"
)
VOUCHED = "intervals and p-values hold only if the numbers are near normal, as the question said"
EVEN = (
    "an approximation: combinations of three and more categories are taken to be as even as their pairs allow; errors "
    "do not count what that is off"
)


Estimate = Callable[[Floats], Floats]
"""Function of many second moments in the columns' own units, shape (draws, m, m); NaN where it finds nothing."""


@dataclass(frozen=True)
class Features:
    """The features of a model in a release of them and of what they explain.

    Attributes:
        names: names of the columns, those of a category for all its values but the first.
        categories: places of the columns of each category, and of each yes or no.
        numbers: places of the numbers.
    """

    names: tuple[str, ...]
    categories: tuple[tuple[int, ...], ...]
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, moments: ReleasedMoments, label: str, columns: Sequence[str]) -> "Features":
        """Return the features that names stand for; all columns but the label's where none is named.

        Raises:
            AnswerError: a column is not in the release or explains itself, or categories have too many combinations.
        """
        names = explaining(moments, label, columns)
        named = features_of(moments, columns or others_than(moments, label))
        categories, numbers = [], []
        for name, members in named.items():
            if members != [name]:
                categories.append(tuple(names.index(one) for one in members))
            elif is_yes_or_no(moments, name):
                categories.append((names.index(name),))
            else:
                numbers.append(names.index(name))
        found = cls(tuple(names), tuple(categories), tuple(numbers))
        if found.n_cells > MAX_CELLS:
            raise AnswerError(f"the categories have {found.n_cells} combinations, of at most {MAX_CELLS}: name fewer")
        return found

    @property
    def n_cells(self) -> int:
        """Combinations of the categories' values."""
        return int(np.prod([len(one) + 1 for one in self.categories], dtype=np.float64))

    @property
    def indicators(self) -> list[int]:
        """Places of all columns of categories, in the order of `Population.cells`."""
        return [at for one in self.categories for at in one]


@dataclass(frozen=True)
class Population:
    """Rows of features, by the cells of their categories.

    Attributes:
        features: which column is where.
        cells: indicators of each cell, shape (cells, indicators).
        shares: part of the rows in each, shape (..., cells), of sum 1.
        centre: means of the numbers where all indicators are 0, shape (..., numbers).
        slopes: how the means move with each indicator, shape (..., indicators, numbers).
        within: covariance of the numbers within cells, shape (..., numbers, numbers).
    """

    features: Features
    cells: Floats = field(repr=False)
    shares: Floats = field(repr=False)
    centre: Floats = field(repr=False)
    slopes: Floats = field(repr=False)
    within: Floats = field(repr=False)

    @classmethod
    def of(cls, raw: Floats, features: Features) -> "Population":
        """Return the population that has some moments; of leading axes, that of each.

        Args:
            raw: second moments in the columns' own units, the features' first and the constant last, shape (..., m, m).
            features: which column is where.

        Raises:
            LinAlgError: some categories do not vary.
        """
        whole = raw / raw[..., -1:, -1:]
        own, numbers = features.indicators, list(features.numbers)
        mean = whole[..., -1, :]
        centred = whole - mean[..., :, None] * mean[..., None, :]
        crossed = block(centred, own, numbers)
        slopes: Floats = np.asarray(np.linalg.solve(block(centred, own, own), crossed) if own else crossed, np.float64)
        within = block(centred, numbers, numbers) - slopes.swapaxes(-1, -2) @ crossed
        cells, shares = _cells(whole, features)
        centre = mean[..., numbers] - np.einsum("...i,...in->...n", mean[..., own], slopes)
        return cls(features, cells, shares, centre, slopes, (within + within.swapaxes(-1, -2)) / 2)

    def rows(self, simulated: SimulatedNoise, n_points: int = N_POINTS) -> tuple[Floats, Floats]:
        """Return rows that have the moments of the population, shape (..., rows, columns), and weights of sum 1.

        Numbers come in pairs on both sides of their mean, and have the covariance that they should.
        """
        n_numbers = len(self.features.numbers)
        points = np.zeros((1, 0))
        if n_numbers:
            points = balanced(simulated, max(n_numbers + 2, -(-n_points // (2 * self.features.n_cells))), n_numbers)
        values, vectors = np.linalg.eigh(self.within)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        spread = points @ (root @ vectors.swapaxes(-1, -2))
        means = self.centre[..., None, :] + self.cells @ self.slopes
        several, n_columns = self.shares.shape[:-1], len(self.features.names)
        found = np.empty((*several, len(self.cells), len(points), n_columns))
        found[..., self.features.indicators] = self.cells[:, None, :]
        found[..., list(self.features.numbers)] = means[..., :, None, :] + spread[..., None, :, :]
        weights = np.repeat(self.shares / len(points), len(points), axis=-1)
        return found.reshape(*several, -1, n_columns), weights


def balanced(simulated: SimulatedNoise, half: int, n_numbers: int) -> Floats:
    """Return normal points on both sides of 0 whose own covariance is 1, shape (2 half, numbers)."""
    points = simulated.normal(half, n_numbers)
    root = np.linalg.cholesky(points.T @ points / half)
    points = np.linalg.solve(root, points.T).T
    return np.vstack([points, -points])


@dataclass(frozen=True)
class Errors:
    """Standard deviations of a statistic of a release over draws, in the statistic's shape."""

    noise: Floats
    chance: Floats

    @property
    def whole(self) -> Floats:
        """Both together."""
        return np.asarray(np.hypot(self.noise, self.chance), dtype=np.float64)


def errors_of(part: ReleasedMoments, estimate: Estimate, rows: Floats, weights: Floats) -> Errors:
    """Return how an estimate differs between draws of the release's noise, and between samples of rows.

    Args:
        part: the release.
        estimate: see `Estimate`.
        rows: see `of_chance`.
        weights: see `of_chance`.
    """
    return Errors(of_noise(part, estimate), of_chance(part, estimate, rows, weights))


def of_noise(part: ReleasedMoments, estimate: Estimate) -> Floats:
    """Return the standard deviation of an estimate over draws of the release's noise."""
    n = len(part.matrix)
    if _are_few(n):
        at, beside = np.triu_indices(n)
        drawn = _spread_out(part.deviation**2 * np.diag(1.0 + (at == beside)), SimulatedNoise())
    else:
        drawn = np.stack(list(part.noise(N_DRAWS)))
    return _deviation(_estimates(estimate, part.in_own_units(part.matrix + drawn)))


def of_chance(part: ReleasedMoments, estimate: Estimate, rows: Floats, weights: Floats) -> Floats:
    """Return the standard deviation of an estimate over samples of rows.

    The mean of n rows of a population with values s of weights w is normal about its mean m with the covariance of
    sum of sqrt(w / n) g (s - m), g standard normal: so moments of other samples need no rows.

    Args:
        part: the release.
        estimate: see `Estimate`.
        rows: rows of the population like those that were released, the columns of `part`, shape (rows, columns).
        weights: their weights, of sum 1.
    """
    whole, simulated = np.column_stack([rows, np.ones(len(rows))]), SimulatedNoise(_KEY_OF_ROWS)
    mean = whole.T @ (weights[:, None] * whole)
    if _are_few(len(mean)):
        at, beside = np.triu_indices(len(mean))
        off = whole[:, at] * whole[:, beside] - mean[at, beside]
        drawn = _spread_out(part.n_rows * (off.T @ (weights[:, None] * off)), simulated)
    else:
        moved = np.sqrt(weights * part.n_rows) * simulated.normal(N_DRAWS, len(rows))
        drawn = np.stack([whole.T @ (one[:, None] * whole) - one.sum() * mean for one in moved])
    return _deviation(_estimates(estimate, part.raw + drawn))


def _are_few(order: int) -> bool:
    """Return whether symmetric matrices have at most half as many numbers as there are draws of them."""
    return order * (order + 1) <= N_DRAWS


def _spread_out(covariance: Floats, simulated: SimulatedNoise) -> Floats:
    """Return draws of few normal numbers whose own covariance is their law's, as symmetric matrices.

    Any hundred draws have deviations that are off by a fourteenth, and the same in all answers, as the key is fixed. By
    these a statistic that is linear in the numbers has the deviation that it has over all draws.

    Args:
        covariance: covariance of the entries on and above the diagonal, as `numpy.triu_indices` lists them.
        simulated: what they are drawn from.
    """
    order = int((2 * len(covariance)) ** 0.5)
    scale = np.sqrt(np.diagonal(covariance))
    scale = np.where(scale > 0, scale, 1.0)  # all samples have the same number of rows
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    root = scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    at, beside = np.triu_indices(order)
    found = np.empty((N_DRAWS, order, order))
    found[:, at, beside] = found[:, beside, at] = balanced(simulated, N_DRAWS // 2, len(root)) @ root.T
    return found


def _estimates(estimate: Estimate, moments: Floats) -> Floats:
    """Return the estimates of all draws; where some is singular, one by one, and NaN for it."""
    try:
        return estimate(moments)
    except np.linalg.LinAlgError:
        found: list[Floats | None] = []
        for one in moments:
            try:
                found.append(estimate(one[None])[0])
            except np.linalg.LinAlgError:
                found.append(None)
    known = next((one for one in found if one is not None), np.full(1, np.nan))
    return np.stack([np.full_like(known, np.nan) if one is None else one for one in found])


def stated(features: Features, errors: Floats, *, normal: bool) -> tuple[Floats, tuple[str, ...]]:
    """Return the errors of which intervals and p-values are made, NaN where none may be, and what is to be said.

    Numbers that are skewed move coefficients by many errors, and second moments are the same for skewed and for normal
    ones: with numbers among the features, intervals need the word of somebody who knows them.

    Args:
        features: the model's columns.
        errors: standard errors of coefficients, by noise and chance together, any shape.
        normal: whether the question says that the numbers are near normal.
    """
    if features.numbers:
        whole = errors if normal else np.full_like(errors, np.nan)
        return whole, (SUPPOSED, VOUCHED if normal else UNSTATED)
    return errors, (EVEN,) if len(features.categories) > 2 else ()


def _deviation(drawn: Floats) -> Floats:
    """Return the deviation over the draws that have an estimate; NaN where one of twenty has none."""
    missing = np.isnan(drawn).mean(axis=0) > 0.05
    with np.errstate(invalid="ignore"):
        kept = np.where(np.isnan(drawn), np.nanmean(drawn, axis=0) if len(drawn) else np.nan, drawn)
        return np.asarray(np.where(missing, np.nan, kept.std(axis=0, ddof=1)), dtype=np.float64)


def is_yes_or_no(moments: ReleasedMoments, name: str) -> bool:
    """Return whether a column holds 0 and 1 alone, as far as the noise lets see: then its squares are itself."""
    part = chosen(moments, [name])
    if (part.lower[0], part.widths[0]) != (0.0, 1.0):
        return "=" in name
    off = part.raw[0, -1] - part.raw[0, 0]
    rarer = min(part.raw[0, -1], part.raw[-1, -1] - part.raw[0, -1])  # so that small parts are no yes or no
    return bool(off < 4 * part.deviation / part.constant + _YES_OR_NO * max(rarer, 0.0))


def _cells(whole: Floats, features: Features) -> tuple[Floats, Floats]:
    """Return the cells, and their shares of greatest entropy by the pairs of categories, in proportion [DemSte40]."""
    sizes, several = [len(one) + 1 for one in features.categories], whole.shape[:-2]
    if not sizes:
        return np.zeros((1, 0)), np.ones((*several, 1))
    vectors = [_vectors(one, whole.shape[-1]) for one in features.categories]
    pairs = list(combinations(range(len(sizes)), 2))
    if not pairs:
        return np.eye(sizes[0])[:, 1:], _positive(whole[..., -1, :] @ vectors[0].T, 1)
    tables = [_positive(vectors[a] @ whole @ vectors[b].T, 2) for a, b in pairs]
    at = np.indices(sizes).reshape(len(sizes), -1)
    cells = np.hstack([np.eye(size)[one][:, 1:] for size, one in zip(sizes, at, strict=True)])
    of_pairs = [at[a] * sizes[b] + at[b] for a, b in pairs]  # each cell's place in the table of a pair
    sums = [np.eye(sizes[a] * sizes[b])[place] for (a, b), place in zip(pairs, of_pairs, strict=True)]
    shares = np.ones((*several, len(cells)))
    for _ in range(_SWEEPS if len(sizes) > 2 else 1):
        for table, place, add_up in zip(tables, of_pairs, sums, strict=True):
            margin = shares @ add_up
            factors = table.reshape(*several, -1) / np.where(margin > 0, margin, 1.0)
            shares = shares * factors[..., place]
    return cells, shares / shares.sum(axis=-1, keepdims=True)


def _vectors(places: Sequence[int], order: int) -> Floats:
    """Return u of each value of a category, u.(x, 1) = 1 in its rows and else 0, shape (values, order)."""
    units = np.eye(order)
    return np.vstack([units[-1] - units[list(places)].sum(axis=0), units[list(places)]])


def _positive(shares: Floats, n_axes: int) -> Floats:
    """Return shares of sum 1 over the last axes, none below 0."""
    axes = tuple(range(-n_axes, 0))
    found = np.maximum(shares, 0.0)
    total = found.sum(axis=axes, keepdims=True)
    even = 1 / np.prod([shares.shape[axis] for axis in axes])
    return np.asarray(np.where(total > 0, found / np.where(total > 0, total, 1.0), even), dtype=np.float64)
