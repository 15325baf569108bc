"""The ids of rows and of the persons to whom they belong, in row order; compared as digests and never shown."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mpc.transcript import encode_fields

ID_BYTES = 32
"""Bytes of the digest of one row's id."""

LENGTH_BYTES = 4
"""Bytes of the length before each id in a digest of many."""

RowIds = NDArray[np.uint8]
"""What identifies rows, shape (rows, 32): of each row the digest of its normalised fields. As secret as the ids."""


def digests_of_ids(fields: Sequence[Sequence[str]]) -> RowIds:
    """Return what identifies each row: SHA-256 over a label and the row's normalised fields, each after its length.

    A digest hides nothing: whoever has one tries likely ids. It only makes all ids equally long.

    Args:
        fields: texts of each field of an id, row by row; at least one field.

    Returns:
        shape (rows, 32). Rows whose fields are equal have equal digests, and others do not.
    """
    return digests_of_encoded((encode_fields(*row) for row in zip(*fields, strict=True)), len(fields))


def digests_of_encoded(rows: Iterable[bytes], n_fields: int) -> RowIds:
    """Return `digests_of_ids` of rows of which the fields have been put together.

    Args:
        rows: `mpc.transcript.encode_fields` of each row's normalised fields.
        n_fields: number of fields of a row.
    """
    label = hashlib.sha256(encode_fields("moiety row id", n_fields))
    digests = bytearray()
    for row in rows:
        digest = label.copy()
        digest.update(row)
        digests += digest.digest()
    return np.frombuffer(bytes(digests), dtype=np.uint8).reshape(-1, ID_BYTES)


def digest_of_ids(ids: Iterable[str]) -> bytes:
    """Return a SHA-256 over the ids in row order, each with its length before it, so that no two lists collide."""
    digest = IdsDigest()
    digest.add(ids)
    return digest.digest()


class IdsDigest:
    """`digest_of_ids` of ids that come one part after the other."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, ids: Iterable[str]) -> None:
        """Take the next ids."""
        for one in ids:
            text = one.encode()
            self._digest.update(len(text).to_bytes(LENGTH_BYTES, "big") + text)

    def add_joined(self, texts: bytes, lengths: NDArray[np.integer[Any]]) -> None:
        """Take the next ids, as `add` takes them, without looking at each in Python.

        Args:
            texts: the ids in UTF-8, one after the other.
            lengths: the bytes of each, shape (ids,).

        Raises:
            ValueError: the lengths are not those of the texts.
        """
        if lengths.sum() != len(texts) or (lengths < 0).any():
            raise ValueError("the lengths of ids do not add up to the length of their texts")
        sizes = lengths.astype(np.int64) + LENGTH_BYTES
        starts = np.cumsum(sizes) - sizes
        is_length = np.zeros(len(texts) + LENGTH_BYTES * len(lengths), dtype=np.bool_)
        for place in range(LENGTH_BYTES):
            is_length[starts + place] = True
        data = np.empty(len(is_length), dtype=np.uint8)
        data[is_length] = lengths.astype(">u4").view(np.uint8)
        data[~is_length] = np.frombuffer(texts, dtype=np.uint8)
        self._digest.update(data.data)

    def digest(self) -> bytes:
        """Return the digest of all ids so far."""
        return self._digest.digest()


@dataclass(frozen=True)
class Persons:
    """The person to whom each row of a table belongs. Private; never shown by repr.

    Attributes:
        ids: identifiers of the persons, each once.
        of_rows: shape (rows,), the place in `ids` of the person of each row.
    """

    ids: tuple[str, ...] = field(repr=False)
    of_rows: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, ids: Iterable[str]) -> Self:
        """Return the persons of rows, given the person's id of each row in order."""
        places: dict[str, int] = {}
        of_rows = np.array([places.setdefault(one, len(places)) for one in ids], dtype=np.int64)
        of_rows.setflags(write=False)
        return cls(tuple(places), of_rows)

    def of_some(self, rows: NDArray[np.int64]) -> Self:
        """Return the persons of some rows, in this order."""
        return type(self).of(self.ids[place] for place in self.of_rows[rows])

    @property
    def digest(self) -> bytes:
        """A SHA-256 over the persons' ids in row order: two tables agree in it if they agree in every row's person."""
        return digest_of_ids(self.ids[place] for place in self.of_rows)

    def kept(self, keyed_hash: Callable[[bytes], bytes], most: int) -> NDArray[np.bool_]:
        """Return which rows count: of each person `most` rows at most, chosen alike by all who have the same key.

        A person's rows are numbered 0, 1, ... in their order. The `most` of them count whose (id, number) have the
        least keyed hashes; all of a person who has no more than that. So whether a row counts depends on the key, on
        its person's id, on its number and on how many rows its person has. It depends on no other person: where a
        person is added or removed with all rows, the same rows of all others count. Nor does it depend on any value.

        Args:
            keyed_hash: hash by a key that was drawn without looking at data, such as
            `mpc.protocol.hashkey.HashKey.digest`.
            most: at least 1.

        Returns:
            shape (rows,).
        """
        if most < 1:
            raise ValueError("at least one row of each person must count")
        kept = np.ones(len(self.of_rows), dtype=np.bool_)
        n_rows = np.bincount(self.of_rows, minlength=len(self.ids))
        by_person = np.argsort(self.of_rows, kind="stable")
        ends = np.cumsum(n_rows)
        for place in np.flatnonzero(n_rows > most):
            rows = by_person[ends[place] - n_rows[place] : ends[place]]
            hashes = [keyed_hash(encode_fields("moiety row of a person", self.ids[place], i)) for i in range(len(rows))]
            surplus = sorted(range(len(rows)), key=hashes.__getitem__)[most:]
            kept[rows[surplus]] = False
        return kept
