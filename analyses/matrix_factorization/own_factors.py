"""Stage 3: what a party keeps for itself, fitted to its exact ratings on top of what the others' noisy sums say.

A rating less the centre is predicted as a_i + b_j + u_i v_j. Alternating ridge regressions fit it to the party's own
ratings [HuKorenVolinsky08, with explicit ratings]: each row y of users, then of items, minimises

    sum over its ratings (d - offset - f y)^2  +  sum over its priors (t - g y)^2  +  sum over factors ridge y_a^2.

`RowPrior`s (g, t) hold what is known of a row beside the party's own ratings: `joint`, the others' part of the opened
sums; `alone`, nothing but a fixed ridge. Nothing here is sent, so none of it costs privacy; and nothing here may be
published, as it depends on exact ratings.

**Which is kept.** `chosen` leaves out a tenth of the party's ratings, fits joint and alone, of each rank and ridge of
`SHAPES`, to the rest, and predicts the left-out ratings; so it does with `MOST_TENTHS` tenths, one after the other. It
keeps the best of alone, or the best of joint where that is better by more than `STANDARD_ERRORS` of the difference. So
a party whose ratings say more than the noisy sums keeps its own model. The others' part of the sums does not depend on
the party's ratings where only offsets were released. Released vectors do, with their noise, which favours `joint` a
little. All shapes are fitted to all tenths, so this work depends on no value, up to `MOST_TO_CHOOSE` ratings.

The difference is a mean over ratings of e_alone^2 - e_joint^2, so its standard error is their deviation over the root
of their number: what both models err alike cancels. *One* of it is the rule of [BreimanFriedmanOlshenStone84, section
3.4.3]. Where joint and alone err alike, joint is taken in 16 of 100 cases, by the normal law, in place of 50; where
joint is better by two standard errors it is kept in 84. And whoever keeps alone by the margin misses about a standard
error, which falls with the number of ratings. Fits without different tenths share data, so the true deviation of the
difference is somewhat larger: one more reason for a margin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.model import Fitted
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.unit_vectors import solve
from entropy import KeyStream
from mpc.transcript import digest

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

Whose = Literal["joint", "alone"]
JOINT: Whose = "joint"
ALONE: Whose = "alone"

TENTHS = 10
MOST_TENTHS = 5
"""Number of parts of a party's ratings, and how many of them are left out at most, one at a time."""

ENOUGH_LEFT_OUT = 1 << 15
"""Where fewer tenths come to so many ratings, fewer are left out: work does not grow by them where ratings are many."""

STANDARD_ERRORS = 1.0
"""Joint is kept where it is better by more than so many standard errors of the difference."""

MOST_TO_CHOOSE = 1 << 18
"""Ratings of the users among whom rank and ridge are chosen; joint or alone is chosen on all."""

_SWEEPS_TO_CHOOSE = 8
_SWEEPS = 12
_DECIMALS = 6
_NO_RIDGE = 1e-9
_FIRST_DEVIATION = 0.1


@dataclass(frozen=True)
class RowPrior:
    """What is known of each row y = (offset, factors) beside the party's own ratings, as ratings t = g y.

    Attributes:
        features: g, shape (rows, m, k): of the first k entries of y.
        targets: t, shape (rows, m).
    """

    features: Floats = field(repr=False)
    targets: Floats = field(repr=False)

    @classmethod
    def of_offsets(cls, means: Floats, ridges: Floats) -> "RowPrior":
        """Return priors of offsets alone: means and ridges, shape (rows,)."""
        root = np.sqrt(ridges)
        return cls(root[:, None, None], (root * means)[:, None])

    @classmethod
    def of_vectors(cls, means: Floats, ridges: Floats) -> "RowPrior":
        """Return independent priors of offsets and factors: means and ridges, shape (rows, k)."""
        root = np.sqrt(ridges)
        return cls(root[:, :, None] * np.eye(means.shape[1]), root * means)

    @classmethod
    def of_precisions(cls, precisions: Floats, known: Floats) -> "RowPrior":
        """Return priors with precision P, shape (rows, k, k), and P times the mean, shape (rows, k).

        With P = L L', they are ratings L^-1 known = L' y.
        """
        root = np.linalg.cholesky(precisions)
        targets = np.linalg.solve(root, known[:, :, None])[:, :, 0]
        return cls(np.ascontiguousarray(np.swapaxes(root, 1, 2)), targets)

    @classmethod
    def of_nothing(cls, n_rows: int, ridge: float) -> "RowPrior":
        """Return priors of offsets about 0."""
        return cls.of_offsets(np.zeros(n_rows), np.full(n_rows, ridge))

    @property
    def width(self) -> int:
        """Number of entries of a row that the priors are about, k."""
        return int(self.features.shape[2])

    def with_factors(self, means: Floats, ridge: float) -> "RowPrior":
        """Return priors of offsets with independent ones of factors beside them.

        Args:
            means: means of the factors, shape (rows, p).
            ridge: ridge of each factor about its mean.
        """
        n, p = means.shape
        features = np.zeros((n, 1 + p, 1 + p))
        features[:, :1, :1] = self.features
        features[:, 1:, 1:] = ridge**0.5 * np.eye(p)
        return RowPrior(features, np.column_stack([self.targets, ridge**0.5 * means]))

    def means(self) -> Floats:
        """Return what y is without any rating, shape (rows, k)."""
        if self.width == 1 and self.features.shape[1] == 1:
            return self.targets / self.features[:, :, 0]
        return np.asarray(np.linalg.solve(self.features, self.targets[:, :, None])[:, :, 0])

    def of_rows(self, rows: Integers) -> "RowPrior":
        """Return the priors of some rows."""
        return RowPrior(self.features[rows], self.targets[rows])


@dataclass(frozen=True)
class RowPriors:
    """What is known of users and of items."""

    users: RowPrior
    items: RowPrior


@dataclass(frozen=True)
class Shape:
    """A rank, and the ridges of the factors that no prior is about.

    Attributes:
        rank: p.
        ridge: ridge of the factors of users and of items.
    """

    rank: int
    ridge: float = 15.0


SHAPES: tuple[Shape, ...] = (
    Shape(0),
    Shape(4),
    Shape(8),
    Shape(4, 10.0),
    Shape(8, 10.0),
    Shape(4, 30.0),
    Shape(8, 30.0),
)
"""What is tried. The order breaks ties."""


@dataclass(frozen=True)
class Choice:
    """What a party keeps, and why. Private.

    Attributes:
        whose: joint: the others' noisy sums are used; alone: only own ratings.
        shape: the model's shape.
        errors: mean squared error of the left-out ratings, by `whose`; empty where none was left out.
        n_left_out: number of ratings that were left out, each once.
        standard_error: deviation of the difference of the errors; 0 for a party that joins nobody.
        has_factor_priors: whether priors are about factors, too, and set their scale.
        fitted: the model, fitted to all own ratings; rounded, as JSON data holds it.
    """

    whose: Whose
    shape: Shape
    errors: dict[Whose, float]
    n_left_out: int
    standard_error: float
    has_factor_priors: bool
    fitted: Fitted = field(repr=False)

    def as_data(self) -> dict[str, Any]:
        """Return whose the model is and why, as JSON data, with the sentence that the owner is told."""
        rank = f"rank {self.shape.rank}" if self.shape.rank else "rank 0, offsets alone"
        what = f"own model kept for recommendations: {self.whose}, {rank}"
        if self.n_left_out:
            errors = ", ".join(f"{whose} {error:.4g}" for whose, error in self.errors.items())
            what += f"; mean squared error of {self.n_left_out} own ratings, left out to choose: {errors}"
        if len(self.errors) > 1:
            margin = STANDARD_ERRORS * self.standard_error
            what += f"; joint is kept where it is better by more than a standard error of the difference, {margin:.2g}"
        data = {"whose": self.whose, "left_out": self.n_left_out, "errors": self.errors}
        return data | {"standard_error": self.standard_error, "told": what}


def of_nothing(ratings: Ratings, constants: Prior) -> RowPriors:
    """Return what a party knows of users and items that joins nobody: ridges of public constants about 0."""
    items = RowPrior.of_nothing(ratings.n_columns, constants.residual_variance / constants.offset_variance)
    return RowPriors(RowPrior.of_nothing(ratings.n_rows, constants.mean_ridge), items)


def fit(ratings: Ratings, priors: RowPriors, shape: Shape, n_sweeps: int = _SWEEPS) -> Fitted:
    """Return users and items that alternate ridge regressions lead to; equal arguments give equal values.

    Args:
        ratings: the party's own ratings, by user.
        priors: priors of users and items; where they are about factors, the rank is at least theirs.
        shape: rank, and the ridge of the other factors.
        n_sweeps: regressions of users and of items, in turn.
    """
    by_user, by_item = _with(ratings, priors.users), _with(ratings.transposed(), priors.items)
    items = _first_items(priors.items, shape.rank)
    users = np.zeros((ratings.n_rows, 1 + shape.rank))
    for _ in range(n_sweeps):
        users = _solve(by_user, items, priors.users, shape)
        items = _solve(by_item, users, priors.items, shape)
    return Fitted(users, items)


def chosen(
    ratings: Ratings,
    joint: Sequence[tuple[RowPriors, tuple[Shape, ...]]],
    alone: RowPriors,
    bounds: tuple[float, float],
) -> Choice:
    """Return the model that predicts left-out own ratings best, fitted to all; joint where it is clearly better.

    Args:
        ratings: the party's own ratings, by user.
        joint: priors from the others' sums, each with the shapes to try; none for a party that joins nobody.
        alone: priors from nothing.
        bounds: the bounds of a rating less the centre; predictions are clipped to them.
    """
    tried = [(JOINT, priors, shape) for priors, shapes in joint for shape in shapes]
    tried += [(ALONE, alone, shape) for shape in SHAPES]

    # Rank and ridge, of each kind, among some users; then the kind, among all.
    some = _some_users(ratings)
    few = ratings if len(some) == ratings.n_rows else ratings.of_rows(some)
    best: dict[Whose, tuple[Floats, RowPriors, Shape]] = {}
    for whose, priors, shape in tried:
        squares = _squares(few, RowPriors(priors.users.of_rows(some), priors.items), shape, bounds)
        if whose not in best or squares.sum() < best[whose][0].sum():
            best[whose] = squares, priors, shape
    left_out = {
        whose: squares if few is ratings else _squares(ratings, priors, shape, bounds)
        for whose, (squares, priors, shape) in best.items()
    }
    whose, n_left_out = next(iter(best)), len(left_out[ALONE])
    errors = {one: float(np.mean(squares)) for one, squares in left_out.items()} if n_left_out else {}
    standard_error = 0.0
    if JOINT in errors:
        standard_error = float(np.std(left_out[ALONE] - left_out[JOINT])) / n_left_out**0.5
        is_better = errors[ALONE] - errors[JOINT] > STANDARD_ERRORS * standard_error
        whose = JOINT if is_better else ALONE
    _, priors, shape = best[whose]
    fitted = _rounded(fit(ratings, priors, shape))
    return Choice(whose, shape, errors, n_left_out, standard_error, priors.users.width > 1, fitted)


# -- the choice ----------------------------------------------------------------------------------------------------


def _rounded(fitted: Fitted) -> Fitted:
    return Fitted(np.round(fitted.users, _DECIMALS), np.round(fitted.items, _DECIMALS))


def _some_users(ratings: Ratings) -> Integers:
    """Return evenly spaced users with about `MOST_TO_CHOOSE` ratings at most; all where there are no more."""
    step = -(-ratings.n_ratings // MOST_TO_CHOOSE) or 1
    return np.arange(0, ratings.n_rows, step)


def _squares(ratings: Ratings, priors: RowPriors, shape: Shape, bounds: tuple[float, float]) -> Floats:
    """Return the squared errors of left-out ratings, each of a fit to all but its tenth; tenths are by public coins."""
    words = KeyStream(digest("matrix factorization", "left out by a party")).words(ratings.n_ratings)
    enough = -(-TENTHS * ENOUGH_LEFT_OUT // max(1, ratings.n_ratings))
    found = []
    for tenth in range(min(MOST_TENTHS, enough)):
        out = words % np.uint64(TENTHS) == tenth
        if out.any():
            fitted = fit(ratings.select(~out), priors, shape, _SWEEPS_TO_CHOOSE)
            predicted = np.clip(fitted.predict(ratings.rows[out], ratings.columns[out]), *bounds)
            found.append((predicted - ratings.deviations[out]) ** 2)
    return np.concatenate([np.zeros(0), *found])


# -- one regression ------------------------------------------------------------------------------------------------


def _first_items(prior: RowPrior, rank: int) -> Floats:
    """Return the prior means, and small public random factors where the prior says nothing."""
    n, width = len(prior.targets), prior.width
    words = KeyStream(digest("matrix factorization", "first own vectors")).words(n * rank)
    uniform = ((words >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0).reshape(n, rank)
    items = np.column_stack([np.zeros(n), uniform * (3**0.5 * _FIRST_DEVIATION)])
    items[:, :width] = prior.means()
    return items


def _with(ratings: Ratings, prior: RowPrior) -> Ratings:
    """Return ratings by row, behind each row's own its m priors, as ratings of m columns that no other row has."""
    n, m = prior.targets.shape
    rows, starts = ratings.rows, ratings.starts + m * np.arange(n + 1)
    own, of_priors = np.arange(ratings.n_ratings) + m * rows, starts[1:, None] - m + np.arange(m)
    columns = np.empty(ratings.n_ratings + n * m, dtype=np.int64)
    deviations = np.empty(len(columns))
    columns[own], deviations[own] = ratings.columns, ratings.deviations
    columns[of_priors], deviations[of_priors] = ratings.n_columns + np.arange(n * m).reshape(n, m), prior.targets
    return Ratings(starts, columns, deviations, ratings.n_columns + n * m)


def _solve(ratings: Ratings, others: Floats, prior: RowPrior, shape: Shape) -> Floats:
    """Return every row's regression on (1, factors) of the columns, and on its priors, as `_with` has put them in."""
    n, m = prior.targets.shape
    of_priors = np.zeros((n * m, 1 + shape.rank))
    of_priors[:, : prior.width] = prior.features.reshape(n * m, prior.width)
    offsets = np.concatenate([others[:, 0], np.zeros(n * m)])
    vectors = np.vstack([np.column_stack([np.ones(len(others)), others[:, 1:]]), of_priors])
    ridges = np.full(1 + shape.rank, shape.ridge)
    ridges[: prior.width] = _NO_RIDGE
    return solve(ratings, offsets, vectors, ridges)
