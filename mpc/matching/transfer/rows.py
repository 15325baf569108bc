"""How both ways of a match end: orders drawn at random, rows that everybody has, and rows found by their tags."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES
from mpc.errors import PeerViolationError
from mpc.matching.group import Bytes
from mpc.matching.oprf import TAG_BYTES
from mpc.matching.parcels import OwnersOfMatch

MATCHED = "matching/matched"
"""Stage: tags of what matched."""

PATIENCE = 2
"""Deadlines that others wait for the leader, which may itself be waiting for one that is silent."""


def permutation(entropy: Entropy, n: int) -> NDArray[np.int64]:
    """Return 0 .. n - 1 in an order that is uniform but for n^2 2^-65, by sorting random words."""
    order: NDArray[np.int64] = np.argsort(KeyStream(entropy.read(KEY_BYTES)).words(n), kind="stable")
    return order


def is_zero(decoded: Sequence[NDArray[np.uint64]]) -> NDArray[np.bool_]:
    """Return at which ids the XOR of what all stores hold, without their pads, is zero: those that everybody has."""
    total = decoded[0].copy()
    for of_another in decoded[1:]:
        total ^= of_another
    nothing_left: NDArray[np.bool_] = (total == 0).all(axis=1)
    return nothing_left


async def tell_matched(match: OwnersOfMatch, other: int, tags: Bytes) -> None:
    """Send the tags of the rows that matched, and random ones behind them, as many as the leader has declared ids."""
    session, n = match.session, match.sizes[match.leader]
    all_tags = np.frombuffer(session.entropy.read(n * TAG_BYTES), dtype=np.uint8).reshape(n, TAG_BYTES).copy()
    all_tags[: len(tags)] = tags
    await match.line(session.me, other, MATCHED).send_all(all_tags)


async def find_matched(match: OwnersOfMatch, tags: Bytes) -> NDArray[np.int64]:
    """Return which of my rows matched, in the leader's order.

    Args:
        match: the match.
        tags: tags of my rows, shape (rows, 16).

    Raises:
        PeerViolationError: the leader says so of one row twice, or as lists are received.
    """
    session, leader = match.session, match.leader
    wanted = np.empty((match.sizes[leader], TAG_BYTES), dtype=np.uint8)
    line = match.line(leader, session.me, MATCHED)
    async for place, rows in line.receive_all(len(wanted), TAG_BYTES, patience=PATIENCE):
        wanted[place] = rows
    found = await session.compute(places_of, wanted, tags)
    if len(np.unique(found)) < len(found):
        what = f"{session.names[leader]} says of one row twice that it matched"
        raise PeerViolationError(leader, MATCHED, what)
    return found


def places_of(wanted: Bytes, rows: Bytes) -> NDArray[np.int64]:
    """Return where rows that are wanted stand, in the order in which they are; what does not occur is left out.

    Rows are compared as two words each. Sorted are the first words alone: the few rows that have one in common with
    another row, one in 2^17 of the matches of 2^24 random tags, make all be compared as strings.

    Args:
        wanted: shape (m, 16).
        rows: shape (n, 16), all different.
    """
    if not len(rows) or not len(wanted):
        return np.empty(0, dtype=np.int64)
    keys, sought = (np.ascontiguousarray(tags).view("<u8") for tags in (rows, wanted))
    order = np.argsort(keys[:, 0])
    first = keys[order, 0]
    if (first[1:] == first[:-1]).any():
        return _places_of_strings(wanted, rows)
    by_first = np.argsort(sought[:, 0])  # a search in order stays where it was
    places = np.empty(len(sought), dtype=np.int64)
    places[by_first] = order[np.minimum(np.searchsorted(first, sought[by_first, 0]), len(first) - 1)]
    found: NDArray[np.int64] = places[(keys[places] == sought).all(axis=1)]
    return found


def _places_of_strings(wanted: Bytes, rows: Bytes) -> NDArray[np.int64]:
    keys, sought = (np.ascontiguousarray(tags).view(f"S{tags.shape[1]}").reshape(-1) for tags in (rows, wanted))
    order = np.argsort(keys, kind="stable")
    places = order[np.minimum(np.searchsorted(keys, sought, sorter=order), len(keys) - 1)]
    found: NDArray[np.int64] = places[keys[places] == sought]
    return found
