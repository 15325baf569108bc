"""Four squares for each number of an array (Lagrange): what completes the squared norm of a row to its bound exactly.

The search is that of Rabin and Shallit (1986) with a table at its end: the largest square, of what is left one of the
largest, and what is left then is looked up among the sums of two squares, of which there is one in four or five. Below
2^20 the search goes through all there is, so that Lagrange's theorem promises an end; above, each number has hundreds
of attempts.

Which squares are found follows from the number. They are shared like the row itself, so nobody sees them; how long it
takes differs by nanoseconds per row.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from mpc.arithmetic.words import Words
from mpc.proofs.squares import square_kernels
from mpc.proofs.squares.square_kernels import ENTRIES_PER_WORD, TABLE_BITS

N_SQUARES = 4

LARGEST = 1 << 60
"""The largest number that is taken apart."""


def four_squares(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return integers s, at least 0, with s_1^2 + s_2^2 + s_3^2 + s_4^2 equal to each number.

    Args:
        numbers: shape (n,), 0 .. 2^60. For any other number there are zeros: nothing is refused by its value.

    Returns:
        Shape (n, 4).
    """
    out = np.empty((len(numbers), N_SQUARES), dtype=np.int64)
    square_kernels.four_squares(out, np.ascontiguousarray(numbers, dtype=np.int64), _sums_of_two_squares())
    return out


@cache
def _sums_of_two_squares() -> Words:
    """Return for each number below 2^20 one more than the larger root of two squares that add up to it; else 0."""
    roots = np.arange(1 << TABLE_BITS // 2, dtype=np.int64)
    sums = roots[:, None] ** 2 + roots**2
    larger = np.broadcast_to(roots[:, None], sums.shape)
    is_known = (larger >= roots) & (sums < 1 << TABLE_BITS)
    table = np.zeros(1 << TABLE_BITS, dtype=np.uint64)
    table[sums[is_known]] = larger[is_known] + 1
    packed = np.zeros(len(table) // ENTRIES_PER_WORD, dtype=np.uint64)
    for place in range(ENTRIES_PER_WORD):
        packed |= table[place::ENTRIES_PER_WORD] << np.uint64(16 * place)
    return packed
