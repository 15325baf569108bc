"""Rows of a joint table that are proven to be within their public bounds before anything is computed with them.

To a program it is a computation like any other. Every owner completes each row that it deals to a public norm, exactly,
all parties hold the shares of the whole table, and the proof of `mpc.proofs.norm_proof` comes between dealing and the
first block that is yielded.
"""

from collections.abc import AsyncIterator, Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from mpc.arithmetic.words import Words
from mpc.proofs.norm_bound import NormBound
from mpc.proofs.norm_proof import DealtRows, prove_norms
from mpc.protocol.computation import Computation
from mpc.protocol.operations.rows import MULTIPLY_STAGE, Rows, RowsOf
from mpc.protocol.session import Drawable
from mpc.protocol.shared import SharedArray

ROWS_PER_BLOCK = 4096
"""Rows that are dealt at once, whatever is done with them afterwards."""

PROOF_STAGE = "proof"
"""Stage of which progress is told while rows are proven."""


class ProvenRows(Computation):
    """The part of a joint computation that proves rows. `expect` is called before anything else."""

    _bounds: Mapping[int, NormBound]
    _masks: Drawable[[], NDArray[np.int64]] | None

    def expect(self, bounds: Mapping[int, NormBound], masks: Drawable[[], NDArray[np.int64]] | None) -> None:
        """Take over what is to be proven of whose rows.

        Args:
            bounds: owner to what it proves of each row that it deals, in the order of the joint table.
            masks: release that draws the masks of my own projections; None if I bring no rows.
        """
        self._bounds, self._masks = bounds, masks

    async def rows(
        self, widths: Mapping[int, int], n_rows: int, mine: RowsOf | None, *, height: int, completes_input: bool = True
    ) -> AsyncIterator[list[SharedArray]]:
        """Deal all rows, prove them, and yield them block by block; arguments and errors as of `Rows.rows`.

        Raises:
            PeerViolationError: names an owner of which a row is beyond its bound.
            LocalFaultError, InconsistentSharesError, PeerError: see `prove_norms`.

        Cost: besides that of `Rows.rows`, four elements for each row, and that of `prove_norms`. Memory: the shares of
        all rows, where `Session.kept_words` puts them, and my own rows as elements.
        """
        held = await self._proven(widths, n_rows, mine)
        for start in range(0, n_rows, height):
            end = min(start + height, n_rows)
            yield [self._of(held, owner, start, end, (width,), None) for owner, width in widths.items()]
            if completes_input and self.holds_shares:
                self._tell_multiplied(end, n_rows)
        if completes_input and self.holds_shares:
            self._exchange.session.progress(MULTIPLY_STAGE, 1, 1)

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
        """Deal all rows, prove them, and yield them block by block; arguments as of `Rows.rows_in_step`, see `rows`."""
        widths = {owner: prod(shape) for owner, shape in shapes.items()}
        held = await self._proven(widths, n_rows, mine)
        for start in range(0, n_rows, height):
            end = min(start + height, n_rows)
            yield {owner: self._of(held, owner, start, end, shape, bound) for owner, shape in shapes.items()}
            if completes_input:
                self._tell_multiplied(end, n_rows)
        if completes_input:
            self._exchange.session.progress(MULTIPLY_STAGE, 1, 1)

    def _of(
        self, held: Mapping[int, Words], owner: int, start: int, end: int, shape: tuple[int, ...], bound: int | None
    ) -> SharedArray:
        """Return some rows of an owner without what completes them."""
        words = held[owner][:, start:end, : prod(shape)] if self.holds_shares else None
        return self._shared((end - start, *shape), self.t, bound, words)

    async def _proven(self, widths: Mapping[int, int], n_rows: int, mine: RowsOf | None) -> Mapping[int, Words]:
        """Deal, take and prove all rows; return my shares of complete rows by owner, none where I hold no shares."""
        bounds, session = self._bounds, self._exchange.session
        assert {owner: bound.width for owner, bound in bounds.items()} == dict(widths), "all rows are proven"
        session.progress(PROOF_STAGE, 0, 1)
        held: dict[int, Words] = {}
        own: list[NDArray[np.int64]] = []
        if self.holds_shares:
            for owner, bound in bounds.items():
                shape = self.field.n_words, n_rows, bound.whole_width
                held[owner] = await session.compute(session.kept_words, shape)

        def completed(rows: slice) -> NDArray[np.int64]:
            assert mine is not None
            whole = self._whole_rows(rows, mine)
            own.append(whole)
            return whole[:, : bounds[self.me].dealt_width]

        start = 0
        dealt = {owner: bound.dealt_width for owner, bound in bounds.items()}
        deal = None if mine is None else completed
        async for blocks in Rows.rows(self, dealt, n_rows, deal, height=ROWS_PER_BLOCK, completes_input=False):
            end = start + blocks[0].shape[0]
            for (owner, bound), block in zip(bounds.items(), blocks, strict=True):
                if block.share is not None:
                    held[owner][:, start:end, : bound.dealt_width] = block.share
                    if bound.is_one_hot:
                        last = (1 - block.sum(1)).share
                        assert last is not None, "whoever holds shares of a block holds those of its sum"
                        held[owner][:, start:end, -1] = last
            start = end
        masks = None
        if mine is not None:
            assert self._masks is not None, "whoever deals rows masks their projections"
            masks = await session.draw(self._masks)
        integers = None if mine is None else np.concatenate(own) if own else np.zeros((0, 0), dtype=np.int64)
        own.clear()
        elements = None if integers is None else await session.compute(self.field.encode, integers)
        with self._step():
            dealt_rows = DealtRows(bounds, n_rows, held, elements, masks, integers)
            await prove_norms(self._exchange, dealt_rows, session.commit)
        session.progress(PROOF_STAGE, 1, 1)
        return held

    def _whole_rows(self, rows: slice, mine: RowsOf) -> NDArray[np.int64]:
        """Return some of my rows with what completes them."""
        integers = mine(rows).reshape(rows.stop - rows.start, -1)
        return np.hstack([integers, self._bounds[self.me].completion(integers)])
