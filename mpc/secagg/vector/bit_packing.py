"""Words of b bits, side by side without gaps: what crosses the network is b / 8 bytes per element."""

import numpy as np
from numpy.typing import NDArray

from mpc.errors import OutOfRangeError, ShapeError

Words = NDArray[np.uint64]

_GROUP = 64  # elements of b bits that fill b words of 64 bits exactly


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
    n_groups = -(-words.size // _GROUP)
    columns = np.zeros((n_groups, _GROUP), dtype=np.uint64)
    columns.reshape(-1)[: words.size] = words
    columns = np.ascontiguousarray(columns.T)
    packed = np.zeros((n_bits, n_groups), dtype=np.uint64)
    for i in range(_GROUP):
        word, shift = divmod(i * n_bits, 64)
        packed[word] |= columns[i] << np.uint64(shift)
        if shift + n_bits > 64:
            packed[word + 1] |= columns[i] >> np.uint64(64 - shift)
    return np.ascontiguousarray(packed.T).astype("<u8").tobytes()[: packed_bytes(words.size, n_bits)]


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
    n_groups = -(-n_elements // _GROUP)
    padded = np.frombuffer(data.ljust(n_groups * n_bits * 8, b"\0"), dtype="<u8").reshape(n_groups, n_bits)
    packed = np.ascontiguousarray(padded.T)
    mask = np.uint64((1 << n_bits) - 1)
    columns = np.empty((_GROUP, n_groups), dtype=np.uint64)
    for i in range(_GROUP):
        word, shift = divmod(i * n_bits, 64)
        columns[i] = packed[word] >> np.uint64(shift)
        if shift + n_bits > 64:
            columns[i] |= packed[word + 1] << np.uint64(64 - shift)
        columns[i] &= mask
    return np.ascontiguousarray(columns.T).reshape(-1)[:n_elements]
