"""How both ways of a match end: orders drawn at random, rows that everybody has, and rows found by their tags.

What all ids take here is kept in 4 to 8 bytes a row and worked through in blocks: tags alone take 16.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES
from mpc.errors import PeerViolationError
from mpc.matching.bins import Numbers
from mpc.matching.group import Bytes
from mpc.matching.oprf import TAG_BYTES
from mpc.matching.parcels import PARCEL_ROWS, OwnersOfMatch, parcels
from mpc.protocol.concurrency import run_together

MATCHED = "matching/matched"
"""Stage: tags of what matched."""

PATIENCE = 2
"""Deadlines that others wait for the leader, which may itself be waiting for one that is silent."""

BLOCK_ROWS = 64 * PARCEL_ROWS
"""Tags that are looked up at once."""


def permutation(entropy: Entropy, n: int) -> Numbers:
    """Return 0 .. n - 1 in an order that is uniform but for n^2 2^-65, by sorting random words."""
    return np.argsort(KeyStream(entropy.read(KEY_BYTES)).words(n), kind="stable").astype(np.uint32)


def is_zero(decoded: Sequence[NDArray[np.uint64]]) -> NDArray[np.bool_]:
    """Return at which ids the XOR of what all stores hold, without their pads, is zero: those that everybody has."""
    total = decoded[0].copy()
    for of_another in decoded[1:]:
        total ^= of_another
    nothing_left: NDArray[np.bool_] = (total == 0).all(axis=1)
    return nothing_left


class Matched:
    """The leader's rows that matched, and their tags among random ones: one row of tags for each declared id.

    Which of them are random shows neither in what is sent nor in how long it takes.

    Args:
        match: the match.
    """

    def __init__(self, match: OwnersOfMatch) -> None:
        self._match = match
        n, entropy = match.sizes[match.leader], match.session.entropy
        self._rows, self._n = np.empty(n, dtype=np.uint32), 0
        streams = {other: KeyStream(entropy.read(KEY_BYTES)) for other in match.others}
        words = {other: stream.words(n * TAG_BYTES // 8) for other, stream in streams.items()}
        self._tags = {other: some.view(np.uint8).reshape(n, TAG_BYTES) for other, some in words.items()}

    def add(self, rows: NDArray[np.integer], tags: Sequence[Bytes]) -> None:
        """Take rows of mine that matched, and their tags at each other owner, in the order of `match.others`."""
        place = slice(self._n, self._n + len(rows))
        self._rows[place], self._n = rows, place.stop
        for all_tags, some in zip(self._tags.values(), tags, strict=True):
            all_tags[place] = some

    async def tell(self) -> NDArray[np.int64]:
        """Send each other owner all tags, in an order drawn at random; return my rows in that order."""
        match, n = self._match, len(self._rows)
        order = await match.session.compute(permutation, match.session.entropy, n)

        async def tell(other: int, tags: Bytes) -> None:
            line = match.line(match.leader, other, MATCHED)
            for place in parcels(n):
                await line.send(tags[order[place]])

        await run_together(*(tell(other, tags) for other, tags in self._tags.items()))
        return self._rows[order[order < self._n]].astype(np.int64)


async def find_matched(match: OwnersOfMatch, tags: Bytes) -> NDArray[np.int64]:
    """Return which of my rows matched, in the leader's order.

    Args:
        match: the match.
        tags: tags of my rows, shape (rows, 16).

    Raises:
        PeerViolationError: the leader says so of one row twice, or as lists are received.
    """
    session, leader = match.session, match.leader
    index = await session.compute(TagIndex, tags)
    n, line = match.sizes[leader], match.line(leader, session.me, MATCHED)
    wanted = np.empty((min(n, BLOCK_ROWS), TAG_BYTES), dtype=np.uint8)
    found, is_found = [np.empty(0, dtype=np.uint32)], np.zeros(len(tags), dtype=bool)
    async for place, rows in line.receive_all(n, TAG_BYTES, patience=PATIENCE):
        start, end = place.start % BLOCK_ROWS, (place.stop - 1) % BLOCK_ROWS + 1
        wanted[start:end] = rows
        if end == BLOCK_ROWS or place.stop == n:
            some = await session.compute(index.places, wanted[:end])
            found.append(some)
            is_found[some] = True
    rows = np.concatenate(found)
    if np.count_nonzero(is_found) < len(rows):
        what = f"{session.names[leader]} says of one row twice that it matched"
        raise PeerViolationError(leader, MATCHED, what)
    return rows.astype(np.int64)


class TagIndex:
    """Finds rows by their tags: 12 bytes for each beside the tags.

    Rows are compared as two words each. Sorted are the first words alone: the few rows that have one in common with
    another row, one in 2^17 of the matches of 2^24 random tags, make all be compared as strings.

    Args:
        rows: shape (n, 16), all different.
    """

    def __init__(self, rows: Bytes) -> None:
        self._rows = np.ascontiguousarray(rows)
        self._keys_of = _first_words
        keys = _first_words(self._rows).copy()
        self._order = np.argsort(keys).astype(np.uint32)
        keys.sort()
        if (keys[1:] == keys[:-1]).any():
            self._keys_of = _strings
            self._order = np.argsort(_strings(self._rows)).astype(np.uint32)
            keys = _strings(self._rows)[self._order]
        self._keys = keys

    def places(self, wanted: Bytes) -> Numbers:
        """Return where rows that are wanted stand, in the order in which they are; what does not occur is left out.

        Args:
            wanted: shape (m, 16).
        """
        if not len(self._rows):
            return np.empty(0, dtype=np.uint32)
        sought = self._keys_of(wanted)
        by_key = np.argsort(sought)  # a search in order stays where it was
        places = np.empty(len(sought), dtype=np.uint32)
        places[by_key] = self._order[np.minimum(np.searchsorted(self._keys, sought[by_key]), len(self._keys) - 1)]
        found: Numbers = places[(self._rows[places] == wanted).all(axis=1)]
        return found


def _first_words(tags: Bytes) -> NDArray[Any]:
    return np.ascontiguousarray(tags).view("<u8")[:, 0]


def _strings(tags: Bytes) -> NDArray[Any]:
    return np.ascontiguousarray(tags).view(f"S{TAG_BYTES}").reshape(-1)
