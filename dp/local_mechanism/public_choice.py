"""Public choices of a respondent: which level, hash function or row its response is about.

They follow from SHA-256 of the question and the respondent's name. So they take no bytes of a response, everybody can
derive them, and nobody can choose them: a respondent that lies has no freedom but its one output.
"""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

_LABEL = b"moiety public choice of a respondent:"
_LEVEL, _FACTOR, _OFFSET, _ROW = range(4)
_PRIME = (1 << 31) - 1
"""Prime modulus of the hash functions. A product of a factor and an input below 2^14 fits into 63 bits."""


class PublicChoices:
    """What a question chooses for its respondents.

    Args:
        question: identifies it, a fresh one for each question.
        respondents: distinct names, in the order of the responses.
    """

    __slots__ = ("_words",)

    def __init__(self, question: bytes, respondents: Iterable[str]) -> None:
        start = hashlib.sha256(_LABEL + len(question).to_bytes(4, "big") + question)
        digests = []
        for name in respondents:
            each = start.copy()
            each.update(name.encode())
            digests.append(each.digest())
        self._words: Words = np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 4)

    @staticmethod
    def joined(parts: Iterable["PublicChoices"]) -> "PublicChoices":
        """Return the choices of the respondents of several, one after the other."""
        found = PublicChoices(b"", ())
        found._words = np.concatenate([found._words, *(part._words for part in parts)])
        return found

    def __len__(self) -> int:
        return len(self._words)

    def among(self, at: NDArray[np.bool_]) -> "PublicChoices":
        """Return the choices of some of the respondents, in their order."""
        found = PublicChoices(b"", ())
        found._words = self._words[at]
        return found

    def part(self, start: int, stop: int) -> "PublicChoices":
        """Return the choices of the respondents start .. stop - 1."""
        found = PublicChoices(b"", ())
        found._words = self._words[start:stop]
        return found

    def levels(self, n_levels: int) -> Integers:
        """Return a level 0 .. n_levels - 1 for each, uniform to within n_levels / 2^64."""
        return (self._words[:, _LEVEL] % np.uint64(n_levels)).astype(np.int64)

    def rows(self, n_rows: int) -> Integers:
        """Return a row 0 .. n_rows - 1 for each, uniform; n_rows is a power of two."""
        return (self._words[:, _ROW] & np.uint64(n_rows - 1)).astype(np.int64)

    def hashed(self, values: Integers, n_buckets: int) -> Integers:
        """Return the bucket of values under each respondent's function ((a x + c) mod p) mod g, p = 2^31 - 1.

        a is not 0, so two values of one respondent are pairwise independent modulo p but never equal there. They meet
        in one bucket with probability 1 / g to within g / p. Privacy does not depend on the function, which is public.

        Args:
            values: shape (n,), one for each respondent, or (1, d), the same ones for all.
            n_buckets: g.

        Returns:
            shape (n,) or (n, d).
        """
        factor = (1 + self._words[:, _FACTOR] % np.uint64(_PRIME - 1)).astype(np.int64)
        offset = (self._words[:, _OFFSET] % np.uint64(_PRIME)).astype(np.int64)
        if values.ndim == 2:
            factor, offset = factor[:, None], offset[:, None]
        found: Integers = (factor * values + offset) % _PRIME % n_buckets
        return found
