"""Unambiguous byte strings of public facts, their hashes, and the labels that keep all keys of a round apart."""

import hashlib
from dataclasses import dataclass

DIGEST_BYTES = 32


def encode_fields(*fields: bytes | str | int) -> bytes:
    """Return the fields one after the other, each after its length in 8 bytes: different fields, different bytes.

    Args:
        fields: bytes as they are, text as UTF-8, integers >= 0 in 8 bytes big-endian.
    """
    parts = []
    for field in fields:
        if isinstance(field, int):
            data = field.to_bytes(8, "big")
        else:
            data = field.encode() if isinstance(field, str) else field
        parts.append(len(data).to_bytes(8, "big") + data)
    return b"".join(parts)


def decode_fields(data: bytes, n_fields: int) -> tuple[bytes, ...]:
    """Return the fields that `encode_fields` has put together.

    Args:
        data: encoding of exactly `n_fields` fields.
        n_fields: at least 1.

    Raises:
        ValueError: there are more or fewer, or one is cut off.
    """
    fields, place = [], 0
    for _ in range(n_fields):
        start = place + 8
        place = start + int.from_bytes(data[place:start], "big")
        if len(data) < start or len(data) < place:
            raise ValueError("a field is cut off")
        fields.append(data[start:place])
    if place != len(data):
        raise ValueError(f"there are more than {n_fields} fields")
    return tuple(fields)


def digest(label: str, *fields: bytes | str | int) -> bytes:
    """Return SHA-256 of a label and fields, 32 bytes."""
    return hashlib.sha256(encode_fields("moiety secagg " + label, *fields)).digest()


@dataclass(frozen=True, order=True)
class RoundId:
    """Which attempt of which round of which session. All keys of a round are bound to it and never outlive it.

    Attributes:
        session: the job, a text that never repeats.
        number: 0, 1, 2 ... within the session.
        attempt: 0 at first; each retry of a round counts one up and has fresh keys.
    """

    session: str
    number: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.session} round {self.number} attempt {self.attempt}"

    def encode(self) -> bytes:
        """Return it as bytes, for hashes, signatures and associated data."""
        return encode_fields(self.session, self.number, self.attempt)


def context(round_id: RoundId, purpose: str, *fields: bytes | str | int) -> bytes:
    """Return the label under which something of a round is derived, signed or sealed."""
    return encode_fields("moiety secagg " + purpose, round_id.encode(), *fields)
