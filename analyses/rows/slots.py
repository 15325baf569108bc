"""Rows in slots at secret random places, so that reports about slots reveal neither their rows nor the number of rows.

A table of N slots, N a public bound, holds the rows of the joint table at places that only the owners of columns know;
the other slots are empty. To whoever does not know the places, a table with one row less differs in one slot, which is
empty instead. Without this, the number of reports would tell the number of rows, and a row that is removed would move
all rows behind it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets
from mpc.protocol.hashkey import HashKey, HashKeys

MAX_SLOTS = 1 << 25
"""Largest number of slots; placing them takes 16 bytes of memory each."""

EMPTY = -1

Slots = NDArray[np.int64]
"""Shape (slots,): the number of the row in each slot, or EMPTY."""


async def place_rows(
    exchange: ShareExchange, owners: Sequence[int], n_rows: int, n_slots: int, n_reported: int, name: str = "slots"
) -> Slots:
    """Agree with the other owners on a placement; return the slots that are reported. Owners only.

    Args:
        exchange: my end, with pairwise keys with the compute parties.
        owners: member numbers of those that bring columns, at least two.
        n_rows: rows of the joint table, at most n_slots.
        n_slots: N.
        n_reported: k <= N. Which rows are among them is as secret as the places.
        name: name of the key, unique within the job.

    Returns:
        shape (n_reported,), the same for all owners: a uniformly random k-subset of the slots in random order.

    Raises:
        PeerError: an owner is silent, drops out or violates the agreement.

    Privacy: the places are unknown to all but the owners. Cost: 2 rounds, or 3 where an owner holds no shares.
    """
    key = await owners_key(exchange, owners, name)
    return await exchange.session.compute(placement, key.stream(name), n_rows, n_slots, n_reported)


async def owners_key(exchange: ShareExchange, owners: Sequence[int], name: str) -> HashKey:
    """Agree on a key that exactly the owners of columns know; arguments and errors as for `place_rows`."""
    secrets = exchange.secrets
    if max(owners) > exchange.n_parties:  # two owners may have no secret in common yet
        secrets = await agree_pairwise_secrets(exchange.session, owners, max(owners))
    return await HashKeys(exchange.session, owners, secrets).agree(name)


def placement(stream: KeyStream, n_rows: int, n_slots: int, n_reported: int) -> Slots:
    """Return the first slots of a uniformly random placement; arguments and result as `place_rows`."""
    while True:
        # Sorting distinct random words gives each order equally often; equal ones would be left in their order.
        words = stream.words(n_slots)
        order = np.argsort(words)
        in_order = words[order]
        if not np.any(in_order[1:] == in_order[:-1]):
            break
    rows = order[:n_reported]
    return np.where(rows < n_rows, rows, EMPTY)
