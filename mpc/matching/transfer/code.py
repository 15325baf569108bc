"""A binary linear code of length 472, dimension 76 and minimum distance at least 132.

The code is the primitive narrow-sense BCH code of length 511 and designed distance 171 (its generator has the roots
alpha^1 .. alpha^170 in GF(2^9), so 170 consecutive ones: the BCH bound), of which the last 39 places are left out: a
place that is left out lowers the distance by at most one. [OOS17] extend transfers with the code of length 511.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from mpc.matching.okvs import sums_by_byte

Words = NDArray[np.uint64]

DIMENSION, LENGTH, DISTANCE = 76, 472, 132
CODE_BYTES = LENGTH // 8
WORDS, CODE_WORDS = 2, 8
"""Words of a message of the code, and of a code word with zeros behind it."""

_ORDER, _POLYNOMIAL, _DESIGNED = 511, 0b1000010001, 171  # x^9 + x^4 + 1 is primitive


def masked(messages: Words) -> Words:
    """Return words of shape (n, 2) with zeros in the places beyond the code's dimension."""
    return messages & np.array([2**64 - 1, 2 ** (DIMENSION - 64) - 1], dtype=np.uint64)


def generator_polynomial() -> int:
    """Return the generator of the code of length 511, bit i the coefficient of x^i."""
    powers = [1]
    for _ in range(_ORDER - 1):
        doubled = powers[-1] << 1
        powers.append(doubled ^ _POLYNOMIAL if doubled >> 9 else doubled)
    logarithms = {power: exponent for exponent, power in enumerate(powers)}
    exponents = {root * 2**square % _ORDER for root in range(1, _DESIGNED) for square in range(9)}  # with conjugates
    coefficients = [1]  # of the product of x + alpha^e, the highest first
    for exponent in sorted(exponents):
        times = [0] + [powers[(logarithms[c] + exponent) % _ORDER] if c else 0 for c in coefficients]
        coefficients = [a ^ b for a, b in zip([*coefficients, 0], times, strict=True)]
    return int("".join(map(str, coefficients)), 2)


@cache
def generator() -> tuple[int, ...]:
    """Return the code words of the unit messages, bit j the j-th place."""
    polynomial = generator_polynomial()
    return tuple((polynomial << shift) & (2**LENGTH - 1) for shift in range(DIMENSION))


@cache
def table() -> Words:
    """Return the code words of all bytes at each of the places of a message, shape (10 * 256, 8)."""
    words = b"".join(word.to_bytes(8 * CODE_WORDS, "little") for word in generator())
    return sums_by_byte(np.frombuffer(words, dtype="<u8").reshape(-1, CODE_WORDS))
