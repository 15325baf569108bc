"""Compiled loops over packed field elements: the only hot arithmetic of the protocols.

One 64-bit word holds three residues of 21 bits (bits 0-20, 21-41, 42-62) modulo three primes below 2^21; bit 63 is
zero. A word with fewer residues is padded with the modulus 1, whose only residue is 0, so all words are treated alike.

Exactness. `_reduce` takes s < 2^51 to s mod p for every p < 2^21: s is an exact float64, and `s * (1 / p)` differs from
s / p by two roundings, a relative 2^-52, so by less than 1 / p. A quotient that is not whole lies at least 1 / p below
the next integer, so truncation never gives too much, and at most one too little where p divides s. The remainder is
computed in integers and corrected by one p. The largest s here is the sum of two products, below 2^43.

Every loop body is free of branches and of integer division, so that LLVM vectorises it (AVX2, AVX-512, NEON). A result
must not share memory with an operand: it would stay right, but the loop's check for overlap then takes the scalar path.
The signatures are explicit: the machine code is made at import, comes from numba's cache or from a library
(`mpc.machine_code`), never inside a job.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.machine_code import Array, inlined, kernel

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]

RESIDUE_BITS = 21
RESIDUES_PER_WORD = 3
MAX_COLLECTED_PRODUCTS = 1 << 13
"""Products of two balanced residues that a float64 sum holds exactly.

With the largest prime p < 2^21, balanced residues are at most 2^20 - 5 in size, and 2^13 of their products plus one
reduced sum at most 2^53 - 2^36: below 2^53 by more than p, as `reduce_balanced` needs.
"""

_MASK = np.uint64((1 << RESIDUE_BITS) - 1)
_SECOND = np.uint64(RESIDUE_BITS)
_THIRD = np.uint64(2 * RESIDUE_BITS)
_SCAN = 512  # words looked at together before the rare rejected one is located

_IN = Array("uint64")
_OUT = Array("uint64", is_written=True)
_PRIMES = _IN
_INVERSES = Array("float64")


@inlined
def _reduce(s: Any, p: Any, inverse: Any) -> Any:
    r = s - np.uint64(float(s) * inverse) * p
    return min(r, r - p)  # where the quotient was right, r - p wraps around 2^64 and r is the smaller


@kernel(_IN, _PRIMES, returns="int64")
def count_out_of_range(words: Words, primes: Words) -> int:
    """Count the words of which some residue is not below its prime, or whose bit 63 is set."""
    p0, p1, p2 = primes[0], primes[1], primes[2]
    n_bad = 0
    for j in range(words.size):
        x = words[j]
        n_bad += ((x & _MASK) >= p0) | (((x >> _SECOND) & _MASK) >= p1) | ((x >> _THIRD) >= p2)
    return n_bad


@kernel(_OUT, "uint64", _PRIMES, Array("int64", is_written=True), returns="int64")
def mask_and_reject(words: Words, mask: np.uint64, primes: Words, positions: NDArray[np.int64]) -> int:
    """Keep the bits of `mask` in every word; store where words are out of range, in order, and return their number."""
    p0, p1, p2 = primes[0], primes[1], primes[2]
    n_found = 0
    for start in range(0, words.size, _SCAN):
        piece = words[start : start + _SCAN]
        n_bad = 0
        for j in range(piece.size):
            x = piece[j] & mask
            piece[j] = x
            n_bad += ((x & _MASK) >= p0) | (((x >> _SECOND) & _MASK) >= p1) | ((x >> _THIRD) >= p2)
        if n_bad > 0:
            for j in range(piece.size):
                x = piece[j]
                if (x & _MASK) >= p0 or ((x >> _SECOND) & _MASK) >= p1 or (x >> _THIRD) >= p2:
                    positions[n_found] = start + j
                    n_found += 1
    return n_found


@kernel(_OUT, _IN, _IN, _PRIMES)
def add(out: Words, a: Words, b: Words, primes: Words) -> None:
    """Write a + b to `out`."""
    p0, p1, p2 = primes[0], primes[1], primes[2]
    for j in range(out.size):
        x, y = a[j], b[j]
        s0 = (x & _MASK) + (y & _MASK)
        s1 = ((x >> _SECOND) & _MASK) + ((y >> _SECOND) & _MASK)
        s2 = (x >> _THIRD) + (y >> _THIRD)
        out[j] = min(s0, s0 - p0) | (min(s1, s1 - p1) << _SECOND) | (min(s2, s2 - p2) << _THIRD)


@kernel(_OUT, _IN, _PRIMES)
def accumulate(total: Words, a: Words, primes: Words) -> None:
    """Add a to `total` in place. Not `add(total, total, a)`: two names for one array keep LLVM from vectorising."""
    p0, p1, p2 = primes[0], primes[1], primes[2]
    for j in range(total.size):
        x, y = total[j], a[j]
        s0 = (x & _MASK) + (y & _MASK)
        s1 = ((x >> _SECOND) & _MASK) + ((y >> _SECOND) & _MASK)
        s2 = (x >> _THIRD) + (y >> _THIRD)
        total[j] = min(s0, s0 - p0) | (min(s1, s1 - p1) << _SECOND) | (min(s2, s2 - p2) << _THIRD)


@kernel(_OUT, _IN, _IN, _PRIMES)
def subtract(out: Words, a: Words, b: Words, primes: Words) -> None:
    """Write a - b to `out`."""
    p0, p1, p2 = primes[0], primes[1], primes[2]
    for j in range(out.size):
        x, y = a[j], b[j]
        s0 = (x & _MASK) - (y & _MASK)
        s1 = ((x >> _SECOND) & _MASK) - ((y >> _SECOND) & _MASK)
        s2 = (x >> _THIRD) - (y >> _THIRD)
        out[j] = min(s0, s0 + p0) | (min(s1, s1 + p1) << _SECOND) | (min(s2, s2 + p2) << _THIRD)


@kernel(_OUT, _IN, _IN, _PRIMES, _INVERSES)
def multiply(out: Words, a: Words, b: Words, primes: Words, inverses: Floats) -> None:
    """Write the element-wise product a * b to `out`."""
    p0, p1, p2 = primes[0], primes[1], primes[2]
    i0, i1, i2 = inverses[0], inverses[1], inverses[2]
    for j in range(out.size):
        x, y = a[j], b[j]
        r0 = _reduce((x & _MASK) * (y & _MASK), p0, i0)
        r1 = _reduce(((x >> _SECOND) & _MASK) * ((y >> _SECOND) & _MASK), p1, i1)
        r2 = _reduce((x >> _THIRD) * (y >> _THIRD), p2, i2)
        out[j] = r0 | (r1 << _SECOND) | (r2 << _THIRD)


@kernel(_OUT, _IN, _IN, _PRIMES, _INVERSES)
def scale(out: Words, a: Words, weight: Words, primes: Words, inverses: Floats) -> None:
    """Write weight * a to `out`; `weight` holds one residue per prime."""
    p0, p1, p2 = primes[0], primes[1], primes[2]
    i0, i1, i2 = inverses[0], inverses[1], inverses[2]
    w0, w1, w2 = weight[0], weight[1], weight[2]
    for j in range(out.size):
        x = a[j]
        r0 = _reduce((x & _MASK) * w0, p0, i0)
        r1 = _reduce(((x >> _SECOND) & _MASK) * w1, p1, i1)
        r2 = _reduce((x >> _THIRD) * w2, p2, i2)
        out[j] = r0 | (r1 << _SECOND) | (r2 << _THIRD)


@kernel(_OUT, _IN, _IN, _IN, _IN, _PRIMES, _INVERSES)
def combine(out: Words, a: Words, weight_a: Words, b: Words, weight_b: Words, primes: Words, inverses: Floats) -> None:
    """Write weight_a * a + weight_b * b to `out`, with one reduction per residue."""
    p0, p1, p2 = primes[0], primes[1], primes[2]
    i0, i1, i2 = inverses[0], inverses[1], inverses[2]
    a0, a1, a2 = weight_a[0], weight_a[1], weight_a[2]
    b0, b1, b2 = weight_b[0], weight_b[1], weight_b[2]
    for j in range(out.size):
        x, y = a[j], b[j]
        r0 = _reduce((x & _MASK) * a0 + (y & _MASK) * b0, p0, i0)
        r1 = _reduce(((x >> _SECOND) & _MASK) * a1 + ((y >> _SECOND) & _MASK) * b1, p1, i1)
        r2 = _reduce((x >> _THIRD) * a2 + (y >> _THIRD) * b2, p2, i2)
        out[j] = r0 | (r1 << _SECOND) | (r2 << _THIRD)


@kernel(_OUT, _IN, _IN, _PRIMES, _INVERSES)
def accumulate_scaled(total: Words, a: Words, weight: Words, primes: Words, inverses: Floats) -> None:
    """Add weight * a to `total` in place."""
    p0, p1, p2 = primes[0], primes[1], primes[2]
    i0, i1, i2 = inverses[0], inverses[1], inverses[2]
    w0, w1, w2 = weight[0], weight[1], weight[2]
    for j in range(total.size):
        x, y = total[j], a[j]
        r0 = _reduce((x & _MASK) + (y & _MASK) * w0, p0, i0)
        r1 = _reduce(((x >> _SECOND) & _MASK) + ((y >> _SECOND) & _MASK) * w1, p1, i1)
        r2 = _reduce((x >> _THIRD) + (y >> _THIRD) * w2, p2, i2)
        total[j] = r0 | (r1 << _SECOND) | (r2 << _THIRD)


@inlined
def _signed_residue(v: Any, p: Any, inverse: Any) -> Any:
    r = np.uint64(v - np.int64(np.rint(float(v) * inverse)) * np.int64(p))  # in (-p, p), wrapped where negative
    return min(r, r + p)


@kernel(_OUT, Array("int64"), "uint64", _PRIMES, _INVERSES)
def encode(out: Words, values: NDArray[np.int64], mask: np.uint64, primes: Words, inverses: Floats) -> None:
    """Write the residues of signed 64-bit integers, in the bits of `mask`: unused residues are zero.

    Exact while |value| / p < 2^51 for the used primes: the quotient is then off by less than a quarter before it is
    rounded, and the remainder is smaller than p in size. For 64-bit values and 21-bit primes it is below 2^43.
    """
    p0, p1, p2 = primes[0], primes[1], primes[2]
    i0, i1, i2 = inverses[0], inverses[1], inverses[2]
    for j in range(out.size):
        v = values[j]
        r0 = _signed_residue(v, p0, i0)
        r1 = _signed_residue(v, p1, i1)
        r2 = _signed_residue(v, p2, i2)
        out[j] = (r0 | (r1 << _SECOND) | (r2 << _THIRD)) & mask


@kernel(_OUT, _IN, _IN, _PRIMES, _INVERSES)
def from_residues(out: Words, words: Words, garner: Words, primes: Words, inverses: Floats) -> None:
    """Write, for each word, the integer in [0, p0 * p1 * p2) with these residues.

    Mixed-radix digits after Garner: x = d0 + p0 * d1 + p0 * p1 * d2. `garner` holds 1/p0 mod p1 and 1/(p0 * p1) mod p2.
    """
    p0, p1, p2 = primes[0], primes[1], primes[2]
    i1, i2 = inverses[1], inverses[2]
    g1, g2 = garner[0], garner[1]
    for j in range(out.size):
        x = words[j]
        d0 = x & _MASK
        d1 = _reduce((((x >> _SECOND) & _MASK) + p1 - _reduce(d0, p1, i1)) * g1, p1, i1)
        low = d0 + p0 * d1
        d2 = _reduce(((x >> _THIRD) + p2 - _reduce(low, p2, i2)) * g2, p2, i2)
        out[j] = low + p0 * p1 * d2


@kernel(Array("float64", 3, is_written=True), "int64", Array("uint64", 2), _PRIMES)
def unpack_balanced(out: Floats, first_column: int, block: Words, primes: Words) -> None:
    """Write the balanced residues of a block of rows into columns `first_column`.. of one float64 matrix per prime.

    Args:
        out: shape (3, at least rows, at least first_column + columns).
        first_column: where the block's columns begin.
        block: shape (rows, columns), one packed word per element.
        primes: the three moduli of the word; balanced residues lie in [-(p - 1) / 2, (p - 1) / 2].
    """
    p0, p1, p2 = np.int64(primes[0]), np.int64(primes[1]), np.int64(primes[2])
    h0, h1, h2 = p0 >> 1, p1 >> 1, p2 >> 1
    end = first_column + block.shape[1]
    for i in range(block.shape[0]):
        row = block[i]
        row_0 = out[0, i, first_column:end]
        row_1 = out[1, i, first_column:end]
        row_2 = out[2, i, first_column:end]
        for j in range(row.size):
            x = row[j]
            v0 = np.int64(x & _MASK)
            v1 = np.int64((x >> _SECOND) & _MASK)
            v2 = np.int64(x >> _THIRD)
            row_0[j] = float(v0 - (p0 if v0 > h0 else 0))
            row_1[j] = float(v1 - (p1 if v1 > h1 else 0))
            row_2[j] = float(v2 - (p2 if v2 > h2 else 0))


@kernel(Array("float64", is_written=True), "float64", "float64")
def reduce_balanced(sums: Floats, prime: float, inverse: float) -> None:
    """Replace integers of at most 2^53 - p in size by representatives of at most p / 2 + 1 in size, in place.

    The multiple of p that is subtracted is then below 2^53 too, so all is exact but the quotient before rounding.
    """
    for j in range(sums.size):
        sums[j] -= np.rint(sums[j] * inverse) * prime
