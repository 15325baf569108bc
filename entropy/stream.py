"""Keyed AES-256-CTR streams and the derivation of their keys."""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

KEY_BYTES = 32
_CHUNK_BYTES = 1 << 19  # 64 Ki words: fits the second-level cache; larger chunks measured no faster
_ZEROS = bytes(_CHUNK_BYTES)


def derive_key(secret: bytes, *, salt: bytes, info: bytes) -> bytes:
    """Derive a 256-bit key from `secret` with HKDF-SHA256 (RFC 5869).

    Args:
        secret: input keying material, for instance an X25519 shared secret.
        salt: public, binds the key to a transcript.
        info: public label; two different purposes must use two different labels.
    """
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=info).derive(secret)


class KeyStream:
    """The AES-256-CTR key stream of one key and one number.

    The 128-bit counter block starts at `number * 2**64`, so streams with different numbers under one key do not overlap
    within their first 2**68 bytes.

    Args:
        key: 32 bytes. Never shown by repr.
        number: 0 .. 2**64 - 1, for instance the index of a block.
    """

    __slots__ = ("_encryptor",)

    def __init__(self, key: bytes, number: int = 0) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a stream key has {KEY_BYTES} bytes, not {len(key)}")
        counter = number.to_bytes(8, "big") + bytes(8)
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR(counter)).encryptor()

    def read(self, n_bytes: int) -> bytes:
        """Return the next `n_bytes` of the stream."""
        return self._encryptor.update(bytes(n_bytes))

    def fill(self, words: NDArray[np.uint64]) -> None:
        """Overwrite a C-contiguous array of 64-bit words with the next bytes of the stream (little-endian words)."""
        view = words.data.cast("B")
        for start in range(0, len(view), _CHUNK_BYTES):
            part = view[start : start + _CHUNK_BYTES]
            self._encryptor.update_into(_ZEROS[: len(part)], part)

    def words(self, n_words: int) -> NDArray[np.uint64]:
        """Return the next `n_words` 64-bit words."""
        out = np.empty(n_words, dtype="<u8")
        self.fill(out)
        return out
