"""Keys that two members of a job have in common, and the streams that they draw from them.

Each member makes one ephemeral X25519 key (RFC 7748) per job. The secret of a pair is bound to the transcript: the
binding of the job (`mpc.protocol.greeting`), both numbers and both public keys (HKDF-SHA256, RFC 5869). So two members
that mean different jobs, or different plans of one job, have no secret in common. It says nothing of who the peer is:
authentication is the transport's. Objects here show nothing of a key when printed, and cannot be pickled or copied.
"""

import hashlib
import hmac
from typing import NoReturn

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from entropy import Entropy, KeyStream, derive_key
from mpc.errors import LocalFaultError, PeerViolationError
from mpc.protocol.greeting import GREETING_STAGE

PUBLIC_KEY_BYTES = 32
SEED_BYTES = 32


class EphemeralKey:
    """One member's key pair for one job.

    Args:
        entropy: 32 bytes are read from it.
    """

    __slots__ = ("_private", "_public_bytes")

    def __init__(self, entropy: Entropy) -> None:
        self._private = X25519PrivateKey.from_private_bytes(entropy.read(SEED_BYTES))
        self._public_bytes = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @property
    def public_bytes(self) -> bytes:
        """The public half, 32 bytes: what is sent to every other member."""
        return self._public_bytes

    def exchange(self, their_public: bytes) -> bytes:
        """Return the X25519 result, 32 bytes, for derivation only.

        Raises:
            ValueError: `their_public` is not 32 bytes, or is a point of low order.
        """
        return self._private.exchange(X25519PublicKey.from_public_bytes(their_public))

    def __repr__(self) -> str:
        return "EphemeralKey()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private key must not be copied or stored")


class PairwiseSecret:
    """The secret that two members share. Made by `pairwise_secret`.

    Args:
        key: 32 bytes.
        members: the two numbers.
    """

    __slots__ = ("_key", "_members", "_sealed")

    def __init__(self, key: bytes, members: frozenset[int]) -> None:
        self._key = key
        self._members = members
        self._sealed: set[tuple[int, str]] = set()

    def stream(self, dealer: int, receiver: int, label: str, block: int) -> KeyStream:
        """Return the stream from which the dealer and the receiver both derive the receiver's shares of one block.

        Every (dealer, receiver, label) has a key of its own and every block a part of that key's stream, so nothing is
        drawn twice as long as no caller repeats all four.

        Args:
            dealer: one of the two members.
            receiver: the other.
            label: what is shared, for instance a stage.
            block: 0 .. 2**64 - 1.
        """
        if frozenset((dealer, receiver)) != self._members:
            raise LocalFaultError(
                f"the secret belongs to members {sorted(self._members)}, not to dealer {dealer} and receiver {receiver}"
            )
        info = f"moiety stream {dealer} {receiver} {label}".encode()
        return KeyStream(derive_key(self._key, salt=b"", info=info), number=block)

    def claim_seal(self, sender: int, stage: str) -> bool:
        """Return whether a member may seal its only message of a stage with this secret: true for the first call only.

        This is recorded here and not in the channel, because several channels may share one secret.
        """
        is_first = (sender, stage) not in self._sealed
        self._sealed.add((sender, stage))
        return is_first

    def digest(self, label: str, data: bytes) -> bytes:
        """Return HMAC-SHA256 of `data` under a key of its own for `label`: 32 bytes.

        The pair compares such digests of what should be equal; who lacks the secret learns nothing from them, not even
        by trying out likely data.
        """
        key = derive_key(self._key, salt=b"", info=b"moiety digest " + label.encode())
        return hmac.digest(key, data, "sha256")

    def __repr__(self) -> str:
        return f"PairwiseSecret(members={sorted(self._members)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret must not be copied or stored")


def pairwise_secret(
    mine: EphemeralKey, their_public: bytes, *, binding: bytes, my_number: int, their_number: int
) -> PairwiseSecret:
    """Agree on a secret with one other member; both sides compute the same.

    Args:
        mine: my key of this job.
        their_public: the public bytes that the other member sent.
        binding: binding of the job, 32 bytes; see `mpc.protocol.greeting.binding_of`.
        my_number: my member number.
        their_number: the other's.

    Raises:
        PeerViolationError: `their_public` is not 32 bytes, or a point of low order, which would make the secret public.
        LocalFaultError: the numbers are equal.
    """
    if my_number == their_number:
        raise LocalFaultError(f"member {my_number} has no pairwise secret with itself")
    try:
        shared = mine.exchange(their_public)
    except ValueError as error:
        raise PeerViolationError(
            their_number,
            GREETING_STAGE,
            f"member {their_number} sent no valid X25519 public key of {PUBLIC_KEY_BYTES} bytes",
        ) from error
    return PairwiseSecret(
        derive_key(
            shared,
            salt=_transcript_digest(binding, {my_number: mine.public_bytes, their_number: their_public}),
            info=b"moiety pairwise secret",
        ),
        frozenset((my_number, their_number)),
    )


def _transcript_digest(binding: bytes, public_keys: dict[int, bytes]) -> bytes:
    digest = hashlib.sha256(b"moiety pairwise transcript")
    parts = [binding]
    for number in sorted(public_keys):
        parts += [str(number).encode(), public_keys[number]]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
