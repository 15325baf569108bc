"""The whole table under shares: dealt once, block by block, and held for analyses that return to its rows."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from mpc.protocol.concurrency import run_together
from mpc.protocol.exchange import ShareExchange, Words

ROWS_PER_BLOCK = 4096
LABEL = "table"

RowsOf = Callable[[slice], NDArray[np.int64]]


async def share_rows(
    exchange: ShareExchange, widths: Mapping[int, int], n_rows: int, my_rows: RowsOf | None
) -> Words | None:
    """Deal my rows and take everybody's, both at once.

    Args:
        exchange: dealing and taking of shares.
        widths: owner to the number of its columns, in the order of the joint table.
        n_rows: of the joint table.
        my_rows: returns some of my rows as integers, shape (rows, my width); called once per block, in order. None if I
            own no columns.

    Returns:
        My share of the joint table, shape (n_words, n_rows, all columns), degree t; None for an input-only party.

    Raises:
        PeerError: an owner is silent, lost or sent what is no share.

    Privacy: any t parties see uniform elements. Cost: 1 round; an owner sends N - t words per element, one less if it
    is a compute party. Memory: a word per element and three primes, as long as the caller holds it.
    """
    session, field = exchange.session, exchange.field
    blocks = [slice(start, min(start + ROWS_PER_BLOCK, n_rows)) for start in range(0, n_rows, ROWS_PER_BLOCK)]
    held = np.empty((field.n_words, n_rows, sum(widths.values())), np.uint64) if exchange.am_receiver else None
    columns: dict[int, slice] = {}
    first = 0
    for owner, width in widths.items():
        columns[owner] = slice(first, first + width)
        first += width

    async def deal(rows_of: RowsOf) -> None:
        for number, rows in enumerate(blocks):
            words = await session.compute(lambda rows=rows: field.encode(rows_of(rows)))  # type: ignore[misc]
            share = await exchange.deal(LABEL, number, words, exchange.t)
            if held is not None and share is not None:
                held[:, rows, columns[session.me]] = share

    async def take(owner: int, held: Words) -> None:
        for number, rows in enumerate(blocks):
            shape = (rows.stop - rows.start, widths[owner])
            held[:, rows, columns[owner]] = await exchange.take(owner, LABEL, number, shape, exchange.t)

    dealing = [] if my_rows is None else [deal(my_rows)]
    taking = [] if held is None else [take(owner, held) for owner in widths if owner != session.me]
    await run_together(*dealing, *taking)
    return held
