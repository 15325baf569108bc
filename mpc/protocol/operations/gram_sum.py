"""Sums of x^T x over blocks of shared rows, of which only the entries on and above the diagonal are kept."""

from collections.abc import Sequence

import numpy as np

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import GramAccumulator, n_entries
from mpc.hidden import Hidden
from mpc.protocol.concurrency import compute
from mpc.protocol.session import Session
from mpc.protocol.shared import SharedArray


class GramSum(Hidden):
    """One member's share of a sum of x^T x. Local: nothing is sent. Members without shares follow the shapes.

    Memory does not grow with the rows (`mpc.arithmetic.gram.GramAccumulator`).

    Args:
        session: my end of the job, which computes off the event loop.
        field: field of the shares.
        n_columns: columns of all blocks of a row together, at least 1.
        holds_shares: whether I am a compute party.
    """

    instead = "`add` rows to it, and take its `triangle()`"

    def __init__(self, session: Session, field: ResidueField, n_columns: int, *, holds_shares: bool) -> None:
        self._session, self._field, self._n_columns = session, field, n_columns
        self._holds_shares = holds_shares
        self._begin()

    def _begin(self) -> None:
        self._accumulator = GramAccumulator(self._field, self._n_columns) if self._holds_shares else None
        self._degree = 0
        self._bound: int | None = 0

    async def add(self, columns: Sequence[SharedArray]) -> None:
        """Add the products of some rows.

        Args:
            columns: columns of these rows, one block after the other, each of shape (rows, its columns); the same rows
                everywhere, the columns together `n_columns`.

        Raises:
            ShapeError: rows or columns do not fit.
        """
        bounds = [block.bound for block in columns if block.bound is not None]
        if self._bound is None or len(bounds) < len(columns):
            self._bound = None
        else:
            self._bound += max(bounds, default=0) ** 2 * columns[0].shape[0]
        self._degree = max(self._degree, *(2 * block.degree for block in columns))
        if self._accumulator is not None:
            shares = [block.share for block in columns if block.share is not None]
            await compute(self._session, sum(map(np.size, shares)), self._accumulator.add_rows, shares)

    async def triangle(self) -> SharedArray:
        """Return the entries (i, j), i <= j, of the sum so far, row by row; of twice the degree of the rows."""
        return await self._so_far()

    async def _taken(self) -> SharedArray:
        """Return the triangle of the sum so far and begin anew."""
        taken = await self._so_far()
        self._begin()
        return taken

    async def _so_far(self) -> SharedArray:
        share = None
        if self._accumulator is not None:
            share = await compute(self._session, self._n_columns**2, self._accumulator.upper_triangle)
        shape = (n_entries(self._n_columns),)
        return SharedArray(self._field, shape, self._degree, self._bound, share)
