"""Quantisation of a table to integer rows of certified norm: scale by public bounds, clip, round to the nearest."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import JobError
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.rows import quantise_kernels
from analyses.rows.quantise_kernels import MAX_COLUMNS, SIZE_BITS
from analyses.rows.reach import Origin, centres

MAX_UNITS = 1 << 40
"""Largest value of gamma / row_norm and of row_norm / gamma, so that squares of rows stay within float64."""

MAX_SQUARED_NORM = 1 << 60
"""Largest squared norm of an integer row: twice of it still fits in int64, so sums of squares never wrap."""

MAX_ANSWER_PER_UNIT = 2.0**900
"""Largest factor from scaled units to the units of the columns; it leaves room for noise in the answer."""

_SHRINK = 1.0 - 2.0**-40


@dataclass(frozen=True)
class BlockQuantiser:
    """Turns one party's block of each row into integers whose squared norm is at most a public bound.

    A value x of a column with bounds [lower, upper] becomes z = (x - lower) / (upper - lower), clipped to [0, 1]; with
    origin `middle` 1/2 is subtracted, and in a group of k columns, k > 2, 1/k (`analyses.rows.reach`). The block
    (z_1 ... z_n) is divided by `row_norm`, multiplied by gamma, shrunk to norm sqrt(squared_norm_bound) if it is
    longer, and rounded to the nearest integers; where these are above the bound, toward zero (`rounded_to_nearest`).
    Either way a row of integers follows from that row alone and is within the bound, so rounding costs no sensitivity
    (stochastic rounding, as in [SPCA24] algorithm 2, can reach (gamma + sqrt n)^2, above the paper's eq. 13).

    Attributes:
        schema: the columns and their public bounds.
        gamma: units per 1.
        row_norm: the norm of a scaled row of the joint table that becomes 1.
        squared_norm_bound: B_q, the largest squared integer norm of this party's block of a row.
        origin: which value becomes 0.

    Guarantee: whatever the values, every row that `quantise` returns satisfies sum x_i^2 <= B_q as integers: it is
    checked after rounding in integer arithmetic that cannot wrap, and rows that floating-point error left above it are
    shrunk again until it holds. Rows that cannot be bounded raise ValueError; with finite values and a scale that
    `check_scale` accepts there are none.
    """

    schema: BlockSchema
    gamma: int
    row_norm: float
    squared_norm_bound: int
    origin: Origin = "lower"

    def scale_and_clip(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        """Scale some rows to integer units and clip them, without rounding.

        Args:
            values: shape (rows, n), finite.

        Returns:
            shape (rows, n), rows of norm at most sqrt(squared_norm_bound) up to floating-point error; per column, how
            many values lay outside the bounds, shape (n,); how many rows were too long. The counts are private.
        """
        lower, upper = self._bounds()
        scaled = np.clip(values, lower, upper)
        outside = np.count_nonzero(scaled != values, axis=0).astype(np.int64)
        scaled -= lower  # in place: each further array of a block would be memory that the system clears first
        scaled /= upper - lower
        scaled -= centres(self.schema.columns, self.origin)
        scaled *= self.gamma / self.row_norm
        return scaled, outside, shorten(scaled, self.squared_norm_bound)

    def quantise(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Quantise some rows; arguments and counts as `scale_and_clip`, the rows as integers.

        Raises:
            ValueError: a row cannot be bounded, see the guarantee.
        """
        largest_square = self._largest_plain_square()
        if largest_square <= 0:
            return self._quantise_by_numpy(values)
        lower, upper = self._bounds()
        values = np.ascontiguousarray(values, dtype=np.float64)
        x = np.empty(values.shape, dtype=np.int64)
        outside, left = np.zeros(values.shape[1], dtype=np.int64), np.empty(values.shape[0], dtype=np.int64)
        n_left = quantise_kernels.quantise(
            x,
            outside,
            left,
            values,
            np.concatenate((lower, upper)),
            upper - lower,
            centres(self.schema.columns, self.origin),
            self.gamma / self.row_norm,
            np.uint64(largest_square),
        )
        n_too_long = 0
        if n_left:
            rows = left[:n_left]
            x[rows], _, n_too_long = self._quantise_by_numpy(values[rows])
        return x, outside, n_too_long

    def _bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        lower = np.array([c.lower for c in self.schema.columns])
        return lower, np.array([c.upper for c in self.schema.columns])

    def _largest_plain_square(self) -> int:
        """Return the squared norm up to which a row of integers says that nothing had to be done about its norm.

        A scaled row whose rounded one has at most this norm is, by sqrt(n) / 2 and 2^-30 of the bound, which is more
        than any floating-point error, shorter than the bound. 0 where the compiled loop is not made for such rows.
        """
        n = len(self.schema.columns)
        is_large = self.squared_norm_bound > MAX_SQUARED_NORM or self.gamma / self.row_norm >= 1 << (SIZE_BITS - 1)
        if n > MAX_COLUMNS or is_large:
            return 0
        norm = math.sqrt(self.squared_norm_bound) * (1 - 2.0**-30) - math.sqrt(n) / 2
        return int(norm**2) if norm > 0 else 0

    def _quantise_by_numpy(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        scaled, outside, n_too_long = self.scale_and_clip(values)
        squared = np.einsum("ij,ij->i", scaled, scaled)
        # Not "any above": a comparison with NaN is false, and NaN would turn into an integer whose square wraps.
        if self.squared_norm_bound > MAX_SQUARED_NORM or not (squared <= 2.0 * self.squared_norm_bound).all():
            raise ValueError("the norm of rows cannot be bounded in float64 at this scale")
        return rounded_to_nearest(scaled, self.squared_norm_bound), outside, n_too_long


def shorten(scaled: NDArray[np.float64], squared_norm_bound: int) -> int:
    """Shorten in place the rows whose squared norm is above a bound; up to floating-point error none is then.

    Args:
        scaled: shape (rows, n), finite, in integer units.
        squared_norm_bound: at least 1.

    Returns:
        how many were too long by more than the rounding of the bound to an integer. Private.
    """
    bound = float(squared_norm_bound)
    squared = np.einsum("ij,ij->i", scaled, scaled)
    too_long = squared > bound * (1 + 2.0**-40)
    scaled[too_long] *= np.sqrt(bound / squared[too_long])[:, None]
    return int(np.count_nonzero(squared > (bound + 1.0) * (1 + 2.0**-40)))


def rounded(scaled: NDArray[np.float64], squared_norm_bound: int) -> NDArray[np.int64]:
    """Round rows toward zero; no row of integers has a squared norm above the bound.

    It is checked after rounding, in integers; a row above it is shrunk until it holds.

    Args:
        scaled: shape (rows, n), from `shorten` with the same bound; changed. No squared norm is near 2^63.
        squared_norm_bound: see there.
    """
    x = np.trunc(scaled).astype(np.int64)
    while (over := np.einsum("ij,ij->i", x, x) > squared_norm_bound).any():
        scaled[over] *= _SHRINK
        x[over] = np.trunc(scaled[over]).astype(np.int64)
    return x


def rounded_to_nearest(scaled: NDArray[np.float64], squared_norm_bound: int) -> NDArray[np.int64]:
    """Round rows to the nearest integers; a row that is then above the bound is rounded toward zero, as `rounded` does.

    Each row is rounded by itself, and no row of integers has a squared norm above the bound: rounding costs no
    sensitivity. An entry is off by half a unit at most, up or down, but in rows within half a unit per entry of the
    bound.

    Args:
        scaled: shape (rows, n), from `shorten` with the same bound; changed. No squared norm is near 2^63.
        squared_norm_bound: see there.
    """
    x = np.rint(scaled).astype(np.int64)
    if (over := np.einsum("ij,ij->i", x, x) > squared_norm_bound).any():
        x[over] = rounded(scaled[over], squared_norm_bound)
    return x


def check_scale(gamma: int, row_norm: float) -> None:
    """Refuse a scale with which rows cannot be bounded reliably, or results would leave the range of float64.

    Raises:
        JobError: names the row norm.
    """
    units = gamma / Fraction(row_norm)
    if not Fraction(1, MAX_UNITS) <= units <= MAX_UNITS:
        size = "small" if units > 1 else "large"
        raise JobError(f"parameters.row_norm: {row_norm:g} is too {size}; gamma / row_norm must lie in 2^-40 .. 2^40")


def check_units(columns: Iterable[tuple[str, ColumnSchema]], largest: float = 1.0, most_rows: int = 0) -> None:
    """Refuse columns whose coefficients or sums may leave the range of float64 in the units of the columns.

    Otherwise the failure would show only after the privacy cost has been paid.

    Args:
        columns: each with its name, `party.column`.
        largest: largest value of what is predicted, in its own units.
        most_rows: number of rows that are added up, at most; 0 where none are.

    Raises:
        JobError: names the column.
    """
    for name, column in columns:
        furthest = Fraction(max(1.0, abs(column.lower), abs(column.upper)))
        factor = Fraction(largest) * furthest / Fraction(column.upper - column.lower)
        if factor > MAX_ANSWER_PER_UNIT or most_rows * furthest > MAX_ANSWER_PER_UNIT:
            raise JobError(
                f"inputs: with the bounds {column.lower:g}..{column.upper:g} of {name} the answer would leave the "
                "range of float64; its owner must use other units"
            )


def squared_norm_bound(gamma: int, norm_bound: float, row_norm: float) -> int:
    """Return floor((gamma * norm_bound / row_norm)^2), exactly.

    The bounds of all parties of a job add up to at most gamma^2 if their squared norm bounds add up to at most
    row_norm^2; `analyses.rows.row_plan.plan_rows` checks the sum of the integers.
    """
    return int((gamma * Fraction(norm_bound) / Fraction(row_norm)) ** 2)
