"""The keys of a member: an Ed25519 identity that the roster pins, and X25519 keys that live for one round.

Objects here show nothing of a key when printed, and cannot be pickled or copied.
"""

from typing import NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from entropy import Entropy, derive_key
from mpc.transcript import RoundId, context

KEY_BYTES = 32
SIGNATURE_BYTES = 64
_NONCE = bytes(12)
"""Constant, because each sealing key is derived for one round, sender and receiver and seals one message."""


class IdentityKey:
    """A member's long-lived Ed25519 key (RFC 8032), whose public half stands in every roster.

    Args:
        entropy: 32 bytes are read from it.
    """

    __slots__ = ("_private",)

    def __init__(self, entropy: Entropy) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(entropy.read(KEY_BYTES))

    @property
    def public_bytes(self) -> bytes:
        """The public half, 32 bytes."""
        return self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes. Messages come from `transcript.context`, which labels them."""
        return self._private.sign(message)

    def __repr__(self) -> str:
        return "IdentityKey()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private key must not be copied or stored")


def is_signed_by(public: bytes, signature: bytes, message: bytes) -> bool:
    """Say whether a signature of a message is by the holder of this Ed25519 key."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


class RoundKey:
    """An X25519 key (RFC 7748) of one member for one round.

    Args:
        private: 32 bytes: fresh ones, or, at the coordinator, those of a member that dropped out.
    """

    __slots__ = ("_private",)

    def __init__(self, private: bytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(private)

    @property
    def public_bytes(self) -> bytes:
        """The public half, 32 bytes."""
        return self._private.public_key().public_bytes_raw()

    def private_bytes(self) -> bytes:
        """Return the private half, to be shared among the holders and for nothing else."""
        return self._private.private_bytes_raw()

    def exchange(self, their_public: bytes) -> bytes:
        """Return the X25519 result, for derivation only.

        Raises:
            ValueError: `their_public` is not 32 bytes, or is a point of low order.
        """
        return self._private.exchange(X25519PublicKey.from_public_bytes(their_public))

    def __repr__(self) -> str:
        return "RoundKey()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private key must not be copied or stored")


def is_usable_public_key(public: bytes) -> bool:
    """Return whether a public key is usable: 32 bytes that are not a point of low order."""
    try:
        _PROBE.exchange(public)
    except ValueError:
        return False
    return True


_PROBE = RoundKey(bytes(range(KEY_BYTES)))


def pair_mask_key(
    mine: RoundKey, their_public: bytes, *, transcript: bytes, round_id: RoundId, vector: str, pair: tuple[int, int]
) -> bytes:
    """Return the key of the mask that two members have in common; both compute the same.

    Args:
        mine: my mask key of the round.
        their_public: the other's.
        transcript: hash of everything that the round's members agreed on; the salt.
        round_id: the round.
        vector: the name of the vector that is masked.
        pair: the two member numbers, in any order.

    Raises:
        ValueError: `their_public` is not a usable public key.
    """
    info = context(round_id, "pair mask", vector, min(pair), max(pair))
    return derive_key(mine.exchange(their_public), salt=transcript, info=info)


def self_mask_key(seed: bytes, *, transcript: bytes, round_id: RoundId, vector: str, member: int) -> bytes:
    """Return the key of a member's own mask, from its 32-byte seed; other arguments as `pair_mask_key`."""
    return derive_key(seed, salt=transcript, info=context(round_id, "self mask", vector, member))


class SealedChannel:
    """Seals one message to, and opens one message from, one other member, with AES-256-GCM.

    Associated data are the session, round, attempt, sender, receiver and kind of the message. Each direction has a key
    of its own, derived with the same context.

    Args:
        mine: my channel key of the round.
        their_public: the other's.
        transcript: the salt, as for `pair_mask_key`.
        round_id: the round.
        me: my number.
        them: the other's number.

    Raises:
        ValueError: `their_public` is not a usable public key.
    """

    __slots__ = ("_incoming", "_outgoing", "_round_id", "me", "them")

    def __init__(
        self, mine: RoundKey, their_public: bytes, *, transcript: bytes, round_id: RoundId, me: int, them: int
    ) -> None:
        shared = mine.exchange(their_public)
        self.me, self.them, self._round_id = me, them, round_id
        self._outgoing = derive_key(shared, salt=transcript, info=context(round_id, "channel", me, them))
        self._incoming = derive_key(shared, salt=transcript, info=context(round_id, "channel", them, me))

    def seal(self, kind: str, plaintext: bytes) -> bytes:
        """Seal my one message; 16 bytes longer than the plaintext."""
        return AESGCM(self._outgoing).encrypt(_NONCE, plaintext, context(self._round_id, kind, self.me, self.them))

    def open(self, kind: str, sealed: bytes) -> bytes:
        """Open their one message.

        Raises:
            cryptography.exceptions.InvalidTag: it was not sealed for us, in this round, by them, or was altered.
        """
        return AESGCM(self._incoming).decrypt(_NONCE, sealed, context(self._round_id, kind, self.them, self.me))

    def __repr__(self) -> str:
        return f"SealedChannel({self.me}, {self.them})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a channel must not be copied or stored")
