"""The rows of a joint table, shared block by block: only so many are in memory at once.

Two ways, by what is done with a block. `rows` is for what is only summed: the next block travels while one is
multiplied. `rows_in_step` is for blocks whose products are reduced: each is an input between the products.

A party whose rows are dealt may drop out where N > 2t + 1, so with the last row it commits the job's cost and says so
(`INPUT_STAGE`). How far multiplying is, is told elsewhere only: where the end of the input falls among quarters would
show how many blocks the rows fill.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.protocol.concurrency import run_together
from mpc.protocol.exchange import Words
from mpc.protocol.operations.inputs import Inputs
from mpc.protocol.operations.row_shares import RowShares
from mpc.protocol.shared import SharedArray

INPUT_STAGE = "input"
"""A party that has reported this stage as done may drop out."""

MULTIPLY_STAGE = "multiply"
"""Rows are multiplied block by block."""

ROWS_STAGE = "table"

MAX_BLOCKS_AHEAD = 2
"""Largest number of blocks of this party's shares that may wait to be multiplied."""

RowsOf = Callable[[slice], NDArray[np.int64]]
"""Returns some of my rows as integers, the first axis being rows. Called once per block, in order."""


class Rows(Inputs):
    """The part of `Computation` that shares rows."""

    async def rows(
        self, widths: Mapping[int, int], n_rows: int, mine: RowsOf | None, *, height: int, completes_input: bool = True
    ) -> AsyncIterator[list[SharedArray]]:
        """Deal my rows and take everybody's, block by block, for what is summed without reducing anything.

        While the caller works on one block the next one travels and mine are dealt. The computation must be used as a
        context (`async with`), which ends that if the caller fails.

        Args:
            widths: owner to the number of its columns, in the order of the joint table.
            n_rows: rows of the joint table.
            mine: my rows, shape (rows, my width) per block; None if I own no columns.
            height: rows of a block; the same at all parties.
            completes_input: whether these rows are the last that I bring, and are multiplied as they come: then the
                cost is committed with the last one, and progress is told. Once per job.

        Yields:
            One array per owner, shape (rows, its width), degree t, without a bound. They are the same rows.

        Raises:
            PeerError: an owner is silent, drops out or sent an invalid share.

        Privacy: any t parties see uniform elements. Cost: 1 round; an owner sends N - t words per element, one less if
        it is a compute party; in fields of 1 and 4 primes 1/3 and 2/3 of that (`RowShares`). Memory: the shares of two
        blocks, and two more of my own columns.
        """
        blocks = [slice(start, min(start + height, n_rows)) for start in range(0, n_rows, height)]
        own: asyncio.Queue[Words | None] = asyncio.Queue(maxsize=MAX_BLOCKS_AHEAD)
        moved = RowShares(self._exchange, self._stage(ROWS_STAGE))
        dealing = None if mine is None else self.ahead(self._deal_rows(moved, mine, blocks, own, completes_input))
        coming = self.ahead(self._shares_of_rows(moved, 0, blocks, widths, own)) if blocks else None
        for number, block in enumerate(blocks):
            assert coming is not None, "a block is asked for before it is needed"
            with self._step():
                awaited: set[asyncio.Future[Any]] = {coming} if dealing is None else {coming, dealing}
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                if dealing is not None and dealing.done():
                    dealing.result()
                shares = await coming
            if number + 1 < len(blocks):
                coming = self.ahead(self._shares_of_rows(moved, number + 1, blocks, widths, own))
            n_block = block.stop - block.start
            yield [
                self._shared((n_block, width), self.t, None, share)
                for width, share in zip(widths.values(), shares, strict=True)
            ]
            if completes_input and self.holds_shares:
                self._tell_multiplied(number + 1, len(blocks))
        with self._step():
            if dealing is not None:
                await dealing
        if completes_input and self.holds_shares:
            self._exchange.session.progress(MULTIPLY_STAGE, 1, 1)

    async def hold_rows(
        self, widths: Mapping[int, int], n_rows: int, mine: RowsOf | None, *, height: int
    ) -> SharedArray:
        """Share all rows and keep them, for analyses that return to them; arguments and errors as of `rows`.

        Returns:
            Shape (n_rows, all columns), degree t, without a bound. A word per element and three primes, where
            `Session.kept_words` puts them.
        """
        width, ends = sum(widths.values()), list(itertools.accumulate(widths.values()))
        session, held = self._exchange.session, None
        if self.holds_shares:
            held = await session.compute(session.kept_words, (self.field.n_words, n_rows, width))
        start = 0
        async for blocks in self.rows(widths, n_rows, mine, height=height, completes_input=False):
            end = start + blocks[0].shape[0]
            for block, last in zip(blocks, ends, strict=True):
                if held is not None and block.share is not None:
                    held[:, start:end, last - block.shape[1] : last] = block.share
            start = end
        return self._shared((n_rows, width), self.t, None, held)

    async def rows_in_step(
        self,
        shapes: Mapping[int, tuple[int, ...]],
        n_rows: int,
        mine: RowsOf | None,
        *,
        height: int,
        bound: int,
        completes_input: bool = True,
    ) -> AsyncIterator[dict[int, SharedArray]]:
        """Share rows block by block, as `inputs` in step with the products that are reduced in between.

        Nothing is dealt ahead: block numbers, from which shares are derived, are counted with those of the products.

        Args:
            shapes: owner to the shape of one of its rows.
            n_rows: rows of the joint table.
            mine: my rows, shape (rows, *shape of one) per block; None if I own no columns.
            height: rows of a block; the same at all parties.
            bound: public bound on the size of all values.
            completes_input: see `rows`.

        Yields:
            Owner to its block of rows, degree t.

        Raises:
            LocalFaultError, ShapeError, PeerError: see `inputs`.
        """
        session = self._exchange.session
        for start in range(0, n_rows, height):
            end = min(start + height, n_rows)
            block = None if mine is None else await session.compute(mine, slice(start, end))
            inputs = {owner: (end - start, *shape) for owner, shape in shapes.items()}
            shared = await self.inputs(inputs, block, bound=bound)
            if completes_input and end == n_rows:
                await self.commit_after_input()
            yield shared
            if completes_input:
                self._tell_multiplied(end, n_rows)
        if completes_input:
            if not n_rows:
                await self.commit_after_input()
            session.progress(MULTIPLY_STAGE, 1, 1)

    async def commit_after_input(self) -> None:
        """Commit the job's cost as soon as all my input is dealt, so that I may drop out; owners of data call it.

        `rows` and `rows_in_step` do. It does so only if N > 2t + 1. With fewer parties all of them are needed until the
        opening, and committing at the last moment wastes budget less often.
        """
        if self._agreement.has_surplus:
            await self._exchange.session.commit()
            self._exchange.session.progress(INPUT_STAGE, 1, 1)

    def _tell_multiplied(self, done: int, total: int) -> None:
        if not self._agreement.has_surplus:
            self._exchange.session.progress(MULTIPLY_STAGE, done, total)

    async def _deal_rows(
        self,
        moved: RowShares,
        mine: RowsOf,
        blocks: list[slice],
        own: asyncio.Queue[Words | None],
        completes_input: bool,
    ) -> None:
        def encoded(rows: slice) -> Words:
            return self.field.encode(mine(rows))

        for number, rows in enumerate(blocks):
            await own.put(await moved.deal(number, partial(encoded, rows)))
        if completes_input:
            await self.commit_after_input()

    async def _shares_of_rows(
        self,
        moved: RowShares,
        number: int,
        blocks: list[slice],
        widths: Mapping[int, int],
        own: asyncio.Queue[Words | None],
    ) -> list[Words | None]:
        n_block = blocks[number].stop - blocks[number].start
        shapes = {owner: (n_block, width) for owner, width in widths.items() if owner != self.me and self.holds_shares}

        async def mine() -> Words | None:
            return await own.get() if self.me in widths else None

        share, others = await run_together(mine(), moved.take(shapes, number))
        return [share if owner == self.me else others.get(owner) for owner in widths]
