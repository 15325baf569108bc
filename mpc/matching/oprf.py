"""An oblivious pseudorandom function: one owner has the key, another gets the values at its own ids, and no more.

    F_k(x) = SHA-512(label, x, H(x)^k)

H hashes to ristretto255. Who wants the value at x sends H(x)^r, gets H(x)^(r k), and takes the power 1/r. Source:
2HashDH [JKK14], with one blinding r for all points of a match: by the decisional Diffie-Hellman assumption the powers
of independent points with one exponent are as good as random points. Both hashes are bound to the match.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mpc.errors import ShapeError
from mpc.matching.group import Bytes, Scalar, hash_to_points
from mpc.matching.sodium import POINT_BYTES

ID_BYTES = 32
SEED_BYTES = 32
PAD_WORDS = 2
TAG_BYTES = 16
_VALUE_BYTES = SEED_BYTES + 8 * PAD_WORDS + TAG_BYTES

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Values:
    """Values of the function at n ids, in three parts that are independent random strings to who lacks the key.

    Attributes:
        seeds: shape (n, 32): where the ids stand in a store.
        pads: shape (n, 2), uint64: hide what the store holds for them.
        tags: shape (n, 16): name them to the key's owner.
    """

    seeds: Bytes = field(repr=False)
    pads: Words = field(repr=False)
    tags: Bytes = field(repr=False)

    def __len__(self) -> int:
        return len(self.tags)

    @classmethod
    def empty(cls, n: int) -> "Values":
        """Return room for n values."""
        seeds, tags = (np.empty((n, width), dtype=np.uint8) for width in (SEED_BYTES, TAG_BYTES))
        return cls(seeds, np.empty((n, PAD_WORDS), dtype=np.uint64), tags)

    def put(self, rows: NDArray[np.int64] | slice, values: "Values") -> None:
        """Write values into some rows."""
        self.seeds[rows] = values.seeds
        self.pads[rows] = values.pads
        self.tags[rows] = values.tags


class MatchingFunction:
    """The two hashes of one match.

    Args:
        binding: binding of the job, 32 bytes (`mpc.protocol.greeting`).
    """

    def __init__(self, binding: bytes) -> None:
        self._tag = b"moiety matching, hash to ristretto255 of " + binding
        self._begun = hashlib.sha512(b"moiety matching, value of the function" + binding)

    def points(self, ids: Bytes) -> Bytes:
        """Return H of ids of shape (n, 32), shape (n, 32). Costs 15 microseconds each."""
        return hash_to_points(_rows(ids, ID_BYTES), self._tag)

    def raised(self, ids: Bytes, exponent: Scalar) -> Bytes:
        """Return H(x)^exponent of each id."""
        return exponent.multiply(self.points(ids))

    def values(self, ids: Bytes, powers: Bytes) -> Values:
        """Return F of ids whose H(x)^k are given, both of shape (n, 32)."""
        if len(ids) != len(powers):
            raise ShapeError("each id needs the power of its point")
        digests = []
        for one, power in zip(_rows(ids, ID_BYTES), _rows(powers, POINT_BYTES), strict=True):
            digest = self._begun.copy()
            digest.update(one + power)
            digests.append(digest.digest())
        rows = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, _VALUE_BYTES)
        seeds, pads, tags = np.split(rows, (SEED_BYTES, _VALUE_BYTES - TAG_BYTES), axis=1)
        return Values(seeds, np.ascontiguousarray(pads).view("<u8").astype(np.uint64, copy=False), tags)

    def values_under(self, ids: Bytes, key: Scalar) -> Values:
        """Return F_key of my ids: what who has the key computes alone."""
        return self.values(ids, self.raised(ids, key))

    def values_from(self, ids: Bytes, evaluated: Bytes, unblinding: Scalar) -> Values:
        """Return F of my ids from what the key's owner made of my blinded points.

        Raises:
            InvalidPointError: a row of `evaluated` is no point, or the identity.
        """
        return self.values(ids, unblinding.multiply(evaluated))


def _rows(rows: Bytes, width: int) -> Sequence[bytes]:
    """Return the rows of an array of shape (n, width), each as bytes."""
    data = np.ascontiguousarray(rows).tobytes()
    return [data[start : start + width] for start in range(0, len(data), width)]
