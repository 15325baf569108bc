"""How often each pattern of categories occurs, from shares: products of indicators, summed before they are opened."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from analyses.rows.traffic import JointTraffic
from mpc.protocol.computation import Computation
from mpc.protocol.operations.rows import RowsOf
from mpc.protocol.shared import SharedArray, concatenate

MAX_PRODUCTS = 1 << 20
"""Elements of a block of rows: bounds the memory."""


async def count_patterns(
    c: Computation,
    owners: Sequence[int],
    n_categories: Sequence[int],
    mine: RowsOf | None,
    n_rows: int,
    max_rows: int,
) -> SharedArray:
    """Return the exact counts of all patterns under shares; nothing is opened.

    With A_j = (1 | indicators of all categories of party j but the last), a row's products of one entry of each A_j,
    summed over the rows, determine all counts: the indicator of the last category is 1 less the others. The parties are
    split into two groups; within each, row products are reduced, layer after layer; the last layer, between the groups,
    is a matrix product, which sums over the rows before anything has to be reduced. Two parties need no reduction of
    rows at all, three or four one layer.

    Args:
        c: the computation of all members of the job. All other input is dealt: with the last row the cost is committed.
        owners: member numbers of the v parties, at least two.
        n_categories: M_j of each.
        mine: indicators of my rows, shape (rows, M_j - 1) of a block; None if I am no owner.
        n_rows: known to all parties.
        max_rows: public bound of the counts.

    Returns:
        shape (M_1 * ... * M_v,), row-major, degree `product_degree`.

    Raises:
        PeerError: a member is silent, drops out or violates the protocol.

    Cost: per row about the product of the M_j - 1 of each group, reduced.
    """
    n_left = _n_left_of(n_categories)
    height = _height_of(n_categories, n_left)
    total = c.product_sum(prod(n_categories[:n_left]), prod(n_categories[n_left:]))
    widths = {owner: (m - 1,) for owner, m in zip(owners, n_categories, strict=True)}
    async for shared in c.rows_in_step(widths, n_rows, mine, height=height, bound=1):
        left = await _row_products(c, [shared[owner] for owner in owners[:n_left]])
        right = await _row_products(c, [shared[owner] for owner in owners[n_left:]])
        await total.add(left, right.T)
    counts = (await total.total()).reshape(*n_categories)
    for axis in range(len(n_categories)):
        first, others = _split_first(counts, axis)
        last = first - _kept_sum(others, axis)
        counts = concatenate([others, last], axis)
    return replace(counts.reshape(-1), degree=c.product_degree, bound=max_rows)


def sums_of_patterns(c: Computation, counts: SharedArray, n_categories: Sequence[int]) -> SharedArray:
    """Return how many rows have each sum of the parties' categories, numbered from 0; local, nothing is sent.

    Args:
        c: the computation.
        counts: from `count_patterns`.
        n_categories: M_j of each party.

    Returns:
        shape (sum of M_j - v + 1,), in ascending order of the sums; degree and bound of `counts`.
    """
    sums, known = counts, n_categories[0]
    for place, new in enumerate(n_categories[1:], start=2):
        table = sums.reshape(known, new, prod(n_categories[place:]))
        slices = [table[at] for at in range(known)] if known < new else [table[:, at] for at in range(new)]
        n_sums, others = known + new - 1, prod(n_categories[place:])

        def shifted(part: SharedArray, by: int, n_sums: int = n_sums, others: int = others) -> SharedArray:
            empty = [c.public(np.zeros((n, others), dtype=np.int64)) for n in (by, n_sums - by - part.shape[0])]
            return concatenate([empty[0], part, empty[1]])

        added = shifted(slices[0], 0)
        for by, part in enumerate(slices[1:], start=1):
            added = added + shifted(part, by)
        sums, known = added, n_sums
    return replace(sums.reshape(-1), degree=counts.degree, bound=counts.bound)


def walk_through_patterns(joint: JointTraffic, owners: Sequence[int], n_categories: Sequence[int]) -> None:
    """Walk through `count_patterns` (`mpc.traffic`); arguments alike."""
    n_left = _n_left_of(n_categories)
    height = _height_of(n_categories, n_left)
    left, right = prod(n_categories[:n_left]), prod(n_categories[n_left:])
    total = joint.product_sum(left * right)

    def row_products(widths: Sequence[int], n_block: int) -> None:
        known = 1 + widths[0]
        for new in widths[1:]:
            joint.reduce((known - 1) * new * n_block)
            known *= 1 + new

    def multiplied(n_block: int) -> None:
        widths = [m - 1 for m in n_categories]
        row_products(widths[:n_left], n_block)
        row_products(widths[n_left:], n_block)
        total.add(n_block, (left + right) * n_block)

    joint.rows_in_step(
        {owner: m - 1 for owner, m in zip(owners, n_categories, strict=True)}, joint.n_rows, height, multiplied
    )
    total.total()


def _n_left_of(n_categories: Sequence[int]) -> int:
    """Return how many parties are in the first of the two groups."""
    return min(range(1, len(n_categories)), key=lambda n: prod(n_categories[:n]) + prod(n_categories[n:]))


def _height_of(n_categories: Sequence[int], n_left: int) -> int:
    return max(1, MAX_PRODUCTS // (prod(n_categories[:n_left]) + prod(n_categories[n_left:])))


async def _row_products(c: Computation, columns: Sequence[SharedArray]) -> SharedArray:
    """Return, for each row, all products of one entry of each (1 | columns_j); shape (product of 1 + widths, rows).

    Rows are the last axis, so that everything that is copied and joined lies in long runs of memory.
    """
    n_rows = columns[0].shape[0]
    ones = c.public(np.ones((1, n_rows), dtype=np.int64))
    products = concatenate([ones, columns[0].T])
    for column in columns[1:]:
        more = column.T
        known, new = products.shape[0], more.shape[0]
        # The first row of `products` is 1: its products with `more` are free.
        pairs = await c.multiply(products[1:, None], more[None])
        crossed = concatenate([more[None], pairs])
        products = concatenate([products[:, None], crossed], 1).reshape(known * (1 + new), n_rows)
    return products


def _split_first(array: SharedArray, axis: int) -> tuple[SharedArray, SharedArray]:
    before = (slice(None),) * axis
    return array[(*before, slice(0, 1))], array[(*before, slice(1, None))]


def _kept_sum(array: SharedArray, axis: int) -> SharedArray:
    summed = array.sum(axis)
    return summed[(*(slice(None),) * axis, None)]
