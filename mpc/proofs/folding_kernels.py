"""The compiled fold of packed rows: see `mpc.proofs.folding`."""

from typing import Any

import numpy as np

from mpc.arithmetic.kernels import RESIDUE_BITS, Floats
from mpc.arithmetic.words import Words
from mpc.machine_code import Array, inlined, kernel

ROWS_AT_ONCE = 4
COLUMNS_AT_ONCE = 256
"""Rows and columns that are unpacked before they are multiplied: with their sums they fit the first-level cache."""

ROWS_ADDED_UP = 1 << 12
"""Products that are added up before a reduction: half of what is exact."""

_MASK = np.uint64((1 << RESIDUE_BITS) - 1)
_BITS_OF_2_52 = np.uint64(0x433 << 52)
_2_52 = 2.0**52


@inlined
def _balanced(residue: Any, prime: Any) -> Any:
    """Return a residue in [0, p) as a float64 in [-(p - 1) / 2, (p - 1) / 2]."""
    value = np.uint64(residue | _BITS_OF_2_52).view(np.float64) - _2_52
    return value - (prime if 2 * value > prime else 0.0)


@inlined
def _four(factors: Any, first: Any, n: Any) -> Any:
    """Return four factors, of which n are there: 0 in place of the others."""
    f1 = factors[first + 1] if n > 1 else 0.0
    f2 = factors[first + 2] if n > 2 else 0.0
    return factors[first], f1, f2, factors[first + 3] if n > 3 else 0.0


@kernel(
    Array("float64", 3, is_written=True),
    "int64",
    Array("float64", 2, is_written=True),
    Array("uint64", 2),
    Array("float64", 3),
    Array("float64", 3),
    Array("float64"),
)
def combined_rows(
    out: Floats, first_column: int, unpacked: Floats, rows: Words, factors: Floats, scales: Floats, primes: Floats
) -> None:
    """Write sums of rows times factors, modulo each prime of a word, as `reduce_balanced` leaves them.

    Args:
        out: shape (primes of the word, sums, at least first_column + columns).
        first_column: where the columns begin.
        unpacked: memory, shape (ROWS_AT_ONCE, COLUMNS_AT_ONCE).
        rows: shape (rows, columns), one packed word for each element.
        factors: balanced residues, shape (primes of the word, sums, rows).
        scales: factors of the first sums, shape (primes of the word, so many of them, columns).
        primes: the primes of the word.
    """
    n_rows, n_columns = rows.shape
    for start in range(0, n_columns, COLUMNS_AT_ONCE):
        width = min(COLUMNS_AT_ONCE, n_columns - start)
        for q in range(primes.size):
            p, shift = primes[q], np.uint64(RESIDUE_BITS * q)
            inverse = 1.0 / p
            nothing = 0.0 * inverse  # where zeros are constants, the compiler calls memset, which the libraries lack
            for k in range(out.shape[1]):
                total = out[q, k, first_column + start : first_column + start + width]
                for j in range(width):
                    total[j] = nothing
            for first in range(0, n_rows, ROWS_AT_ONCE):
                n = min(ROWS_AT_ONCE, n_rows - first)
                for i in range(ROWS_AT_ONCE):
                    to = unpacked[i]
                    if i < n:
                        row = rows[first + i, start : start + width]
                        for j in range(width):
                            to[j] = _balanced((row[j] >> shift) & _MASK, p)
                    else:
                        for j in range(width):
                            to[j] = nothing
                r0, r1, r2, r3 = unpacked[0], unpacked[1], unpacked[2], unpacked[3]
                for k in range(0, out.shape[1] - 1, 2):  # two sums at once: what is unpacked is read once for both
                    total = out[q, k, first_column + start : first_column + start + width]
                    other = out[q, k + 1, first_column + start : first_column + start + width]
                    f0, f1, f2, f3 = _four(factors[q, k], first, n)
                    g0, g1, g2, g3 = _four(factors[q, k + 1], first, n)
                    for j in range(width):
                        total[j] += (f0 * r0[j] + f1 * r1[j]) + (f2 * r2[j] + f3 * r3[j])
                        other[j] += (g0 * r0[j] + g1 * r1[j]) + (g2 * r2[j] + g3 * r3[j])
                if out.shape[1] % 2 == 1:
                    k = out.shape[1] - 1
                    total = out[q, k, first_column + start : first_column + start + width]
                    f0, f1, f2, f3 = _four(factors[q, k], first, n)
                    for j in range(width):
                        total[j] += (f0 * r0[j] + f1 * r1[j]) + (f2 * r2[j] + f3 * r3[j])
                for k in range(out.shape[1] if (first + ROWS_AT_ONCE) % ROWS_ADDED_UP == 0 else 0):
                    total = out[q, k, first_column + start : first_column + start + width]
                    for j in range(width):
                        total[j] -= np.rint(total[j] * inverse) * p
            for k in range(out.shape[1]):
                total = out[q, k, first_column + start : first_column + start + width]
                for j in range(width):
                    total[j] -= np.rint(total[j] * inverse) * p
            for k in range(scales.shape[1]):
                total = out[q, k, first_column + start : first_column + start + width]
                scale = scales[q, k, start : start + width]
                for j in range(width):
                    product = total[j] * scale[j]
                    total[j] = product - np.rint(product * inverse) * p
