"""Pseudorandom functions of many short inputs at once: AES on arrays of 16-byte blocks, and BLAKE2b to lengthen.

A block is a row of 16 bytes. The functions take and return whole arrays, so that a million values take a second.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from mpc.bulk_hash import MOST_BYTES, hashes
from mpc.errors import ShapeError

Bytes = NDArray[np.uint8]

BLOCK_BYTES = 16


def encipher(key: bytes, blocks: Bytes) -> Bytes:
    """Return AES-256 of each block: a pseudorandom permutation, and a function up to n^2 / 2^129 for n blocks.

    Args:
        key: 32 bytes.
        blocks: shape (n, 16).
    """
    if blocks.ndim != 2 or blocks.shape[1] != BLOCK_BYTES or blocks.dtype != np.uint8:
        raise ShapeError(f"blocks are uint8 of shape (n, {BLOCK_BYTES}), not {blocks.shape}")
    # Each block stands for itself: the mode that is wrong for messages is the permutation that is wanted here.
    encryptor = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305
    enciphered = encryptor.update(np.ascontiguousarray(blocks).tobytes())
    return np.frombuffer(enciphered, dtype=np.uint8).reshape(-1, BLOCK_BYTES)


def block_of_numbers(numbers: NDArray[np.int64]) -> Bytes:
    """Return one block for each number, which holds it in its first 8 bytes; shape (n, 16)."""
    blocks = np.zeros((len(numbers), BLOCK_BYTES), dtype=np.uint8)
    blocks[:, :8] = np.ascontiguousarray(numbers, dtype="<i8").view(np.uint8).reshape(-1, 8)
    return blocks


def mac(key: bytes, *blocks: Bytes) -> Bytes:
    """Return CBC-MAC with AES-256 of inputs of a fixed number of blocks, shape (n, 16).

    It is a pseudorandom function of inputs of one length: no adversary with q inputs of l blocks tells it from a random
    one with an advantage of more than about (q l)^2 / 2^128, beyond that against AES [BKR00]. One key is used with one
    number of blocks.

    Args:
        key: 32 bytes.
        *blocks: the first, second ... block of each input, shape (n, 16) each.
    """
    state = encipher(key, blocks[0])
    for block in blocks[1:]:
        state = encipher(key, state ^ block)
    return state


def lengthen(keys: Bytes, purpose: str, n_bytes: int) -> Bytes:
    """Return so many pseudorandom bytes for each 16-byte key, shape (n, n_bytes): BLAKE2b of purpose, key and place.

    Args:
        keys: shape (n, 16), pseudorandom.
        purpose: two different purposes give unrelated bytes; public, at most 64 bytes.
        n_bytes: bytes for each key.
    """
    places = range(-(-n_bytes // MOST_BYTES))
    out = np.empty((len(keys), len(places), MOST_BYTES), dtype=np.uint8)
    for place in places:
        numbered = np.concatenate([keys, np.broadcast_to(block_of_numbers(np.array([place])), keys.shape)], axis=1)
        out[:, place] = hashes(numbered, MOST_BYTES, key=purpose.encode(), person=b"moiety lengthen")
    return out.reshape(len(keys), len(places) * MOST_BYTES)[:, :n_bytes]
