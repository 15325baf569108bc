"""Compiled quantisation of rows, in one pass over the values; rows near their bound are left to NumPy.

Element by element it does the same float64 operations as NumPy there, in the same order, so the integers are the same
bits. No sum of squares in float64 is needed: the rounded row has an exact integer norm, and a row of n integers that is
half a unit per entry off the scaled one is at most sqrt(n) / 2 shorter. Where the integer norm is that far below the
bound, the row is neither shortened nor above it. NumPy decides about all others.

As in `mpc.arithmetic.kernels`: x + 1.5 * 2^52 has the integer nearest to x in its low bits, ties to even as
`numpy.rint`, for |x| < 2^51; of |x| these bits are those of 1.5 * 2^52 with the integer in them, so exclusive or leaves
the integer, and leaves high bits of whatever is too large, infinite or not a number.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.machine_code import Array, kernel

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

SIZE_BITS = 26
"""Rows with an integer of 2^26 or more are left to NumPy: squares of others are products of low halves."""

MAX_COLUMNS = 1 << 10
"""So that sums of their squares stay below 2^62."""

_ROUNDING = 1.5 * 2.0**52
_BITS_OF_ROUNDING = np.uint64(0x4338 << 48)
_LOW_HALF = np.uint64((1 << 32) - 1)
_TOO_LARGE = np.uint64(((1 << 64) - 1) ^ ((1 << SIZE_BITS) - 1))


@kernel(
    Array("int64", 2, is_written=True),
    Array("int64", is_written=True),
    Array("int64", is_written=True),
    Array("float64", 2),
    Array("float64"),
    Array("float64"),
    Array("float64"),
    "float64",
    "uint64",
    returns="int64",
)
def quantise(
    out: Integers,
    outside: Integers,
    left: Integers,
    values: Floats,
    bounds: Floats,
    widths: Floats,
    centres: Floats,
    factor: float,
    largest_square: Any,
) -> int:
    """Write round(factor * ((clip(x) - lower) / width - centre)) for each value; return how many rows are left.

    Args:
        out: shape (rows, n).
        outside: added to: per column, how many values lay outside its bounds, of all rows.
        left: shape (rows,): begins with the numbers of the rows that NumPy is to quantise.
        values: shape (rows, n).
        bounds: the lower ones, then the upper ones, shape (2 n,).
        widths: upper less lower, shape (n,).
        centres: shape (n,).
        factor: units per scaled unit.
        largest_square: largest squared norm of a row of integers that is not left.
    """
    n_left = 0
    n = values.shape[1]
    lower, upper = bounds[:n], bounds[n:]
    for i in range(values.shape[0]):
        row, target = values[i], out[i]
        total, seen = np.uint64(0), np.uint64(0)
        for j in range(n):
            x = row[j]
            clipped = lower[j] if x < lower[j] else x
            clipped = upper[j] if clipped > upper[j] else clipped
            outside[j] += clipped != x
            scaled = ((clipped - lower[j]) / widths[j] - centres[j]) * factor
            target[j] = np.float64(scaled + _ROUNDING).view(np.int64) - np.int64(_BITS_OF_ROUNDING)
            size = np.float64(abs(scaled) + _ROUNDING).view(np.uint64) ^ _BITS_OF_ROUNDING
            seen |= size
            total += (size & _LOW_HALF) * (size & _LOW_HALF)
        if (seen & _TOO_LARGE) != 0 or total > largest_square:
            left[n_left] = i
            n_left += 1
    return n_left
