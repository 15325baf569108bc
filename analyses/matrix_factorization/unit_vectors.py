"""The integers that one protected unit adds to a sum, their certified bound, and how far a unit moves the sum.

Every unit's *whole* vector z is scaled, rounded toward zero and shrunk until |z|^2 <= B in integers, before anything
is added up (`mpc.arithmetic.rating_kernels`). z depends on the ratings of its unit and on what was broadcast, and on
nothing else. B holds whatever the ratings and whatever was broadcast, so a round may depend on all rounds before it.

**User, round 0** (offsets). The user keeps n ratings; w = 1 / sqrt(n), so that sum over the kept ratings of w^2 is 1.
Per kept item the vector has kappa w and w clip(x - mu0 - a, Y), in units:

    |z|^2  <=  units^2 sum w^2 (kappa^2 + Y^2)  =  units^2 (kappa^2 + Y^2),         B_0 = floor of that.

**User, round t >= 1** (factors). q has |q| <= 1. Per kept item w clip(x - mu0 - b_j - a, Y) q, and once h times the
upper triangle of q q':

    |z|^2  <=  units^2 (sum w^2 Y^2 |q|^2 + h^2 sum_{b <= c} q_b^2 q_c^2)  <=  units^2 (Y^2 + h^2 |q|^4),
    B_t = floor(units^2 (Y^2 + h^2)).

**Rating** (vertical). With f = (1, v), |f| <= F: kappa, clip(x - mu0 - b, Y) f, and h times the upper triangle of f f'
without its first entry, which would count a second time:

    |z|^2  <=  units^2 (kappa^2 + Y^2 F^2 + h^2 (F^4 - 1)),     as sum_{b <= c} f_b^2 f_c^2 <= |f|^4 and f_0 = 1.

Integers below a real bound are below its floor, so B is exact. Rounding toward zero lengthens nothing; stochastic
rounding could reach (sqrt(B) + sqrt(L))^2, L the number of nonzeros.

**Sensitivity**, of the sum over all units, D the difference of two neighbouring sums, L the most nonzeros of a unit:

* Add or remove one unit: D = z. |D|_2^2 <= B. By Cauchy and Schwarz |D|_1 <= sqrt(L B), and an integer is at most its
  square, so |D|_1 <= B, too: Delta_1 = min(isqrt(L B), B).
* Replace one unit: D = z - z'. |D|_2 <= 2 sqrt(B), so Delta_2^2 = 4 B, and |D|_1 <= 2 Delta_1. Both are attained where
  a unit can have the vector -z when another has z, and otherwise hold all the same.

The bound is attained: a user with one rating beyond the residual bound has |z|^2 = units^2 (kappa^2 + Y^2).
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.ratings import Ratings
from analyses.sums.noise import SumSensitivity
from dp.cost.accounting import Adjacency
from dp.cost.views import ADJACENCY, View
from mpc.arithmetic import rating_kernels

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_SQUARED_BOUND = 1 << 56
"""Largest squared norm of a unit's vector: its entries are below 2^28, so sums of 2^34 units fit into 64 bits."""

MAX_DEVIATION = 1e9
"""Largest absolute value of broadcast values and of centred ratings, so that scaled products stay far within 64 bits.
Plans refuse bounds that allow more (`plan.check_deviations`); what a unit has of its own is clipped, never refused."""

_LENGTHENED = 1 + 2.0**-30
"""How much longer than its bound a factor may be by rounding, before it is refused: the loops shrink what remains."""

_LONGEST = 2.0**500
"""Largest entry of a vector that is shortened: its square is finite."""


@dataclass(frozen=True)
class VectorRule:
    """The public constants from which a unit's vector is made.

    Attributes:
        units: integer units per 1.
        count_weight: kappa, the weight of a count.
        residual_bound: Y; residuals are clipped to it in size.
        moment_weight: h, the weight of second moments; 0 in a rule without factors.
        mean_ridge: added to the number of a user's ratings where their mean is taken in round 0.
    """

    units: int = 1024
    count_weight: Fraction = Fraction(1)
    residual_bound: Fraction = Fraction(3, 2)
    moment_weight: Fraction = Fraction(1, 3)
    mean_ridge: float = 5.0

    def __post_init__(self) -> None:
        if not 2 <= self.units <= 1 << 20:
            raise ValueError(f"units must lie in 2..2^20, not {self.units}")
        if min(self.count_weight, self.residual_bound) <= 0 or self.moment_weight < 0 or not self.mean_ridge >= 0:
            raise ValueError("the weight of counts and the residual bound are positive, and no ridge is negative")
        if self.offset_bound > MAX_SQUARED_BOUND or self.factor_bound > MAX_SQUARED_BOUND:
            raise ValueError("units, count_weight or residual_bound are so large that the sums would leave 64 bits")

    @property
    def offset_bound(self) -> int:
        """B_0 of a user's vector in round 0."""
        return math.floor(self.units**2 * (self.count_weight**2 + self.residual_bound**2))

    @property
    def factor_bound(self) -> int:
        """B_t of a user's vector in a later round."""
        return math.floor(self.units**2 * (self.residual_bound**2 + self.moment_weight**2))

    def rating_bound(self, squared_length: Fraction) -> int:
        """Return B of one rating's vector in the vertical setting.

        Args:
            squared_length: F^2, the largest |f|^2 of f = (1, v): at least 1.
        """
        residual = self.residual_bound**2 * squared_length
        moments = self.moment_weight**2 * (squared_length**2 - 1)
        return math.floor(self.units**2 * (self.count_weight**2 + residual + moments))


def sensitivity(squared_bound: int, n_nonzeros: int, view: View, unit: str) -> SumSensitivity:
    """Return how far one unit moves the sum in a view; the proof is at the head of this module.

    Args:
        squared_bound: B.
        n_nonzeros: L, how many entries of a unit's vector may differ from zero.
        view: decides about the neighbours: the coordinator's are added or removed, the coalition's replaced.
        unit: what is protected, in words.
    """
    factor = 2 if ADJACENCY[view] is Adjacency.REPLACE_ONE else 1
    l1 = min(math.isqrt(n_nonzeros * squared_bound), squared_bound)
    return SumSensitivity(factor**2 * squared_bound, factor * l1, ADJACENCY[view], unit)


def n_offset_entries(n_items: int) -> int:
    """Return the length of a sum of round 0: a count and a residual per item."""
    return 2 * n_items


def n_factor_entries(n_items: int, rank: int) -> int:
    """Return the length of a sum of a later round: p numbers per item, and the pooled second moment."""
    return n_items * rank + rank * (rank + 1) // 2


def n_rating_entries(n_rows: int, rank: int) -> int:
    """Return the length of a sum over ratings: 2 + p numbers per row, and the pooled moment but for its first entry."""
    return n_rows * (2 + rank) + (rank + 1) * (rank + 2) // 2 - 1


def add_offsets(rule: VectorRule, ratings: Ratings) -> Integers:
    """Return the sum of all users' vectors of round 0, shape (2 items,): count and residual of item after item.

    Args:
        rule: public constants.
        ratings: deviations from mu0, by user.
    """
    total = np.zeros(n_offset_entries(ratings.n_columns), dtype=np.int64)
    rating_kernels.add_offset_vectors(
        total,
        ratings.starts,
        ratings.columns,
        _clipped(ratings.deviations),
        _weights(ratings),
        float(rule.units),
        float(rule.count_weight),
        float(rule.residual_bound),
        rule.mean_ridge,
        rule.offset_bound,
    )
    return total


def add_factors(rule: VectorRule, ratings: Ratings, offsets: Floats, means: Floats, factors: Floats) -> Integers:
    """Return the sum of all users' vectors of a later round, shape (items p + p (p + 1) / 2,).

    Args:
        rule: public constants.
        ratings: deviations from mu0, by user.
        offsets: shape (items,), b; broadcast.
        means: shape (users,), a; each user's own.
        factors: shape (users, p), q; each user's own, of norm at most 1 (`within_ball`).

    Raises:
        ValueError: something broadcast is too large, or a factor too long; the text does not tell which.
    """
    _check(offsets)
    if not (np.einsum("ij,ij->i", factors, factors) <= _LENGTHENED).all():
        raise ValueError("a factor is longer than 1")
    total = np.zeros(n_factor_entries(ratings.n_columns, factors.shape[1]), dtype=np.int64)
    rating_kernels.add_factor_vectors(
        total,
        ratings.starts,
        ratings.columns,
        _clipped(ratings.deviations),
        np.ascontiguousarray(offsets),
        _weights(ratings),
        _clipped(means),
        np.ascontiguousarray(factors),
        float(rule.units),
        float(rule.moment_weight),
        float(rule.residual_bound),
        rule.factor_bound,
    )
    return total


def add_ratings(
    rule: VectorRule, ratings: Ratings, offsets: Floats, vectors: Floats, squared_length: Fraction
) -> Integers:
    """Return the sum of all single ratings' vectors, per row, shape (rows (2 + p) + (p + 1) (p + 2) / 2 - 1,).

    Args:
        rule: public constants.
        ratings: rows by the side that is summed: by user for a user sum, by item for an item sum.
        offsets: shape (columns,), of the other side.
        vectors: shape (columns, p), of the other side; 1 + |v|^2 at most `squared_length`.
        squared_length: F^2.

    Raises:
        ValueError: something broadcast is too large, or a vector too long; the text does not tell which.
    """
    _check(offsets)
    lengths = 1 + np.einsum("ij,ij->i", vectors, vectors)
    if not (lengths <= float(squared_length) * _LENGTHENED).all():
        raise ValueError("a vector is longer than its public bound")
    total = np.zeros(n_rating_entries(ratings.n_rows, vectors.shape[1]), dtype=np.int64)
    rating_kernels.add_rating_vectors(
        total,
        ratings.rows,
        ratings.columns,
        _clipped(ratings.deviations),
        np.ascontiguousarray(offsets),
        np.ascontiguousarray(vectors),
        float(rule.units),
        float(rule.count_weight),
        float(rule.moment_weight),
        float(rule.residual_bound),
        rule.rating_bound(squared_length),
    )
    return total


def solve(ratings: Ratings, offsets: Floats, vectors: Floats, ridges: Floats) -> Floats:
    """Return every row's ridge solution, shape (rows, q): of sum (d - b - f y)^2 + sum ridge y^2. Local, never sent.

    Args:
        ratings: ratings by row.
        offsets: shape (columns,), b.
        vectors: shape (columns, q), f.
        ridges: shape (q,), positive.
    """
    if not (ridges > 0).all():
        raise ValueError("a ridge must be positive")
    _check(offsets, vectors)
    solutions = np.zeros((ratings.n_rows, len(ridges)))
    rating_kernels.solve_rows(
        solutions,
        ratings.starts,
        ratings.columns,
        _clipped(ratings.deviations),
        np.ascontiguousarray(offsets),
        np.ascontiguousarray(vectors),
        np.ascontiguousarray(ridges, dtype=np.float64),
        np.zeros((len(ridges) + 1, len(ridges))),
    )
    return solutions


def within_ball(vectors: Floats, radius: float = 1.0) -> Floats:
    """Return vectors, shape (n, p), each shortened to `radius` where it is longer; zero where it is not finite."""
    vectors = np.where(np.abs(vectors).max(axis=1, initial=0.0)[:, None] <= _LONGEST, vectors, 0.0)
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return np.asarray(vectors * np.minimum(1.0, radius / np.maximum(norms, radius * 2.0**-60))[:, None])


def _weights(ratings: Ratings) -> Floats:
    """Return w = 1 / sqrt(n) per row, 1 for a row without ratings. Private."""
    return np.asarray(1.0 / np.sqrt(np.maximum(ratings.row_sizes, 1)))


def _clipped(own: Floats) -> Floats:
    """Return numbers of units' own, each mapped by itself: NaN to 0, others to the nearest that `MAX_DEVIATION` admits.

    A unit's own numbers are never refused: that would tell of them.
    """
    return np.ascontiguousarray(np.nan_to_num(np.clip(own, -MAX_DEVIATION, MAX_DEVIATION), copy=False))


def _check(*broadcast: Floats) -> None:
    """Refuse public numbers with which a product could leave 64 bits; NaN too, as no comparison with it holds."""
    for values in broadcast:
        if not (np.abs(values) <= MAX_DEVIATION).all():
            raise ValueError("a broadcast number is not finite, or too large")
