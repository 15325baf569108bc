"""Check that the owners' tables hold the same rows in the same order, before any data are shared."""

import asyncio
import hashlib
from collections.abc import Sequence

import numpy as np

from analyses.job.schema import Table
from mpc.proofs.proven_equality import check_equal_proven
from mpc.protocol.concurrency import run_together
from mpc.protocol.equality import UnequalValuesError, check_equal
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets
from mpc.protocol.hashkey import HashKeys

LABEL = "same rows"
"""Name of the stage of the test, and of its key."""


async def check_same_rows(
    exchange: ShareExchange,
    members: Sequence[int],
    owners: Sequence[int],
    table: Table | None,
    *,
    with_persons: bool = False,
    proves: bool = False,
) -> int:
    """Return the common number of rows of all owners' tables; all members but the coordinator take part.

    The number is sent to the compute parties, which could count rows anyway; the coordinator learns nothing of it.
    Whether number and ids agree is one test, which reveals nothing else (`mpc.protocol.equality`): in whatever the
    tables differ, it takes as many messages and fails with the same words, for the failure reaches the coordinator.
    Where some compute party brings no table, the owners key their digests first: should more than t such parties pool
    their shares, they have nothing to try likely ids on, also where the tables differ and no data were ever shared
    (docs/decisions/005-row-ids.md).

    Args:
        exchange: dealing and taking of shares.
        members: all member numbers but the coordinator's.
        owners: those that bring tables.
        table: this party's table; None for a compute party without columns.
        with_persons: whether the rows must be of the same persons too.
        proves: whether the verdict must be right though t parties deviate (`mpc.proofs.proven_equality`).

    Raises:
        UnequalValuesError: two owners' tables do not hold the same rows in the same order. Its notes, for my own log,
            say in what they differ, if I can tell.
        InconsistentSharesError: with `proves`, somebody sent wrong shares, and nobody can tell who.
        PeerError: a member is silent, drops out or violates the protocol.
    """
    session, names = exchange.session, exchange.session.names

    async def compare() -> UnequalValuesError | None:
        try:
            digest = await _compared_digest(exchange, owners, table, with_persons)
            await (check_equal_proven if proves else check_equal)(exchange, members, owners, LABEL, digest)
        except UnequalValuesError as error:
            return error
        return None

    # Neither needs the other, and together they take no longer than one of them.
    counts, difference = await run_together(_count_rows(exchange, owners, table), compare())

    def unequal(owner: int) -> UnequalValuesError:
        what = f"the tables of {names[owner]} and {names[owners[0]]} do not hold the same rows in the same order"
        error = UnequalValuesError(owner, LABEL, what)
        if len(counts) == len(owners):
            same_number = counts[owner] == counts[owners[0]]
            what_differs = "ids, persons" if with_persons else "ids"
            error.add_note(
                f"their {what_differs} or the order differ" if same_number else "their numbers of rows differ"
            )
        return error

    if difference is not None:
        raise unequal(difference.member)
    if not exchange.am_receiver:
        return int(counts[session.me])
    for owner in owners:  # equal, unless an owner sent a number that differs from its own
        if counts[owner] != counts[owners[0]]:
            raise unequal(owner)
    return int(counts[owners[0]])


async def _count_rows(exchange: ShareExchange, owners: Sequence[int], table: Table | None) -> dict[int, int]:
    """Tell the compute parties how many rows I have, and return by owner what I know of the others."""
    session = exchange.session
    counts: dict[int, int] = {}
    if table is not None:
        counts[session.me] = table.n_rows
        count = np.array([table.n_rows], dtype=np.uint64)
        parties = [p for p in range(1, exchange.n_parties + 1) if p != session.me]
        await asyncio.gather(*(session.send(p, "row count", count) for p in parties))
    if exchange.am_receiver:
        for owner in owners:
            if owner != session.me:
                counts[owner] = int((await session.receive(owner, "row count", (1,)))[0])
    return counts


async def _compared_digest(
    exchange: ShareExchange, owners: Sequence[int], table: Table | None, with_persons: bool
) -> bytes | None:
    """Return the value that an owner compares: a digest of its number of rows, its ids and, if needed, its persons.

    The digest is keyed if some compute party does not know the ids or the persons.

    Without ids there is nothing to hide, so that a hundred owners of single columns need no common keys.
    """
    if table is None:
        return None
    persons = b""
    if with_persons:
        assert table.persons is not None, "a table without persons serves no job that protects them"
        persons = await exchange.session.compute(lambda of=table.persons: of.digest)  # type: ignore[misc]
    digest = hashlib.sha256(table.n_rows.to_bytes(8, "big") + table.ids_digest + persons).digest()
    outsiders = set(range(1, exchange.n_parties + 1)) - set(owners)
    if not outsiders or len(owners) < 2 or not (table.schema.has_ids or table.is_matched or with_persons):
        return digest
    secrets = await agree_pairwise_secrets(exchange.session, owners, max(owners))  # two owners may have none yet
    key = await HashKeys(exchange.session, owners, secrets).agree(LABEL)
    return key.digest(digest)
