"""Values at keys, sent so that only who can compute a key's pad reads its value: a store of padded values.

Each key is a block of 16 pseudorandom bytes. Its place in the store and the pad of its value follow from it and from
the purpose of the store, which is used once: so values are padded once. The store is uniform where all values are, and
where the pads of all others are unknown (`mpc.matching.okvs`).
"""

from collections.abc import Callable, Sequence

import numpy as np

from entropy import KeyStream
from entropy.stream import KEY_BYTES
from mpc.arithmetic.words import Words
from mpc.matching.block_prf import Bytes, lengthen
from mpc.matching.okvs import SEED_BYTES, Okvs
from mpc.protocol.session import Session

STORE_STAGE = "matching/store"

MESSAGE_WORDS = 1 << 18
"""Words of a table in one message: 2 MiB."""


async def send_store(
    session: Session, to: int, store: Okvs, purpose: str, keys: Sequence[Bytes], values: Callable[[int], Words]
) -> None:
    """Send a store of padded values.

    Args:
        session: my end.
        to: member.
        store: its public shape.
        purpose: label that belongs to no other store between the two parties.
        keys: groups of keys, shape (any number, 16) each, all different.
        values: the number of a group to the values of its keys, shape (keys of the group, n_words).

    Raises:
        PlacementFailedError, LocalFaultError: see `Okvs.encode`.
        PeerError: the member cannot be reached or does not listen.
    """

    def encoded() -> Words:
        seeds, padded = [], []
        for number, group in enumerate(keys):
            seed, pad = seeds_and_pads(group, purpose, store.n_words)
            seeds.append(seed)
            padded.append(values(number) ^ pad)
        n_missing = store.n_keys - sum(map(len, seeds))  # all stores of a shape take the same time to make
        seeds.append(np.frombuffer(session.entropy.read(n_missing * SEED_BYTES), np.uint8).reshape(-1, SEED_BYTES))
        padded.append(
            KeyStream(session.entropy.read(KEY_BYTES))
            .words(n_missing * store.n_words)
            .reshape(n_missing, store.n_words)
        )
        return store.encode(np.concatenate(seeds), np.concatenate(padded), session.entropy)

    table = await session.compute(encoded)
    for part in _segments(store):
        await session.send(to, STORE_STAGE, table[part])


async def receive_store(session: Session, sender: int, store: Okvs, purpose: str, keys: Bytes) -> Words:
    """Return what a member's store holds at some keys, shape (keys, n_words): garbage where it has no such key.

    Args:
        session: my end.
        sender: member.
        store: its public shape.
        purpose: the sender's label.
        keys: shape (any number, 16).

    Raises:
        PeerError: the member is silent, drops out or sent an array of another shape.
    """
    table = np.empty(store.shape, dtype=np.uint64)
    for part in _segments(store):
        table[part] = await session.receive(sender, STORE_STAGE, table[part].shape)

    def decoded() -> Words:
        seeds, pads = seeds_and_pads(keys, purpose, store.n_words)
        return store.decode(seeds, table) ^ pads

    return await session.compute(decoded)


def seeds_and_pads(keys: Bytes, purpose: str, n_words: int) -> tuple[Bytes, Words]:
    """Return of each key the seed of its place in a store, shape (n, 32), and the pad of its value, (n, n_words)."""
    both = lengthen(keys, purpose, SEED_BYTES + 8 * n_words)
    pads = np.ascontiguousarray(both[:, SEED_BYTES:]).view("<u8").astype(np.uint64, copy=False)
    return np.ascontiguousarray(both[:, :SEED_BYTES]), pads.reshape(len(both), n_words)


def _segments(store: Okvs) -> Sequence[slice]:
    """Return the rows of a store's table that go into each message."""
    height = max(1, MESSAGE_WORDS // store.n_words)
    return [slice(start, min(start + height, store.n_rows)) for start in range(0, store.n_rows, height)]
