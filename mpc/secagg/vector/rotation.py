"""The randomized Hadamard rotation: spreads a vector evenly over its coordinates, so that clipping cuts less."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream

Floats = NDArray[np.float64]


def padded_length(length: int) -> int:
    """Return the next power of two: the length of a rotated vector."""
    return 1 << max(0, length - 1).bit_length()


def rotate(values: Floats, label: str) -> Floats:
    """Return H D x: x padded with zeros, D random signs, H the orthonormal Walsh-Hadamard matrix.

    Args:
        values: shape (length,).
        label: public; equal labels give equal signs. Members must not be able to choose their vectors after it.

    Returns:
        shape (padded_length(length),), of the same Euclidean norm up to rounding.
    """
    padded = np.zeros(padded_length(values.size))
    padded[: values.size] = values
    padded *= _signs(padded.size, label)
    return _hadamard(padded)


def rotate_back(rotated: Floats, length: int, label: str) -> Floats:
    """Return the vector of `length` entries that `rotate` rotated. Linear, so it takes sums of rotated vectors too."""
    return (_hadamard(rotated.copy()) * _signs(rotated.size, label))[:length]


def _hadamard(values: Floats) -> Floats:
    """Multiply by the orthonormal Walsh-Hadamard matrix, in place: its own inverse, in n log2(n) additions."""
    half = 1
    while half < values.size:
        pairs = values.reshape(-1, 2, half)
        first = pairs[:, 0].copy()
        pairs[:, 0] += pairs[:, 1]
        np.subtract(first, pairs[:, 1], out=pairs[:, 1])
        half *= 2
    values /= np.sqrt(values.size)
    return values


def _signs(size: int, label: str) -> Floats:
    stream = KeyStream(hashlib.sha256(b"moiety secagg rotation:" + label.encode()).digest())
    bits = np.unpackbits(np.frombuffer(stream.read((size + 7) // 8), dtype=np.uint8), bitorder="little")
    return 1.0 - 2.0 * bits[:size].astype(np.float64)
