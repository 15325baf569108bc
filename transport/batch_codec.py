"""The messages of batches, without generated types, and how they are written."""

import hashlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from wire.v1 import batch_pb2 as pb
from wire.v1.aggregation_pb2 import Chunk

from mpc.secagg.secret.party_shares import SealedVector
from service.errors import UnreadableError
from service.limits import CHUNK_BYTES
from service.trust.statements import MAX_CERTIFICATE_BYTES, MAX_SIGNATURE_BYTES, Signed

LENGTH_BYTES = 4

FIXED_BYTES = MAX_CERTIFICATE_BYTES + MAX_SIGNATURE_BYTES + 1024
"""More than all of an answer, or of a part of one, but its sealed shares and their hashes."""

PER_PARTY_BYTES = 64
"""More than what an answer or a part has for each party beside the sealed share."""


@dataclass(frozen=True)
class PartyKey:
    """A party's key for one batch.

    Attributes:
        public: X25519.
        signed: the party's signature.
    """

    public: bytes
    signed: Signed


@dataclass(frozen=True)
class OfferedQuestion:
    """A question as a device is asked.

    Attributes:
        number: at the coordinator, 1 and up.
        text: text of the question, as it came.
        keys: keys of its parties, for a batch.
    """

    number: int
    text: str
    keys: tuple[PartyKey, ...] = ()


@dataclass(frozen=True)
class BatchAnswer:
    """A device's answer.

    Attributes:
        vector: its shares, sealed.
        signed: the device's signature over all of it.
    """

    vector: SealedVector
    signed: Signed


@dataclass(frozen=True)
class AnswerPart:
    """What one party gets of a device's answer.

    Attributes:
        device: who answered, as the coordinator says.
        ephemeral_public: ephemeral public key of the device.
        seal_digests: SHA-256 of each box: of each party's share, and with proofs of the second ones.
        sealed: this party's boxes, one behind the other.
        signed: the device's signature.
    """

    device: str
    ephemeral_public: bytes
    seal_digests: tuple[bytes, ...]
    sealed: bytes
    signed: Signed


@dataclass(frozen=True)
class SumShare:
    """A party's share of the sum of a batch.

    Attributes:
        share: packed, with its noise.
        cohort: a bit for each answer, the highest first; with proofs as many bytes again, of what was rejected.
    """

    share: bytes = field(repr=False)
    cohort: bytes


def signed_by(signed: Signed) -> pb.SignedBy:
    """Return who has signed something as it travels."""
    return pb.SignedBy(certificate=signed.certificate, signature=signed.signature)


def signed_of(message: pb.SignedBy) -> Signed:
    """Return who has signed something, as it came."""
    return Signed(message.certificate, message.signature)


def wire_key(key: PartyKey) -> pb.BatchKey:
    """Return a key as it travels."""
    return pb.BatchKey(key_public=key.public, signed_by=signed_by(key.signed))


def key_of(message: pb.BatchKey) -> PartyKey:
    """Return a key as it came."""
    return PartyKey(message.key_public, signed_of(message.signed_by))


def encode_keys(keys: tuple[PartyKey, ...]) -> bytes:
    """Return the keys of a batch as a coordinator keeps them."""
    data: bytes = pb.BatchKeys(keys=map(wire_key, keys)).SerializeToString()
    return data


def decode_keys(data: bytes) -> tuple[PartyKey, ...]:
    """Return what `encode_keys` has written."""
    return tuple(map(key_of, pb.BatchKeys.FromString(data).keys))


def encode_answer(answer: BatchAnswer) -> bytes:
    """Return an answer as devices and coordinators keep it."""
    message = pb.BatchAnswer(
        ephemeral_public=answer.vector.ephemeral_public,
        sealed=answer.vector.sealed,
        signed_by=signed_by(answer.signed),
    )
    data: bytes = message.SerializeToString()
    return data


def decode_answer(data: bytes) -> BatchAnswer:
    """Return what `encode_answer` has written; raises `UnreadableError` where it is none."""
    try:
        message = pb.BatchAnswer.FromString(data)
    except DecodeError as error:
        raise UnreadableError("the answer cannot be decoded") from error
    return BatchAnswer(SealedVector(message.ephemeral_public, tuple(message.sealed)), signed_of(message.signed_by))


def part_of(device: str, answer: BatchAnswer, position: int, n_parties: int) -> AnswerPart:
    """Return what the party at a position, 0 and up, gets of an answer: its box, and one of the second ones at the end.

    Second boxes are for the last parties, in their order.
    """
    sealed = answer.vector.sealed
    digests = tuple(hashlib.sha256(one).digest() for one in sealed)
    second = position + len(sealed) - n_parties
    own = b"".join([*sealed[position : position + 1], *(sealed[second : second + 1] if second >= n_parties else ())])
    return AnswerPart(device, answer.vector.ephemeral_public, digests, own, answer.signed)


def encode_part(part: AnswerPart) -> bytes:
    """Return a part as it travels, after its length."""
    data: bytes = pb.BatchPart(
        device=part.device,
        ephemeral_public=part.ephemeral_public,
        seal_digests=part.seal_digests,
        sealed=part.sealed,
        signed_by=signed_by(part.signed),
    ).SerializeToString()
    return len(data).to_bytes(LENGTH_BYTES, "little") + data


async def chunks_of_parts(parts: AsyncIterator[AnswerPart]) -> AsyncIterator[Chunk]:
    """Yield parts in chunks: many small ones in one, or one large one in several."""
    waiting = bytearray()
    async for part in parts:
        waiting += encode_part(part)
        while len(waiting) >= CHUNK_BYTES:
            yield Chunk(data=bytes(waiting[:CHUNK_BYTES]))
            del waiting[:CHUNK_BYTES]
    if waiting:
        yield Chunk(data=bytes(waiting))


async def parts_of_chunks(chunks: AsyncIterator[Chunk], most_bytes: int) -> AsyncIterator[AnswerPart]:
    """Yield the parts in chunks.

    Args:
        chunks: chunks as they come.
        most_bytes: largest size of one part.

    Raises:
        UnreadableError: a part is longer, is cut off, or cannot be decoded.
    """
    waiting = bytearray()
    async for chunk in chunks:
        waiting += chunk.data
        place = 0
        for start, end in _whole(waiting, most_bytes):
            yield _part(bytes(waiting[start:end]))
            place = end
        del waiting[:place]
    if waiting:
        raise UnreadableError("the last part of the answers is cut off")


def _whole(data: bytearray, most_bytes: int) -> Iterator[tuple[int, int]]:
    place = 0
    while len(data) - place >= LENGTH_BYTES:
        length = int.from_bytes(data[place : place + LENGTH_BYTES], "little")
        if length > most_bytes:
            raise UnreadableError("a part of an answer is longer than its question needs")
        end = place + LENGTH_BYTES + length
        if end > len(data):
            return
        yield place + LENGTH_BYTES, end
        place = end


def _part(data: bytes) -> AnswerPart:
    try:
        part = pb.BatchPart.FromString(data)
    except DecodeError as error:
        raise UnreadableError("a part of an answer cannot be decoded") from error
    return AnswerPart(
        part.device, part.ephemeral_public, tuple(part.seal_digests), part.sealed, signed_of(part.signed_by)
    )
