"""Oblivious transfers of random keys between two owners, by Diffie-Hellman in ristretto255 [MR19].

For each transfer j the sender gets two keys, the receiver the one that its bit s names. With a generator G, scalars a
of the sender and b_j of the receiver, and hashes H_0, H_1 to the group, bound to job, pair and transfer:

    receiver -> sender      r_0, r_1 with r_(1-s) uniform and r_s = b_j G - H_s(r_(1-s))
    sender -> receiver      A = a G
    keys                    k_i = Hash(j, i, a (r_i + H_i(r_(1-i)))), of which the receiver's is Hash(j, s, b_j A)

The two messages do not wait for each other. The receiver's bits are hidden without an assumption: r_0 and r_1 are
uniform and independent, whichever was made first. A receiver that deviates asked for one of the two hashes last, when
the points of the other sum were fixed: it cannot know the logarithms of both, and the key of the other is a hash of
what the Diffie-Hellman assumption hides. [MR19] prove it against who deviates, with random oracles.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy
from entropy.stream import KEY_BYTES
from mpc.matching.group import Bytes, Scalar, add_points, hash_to_points, points_of
from mpc.matching.sodium import POINT_BYTES, UNIFORM_BYTES

GENERATOR = np.frombuffer(
    bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76"), dtype=np.uint8
).reshape(1, POINT_BYTES)
"""The canonical generator (RFC 9496, appendix A.1)."""


class TransferSender:
    """Gets two keys of each transfer. Shows nothing of them; cannot be pickled, as its scalar cannot.

    Args:
        context: what the hashes are bound to, at most 64 bytes, equal at both ends: job and pair.
        entropy: source of the scalar.
    """

    def __init__(self, context: bytes, entropy: Entropy) -> None:
        self._context, self._scalar = context, Scalar.draw(entropy)
        self.message = self._scalar.multiply(GENERATOR).reshape(-1)
        """A, 32 bytes: what the receiver is sent."""

    def keys(self, answer: Bytes) -> tuple[list[bytes], list[bytes]]:
        """Return the keys of 0 and those of 1, 32 bytes each.

        Args:
            answer: the receiver's points, shape (2, n, 32).

        Raises:
            InvalidPointError: a row is no point, or a sum is the identity.
        """
        hashed = [_hashed(self._context, bit, answer[1 - bit]) for bit in range(2)]
        products = [self._scalar.multiply(add_points(answer[bit], hashed[bit])) for bit in range(2)]
        return _keys(self._context, 0, products[0]), _keys(self._context, 1, products[1])


class TransferReceiver:
    """Gets one key of each transfer.

    Args:
        context: the sender's.
        choices: shape (n,), 0 or 1 each. Secret.
        entropy: source of scalars and points.
    """

    def __init__(self, context: bytes, choices: NDArray[np.uint8], entropy: Entropy) -> None:
        n = len(choices)
        self._context, self._choices = context, choices
        self._scalars = [Scalar.draw(entropy) for _ in range(n)]
        other = points_of(entropy.read(n * UNIFORM_BYTES))
        both = np.stack([_hashed(context, bit, other) for bit in range(2)])
        hashed = both[choices, np.arange(n)]
        chosen = add_points(np.concatenate([one.multiply(GENERATOR) for one in self._scalars]), hashed, negated=True)
        is_one = choices.astype(bool)[:, None]
        self.message = np.stack([np.where(is_one, other, chosen), np.where(is_one, chosen, other)])
        """The points r_0, r_1 of all transfers, shape (2, n, 32): what the sender is sent."""

    def keys(self, point: Bytes) -> list[bytes]:
        """Return the chosen keys, 32 bytes each.

        Args:
            point: the sender's A, 32 bytes.

        Raises:
            InvalidPointError: it is no point, or the identity.
        """
        products = np.concatenate([one.multiply(point.reshape(1, POINT_BYTES)) for one in self._scalars])
        both = [_keys(self._context, bit, products) for bit in range(2)]
        return [both[bit][j] for j, bit in enumerate(self._choices.tolist())]


def _hashed(context: bytes, bit: int, points: Bytes) -> Bytes:
    """Return H_bit of the points of all transfers."""
    messages = [bytes([bit]) + j.to_bytes(4, "big") + point.tobytes() for j, point in enumerate(points)]
    return hash_to_points(messages, b"moiety matching, transfers of " + context)


def _keys(context: bytes, bit: int, points: Bytes) -> list[bytes]:
    begun = hashlib.blake2b(bytes([bit]), digest_size=KEY_BYTES, key=context)
    keys = []
    for j, point in enumerate(points):
        digest = begun.copy()
        digest.update(j.to_bytes(4, "big") + point.tobytes())
        keys.append(digest.digest())
    return keys
