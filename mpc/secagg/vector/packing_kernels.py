"""Compiled loops that put words of b bits side by side, and take them apart again.

Bit i of a packed string is bit i mod 64 of its word i / 64. A loop over elements in machine code is through with a
vector of 1,000 elements in the time in which NumPy begins with two of the hundred passes that it would need.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.machine_code import Array, kernel

Words = NDArray[np.uint64]

_WORD_BITS = np.uint64(64)
_LAST_BIT = np.uint64(63)
_ONE = np.uint64(1)

_IN = Array("uint64")
_OUT = Array("uint64", is_written=True)


@kernel(_OUT, _IN, "uint64")
def pack(packed: Words, words: Words, n_bits: Any) -> None:
    """Write words of `n_bits` bits, each below 2^n_bits, side by side.

    Args:
        packed: at least as many words as the bits fill, and one more.
        words: shape (n,).
        n_bits: 1 .. 63.
    """
    waiting, filled, place = np.uint64(0), np.uint64(0), 0
    for i in range(words.size):
        word = words[i]
        waiting |= word << filled
        filled += n_bits
        if filled >= _WORD_BITS:
            packed[place] = waiting
            place += 1
            filled -= _WORD_BITS
            waiting = word >> (n_bits - filled)
    packed[place] = waiting


@kernel(_OUT, _IN, "uint64", "uint64")
def unpack(words: Words, packed: Words, n_bits: Any, mask: Any) -> None:
    """Take apart what `pack` has put together.

    Args:
        words: shape (n,).
        packed: at least as many words as the bits fill, and one more.
        n_bits: 1 .. 63.
        mask: 2^n_bits - 1.
    """
    for i in range(words.size):
        bit = np.uint64(i) * n_bits
        place, shift = bit // _WORD_BITS, bit & _LAST_BIT
        low = packed[place] >> shift
        high = (packed[place + _ONE] << (_LAST_BIT - shift)) << _ONE
        words[i] = (low | high) & mask
