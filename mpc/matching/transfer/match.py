"""Revealed matching of many ids: the passes of `mpc.matching.revealed`, with the function by extended transfers.

All ids are dealt into parts by a function that the leader draws, the same for all owners, so that equal ids are in
parts of one number. Each part is matched by itself: memory beside ids and tags is that of a few parts, and stores fit a
processor's cache. A part has room for as many ids as an owner exceeds with a chance of 2^-60; rooms follow from
declared sizes, and stores do not show how many ids they have.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc.errors import PeerViolationError
from mpc.matching.bins import Numbers, dealt, id_blocks, n_parts_of, room_of
from mpc.matching.block_prf import mac
from mpc.matching.group import Bytes, InvalidPointError
from mpc.matching.okvs import Okvs
from mpc.matching.oprf import PAD_WORDS, TAG_BYTES, Values
from mpc.matching.parcels import OwnersOfMatch, leader_of, list_bytes
from mpc.matching.sodium import POINT_BYTES
from mpc.matching.transfer.code import CODE_BYTES, LENGTH
from mpc.matching.transfer.function import (
    CHECK_BYTES,
    SUMS,
    CheckFailedError,
    HolderEnd,
    LeaderEnd,
    Places,
    n_rows_of,
    stored,
)
from mpc.matching.transfer.key_transfers import TransferReceiver, TransferSender
from mpc.matching.transfer.rows import MATCHED as MATCHED
from mpc.matching.transfer.rows import PATIENCE, Matched, find_matched, is_zero
from mpc.matching.zero_sharing import ZeroSharing
from mpc.protocol.concurrency import run_together

START, ANSWER, EXTENDED, CHECK, STORE = (
    f"matching/{name}" for name in ("start", "transfers", "extended", "check", "store")
)
"""Stages: key of the parts and a point; points of the transfers; rows, their sums; stores; at the end `MATCHED`."""

WINDOW = 2
"""Parts that the leader has under way."""

_IDS_AT_ONCE = 1 << 16
_KEY_BYTES, _SALT_BYTES = 32, 16
_ENTRY_BYTES = 8 * PAD_WORDS


@dataclass(frozen=True)
class Parts:
    """How ids are dealt: public.

    Attributes:
        n_parts: number of parts.
        key: 32 bytes, drawn when ids are fixed.
    """

    n_parts: int
    key: bytes

    @property
    def salt(self) -> bytes:
        """What hashes of the match are bound to."""
        return self.key[:_SALT_BYTES]

    def split(self, ids: Bytes, room: int) -> list[Numbers]:
        """Return which ids are in each part.

        Raises:
            PlacementFailedError: one has more than `room`, with a chance below 2^-60.
        """
        part = np.empty(len(ids), dtype=np.uint16)
        for start in range(0, len(ids), _IDS_AT_ONCE):
            some = slice(start, start + _IDS_AT_ONCE)
            hashed = mac(self.key, *id_blocks(ids[some]))[:, :8].copy().view("<u8").reshape(-1)
            part[some] = hashed % np.uint64(self.n_parts)
        return dealt(part, self.n_parts, room)


def sent_bytes_by_transfers(owners: Sequence[int], sizes: Mapping[int, int]) -> dict[int, int]:
    """Return how many bytes each owner sends; `mpc.matching.revealed.sent_bytes` says more."""
    sizes = {owner: sizes[owner] for owner in owners}
    leader, n_parts = leader_of(owners, sizes), n_parts_of(sizes.values())
    of_part = list_bytes(n_rows_of(room_of(sizes[leader], n_parts)), CODE_BYTES) + list_bytes(SUMS, CHECK_BYTES)
    to_each = list_bytes(2, POINT_BYTES) + n_parts * of_part + list_bytes(sizes[leader], TAG_BYTES)
    of_transfers = list_bytes(2 * LENGTH, POINT_BYTES)
    stores = {owner: _store_of(sizes[owner], n_parts).n_rows for owner in owners if owner != leader}
    of_others = {owner: of_transfers + n_parts * list_bytes(rows, _ENTRY_BYTES) for owner, rows in stores.items()}
    return {leader: len(of_others) * to_each} | of_others


def _store_of(size: int, n_parts: int) -> Okvs:
    return Okvs(room_of(size, n_parts), PAD_WORDS)


def _context(match: OwnersOfMatch, other: int) -> bytes:
    """Return what the transfers of the leader and another owner are bound to."""
    return match.session.binding + match.leader.to_bytes(2, "big") + other.to_bytes(2, "big")


async def lead(match: OwnersOfMatch, ids: Bytes) -> NDArray[np.int64]:
    """Match as the leader; see `mpc.matching.revealed.match_revealed`."""
    matched = await _matched(match, ids)
    return await matched.tell()


async def _matched(match: OwnersOfMatch, ids: Bytes) -> Matched:
    session, me, others, size = match.session, match.session.me, match.others, match.sizes[match.session.me]
    parts = Parts(n_parts_of(match.sizes.values()), session.entropy.read(_KEY_BYTES))
    room, padded = room_of(size, parts.n_parts), match.padded(ids)

    async def begin(other: int) -> LeaderEnd:
        sender = await session.compute(TransferSender, _context(match, other), session.entropy)
        both = np.stack([np.frombuffer(parts.key, dtype=np.uint8), sender.message])
        await match.line(me, other, START).send_all(both)
        answer = await match.line(other, me, ANSWER).receive(2 * LENGTH, POINT_BYTES)
        try:
            keys = await session.compute(sender.keys, answer.reshape(2, LENGTH, POINT_BYTES))
        except InvalidPointError as error:
            raise match.no_point(other, ANSWER) from error
        return LeaderEnd(keys, room, parts.salt, session.entropy)

    rows_of, *ends = await run_together(session.compute(parts.split, padded, room), *map(begin, others))
    window = asyncio.Semaphore(WINDOW)
    waiting: list[asyncio.Queue[Values]] = [asyncio.Queue() for _ in others]
    decoded: list[asyncio.Queue[Values]] = [asyncio.Queue() for _ in others]
    matched = await session.compute(Matched, match)

    async def extend() -> None:
        lines = [[match.line(me, other, stage) for stage in (EXTENDED, CHECK)] for other in others]
        for rows in rows_of:
            await window.acquire()
            places = await session.compute(Places, padded[rows], parts.salt)
            store = await session.compute(stored, places, room, session.entropy)

            async def tell(at: int, places: Places = places, store: NDArray[np.uint64] = store) -> None:
                sent, check, values = await session.compute(ends[at].extend, places, store)
                waiting[at].put_nowait(values)
                await lines[at][0].send_all(sent)
                await lines[at][1].send(check)

            await run_together(*(tell(at) for at in range(len(others))))

    async def read(at: int) -> None:
        shape = _store_of(match.sizes[others[at]], parts.n_parts)
        line = match.line(others[at], me, STORE)
        for _ in rows_of:
            values = await waiting[at].get()
            table = np.empty((shape.n_rows, _ENTRY_BYTES), dtype=np.uint8)
            async for place, rows in line.receive_all(shape.n_rows, _ENTRY_BYTES):
                table[place] = rows
            words = table.view("<u8").astype(np.uint64, copy=False)
            left = values.pads ^ await session.compute(shape.decode, values.seeds, words)
            decoded[at].put_nowait(Values(values.seeds, left, values.tags))

    async def compare() -> None:
        for number, rows in enumerate(rows_of):
            values = [await queue.get() for queue in decoded]
            window.release()
            is_common = is_zero([one.pads for one in values]) & (rows < len(ids))
            matched.add(rows[is_common], [one.tags[is_common] for one in values])
            session.progress("matching", number + 1, parts.n_parts)

    await run_together(extend(), compare(), *map(read, range(len(others))))
    return matched


async def follow(match: OwnersOfMatch, ids: Bytes) -> NDArray[np.int64]:
    """Match as another owner; see `mpc.matching.revealed.match_revealed`."""
    tags = await _tags(match, ids)
    return await find_matched(match, tags[: len(ids)])


async def _tags(match: OwnersOfMatch, ids: Bytes) -> Bytes:
    """Send my stores, part by part; return the tags of my ids, and of random ones up to my declared size."""
    session, me, leader, sizes = match.session, match.session.me, match.leader, match.sizes
    sharing = ZeroSharing(me, match.others, match.secrets)
    n_parts = n_parts_of(sizes.values())
    room, shape = room_of(sizes[leader], n_parts), _store_of(sizes[me], n_parts)
    bits = np.frombuffer(session.entropy.read(LENGTH // 8), dtype=np.uint8)
    choices = np.unpackbits(bits)
    receiver = await session.compute(TransferReceiver, _context(match, me), choices, session.entropy)
    await match.line(me, leader, ANSWER).send(receiver.message.reshape(-1, POINT_BYTES))
    key, point = await match.line(leader, me, START).receive(2, POINT_BYTES, patience=PATIENCE)
    try:
        keys = await session.compute(receiver.keys, point)
    except InvalidPointError as error:
        raise match.no_point(leader, START) from error
    parts = Parts(n_parts, key.tobytes())
    end = HolderEnd(keys, choices, room, parts.salt)
    padded = match.padded(ids)
    rows_of = await session.compute(parts.split, padded, shape.n_keys)
    tags = np.empty((len(padded), TAG_BYTES), dtype=np.uint8)
    of_rows, of_check = (match.line(leader, me, stage) for stage in (EXTENDED, CHECK))
    line = match.line(me, leader, STORE)

    def store_of(rows: Numbers, received: Bytes, check: Bytes) -> Bytes:
        values = end.evaluate(Places(padded[rows], parts.salt), received, check)
        tags[rows] = values.tags
        table = shape.encode(values.seeds, values.pads ^ sharing.values(padded[rows]), session.entropy)
        return table.astype("<u8", copy=False).view(np.uint8)

    for number, rows in enumerate(rows_of):
        received = np.empty((n_rows_of(room), CODE_BYTES), dtype=np.uint8)
        async for place, some in of_rows.receive_all(len(received), CODE_BYTES, patience=PATIENCE):
            received[place] = some
        check = await of_check.receive(SUMS, CHECK_BYTES, patience=PATIENCE)
        try:
            table = await session.compute(store_of, rows, received, check)
        except CheckFailedError as error:
            what = f"{session.names[leader]} sent {error}, in stage {EXTENDED}"
            raise PeerViolationError(leader, EXTENDED, what) from error
        await line.send_all(table)
        session.progress("matching", number + 1, n_parts)
    return tags
