"""The compiled search for four squares: see `mpc.proofs.squares.four_squares`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.arithmetic.words import Words
from mpc.machine_code import Array, inlined, kernel

TABLE_BITS = 20
"""The table knows, of each number below 2^20, whether it is a sum of two squares, and of which."""

ENTRIES_PER_WORD = 4
_ENTRY_BITS = 16
_ENTRY = np.uint64((1 << _ENTRY_BITS) - 1)


@inlined
def _root(v: Any) -> Any:
    """Return floor(sqrt(v)) for 0 <= v < 2^62; the float64 root is off by one at most."""
    root = np.int64(np.sqrt(np.float64(v)))
    root -= root * root > v
    return root + ((root + 1) * (root + 1) <= v)


@kernel(Array("int64", 2, is_written=True), Array("int64"), Array("uint64"))
def four_squares(out: NDArray[np.int64], numbers: NDArray[np.int64], table: Words) -> None:
    """Write four integers whose squares add up to each number; zeros for a number that is negative or above 2^60.

    Args:
        out: shape (numbers, 4).
        numbers: 0 .. 2^60.
        table: table of `mpc.proofs.squares.four_squares`.
    """
    size = np.int64(1) << TABLE_BITS
    for i in range(numbers.size):
        v = numbers[i]
        out[i, 0] = out[i, 1] = out[i, 2] = out[i, 3] = 0
        if v <= 0 or v > np.int64(1) << 60:
            continue
        unit = np.int64(1)
        while v & 3 == 0:  # squares that add up to a multiple of 8 are even: there are too few of them to search for
            v >>= 2
            unit <<= 1
        first = _root(v)
        is_found = False
        while first >= 0 and not is_found:
            rest = v - first * first
            second = _root(rest)
            left = rest - second * second
            while second >= 0 and left < size:
                place = np.uint64(left)
                entry = (table[place >> np.uint64(2)] >> (np.uint64(_ENTRY_BITS) * (place & np.uint64(3)))) & _ENTRY
                if entry != 0:
                    third = np.int64(entry) - 1
                    fourth = _root(left - third * third)
                    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = (
                        unit * first,
                        unit * second,
                        unit * third,
                        unit * fourth,
                    )
                    is_found = True
                    break
                left += 2 * second - 1
                second -= 1
            first -= 1
