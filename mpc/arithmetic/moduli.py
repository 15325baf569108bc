"""The primes of residue fields, and the constants that the kernels need for the residues of one word."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.arithmetic import kernels
from mpc.arithmetic.kernels import RESIDUE_BITS, RESIDUES_PER_WORD
from mpc.arithmetic.words import Words
from mpc.errors import FieldMismatchError

WIDE_PRIMES = (
    *(2097143, 2097133, 2097131, 2097097, 2097091, 2097083),
    *(2097047, 2097041, 2097031, 2097023, 2097013, 2096993, 2096987, 2096971, 2096959),
)
"""The fifteen largest primes below 2^21: fields of more than six hold proofs about noise (`mpc.proofs.noise_bound`)."""

PRIMES = WIDE_PRIMES[:6]
"""The primes of fields in which jobs compute."""

LARGEST_INT64 = np.uint64((1 << 63) - 1)
"""The order of a word is below it."""


@dataclass(frozen=True)
class WordConstants:
    """The constants that the kernels use for the three residues of one word; unused residues have modulus 1."""

    primes: Words
    inverses: NDArray[np.float64]
    mask: np.uint64
    garner: Words
    order: int


@functools.cache
def words_of(primes: tuple[int, ...]) -> tuple[WordConstants, ...]:
    """Return the constants of the words that hold residues modulo these primes, three to a word."""
    words = []
    for start in range(0, len(primes), RESIDUES_PER_WORD):
        used = primes[start : start + RESIDUES_PER_WORD]
        p0, p1, p2 = used + (1,) * (RESIDUES_PER_WORD - len(used))
        moduli = np.array([p0, p1, p2], dtype=np.uint64)
        words.append(
            WordConstants(
                primes=moduli,
                inverses=1.0 / moduli.astype(np.float64),
                mask=np.uint64(
                    sum(((1 << (p - 1).bit_length()) - 1) << (RESIDUE_BITS * i) for i, p in enumerate(used))
                ),
                garner=np.array([pow(p0, -1, p1), pow(p0 * p1, -1, p2)], dtype=np.uint64),
                order=math.prod(used),
            )
        )
    return tuple(words)


def mixed_radix_digits(words: Words, constants: Sequence[WordConstants]) -> list[Words]:
    """Return the digits d_0, d_1 .. of the integers d_0 + P_0 d_1 + P_0 P_1 d_2 + .. that have these residues.

    P_w is the order of word w, and 0 <= d_w < P_w. Source: Garner's algorithm, whose moduli are orders of words here;
    each difference and quotient is one of residues, so no number is longer than a word.

    Args:
        words: packed elements, shape (n_words, n).
        constants: constants of each of the words.

    Returns:
        For each word an array of shape (n,).
    """
    digits: list[Words] = []
    for row, word in zip(words, constants, strict=True):
        rest = np.ascontiguousarray(row)
        for digit, before in zip(digits, constants, strict=False):
            residues, difference = np.empty_like(rest), np.empty_like(rest)
            kernels.encode(residues, digit.view(np.int64), word.mask, word.primes, word.inverses)
            kernels.subtract(difference, rest, residues, word.primes)
            inverse = np.array([pow(before.order, -1, int(p)) for p in word.primes], dtype=np.uint64)
            kernels.scale(residues, difference, inverse, word.primes, word.inverses)
            rest = residues
        digit = np.empty_like(rest)
        kernels.from_residues(digit, rest, word.garner, word.primes, word.inverses, LARGEST_INT64, np.uint64(0))
        digits.append(digit)
    return digits


def is_prime(n: int) -> bool:
    """Return whether n is a prime, by trial division."""
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def check_galois(kind: Any, primes: tuple[int, ...]) -> None:
    """Refuse a type of `galois` arrays whose prime is none of these; accept every other type.

    Raises:
        FieldMismatchError: it is such a type.
    """
    if getattr(kind, "characteristic", None) is None:
        return
    if kind.degree != 1 or int(kind.characteristic) not in primes:
        raise FieldMismatchError(f"elements of {kind.name} are none of a field of {primes}")
