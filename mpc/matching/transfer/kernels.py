"""Compiled loops of extended transfers: transposition of bits, and sums of rows at random."""

import numpy as np
from numpy.typing import NDArray

from mpc.machine_code import Array, kernel

Words = NDArray[np.uint64]

_MATRIX = Array("uint64", 2)
_WRITTEN = Array("uint64", 2, is_written=True)
_BITS = 64


@kernel(_WRITTEN, _MATRIX, Array("uint64", is_written=True))
def transpose(rows: Words, columns: Words, square: Words) -> None:
    """Write the transpose of a matrix of bits: bit r % 64 of `columns[c, r // 64]` is bit c % 64 of `rows[r, c // 64]`.

    Args:
        rows: shape (64 w, g), written.
        columns: shape (64 g, w).
        square: 64 words to work in.
    """
    for w in range(columns.shape[1]):
        for g in range(rows.shape[1]):
            for k in range(_BITS):
                square[k] = columns[_BITS * g + k, w]
            half, mask = 32, np.uint64(0xFFFFFFFF)
            while half:  # the two blocks off the diagonal change places, at six sizes
                shift = np.uint64(half)
                for start in range(0, _BITS, 2 * half):
                    for k in range(start, start + half):
                        other = ((square[k] >> shift) ^ square[k + half]) & mask
                        square[k] ^= other << shift
                        square[k + half] ^= other
                half //= 2
                mask ^= mask << np.uint64(half)
            for k in range(_BITS):
                rows[_BITS * w + k, g] = square[k]


@kernel(_WRITTEN, _MATRIX, _MATRIX)
def add_by_bytes(sums: Words, rows: Words, choices: Words) -> None:
    """Add each row to the sum of every byte of its choices that has its value: sums of any bit follow from these.

    Args:
        sums: shape (256 * 8 * m, w).
        rows: shape (n, w).
        choices: shape (n, m).
    """
    for i in range(rows.shape[0]):
        for b in range(8 * choices.shape[1]):
            value = (choices[i, b // 8] >> np.uint64(8 * (b % 8))) & np.uint64(255)
            into = 256 * b + np.int64(value)
            for c in range(rows.shape[1]):
                sums[into, c] ^= rows[i, c]
