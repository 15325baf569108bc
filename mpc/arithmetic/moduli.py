"""The primes of residue fields, and the constants that the kernels need for the residues of one word."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
