"""The public numbers of a proof that rows of integers keep a norm, and why they suffice.

A dealer shares Y = [X | S]: rows of c integers, completed by four squares to the squared norm B^2 exactly, n rows at
most, modulo Q = p_1 ... p_k. Each row is proven to have squared norm B^2 *as integers in (-Q/2, Q/2]*:

    1. K projections V_k = rho_k' Y sigma_k + Z_k are opened, coefficients -1, 0, 0, 1 from a coin that is tossed when Y
       and the dealer's masks Z are shared, and each |V_k| is at most M.
    2. sum_j y_ij^2 = B^2 is proven modulo each prime (`mpc.proofs.inner_products`).

**No entry that is larger than 3 M passes 1**, but with probability (3/4)^K. Let y be such an entry, in row i and column
j, everything but rho_i and sigma_j be fixed, Z too, and |x| be the distance of x to the multiples of Q. Write u for
row i times sigma: u is r - y, r, r, r + y with a quarter each. V_k is v - u, v, v, v + u. An interval of length 2 M
holds three of these only if |u| <= M, and more than two of them only if |u| <= 2 M: f(u) = 1, 3/4, 1/2 bounds the
probability of |V_k| <= M where |u| <= M, where |u| <= 2 M, and elsewhere.
    |r| <= M:       |r + y| and |r - y| are above 2 M:   at most 1/2 * 1 + 1/2 * 1/2
    |r| <= 2 M:     both are above M:                    at most 1/2 * 3/4 + 1/2 * 3/4
    elsewhere:                                           at most 1/2 * 1/2 + 1/2 * 1
which is 3/4 each time. Projections are independent: (3/4)^100 < 2^-41.

**So nothing wraps in 2**: with entries of at most 3 M the sum of a row's squares is at most w (3 M)^2, w = c + 4, which
`order_needed` keeps below Q. Two numbers in 0 .. Q - 1 that are equal modulo each prime are equal.

**A bit beside the norm.** One integer y of a row may be 0 or 1 instead of counting in B^2: a label, which could be as
long as B if it counted. Then 2 says sum_j y_ij^2 = B^2 + y, and besides that y^2 = y, modulo each prime. By 1 y is 3 M
at most, so |y^2 - y| <= w (3 M)^2 < Q: y^2 = y as integers, and y is 0 or 1. (Modulo the primes alone idempotents of
the field pass, of which all but 0 and 1 are beyond 3 M.) Both sums are below Q, so all other integers of the row have
the squared norm B^2. The row has B^2 + 1 at most, which stands for B^2 wherever a whole row is masked and projected.

**An honest dealer passes** but with probability 2^-40, whatever its rows are. An entry of sigma has E exp(s x) =
cosh(s / 2)^2 <= exp(s^2 / 4). So g = <sigma, y_i> / B has E exp(l g^2) <= (1 - l)^(-1/2), by convexity the mean square
T of g over the rows has no more, and P(T > 36) <= exp(-35.5) sqrt(72) < 2^-48. Given sigma, V_k is subgaussian of
variance s^2 = (a^2 + 18 n) B^2 (discrete Gaussian masks of variance (a B)^2 [CKS20]), and exceeds M = sqrt(68) s with
probability below 2 exp(-34) < 2^-48.

**What V says of the dealer's rows** is bounded by its masks: `dp.mechanism.norm_proof`. There the norm of the
projections counts, so sigma is drawn again until the squared norm of the K x w matrix is at most
`squared_operator_bound`, far above its mean; this at most doubles the probability of 1.

Sources: PINE [arXiv 2311.10237] has such a test per vector, Lyubashevsky, Nguyen, Plancon [eprint 2022/284] the
projections of exact quadratics, Gentry, Halevi, Lyubashevsky [eprint 2021/1397] the bound modulo Q.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.moduli import PRIMES
from mpc.arithmetic.words import Words
from mpc.proofs.squares.four_squares import N_SQUARES, four_squares

N_PROJECTIONS = 100

LEAST_MASK = 1000
"""Smallest deviation of a mask, in units of the bound of a row's norm."""

MOST_MASK = 1 << 14
"""Largest deviation of a mask; where the field has room, masks are as large as that."""

_SUBGAUSSIAN = 68
"""Square of the deviations that an honest projection stays within."""

_MEAN_SQUARE = 18
"""Half of 36, the bound of the mean square of a row's projection."""


@dataclass(frozen=True)
class NormBound:
    """What is proven of the rows of one dealer, and how. Public.

    Attributes:
        width: c, integers of a row, 1 or more.
        squared_norm: B^2, 1 .. 2^60.
        most_rows: n.
        mask: a: deviation of a mask in units of B.
        bit: place of the integer in a row that is 0 or 1 and does not count in B^2; None if there is none.
        is_one_hot: whether a row is completed by 1 less its sum, of which nothing is dealt, and not by four squares.
            With B^2 = 1 the whole is an integer vector of norm 1 and sum 1: one entry is 1, and all others are 0. That
            squares equal their roots modulo each prime does not say so (idempotents).
    """

    width: int
    squared_norm: int
    most_rows: int
    mask: int = LEAST_MASK
    is_one_hot: bool = False
    bit: int | None = None

    @property
    def dealt_width(self) -> int:
        """Integers that are dealt of a row."""
        return self.width + (0 if self.is_one_hot else N_SQUARES)

    @property
    def whole_width(self) -> int:
        """w: integers of a row that is complete."""
        return self.width + (1 if self.is_one_hot else N_SQUARES)

    @property
    def largest_squared_norm(self) -> int:
        """Largest squared norm of a whole row: B^2, and 1 for a bit."""
        return self.squared_norm + (self.bit is not None)

    @property
    def squared_norms(self) -> tuple[int, ...]:
        """What the squares of each part of a row add up to; here of the row as a whole. Parts are equally long."""
        return (self.squared_norm,)

    def squared(self, field: ResidueField, rows: Words) -> Words:
        """Return the elements of complete rows that are squared, or shares of them, part by part.

        Args:
            field: field of the elements.
            rows: shape (n_words, n, whole_width).
        """
        return rows

    def completion(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what completes rows, whatever they are: beyond their bound nothing does.

        Args:
            rows: shape (n, c).
        """
        if self.is_one_hot:
            return np.asarray(1 - rows.sum(axis=1, keepdims=True), dtype=np.int64)
        counted = rows if self.bit is None else np.delete(rows, self.bit, axis=1)
        return four_squares(self.squared_norm - np.einsum("ij,ij->i", counted, counted))

    @property
    def mask_variance(self) -> int:
        """Parameter of the discrete Gaussian masks."""
        return self.mask**2 * self.largest_squared_norm

    @property
    def largest_projection(self) -> int:
        """M, which no projection of an honest dealer exceeds."""
        variance = (self.mask**2 + _MEAN_SQUARE * self.most_rows) * self.largest_squared_norm
        return math.isqrt(_SUBGAUSSIAN * variance) + 1

    @property
    def order_needed(self) -> int:
        """The order of the field must be larger, so that the squares of a row cannot wrap."""
        return max(self.whole_width * (3 * self.largest_projection) ** 2, 8 * self.largest_projection)

    @property
    def squared_operator_bound(self) -> int:
        """Bound of the squared norm of the K x w matrix of coefficients sigma."""
        return math.ceil((math.sqrt(N_PROJECTIONS / 2) + math.sqrt(self.whole_width / 2) + 3) ** 2)


@dataclass(frozen=True)
class EntryBounds(NormBound):
    """What is proven of rows of which each entry has a range of its own: y_j is an integer from 0 to r_j.

    Each entry is completed by four squares of its own,

        (2 y_j - r_j)^2 + s_j1^2 + s_j2^2 + s_j3^2 + s_j4^2 = r_j^2,

    which is true of integers for y_j = 0 .. r_j and for no others: the first square is r_j^2 at most. Projections are
    of all y_j and s_ji, so these are at most 3 M in size, and the left side is at most (6 M + r_j)^2 + 36 M^2, below
    `order_needed`. That y_j itself is projected matters: (Q + 1) / 2 is no small number, but 2 y_j is.

    A whole row is y_1, ..., y_c and then s_11, ..., s_c4. Its squared norm is a sum of 4 r_j y_j - 3 y_j^2, at most
    4/3 r_j^2. So `squared_norm`, on which masks and bounds of projections rest, is what no honest row exceeds.

    Attributes:
        ranges: r_j of each entry, 0 or more.
    """

    ranges: tuple[int, ...] = ()

    @classmethod
    def of(cls, ranges: Sequence[int], most_rows: int) -> "EntryBounds":
        """Return the bounds of rows with these ranges, with the smallest masks."""
        longest = -(-4 * sum(r * r for r in ranges) // 3)
        return cls(len(ranges), max(1, longest), most_rows, ranges=tuple(ranges))

    @property
    def dealt_width(self) -> int:
        """See `NormBound`."""
        return self.width * (1 + N_SQUARES)

    @property
    def whole_width(self) -> int:
        """See `NormBound`."""
        return self.dealt_width

    @property
    def squared_norms(self) -> tuple[int, ...]:
        """See `NormBound`: a part is an entry and what completes it."""
        return tuple(r * r for r in self.ranges)

    def squared(self, field: ResidueField, rows: Words) -> Words:
        """See `NormBound`: of each entry 2 y - r and its squares."""
        n_rows, width = rows.shape[1], self.width
        minus = field.encode(-np.array(self.ranges, dtype=np.int64))
        entries = np.ascontiguousarray(rows[:, :, :width])
        places = field.add(field.add(entries, entries), np.repeat(minus[:, None], n_rows, axis=1))
        squares = rows[:, :, width:].reshape(field.n_words, n_rows, width, N_SQUARES)
        parts = np.concatenate([places[..., None], squares], axis=3)
        return np.ascontiguousarray(parts.reshape(field.n_words, n_rows, -1))

    def completion(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `NormBound`."""
        missing = np.array(self.squared_norms, dtype=np.int64) - (2 * rows - np.array(self.ranges, dtype=np.int64)) ** 2
        return four_squares(missing.reshape(-1)).reshape(len(rows), -1)

    @property
    def order_needed(self) -> int:
        """See `NormBound`."""
        largest = 3 * self.largest_projection
        place = 2 * largest + max(self.ranges)
        return max(place**2 + N_SQUARES * largest**2, 8 * self.largest_projection)


def primes_needed(order_needed: int) -> int | None:
    """Return how many primes a field of a larger order has; None where none is so large."""
    for n_primes in range(1, len(PRIMES) + 1):
        if math.prod(PRIMES[:n_primes]) > order_needed:
            return n_primes
    return None
