"""Compiled loops over packed field elements: the only hot arithmetic of the protocols.

One 64-bit word holds three residues of 21 bits (bits 0-20, 21-41, 42-62) modulo three primes below 2^21; bit 63 is
zero. A word with fewer residues is padded with the modulus 1, whose only residue is 0, so all words are treated alike;
the loops that rows of a table pass through have a shorter one for words with one residue, such as the second words of
fields of four primes.

Exactness. No x86 processor before AVX-512 converts 64-bit integers to float64, or multiplies them, several at once.
What all of them do is to add float64 numbers, to read their bits, and to multiply the low halves of words. An integer
s < 2^52 written into the mantissa of 2^52 is the float64 2^52 + s, from which 2^52 is subtracted. A float64 y with
|y| < 2^51, added to 1.5 * 2^52, where neighbours differ by 1, leaves the integer nearest to y in the low 51 bits.

`_reduce` takes s < 2^51 to s mod p for every odd p < 2^21, the modulus 1 included. Let h = (p - 1) / 2 and s = q p + r
with 0 <= r < p. Then s - h is an exact float64, and (s - h) / p = q + (r - h) / p lies within 1/2 - 1/(2p) of q. The
product of s - h and the float64 nearest to 1 / p differs from it by two roundings, at most |s - h| / p times
2^-52 + 2^-106, which is less than 1/(2p). The nearest integer is therefore q, and no correction follows. Since r is
below 2^21, the low 32 bits of s - q p suffice, and so do those of q, however large q is. A fused multiply-add would
leave out one of the roundings. The largest s is the sum of two products of residues, below 2^43; in `encode`, 2^44.

Every loop body is free of branches and of integer division, so that LLVM vectorises it (AVX2, AVX-512, NEON). A result
must not share memory with an operand: it would stay right, but the loop's check for overlap then takes the scalar path.
The signatures are explicit: the machine code is made at import, comes from numba's cache or from a library
(`mpc.machine_code`), never inside a job.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.arithmetic.words import Words
from mpc.machine_code import Array, inlined, kernel

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
_MIDDLE = _MASK << _SECOND
_OUTER = _MASK | (_MASK << _THIRD)
_MIDDLE_CARRY = np.uint64(1 << (2 * RESIDUE_BITS))
_OUTER_CARRIES = np.uint64(1 << RESIDUE_BITS | 1 << (3 * RESIDUE_BITS))
_LOW_HALF = np.uint64((1 << 32) - 1)
_2_52 = 2.0**52
_BITS_OF_2_52 = np.uint64(0x433 << 52)
_ROUNDING = 1.5 * 2.0**52
_SIGN = np.uint64(1 << 63)
_HIGH = np.uint64(43)
_HIGH_UNIT = np.uint64(1 << 43)
_BELOW_HIGH = np.uint64((1 << 43) - 1)
_SCAN = 512  # words looked at together before the rare rejected one is located

_IN = Array("uint64")
_OUT = Array("uint64", is_written=True)
_PRIMES = _IN
_INVERSES = Array("float64")


@inlined
def _float(s: Any) -> Any:
    """Return 2^52 + s as a float64, for an integer 0 <= s < 2^52."""
    return np.uint64(s | _BITS_OF_2_52).view(np.float64)


@inlined
def _reduce(s: Any, p: Any, inverse: Any) -> Any:
    shifted = _float(s) - (_2_52 + float(p >> np.uint64(1)))
    quotient = np.float64(shifted * inverse + _ROUNDING).view(np.uint64)
    return (s - (quotient & _LOW_HALF) * (p & _LOW_HALF)) & _LOW_HALF


@inlined
def _below(s: Any, p: Any, carries: Any) -> Any:
    """Return s mod p for s < 2 p, for the residues whose places end below a bit of `carries`; p holds their primes.

    Beside each of these places is room for a carry: s + (2^21 - p) reaches 2^21 where s is not below p, and there
    2^21 - 1 is the mask of what is subtracted. No comparison: before AVX-512 there are only signed ones of 64 bits.
    """
    carry = (s + (carries - p)) & carries
    return s - ((carry - (carry >> _SECOND)) & p)


@inlined
def _out_of_range(x: Any, outer: Any, middle: Any) -> Any:
    """Return 0 where all residues of a word are below their primes and its bit 63 is not set, else another number."""
    above = ((x & _OUTER) + (_OUTER_CARRIES - outer)) & _OUTER_CARRIES
    return above | (((x & _MIDDLE) + (_MIDDLE_CARRY - middle)) & _MIDDLE_CARRY) | (x & _SIGN)


@kernel(_IN, _PRIMES, returns="int64")
def count_out_of_range(words: Words, primes: Words) -> int:
    """Count the words of which some residue is not below its prime, or whose bit 63 is set."""
    outer, middle = primes[0] | (primes[2] << _THIRD), primes[1] << _SECOND
    n_bad = 0
    for j in range(words.size):
        n_bad += _out_of_range(words[j], outer, middle) != 0
    return n_bad


@kernel(_OUT, "uint64", _PRIMES, Array("int64", is_written=True), returns="int64")
def mask_and_reject(words: Words, mask: np.uint64, primes: Words, positions: NDArray[np.int64]) -> int:
    """Keep the bits of `mask` in every word; store where words are out of range, in order, and return their number."""
    outer, middle = primes[0] | (primes[2] << _THIRD), primes[1] << _SECOND
    n_found = 0
    for start in range(0, words.size, _SCAN):
        piece = words[start : start + _SCAN]
        any_bad = np.uint64(0)
        for j in range(piece.size):
            x = piece[j] & mask
            piece[j] = x
            any_bad |= _out_of_range(x, outer, middle)
        if any_bad != 0:
            for j in range(piece.size):
                if _out_of_range(piece[j], outer, middle) != 0:
                    positions[n_found] = start + j
                    n_found += 1
    return n_found


@kernel(_OUT, _IN, _IN, _PRIMES)
def add(out: Words, a: Words, b: Words, primes: Words) -> None:
    """Write a + b to `out`."""
    outer, middle = primes[0] | (primes[2] << _THIRD), primes[1] << _SECOND
    for j in range(out.size):
        x, y = a[j], b[j]
        s = _below((x & _OUTER) + (y & _OUTER), outer, _OUTER_CARRIES)
        t = _below((x & _MIDDLE) + (y & _MIDDLE), middle, _MIDDLE_CARRY)
        out[j] = s | t


@kernel(_OUT, _IN, _PRIMES)
def accumulate(total: Words, a: Words, primes: Words) -> None:
    """Add a to `total` in place. Not `add(total, total, a)`: two names for one array keep LLVM from vectorising."""
    outer, middle = primes[0] | (primes[2] << _THIRD), primes[1] << _SECOND
    for j in range(total.size):
        x, y = total[j], a[j]
        s = _below((x & _OUTER) + (y & _OUTER), outer, _OUTER_CARRIES)
        t = _below((x & _MIDDLE) + (y & _MIDDLE), middle, _MIDDLE_CARRY)
        total[j] = s | t


@kernel(_OUT, _IN, _IN, _PRIMES)
def subtract(out: Words, a: Words, b: Words, primes: Words) -> None:
    """Write a - b to `out`."""
    outer, middle = primes[0] | (primes[2] << _THIRD), primes[1] << _SECOND
    for j in range(out.size):
        x, y = a[j], b[j]
        s = _below((x & _OUTER) + (outer - (y & _OUTER)), outer, _OUTER_CARRIES)
        t = _below((x & _MIDDLE) + (middle - (y & _MIDDLE)), middle, _MIDDLE_CARRY)
        out[j] = s | t


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
    w0, w1, w2 = weight[0] & _LOW_HALF, weight[1] & _LOW_HALF, weight[2] & _LOW_HALF
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
    a0, a1, a2 = weight_a[0] & _LOW_HALF, weight_a[1] & _LOW_HALF, weight_a[2] & _LOW_HALF
    b0, b1, b2 = weight_b[0] & _LOW_HALF, weight_b[1] & _LOW_HALF, weight_b[2] & _LOW_HALF
    if p1 == 1 and p2 == 1:
        for j in range(out.size):
            out[j] = _reduce((a[j] & _MASK) * a0 + (b[j] & _MASK) * b0, p0, i0)
        return
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
    w0, w1, w2 = weight[0] & _LOW_HALF, weight[1] & _LOW_HALF, weight[2] & _LOW_HALF
    for j in range(total.size):
        x, y = total[j], a[j]
        r0 = _reduce((x & _MASK) + (y & _MASK) * w0, p0, i0)
        r1 = _reduce(((x >> _SECOND) & _MASK) + ((y >> _SECOND) & _MASK) * w1, p1, i1)
        r2 = _reduce((x >> _THIRD) + (y >> _THIRD) * w2, p2, i2)
        total[j] = r0 | (r1 << _SECOND) | (r2 << _THIRD)


@kernel(_OUT, Array("int64"), "uint64", _PRIMES, _INVERSES)
def encode(out: Words, values: NDArray[np.int64], mask: np.uint64, primes: Words, inverses: Floats) -> None:
    """Write the residues of signed 64-bit integers, in the bits of `mask`: unused residues are zero.

    Exact for all values and all moduli below 2^21. With v + 2^63 = 2^43 a + b, v is congruent to a (2^43 mod p) + b +
    (-2^63 mod p), which is below 2^42 + 2^43 + 2^21.
    """
    p0, p1, p2 = primes[0], primes[1], primes[2]
    i0, i1, i2 = inverses[0], inverses[1], inverses[2]
    w0, w1, w2 = (_HIGH_UNIT % p0) & _LOW_HALF, (_HIGH_UNIT % p1) & _LOW_HALF, (_HIGH_UNIT % p2) & _LOW_HALF
    c0, c1, c2 = p0 - _SIGN % p0, p1 - _SIGN % p1, p2 - _SIGN % p2
    if p1 == 1 and p2 == 1:
        for j in range(out.size):
            v = np.uint64(values[j]) ^ _SIGN
            out[j] = _reduce((v >> _HIGH) * w0 + ((v & _BELOW_HIGH) + c0), p0, i0) & mask
        return
    for j in range(out.size):
        v = np.uint64(values[j]) ^ _SIGN
        high, low = v >> _HIGH, v & _BELOW_HIGH
        r0 = _reduce(high * w0 + (low + c0), p0, i0)
        r1 = _reduce(high * w1 + (low + c1), p1, i1)
        r2 = _reduce(high * w2 + (low + c2), p2, i2)
        out[j] = (r0 | (r1 << _SECOND) | (r2 << _THIRD)) & mask


@kernel(_OUT, _IN, _IN, _PRIMES, _INVERSES, "uint64", "uint64")
def from_residues(
    out: Words, words: Words, garner: Words, primes: Words, inverses: Floats, largest: np.uint64, order: np.uint64
) -> None:
    """Write, for each word, the integer in [0, p0 * p1 * p2) with these residues, less `order` if above `largest`.

    Mixed-radix digits after Garner: x = d0 + p0 * d1 + p0 * p1 * d2. `garner` holds 1/p0 mod p1 and 1/(p0 * p1) mod p2.
    Where `largest` is half the order, the result, read as signed integers, is balanced.
    """
    p0, p1, p2 = primes[0], primes[1], primes[2]
    i1, i2 = inverses[1], inverses[2]
    g1, g2 = garner[0] & _LOW_HALF, garner[1] & _LOW_HALF
    p01 = p0 * p1
    for j in range(out.size):
        x = words[j]
        d0 = x & _MASK
        d1 = _reduce(((((x >> _SECOND) & _MASK) + p1 - _reduce(d0, p1, i1)) & _LOW_HALF) * g1, p1, i1)
        low = d0 + (p0 & _LOW_HALF) * d1
        d2 = _reduce((((x >> _THIRD) + p2 - _reduce(low, p2, i2)) & _LOW_HALF) * g2, p2, i2)
        value = low + p01 * d2
        out[j] = value - (order & np.uint64((np.int64(largest) - np.int64(value)) >> np.int64(63)))


@kernel(Array("float64", 3, is_written=True), "int64", Array("uint64", 2), _PRIMES)
def unpack_balanced(out: Floats, first_column: int, block: Words, primes: Words) -> None:
    """Write the balanced residues of a block of rows into columns `first_column`.. of one float64 matrix per prime.

    Where the word has one residue, the matrices of the moduli 1 are left as they are.

    Args:
        out: shape (3, at least rows, at least first_column + columns).
        first_column: where the block's columns begin.
        block: shape (rows, columns), one packed word per element.
        primes: the three moduli of the word; balanced residues lie in [-(p - 1) / 2, (p - 1) / 2].
    """
    h0, h1, h2 = np.int64(primes[0]) >> 1, np.int64(primes[1]) >> 1, np.int64(primes[2]) >> 1
    p0, p1, p2 = _2_52 + float(primes[0]), _2_52 + float(primes[1]), _2_52 + float(primes[2])
    end = first_column + block.shape[1]
    if primes[1] == 1 and primes[2] == 1:
        for i in range(block.shape[0]):
            row = block[i]
            row_0 = out[0, i, first_column:end]
            for j in range(row.size):
                v0 = row[j] & _MASK
                row_0[j] = _float(v0) - (p0 if np.int64(v0) > h0 else _2_52)
        return
    for i in range(block.shape[0]):
        row = block[i]
        row_0 = out[0, i, first_column:end]
        row_1 = out[1, i, first_column:end]
        row_2 = out[2, i, first_column:end]
        for j in range(row.size):
            x = row[j]
            v0, v1, v2 = x & _MASK, (x >> _SECOND) & _MASK, x >> _THIRD
            row_0[j] = _float(v0) - (p0 if np.int64(v0) > h0 else _2_52)
            row_1[j] = _float(v1) - (p1 if np.int64(v1) > h1 else _2_52)
            row_2[j] = _float(v2) - (p2 if np.int64(v2) > h2 else _2_52)


@kernel(Array("float64", is_written=True), "float64", "float64")
def reduce_balanced(sums: Floats, prime: float, inverse: float) -> None:
    """Replace integers of at most 2^53 - p in size by representatives of at most p / 2 + 1 in size, in place.

    The multiple of p that is subtracted is then below 2^53 too, so all is exact but the quotient before rounding.
    """
    for j in range(sums.size):
        sums[j] -= np.rint(sums[j] * inverse) * prime


@kernel(Array("float64", 2, is_written=True), Array("float64"))
def reduce_all_balanced(sums: Floats, primes: Floats) -> None:
    """Do to each row of integers, modulo its prime, what `reduce_balanced` does."""
    for i in range(sums.shape[0]):
        row, prime, inverse = sums[i], primes[i], 1.0 / primes[i]
        for j in range(row.size):
            row[j] -= np.rint(row[j] * inverse) * prime


@kernel(_OUT, Array("float64", 2), _PRIMES)
def pack_balanced(out: Words, residues: Floats, primes: Words) -> None:
    """Write the packed words of residues of at most p / 2 + 1 in size, or in [0, p).

    Args:
        out: shape (elements,).
        residues: shape (residues of a word, 1 to 3, elements).
        primes: the three moduli of the word.
    """
    for i in range(residues.shape[0]):
        row, prime, shift = residues[i], np.int64(primes[i]), np.uint64(RESIDUE_BITS * i)
        for j in range(out.size):
            value = np.int64(row[j])
            place = np.uint64(value + (prime & (value >> np.int64(63)))) << shift
            out[j] = place if i == 0 else out[j] | place


@kernel(Array("float64", 2, is_written=True), Array("float64", 2), Array("float64"), "float64", "float64")
def scale_balanced(out: Floats, rows: Floats, factors: Floats, prime: float, inverse: float) -> None:
    """Write the products of each row with the factors, reduced as by `reduce_balanced`, to `out`."""
    for i in range(rows.shape[0]):
        row, to = rows[i], out[i]
        for j in range(row.size):
            product = row[j] * factors[j]
            to[j] = product - np.rint(product * inverse) * prime
