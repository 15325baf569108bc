"""Words of b bits, side by side without gaps: what crosses the network is b / 8 bytes per element."""

import numpy as np

from mpc.errors import OutOfRangeError, ShapeError
from mpc.secagg.vector.packing_kernels import Words, pack, unpack


def packed_bytes(n_elements: int, n_bits: int) -> int:
    """Return the size of `n_elements` packed words of `n_bits` bits."""
    return (n_elements * n_bits + 7) // 8


def pack_bits(words: Words, n_bits: int) -> bytes:
    """Pack words of at most `n_bits` bits; element i takes bits i * n_bits .. of a little-endian string of bits.

    Args:
        words: shape (n,), each below 2^n_bits.
        n_bits: 1 .. 64.

    Returns:
        `packed_bytes(n, n_bits)` bytes; the unused bits of the last one are zero.
    """
    if n_bits in (8, 16, 32, 64):
        return words.astype(f"<u{n_bits // 8}").tobytes()
    packed = np.empty(_n_words(words.size, n_bits), dtype=np.uint64)
    pack(packed, np.ascontiguousarray(words), n_bits)
    return packed.astype("<u8", copy=False).tobytes()[: packed_bytes(words.size, n_bits)]


def unpack_bits(data: bytes, n_elements: int, n_bits: int) -> Words:
    """Return the words that `pack_bits` packed, shape (n_elements,).

    Raises:
        ShapeError: not `packed_bytes(n_elements, n_bits)` bytes.
        OutOfRangeError: an unused bit of the last byte is set.
    """
    if len(data) != packed_bytes(n_elements, n_bits):
        raise ShapeError(
            f"{n_elements} elements of {n_bits} bits take {packed_bytes(n_elements, n_bits)} bytes, not {len(data)}"
        )
    if n_bits in (8, 16, 32, 64):
        return np.frombuffer(data, dtype=f"<u{n_bits // 8}").astype(np.uint64)
    if (spare := len(data) * 8 - n_elements * n_bits) and data[-1] >> (8 - spare):
        raise OutOfRangeError("an unused bit of packed words is set")
    padded = data.ljust(8 * _n_words(n_elements, n_bits), b"\0")
    words = np.empty(n_elements, dtype=np.uint64)
    unpack(words, np.frombuffer(padded, dtype="<u8").astype(np.uint64, copy=False), n_bits, (1 << n_bits) - 1)
    return words


def _n_words(n_elements: int, n_bits: int) -> int:
    """Return how many words of 64 bits the kernels need: what the bits fill, and one more."""
    return -(-n_elements * n_bits // 64) + 1
