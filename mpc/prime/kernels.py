"""Compiled loops over residues modulo the prime p = 2^64 - 2^32 + 1, one in each 64-bit word, below p.

2^64 = 2^32 - 1 and 2^96 = -1 modulo p, so a product of two words is reduced by an addition and a subtraction. Machine
code has no word of 128 bits here, so products are made of 32-bit halves. Sums begin with their first term, not with 0:
a loop that writes zeros becomes a call of a C library, which prepared kernels have none of.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.machine_code import Array, inlined, kernel

Words = NDArray[np.uint64]

PRIME = (1 << 64) - (1 << 32) + 1

_P = np.uint64(PRIME)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)

_IN, _IN_2 = Array("uint64"), Array("uint64", 2)
_OUT, _OUT_2 = Array("uint64", is_written=True), Array("uint64", 2, is_written=True)


@inlined
def _add(a: Any, b: Any) -> Any:
    total = a + b
    if total < a:  # 2^64 = 2^32 - 1
        total += _LOW
    if total >= _P:
        total -= _P
    return total


@inlined
def _subtract(a: Any, b: Any) -> Any:
    return a - b if a >= b else a + (_P - b)


@inlined
def _multiply(a: Any, b: Any) -> Any:
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    lowest, cross, other = a_low * b_low, a_low * b_high, a_high * b_low
    middle = (lowest >> _HALF) + (cross & _LOW) + (other & _LOW)
    low = (lowest & _LOW) | (middle << _HALF)
    high = a_high * b_high + (cross >> _HALF) + (other >> _HALF) + (middle >> _HALF)
    found = low - (high >> _HALF)
    if found > low:
        found -= _LOW
    term = (high & _LOW) * _LOW
    total = found + term
    if total < term:
        total += _LOW
    if total >= _P:
        total -= _P
    return total


@kernel(_OUT, _IN)
def add_to(total: Words, elements: Words) -> None:
    """Add elements to as many others in place."""
    for i in range(total.size):
        total[i] = _add(total[i], elements[i])


@kernel(_OUT, _IN)
def take_from(total: Words, elements: Words) -> None:
    """Subtract elements from as many others in place."""
    for i in range(total.size):
        total[i] = _subtract(total[i], elements[i])


@kernel(_IN, _IN, returns="uint64")
def inner_product(left: Words, right: Words) -> Any:
    """Return the sum of the products of two vectors of one length."""
    total = np.uint64(0)
    for i in range(left.size):
        total = _add(total, _multiply(left[i], right[i]))
    return total


@kernel(_OUT, _IN_2, _IN)
def combine_rows(out: Words, rows: Words, factors: Words) -> None:
    """Write the sum of the rows times their factors.

    Args:
        out: shape (columns,).
        rows: shape (n, columns).
        factors: shape (n,).
    """
    for row in range(factors.size):
        factor = factors[row]
        for column in range(out.size):
            term = _multiply(factor, rows[row, column])
            out[column] = term if row == 0 else _add(out[column], term)


@kernel(_OUT_2, _IN)
def scale_rows(rows: Words, factors: Words) -> None:
    """Multiply each row by its factor in place."""
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            rows[row, column] = _multiply(rows[row, column], factors[row])


@kernel(_OUT_2, _IN)
def transform(rows: Words, roots: Words) -> None:
    """Turn the coefficients of polynomials, one per column and in bit-reversed order, into their values, in place.

    Args:
        rows: shape (m, columns), m a power of 2.
        roots: the powers 0 .. m / 2 - 1 of a primitive root of unity of order m; values are at its powers, in order.
    """
    m, half = rows.shape[0], 1
    while half < m:
        step = m // (2 * half)
        for start in range(0, m, 2 * half):
            for k in range(half):
                root, low, high = roots[k * step], start + k, start + k + half
                for column in range(rows.shape[1]):
                    term = _multiply(root, rows[high, column])
                    rows[high, column] = _subtract(rows[low, column], term)
                    rows[low, column] = _add(rows[low, column], term)
        half *= 2


@kernel(_OUT_2, _IN_2, _IN, _IN_2)
def range_sums(out: Words, values: Words, tops: Words, factors: Words) -> None:
    """Write sum_c factor_c w_c (w_c - 1) .. (w_c - top_c) for each row w of values, and each row of factors.

    The product is taken in pairs: (w - v) (w - top + v) = w (w - top) + v (top - v).

    Args:
        out: shape (rows of values, rows of factors); there is one column at least.
        values: shape (rows, columns).
        tops: shape (columns,), 1 and up.
        factors: shape (repetitions, columns).
    """
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            w, top = values[row, column], tops[column]
            pair = _multiply(w, _subtract(w, top))
            product, v = pair, _ONE
            while v + v < top:
                product = _multiply(product, _add(pair, v * (top - v)))
                v += _ONE
            if v + v == top:
                product = _multiply(product, _subtract(w, v))
            for repetition in range(factors.shape[0]):
                term = _multiply(factors[repetition, column], product)
                out[row, repetition] = term if column == 0 else _add(out[row, repetition], term)


@kernel(_OUT, _IN_2, _IN, "uint64", "int64")
def square_sums(out: Words, values: Words, weights: Words, lowest: Any, n_entries: Any) -> None:
    """Write sum_i x_i^2 for each row of values, where x_i = lowest + sum_j weight_j w_ij of each group of columns.

    Args:
        out: shape (rows,).
        values: shape (rows, columns), n_entries groups of as many columns as there are weights, then others.
        weights: shape (digits,).
        lowest: the value of an entry whose digits are 0.
        n_entries: entries of a row.
    """
    for row in range(values.shape[0]):
        for entry in range(n_entries):
            x = lowest
            for digit in range(weights.size):
                x = _add(x, _multiply(weights[digit], values[row, entry * weights.size + digit]))
            square = _multiply(x, x)
            out[row] = square if entry == 0 else _add(out[row], square)
