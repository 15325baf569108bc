"""Additive shares of one vector for several parties, each sealed for its party: what a device sends in a batch.

N shares of a vector x of a group: N - 1 seeds of 32 bytes, which stand for the elements that `mask.apply_masks` expands
them to, and last the vector less those, packed. Any N - 1 of them are jointly uniform (seeds up to the security of
AES-256-CTR), so they say nothing of x; all N add up to it. In the way of Prio [CorriganGibbs17].

Where the device proves something of x, a second vector is shared that depends on a challenge: a hash of the sealed
shares of the first one. What is sealed for a party opens to one share only, so the challenge comes after the shares are
fixed. Seeds stand for elements of both; the last party gets one more box, with what they leave of the second vector.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from entropy import Entropy, derive_key
from mpc.errors import LocalFaultError
from mpc.secagg.secret.keys import KEY_BYTES, RoundKey
from mpc.secagg.secret.mask import Mask, apply_masks
from mpc.secagg.vector.group import Elements, SumGroup
from mpc.transcript import digest, encode_fields

SEED_BYTES = 32
TAG_BYTES = 16
PROOF = "proof"
"""Purpose of the box with the last party's share of the second vector."""

_NONCE = bytes(12)
"""Constant, because each key is derived for one device, batch and party, from a key that the device draws for it alone,
and seals one share."""


@dataclass(frozen=True)
class SealingTerms:
    """What a device's shares belong to; a share that was sealed under other terms does not open.

    Attributes:
        batch: SHA-256 of the question as it was asked, 32 bytes.
        device: its name.
        parties: names, in the order of the shares.
    """

    batch: bytes
    device: str
    parties: tuple[str, ...]

    def context(self, purpose: str, position: int, *fields: bytes) -> bytes:
        """Return the label of something of one party's share."""
        place = self.parties[position], position, len(self.parties)
        return encode_fields("moiety batch " + purpose, self.batch, self.device, *place, *fields)


@dataclass(frozen=True)
class SealedVector:
    """A device's vector as it leaves the device.

    Attributes:
        ephemeral_public: the X25519 key that the device drew for it.
        sealed: a share per party, in their order; behind them, where there is a proof, the last party's second box.
    """

    ephemeral_public: bytes
    sealed: tuple[bytes, ...]


def share_bytes(group: SumGroup, length: int, position: int, n_parties: int) -> int:
    """Return the size of a share before it is sealed."""
    return group.wire_bytes(length) if position == n_parties - 1 else SEED_BYTES


def split(group: SumGroup, elements: Elements, n_parties: int, entropy: Entropy) -> tuple[bytes, ...]:
    """Return additive shares of a vector.

    Args:
        group: group of the sum.
        elements: the vector; not changed.
        n_parties: at least 2.
        entropy: 32 bytes are read for each seed.

    Raises:
        LocalFaultError: one share alone would be the vector.
    """
    if n_parties < 2:
        raise LocalFaultError("a vector is shared among at least two parties")
    seeds = tuple(entropy.read(SEED_BYTES) for _ in range(n_parties - 1))
    return (*seeds, _rest(group, elements, seeds))


def _rest(group: SumGroup, elements: Elements, seeds: Iterable[bytes]) -> bytes:
    last = elements.copy()
    apply_masks(group, last, (Mask(seed, is_negative=True) for seed in seeds))
    return group.pack(last)


def split_proof(group: SumGroup, elements: Elements, seeds: Iterable[bytes]) -> bytes:
    """Return the last party's share of a second vector, of which the seeds of a first one stand for the others."""
    return _rest(group, elements, map(proof_seed, seeds))


def proof_seed(seed: bytes) -> bytes:
    """Return the key of what a party's seed stands for of the second vector."""
    return derive_key(seed, salt=b"", info=b"moiety batch proof")


def seal(
    terms: SealingTerms,
    shares: Sequence[bytes],
    party_publics: Sequence[bytes],
    entropy: Entropy,
    prove: Callable[[bytes], bytes] | None = None,
) -> SealedVector:
    """Seal each share for its party, under a fresh X25519 key: HKDF-SHA256, AES-256-GCM.

    Args:
        terms: bound into every key and every seal.
        shares: one per party.
        party_publics: X25519 keys of the parties, in their order.
        entropy: random source for the fresh key.
        prove: returns the last party's share of the second vector, which answers a challenge of 32 bytes.

    Raises:
        ValueError: a party's key is unusable.
    """
    mine = RoundKey(entropy.read(KEY_BYTES))

    def box(position: int, content: bytes, public: bytes, purpose: str) -> bytes:
        key = _key(terms, position, mine.exchange(public), mine.public_bytes, public, purpose)
        return AESGCM(key).encrypt(_NONCE, content, terms.context(purpose, position))

    pairs = zip(shares, party_publics, strict=True)
    sealed = [box(position, *pair, "share") for position, pair in enumerate(pairs)]
    if prove is not None:
        digests = [hashlib.sha256(one).digest() for one in sealed]
        proof = prove(challenge_seed(terms, mine.public_bytes, digests))
        sealed.append(box(len(shares) - 1, proof, party_publics[-1], PROOF))
    return SealedVector(mine.public_bytes, tuple(sealed))


def challenge_seed(terms: SealingTerms, ephemeral_public: bytes, seal_digests: Sequence[bytes]) -> bytes:
    """Return the key of the challenge to a device, a hash of all that fixes the shares of its first vector.

    Args:
        terms: terms of the shares.
        ephemeral_public: one-time public key of the device.
        seal_digests: SHA-256 of each sealed share of the first vector, one per party.
    """
    return digest("batch challenge", terms.batch, terms.device, *terms.parties, ephemeral_public, *seal_digests)


def open_share(
    terms: SealingTerms,
    position: int,
    party_key: RoundKey,
    ephemeral_public: bytes,
    sealed: bytes,
    purpose: str = "share",
) -> bytes:
    """Open a party's share.

    Args:
        terms: terms of the shares.
        position: position of the party.
        party_key: its key.
        ephemeral_public: one-time public key of the device.
        sealed: box as it came.
        purpose: "share", or `PROOF` for the second box of the last party.

    Raises:
        ValueError: it was not sealed for this party, batch and device, or was altered.
    """
    own = party_key.public_bytes
    key = _key(terms, position, party_key.exchange(ephemeral_public), ephemeral_public, own, purpose)
    try:
        return AESGCM(key).decrypt(_NONCE, sealed, terms.context(purpose, position))
    except InvalidTag:
        raise ValueError("the share does not open") from None


def answer_digest(terms: SealingTerms, ephemeral_public: bytes, seal_digests: Sequence[bytes]) -> bytes:
    """Return what a device signs: all of its answer, of which each party sees its own share and the others' hashes.

    Args:
        terms: terms of the shares.
        ephemeral_public: one-time public key of the device.
        seal_digests: SHA-256 of each sealed share, in the order of the parties.
    """
    return digest("batch answer", terms.batch, terms.device, *terms.parties, ephemeral_public, *seal_digests)


def _key(
    terms: SealingTerms,
    position: int,
    shared: bytes,
    device_public: bytes,
    party_public: bytes,
    purpose: str,
) -> bytes:
    label = "key" if purpose == "share" else purpose + " key"
    return derive_key(shared, salt=terms.batch, info=terms.context(label, position, device_public, party_public))


@dataclass
class ShareSum:
    """The sum of one party's shares of many devices.

    Attributes:
        group: group of the sum.
        length: elements.
        position: position of the party, 0 and up.
        n_parties: number of parties.
        n_more: elements of the second vector, which is not added up; 0 where there is none.
        total: the sum so far. Secret.
    """

    group: SumGroup
    length: int
    position: int
    n_parties: int
    n_more: int = 0
    total: Elements = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.total = self.group.zeros(self.length)

    @property
    def share_bytes(self) -> int:
        """The size of one share."""
        return share_bytes(self.group, self.length + self.n_more, self.position, self.n_parties)

    def check(self, share: bytes) -> None:
        """Refuse what is no share of this party.

        Raises:
            ValueError, ProtocolError: it has another length, or is not packed as shares are.
        """
        if len(share) != self.share_bytes:
            raise ValueError("a share has another length than those of this batch")
        if self.position == self.n_parties - 1:
            self.group.unpack(share, self.length + self.n_more)

    def both(self, share: bytes) -> tuple[Elements, Elements]:
        """Return this party's shares of the two vectors in a share that `check` accepts."""
        if self.position == self.n_parties - 1:
            elements = self.group.unpack(share, self.length + self.n_more)
            return elements[: self.length], elements[self.length :]
        first, second = self.group.zeros(self.length), self.group.zeros(self.n_more)
        apply_masks(self.group, first, [Mask(share, is_negative=False)])
        apply_masks(self.group, second, [Mask(proof_seed(share), is_negative=False)])
        return first, second

    def add(self, shares: Sequence[bytes]) -> None:
        """Add shares that `check` accepts."""
        self._change(shares, is_negative=False)

    def take_away(self, shares: Sequence[bytes]) -> None:
        """Take away shares that were added before."""
        self._change(shares, is_negative=True)

    def _change(self, shares: Sequence[bytes], *, is_negative: bool) -> None:
        if self.position < self.n_parties - 1:
            apply_masks(self.group, self.total, (Mask(seed, is_negative) for seed in shares))
            return
        change = self.group.deduct if is_negative else self.group.accumulate
        for share in shares:
            change(self.total, self.both(share)[0])
