"""Sources of random bytes: the operating system's, and a reproducible one that services refuse."""

import hashlib
import os
from typing import Protocol

from entropy.stream import KeyStream


class Entropy(Protocol):
    """Something that yields random bytes. Randomness is always an argument, never a global."""

    @property
    def is_secure(self) -> bool:
        """Whether a service may use it: False for every reproducible source."""

    def read(self, n_bytes: int) -> bytes:
        """Return `n_bytes` fresh random bytes."""


class SystemEntropy:
    """The operating system's cryptographic generator: what services use."""

    is_secure = True

    def read(self, n_bytes: int) -> bytes:
        """Return `n_bytes` fresh random bytes."""
        return os.urandom(n_bytes)


class InsecureTestEntropy:
    """A reproducible source for tests, vectors and simulations. Anyone who knows the seed knows every bit.

    Args:
        seed: any text; equal seeds give equal streams.
    """

    is_secure = False

    def __init__(self, seed: str) -> None:
        self._stream = KeyStream(hashlib.sha256(b"insecure test entropy:" + seed.encode()).digest())

    def read(self, n_bytes: int) -> bytes:
        """Return the next `n_bytes` of the stream."""
        return self._stream.read(n_bytes)
