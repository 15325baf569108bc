"""Rows of a joint table that are matched under shares: blocks of slots, of which those without a match are zero.

To an analysis it is a computation like any other (`analyses.rows.joint_computation`). The joint table has the public
number of slots of the match (`mpc.matching.secret`), more than there can be matched rows; which slots hold rows, and
how many do, nobody knows. Rows come quantised from their owners, by public bounds and one by one, so what is known of
their norms holds for each row that matches; a slot without a match is zero in all columns, a constant column included.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod

import numpy as np

from analyses.job.plan import Plan, matches_in_secret
from analyses.job.schema import Table
from mpc.matching.secret import MATCHING_STAGE, SecretMatch, match_secretly
from mpc.matching.secret_terms import SecretTerms
from mpc.protocol.computation import Computation
from mpc.protocol.operations.rows import MULTIPLY_STAGE, RowsOf
from mpc.protocol.shared import SharedArray, concatenate

SLOTS_PER_BLOCK = 1 << 16
"""Number of slots whose products are in memory at once where they are only summed."""


class SecretRows(Computation):
    """The part of a joint computation that matches rows under shares. `match` is awaited before anything else."""

    _found: SecretMatch

    async def match(self, plan: Plan, table: Table | None) -> int:
        """Match all owners' rows and return the number of slots, which is public.

        Args:
            plan: plan of the job.
            table: mine; None for a party without columns.

        Raises:
            PlacementFailedError: chance, with a probability below 2^-40.
            PeerError: a member is silent, drops out or violates the protocol.
        """
        self.exchange.session.progress(MATCHING_STAGE, 0, 1)
        self._found = await match_secretly(self, terms_of(plan), None if table is None else table.ids)
        self.exchange.session.progress(MATCHING_STAGE, 1, 1)
        return self._found.n_slots

    async def rows(
        self, widths: Mapping[int, int], n_rows: int, mine: RowsOf | None, *, height: int, completes_input: bool = True
    ) -> AsyncIterator[list[SharedArray]]:
        """Yield the slots block by block; arguments and errors as of `Rows.rows`.

        Args:
            widths: owner to the number of its columns, in the order of the joint table.
            n_rows: the number of slots, as `match` returned it.
            mine: rows of my table, in its own order; None if I own no columns.
            height: slots of a block; the same at all parties.
            completes_input: see `Rows.rows`.

        Cost: see `SecretMatch.share_rows` and `SecretMatch.masked`. Memory: the shares of all slots.
        """
        async for block in self._blocks(widths, mine, height=height, bound=None, completes_input=completes_input):
            ends = list(accumulate(widths.values()))
            yield [block[:, end - width : end] for end, width in zip(ends, widths.values(), strict=True)]

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
        """Yield the slots block by block; arguments and errors as of `Rows.rows_in_step` and `rows`."""
        widths = {owner: prod(shape) for owner, shape in shapes.items()}
        ends = dict(zip(widths, accumulate(widths.values()), strict=True))
        async for block in self._blocks(widths, mine, height=height, bound=bound, completes_input=completes_input):
            yield {o: block[:, ends[o] - widths[o] : ends[o]].reshape(-1, *shape) for o, shape in shapes.items()}

    async def empty_slots(self) -> SharedArray | None:
        """Return how many slots hold no matched row, shape (1,), degree t."""
        # Bit by bit: there can be more slots than the field has integers, if it was chosen for the rows that may match.
        return replace((1 - self._found.matched).sum().reshape(1), bound=self._found.n_slots)

    async def row_sums(
        self,
        owners: Sequence[int],
        widths: Mapping[int, int],
        n_rows: int,
        mine: RowsOf | None,
        n_counting: int,
        *,
        bound: int,
    ) -> SharedArray:
        """Return the number of matched rows and the sums of all columns over them; as `JointComputation.row_sums`.

        Nobody knows which rows count, so all are shared, and added up times the bits of a match. A product of degree 2t
        is all that it takes: nothing is reduced.

        Cost: see `SecretMatch.share_rows`. Memory: the shares of all slots.
        """
        matched = self._found.matched
        found = [matched.sum().reshape(1)]
        if widths:
            shared = await self._found.share_rows(widths, mine, height=SLOTS_PER_BLOCK)
            total = self.public(np.zeros(shared.shape[1:], dtype=np.int64))
            for start in range(0, self._found.n_slots, SLOTS_PER_BLOCK):
                block = slice(start, start + SLOTS_PER_BLOCK)
                total = total + await self.exchange.session.compute(_weighted_sum, matched[block], shared[block])
            found.append(total)
        if self.me in owners:
            await self.commit_after_input()
        return replace(concatenate(found), bound=bound)

    async def _blocks(
        self, widths: Mapping[int, int], mine: RowsOf | None, *, height: int, bound: int | None, completes_input: bool
    ) -> AsyncIterator[SharedArray]:
        shared = await self._found.share_rows(widths, mine, height=height)
        if completes_input and mine is not None:
            await self.commit_after_input()
        async for slots, block in self._found.masked(shared, height=height, bound=bound):
            yield block
            if completes_input:
                self._tell_multiplied(slots.stop, self._found.n_slots)
        if completes_input:
            self.exchange.session.progress(MULTIPLY_STAGE, 1, 1)


def _weighted_sum(weights: SharedArray, rows: SharedArray) -> SharedArray:
    """Return the sum over rows, each times its weight, shape (columns,)."""
    return weights @ rows


def terms_of(plan: Plan) -> SecretTerms:
    """Return what is public about matching the rows of a job under shares."""
    assert matches_in_secret(plan.job), "the job asks for it"
    declared = {owner: plan.schema_of(owner).rows for owner in plan.owners}
    most_rows = {owner: rows[1] for owner, rows in declared.items() if rows is not None}
    return SecretTerms(plan.owners, most_rows, plan.n_parties)
