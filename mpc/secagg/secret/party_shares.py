"""Additive shares of one vector for several parties, each sealed for its party: what a device sends in a batch.

N shares of a vector x of a group: N - 1 seeds of 32 bytes, which stand for the elements that `mask.apply_masks` expands
them to, and last the vector less those, packed. Any N - 1 of them are jointly uniform (seeds up to the security of
AES-256-CTR), so they say nothing of x; all N add up to it. In the way of Prio [CorriganGibbs17].

Where m parties may be missing at the opening, shares are those of `threshold`: N - 1 - m seeds, then m + 1 vectors, and
any N - m of them give x. Each N - 1 - m of them say nothing of it.

Where the device proves something of x, a second vector is shared that depends on a challenge: a hash of the sealed
shares of the first one. What is sealed for a party opens to one share only, so the challenge comes after the shares are
fixed. Seeds stand for elements of both; each party with a vector gets one more box, with its share of the second one.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from entropy import Entropy, derive_key
from mpc.errors import LocalFaultError
from mpc.prime import kernels as prime_kernels
from mpc.prime.field import elements as field_elements
from mpc.secagg.secret.keys import KEY_BYTES, RoundKey
from mpc.secagg.secret.mask import Mask, apply_masks
from mpc.secagg.secret.threshold import dealing_weights
from mpc.secagg.vector.group import Elements, SumGroup
from mpc.transcript import digest, encode_fields

SEED_BYTES = 32
TAG_BYTES = 16
PROOF = "proof"
"""Purpose of the box with a share of the second vector."""

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
        sealed: a share per party, in their order; behind them, where there is a proof, the second boxes of the parties
            whose shares are vectors.
    """

    ephemeral_public: bytes
    sealed: tuple[bytes, ...]


def holds_vector(position: int, n_parties: int, may_miss: int = 0) -> bool:
    """Say whether the share of the party at a position is a vector; else it is a seed."""
    return position >= n_parties - 1 - may_miss


def share_bytes(group: SumGroup, length: int, position: int, n_parties: int, may_miss: int = 0) -> int:
    """Return the size of a share before it is sealed."""
    return group.wire_bytes(length) if holds_vector(position, n_parties, may_miss) else SEED_BYTES


def split(
    group: SumGroup, elements: Elements, n_parties: int, entropy: Entropy, may_miss: int = 0
) -> tuple[bytes, ...]:
    """Return shares of a vector: additive ones, or, where parties may be missing, points of polynomials.

    Args:
        group: group of the sum; a `PrimeGroup` where parties may be missing.
        elements: the vector; not changed.
        n_parties: at least 2 more than may be missing.
        entropy: 32 bytes are read for each seed.
        may_miss: parties without which the others open.

    Raises:
        LocalFaultError: one share alone would be the vector.
    """
    if n_parties < 2 + may_miss:
        raise LocalFaultError("a vector is shared so that at least two parties are needed")
    seeds = tuple(entropy.read(SEED_BYTES) for _ in range(n_parties - 1 - may_miss))
    return (*seeds, *_vectors(group, elements, seeds, may_miss))


def _vectors(group: SumGroup, elements: Elements, seeds: Sequence[bytes], may_miss: int) -> tuple[bytes, ...]:
    """Return the shares that seeds leave of a vector."""
    if not may_miss:
        last = elements.copy()
        apply_masks(group, last, (Mask(seed, is_negative=True) for seed in seeds))
        return (group.pack(last),)
    rows = np.zeros((1 + len(seeds), len(elements)), dtype=np.uint64)
    rows[0] = elements
    for row, seed in zip(rows[1:], seeds, strict=True):
        apply_masks(group, row, [Mask(seed, is_negative=False)])
    found = []
    for position in range(len(seeds), len(seeds) + 1 + may_miss):
        share = group.zeros(len(elements))
        prime_kernels.combine_rows(share, rows, field_elements(dealing_weights(len(seeds), position)))
        found.append(group.pack(share))
    return tuple(found)


def split_proof(group: SumGroup, elements: Elements, seeds: Sequence[bytes], may_miss: int = 0) -> tuple[bytes, ...]:
    """Return the shares of a second vector of which the seeds of a first one stand for the others."""
    return _vectors(group, elements, list(map(proof_seed, seeds)), may_miss)


def proof_seed(seed: bytes) -> bytes:
    """Return the key of what a party's seed stands for of the second vector."""
    return derive_key(seed, salt=b"", info=b"moiety batch proof")


def seal(
    terms: SealingTerms,
    shares: Sequence[bytes],
    party_publics: Sequence[bytes],
    entropy: Entropy,
    prove: Callable[[bytes], Sequence[bytes]] | None = None,
) -> SealedVector:
    """Seal each share for its party, under a fresh X25519 key: HKDF-SHA256, AES-256-GCM.

    Args:
        terms: bound into every key and every seal.
        shares: one per party.
        party_publics: X25519 keys of the parties, in their order.
        entropy: random source for the fresh key.
        prove: returns the shares of the second vector, which answers a challenge of 32 bytes, for the last parties.

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
        proofs = prove(challenge_seed(terms, mine.public_bytes, digests))
        first = len(shares) - len(proofs)
        sealed += [box(first + i, proof, party_publics[first + i], PROOF) for i, proof in enumerate(proofs)]
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
        purpose: "share", or `PROOF` for a second box.

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
        may_miss: parties without which the others open.
        weight: with which this party's share counts among those that open; 1 where all do.
        total: the sum so far, of shares as they came. Secret.
    """

    group: SumGroup
    length: int
    position: int
    n_parties: int
    n_more: int = 0
    may_miss: int = 0
    weight: int = 1
    total: Elements = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.total = self.group.zeros(self.length)

    @property
    def share_bytes(self) -> int:
        """The size of one share."""
        return share_bytes(self.group, self.length + self.n_more, self.position, self.n_parties, self.may_miss)

    @property
    def holds_vector(self) -> bool:
        """Whether this party's shares are vectors."""
        return holds_vector(self.position, self.n_parties, self.may_miss)

    def additive(self) -> Elements:
        """Return this party's additive share of the sum, among those that open."""
        return self._weighted(self.total)

    def _weighted(self, elements: Elements) -> Elements:
        if self.weight == 1:
            return elements
        found = elements.copy()
        prime_kernels.scale_rows(found.reshape(1, -1), field_elements([self.weight]))
        return found

    def check(self, share: bytes) -> None:
        """Refuse what is no share of this party.

        Raises:
            ValueError, ProtocolError: it has another length, or is not packed as shares are.
        """
        if len(share) != self.share_bytes:
            raise ValueError("a share has another length than those of this batch")
        if self.holds_vector:
            self.group.unpack(share, self.length + self.n_more)

    def both(self, share: bytes) -> tuple[Elements, Elements]:
        """Return this party's additive shares of the two vectors in a share that `check` accepts."""
        if self.holds_vector:
            elements = self._weighted(self.group.unpack(share, self.length + self.n_more))
            return elements[: self.length], elements[self.length :]
        first, second = self.group.zeros(self.length), self.group.zeros(self.n_more)
        apply_masks(self.group, first, [Mask(share, is_negative=False)])
        apply_masks(self.group, second, [Mask(proof_seed(share), is_negative=False)])
        return self._weighted(first), self._weighted(second)

    def add(self, shares: Sequence[bytes]) -> None:
        """Add shares that `check` accepts."""
        self._change(shares, is_negative=False)

    def take_away(self, shares: Sequence[bytes]) -> None:
        """Take away shares that were added before."""
        self._change(shares, is_negative=True)

    def _change(self, shares: Sequence[bytes], *, is_negative: bool) -> None:
        if not self.holds_vector:
            apply_masks(self.group, self.total, (Mask(seed, is_negative) for seed in shares))
            return
        change = self.group.deduct if is_negative else self.group.accumulate
        for share in shares:
            change(self.total, self.group.unpack(share, self.length + self.n_more)[: self.length])
