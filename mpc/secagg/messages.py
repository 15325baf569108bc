"""The messages of a round: one type per meaning, five from a member and five to it, and what each holds on the wire.

Each class is the one definition of its message: both forms on the wire follow from its fields (`message_form`).

They contain public or sealed bytes only, except `UnmaskingShares`. None is trusted before the state that receives it
has checked it. Numbers are positive integers below 2^20; maps are keyed by member number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from mpc.secagg.config import RoundConfig
from mpc.secagg.message_form import members, message_per_member, one_string, string_per_member
from mpc.secagg.secret.keys import KEY_BYTES, SIGNATURE_BYTES
from mpc.secagg.secret.secret_sharing import SHARE_BYTES
from mpc.transcript import DIGEST_BYTES, RoundId, context, digest, encode_fields

SEAL_BYTES = 16
"""Bytes that sealing adds to a plaintext."""


def sealed_bytes(config: RoundConfig) -> int:
    """Return the size of what one member seals for another: shares of two secrets and of each surplus seed."""
    return (2 + config.n_surplus_seeds) * SHARE_BYTES + SEAL_BYTES


def anchor_bytes(config: RoundConfig) -> int:
    """Return the size of the commitment to surplus seeds: 0 where a round has none."""
    return DIGEST_BYTES if config.n_surplus_seeds else 0


def vector_bytes(config: RoundConfig) -> int:
    """Return the size of a masked vector, packed."""
    return config.group.wire_bytes(config.n_elements)


def path_bytes(config: RoundConfig) -> int:
    """Return the size of a member's path in the tree of all members."""
    return DIGEST_BYTES * (config.n_members - 1).bit_length()


@dataclass(frozen=True)
class Advertisement:
    """Member to coordinator, relayed to all: the fresh keys of a round, signed by the member's identity.

    Attributes:
        round_id: the round.
        member: its number.
        mask_public: X25519, 32 bytes: masks are agreed with it.
        channel_public: X25519, 32 bytes: shares are sealed with it.
        seed_digest: commits to the seed of the member's own mask, 32 bytes.
        surplus_anchor: commits to its surplus seeds, 32 bytes; empty where the round has none.
        config_digest: digest of the configuration that the member was given, 32 bytes.
        input_digest: digest of the public input that it was given, 32 bytes.
        signature: Ed25519 over all of the above, 64 bytes.
    """

    round_id: RoundId
    member: int
    mask_public: bytes = one_string(KEY_BYTES)
    channel_public: bytes = one_string(KEY_BYTES)
    seed_digest: bytes = one_string(DIGEST_BYTES)
    surplus_anchor: bytes = one_string(anchor_bytes)
    config_digest: bytes = one_string(DIGEST_BYTES)
    input_digest: bytes = one_string(DIGEST_BYTES)
    signature: bytes = one_string(SIGNATURE_BYTES)

    def signed_bytes(self) -> bytes:
        """Return what the signature is over."""
        return self._signed_bytes

    @cached_property  # each member needs it twice of each other member
    def _signed_bytes(self) -> bytes:
        return context(
            self.round_id,
            "advertisement",
            self.member,
            self.mask_public,
            self.channel_public,
            self.seed_digest,
            self.surplus_anchor,
            self.config_digest,
            self.input_digest,
        )


@dataclass(frozen=True)
class MemberList:
    """Coordinator to members of a complete graph: who takes part."""

    round_id: RoundId
    advertisements: tuple[Advertisement, ...] = message_per_member(Advertisement)


@dataclass(frozen=True)
class NeighbourList:
    """Coordinator to one member of a ring: who of its neighbours takes part, proven under the root that all have.

    Attributes:
        round_id: the round.
        root: root of the `MemberTree` of all members, 32 bytes.
        advertisements: advertisements of the member itself and of its neighbours that take part, ascending.
        paths: number to path in the tree: of the member itself and of each neighbour, absent or not.
    """

    round_id: RoundId
    root: bytes = one_string(DIGEST_BYTES)
    advertisements: tuple[Advertisement, ...] = message_per_member(Advertisement)
    paths: Mapping[int, bytes] = string_per_member(path_bytes)


@dataclass(frozen=True)
class SealedShares:
    """Member to coordinator: shares of its secrets, sealed for each holder that takes part.

    Attributes:
        round_id: the round.
        member: the owner of the secrets.
        transcript: hash of the member list that the owner saw; relayed to the holders.
        sealed: holder to ciphertext; the owner's own shares stay with it.
    """

    round_id: RoundId
    member: int
    transcript: bytes = one_string(DIGEST_BYTES)
    sealed: Mapping[int, bytes] = string_per_member(sealed_bytes, repr=False)


@dataclass(frozen=True)
class ShareDelivery:
    """Coordinator to one member: what others sealed for it, and who has shared.

    Attributes:
        round_id: the round.
        sharers: all members that have shared, ascending.
        transcripts: neighbour to the transcript hash it stated.
        sealed: neighbour to its ciphertext for this member.
    """

    round_id: RoundId
    sharers: tuple[int, ...] = members()
    transcripts: Mapping[int, bytes] = string_per_member(DIGEST_BYTES)
    sealed: Mapping[int, bytes] = string_per_member(sealed_bytes, repr=False)


@dataclass(frozen=True)
class MaskedInput:
    """Member to coordinator: its vector under its own mask and the masks it has in common with its neighbours."""

    round_id: RoundId
    member: int
    elements: bytes = one_string(vector_bytes, repr=False)


@dataclass(frozen=True)
class SurvivorList:
    """Coordinator to members: whose masked input has arrived, ascending."""

    round_id: RoundId
    survivors: tuple[int, ...] = members()


@dataclass(frozen=True)
class SurvivorSignature:
    """Member to coordinator, relayed to all survivors: it has seen exactly this set.

    Attributes:
        round_id: the round.
        member: who signs.
        set_digest: digest that the member signs; see `survivor_digest`.
        signature: Ed25519, 64 bytes.
    """

    round_id: RoundId
    member: int
    set_digest: bytes = one_string(DIGEST_BYTES)
    signature: bytes = one_string(SIGNATURE_BYTES)

    def signed_bytes(self) -> bytes:
        """Return what the signature is over."""
        return context(self.round_id, "survivors", self.member, self.set_digest)


@dataclass(frozen=True)
class SignedSurvivors:
    """Coordinator to survivors: signatures of them, at least `Topology.n_signatures`."""

    round_id: RoundId
    signatures: tuple[SurvivorSignature, ...] = message_per_member(SurvivorSignature)


@dataclass(frozen=True)
class UnmaskingShares:
    """Member to coordinator: of every neighbour's secrets exactly one kind of share.

    Attributes:
        round_id: the round.
        member: the holder.
        seed_shares: surviving owner to a share of the seed of its own mask.
        key_shares: owner that dropped out to a share of its mask key.
        surplus_shares: surviving owner to a share of the surplus seed that is due; empty where none is.
    """

    round_id: RoundId
    member: int
    seed_shares: Mapping[int, bytes] = string_per_member(SHARE_BYTES, repr=False)
    key_shares: Mapping[int, bytes] = string_per_member(SHARE_BYTES, repr=False)
    surplus_shares: Mapping[int, bytes] = string_per_member(SHARE_BYTES, repr=False)


def member_transcript(config_digest: bytes, input_digest: bytes, advertisements: tuple[Advertisement, ...]) -> bytes:
    """Return the hash of everything that the members of a round have agreed on: the salt of all its keys."""
    signed = [encode_fields(ad.signed_bytes(), ad.signature) for ad in advertisements]
    return digest("members", config_digest, input_digest, *signed)


def ring_transcript(config_digest: bytes, input_digest: bytes, root: bytes) -> bytes:
    """Return the same of a ring, whose members have agreed on the root of the tree of all advertisements."""
    return digest("members under a root", config_digest, input_digest, root)


def seed_digest(round_id: RoundId, member: int, seed: bytes) -> bytes:
    """Return the commitment to the seed of a member's own mask."""
    return digest("self mask seed", round_id.encode(), member, seed)


def survivor_digest(transcript: bytes, sharers: tuple[int, ...], survivors: tuple[int, ...]) -> bytes:
    """Return the hash that members sign: the transcript, who has shared, and whose masked input has arrived."""
    return digest("survivors", transcript, encode_fields(*sharers), encode_fields(*survivors))
