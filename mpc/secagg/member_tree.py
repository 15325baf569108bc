"""A Merkle tree over a roster: one root stands for who takes part and with which keys, a path proves one member of it.

Leaf m belongs to member m and to nobody else: it is the hash of what m has signed, or of nothing where m is absent. A
path is checked along the bits of the member's number, so under one root each member has one leaf: the same keys, or
absence, for everybody to whom it is proven. Anything else needs a collision of SHA-256 [Merkle87].
"""

from collections.abc import Mapping, Sequence

from mpc.secagg.messages import Advertisement
from mpc.transcript import DIGEST_BYTES, digest, encode_fields


class MemberTree:
    """The tree of one roster.

    Args:
        n_members: n, members of the roster.
        advertisements: member to what it has advertised; the others are absent.
    """

    def __init__(self, n_members: int, advertisements: Mapping[int, Advertisement]) -> None:
        leaves = [leaf_of(member, advertisements.get(member)) for member in range(1, (1 << depth_of(n_members)) + 1)]
        self._levels: list[Sequence[bytes]] = [leaves]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            self._levels.append([_parent(*below[at : at + 2]) for at in range(0, len(below), 2)])

    @property
    def root(self) -> bytes:
        """The root, 32 bytes."""
        return self._levels[-1][0]

    def path(self, member: int) -> bytes:
        """Return the hashes beside the way from a member's leaf to the root, from below, one after the other."""
        at = member - 1
        return b"".join(level[at >> height ^ 1] for height, level in enumerate(self._levels[:-1]))


def depth_of(n_members: int) -> int:
    """Return the number of hashes in a path."""
    return (n_members - 1).bit_length()


def leaf_of(member: int, advertisement: Advertisement | None) -> bytes:
    """Return a member's leaf; None says that it is absent."""
    if advertisement is None:
        return digest("absent member", member)
    return digest("member", member, encode_fields(advertisement.signed_bytes(), advertisement.signature))


def is_proven(root: bytes, n_members: int, member: int, advertisement: Advertisement | None, path: bytes) -> bool:
    """Return whether a path proves that a member takes part with this advertisement, or, with None, that it is absent.

    Args:
        root: root of the tree, 32 bytes.
        n_members: members of the roster.
        member: number within 1 .. n_members.
        advertisement: what it is said to have advertised.
        path: what `MemberTree.path` returns.
    """
    if len(path) != DIGEST_BYTES * depth_of(n_members):
        return False
    node, at = leaf_of(member, advertisement), member - 1
    for start in range(0, len(path), DIGEST_BYTES):
        beside = path[start : start + DIGEST_BYTES]
        node = _parent(beside, node) if at & 1 else _parent(node, beside)
        at >>= 1
    return node == root


def _parent(left: bytes, right: bytes) -> bytes:
    return digest("members", left, right)
