"""Order without telling it: sorting, the median, the largest, distinct values, a place that nobody knows, a shuffle.

All work along the first axis and tell nothing but the public length: which elements are compared, and what travels, is
the same for all values.
"""

from dataclasses import replace
from itertools import combinations
from typing import cast

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.arithmetic.shamir import lagrange_weights
from mpc.errors import LocalFaultError, ShapeError
from mpc.protocol.operations.bits import as_bits, take
from mpc.protocol.operations.comparisons import Comparisons
from mpc.protocol.shared import SharedArray, concatenate

Layer = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Comparators that work side by side: lower places, and the places that they are compared with."""


def sorting_network(n: int) -> list[Layer]:
    """Return the layers of Batcher's odd-even merge sort of n elements [Bat68].

    For n no power of two, comparators that reach beyond the end are left out: what they would compare is larger than
    everything else and stays where it is.
    """
    layers = []
    block = 1
    while block < n:
        distance = block
        while distance:
            starts = np.arange(distance % block, n - distance)
            within = (starts - distance % block) // distance % 2 == 0
            lower = starts[within]
            upper = lower + distance
            same = lower // (2 * block) == upper // (2 * block)
            layers.append((lower[same], upper[same]))
            distance //= 2
        block *= 2
    return [layer for layer in layers if layer[0].size]


class Selections(Comparisons):
    """The part of `Computation` that orders and picks."""

    def take(self, x: SharedArray, places: NDArray[np.int64] | list[int]) -> SharedArray:
        """Return the parts of an array at public places of its first axis, in their order, repeated ones too. Local."""
        return take(x, places)

    async def sort(self, x: SharedArray, *, bound: int | None = None) -> SharedArray:
        """Return a vector in ascending order, or the rows of a matrix in the order of their first column.

        Rows that are equal in the first column come in any order.

        Args:
            x: shape (n,) or (n, columns).
            bound: public bound on the difference of two elements of the first column; default: twice that of x.

        Cost: for n = 2^k elements k (k + 1) / 2 times the rounds of `less` and one; less than n k (k + 1) / 4
            comparisons, and as many products per column.
        """
        if x.ndim not in (1, 2):
            raise ShapeError(f"a vector or the rows of a matrix are sorted, not an array of shape {x.shape}")
        bound_of_x = x.bound
        rows = (await self.reduce(x)).reshape(x.shape[0], -1)
        for lower, upper in sorting_network(x.shape[0]):
            first, second = take(rows, lower), take(rows, upper)
            swapped = await self.less(second[:, 0], first[:, 0], bound=bound)
            change = await self.multiply(swapped[:, None], second - first)
            rest = np.setdiff1d(np.arange(x.shape[0]), np.concatenate([lower, upper]))
            places = np.argsort(np.concatenate([lower, upper, rest]))
            rows = replace(
                take(concatenate([first + change, second - change, take(rows, rest)]), places), bound=bound_of_x
            )
        return rows.reshape(*x.shape)

    async def top_k(self, x: SharedArray, k: int, *, bound: int | None = None) -> SharedArray:
        """Return the k largest elements, or rows by their first column, in descending order. See `sort`."""
        if not 0 <= k <= x.shape[0]:
            raise ShapeError(f"{k} elements cannot be taken of {x.shape[0]}")
        return -(await self.sort(-x, bound=bound))[:k]

    async def median(self, x: SharedArray, *, bound: int | None = None) -> SharedArray:
        """Return the middle element of a vector; of an even number the lower one of the two. See `sort`."""
        if x.ndim != 1 or not x.shape[0]:
            raise ShapeError(f"a median is of a vector with elements, not of shape {x.shape}")
        return (await self.sort(x, bound=bound))[(x.shape[0] - 1) // 2]

    async def count_distinct(self, x: SharedArray, *, bound: int | None = None) -> SharedArray:
        """Return how many different values a vector has. Cost: `sort`, and n - 1 times `equal` side by side."""
        if x.ndim != 1 or not x.shape[0]:
            raise ShapeError(f"different values are counted in a vector with elements, not in shape {x.shape}")
        ordered = await self.sort(x, bound=bound)
        if x.shape[0] == 1:
            return ordered[0] * 0 + 1
        repeated = await self.equal(ordered[1:], ordered[:-1], bound=bound)
        return replace(x.shape[0] - repeated.sum(), bound=x.shape[0])

    async def one_hot(self, index: SharedArray, length: int) -> SharedArray:
        """Return 1 at the place `index` and 0 elsewhere, shape (length, *index.shape).

        An index outside 0 .. length - 1 is taken modulo the next power of two; where that is outside, too, all is 0.

        Cost: with k = ceil(log2(length)) the rounds of `bits` of k bits, and ceil(log2(k)) more; less than
            2 * 2^k products per index besides.
        """
        if length < 1:
            raise ShapeError("there must be at least one place")
        n_bits = max(1, (length - 1).bit_length())
        bits = await self.bits(index, n_bits)
        parts = [as_bits(concatenate([1 - bit[None], bit[None]])) for bit in bits]
        while len(parts) > 1:
            pairs = list(zip(parts[::2], parts[1::2], strict=False))
            # Row i + 2^k j of the product says that the lower bits are i and the upper ones j.
            reduced = await self.multiply_all([(low[None], high[:, None]) for low, high in pairs])
            joined = [as_bits(p.reshape(-1, *index.shape)) for p in reduced]
            parts = joined + parts[2 * len(pairs) :]
        return parts[0][:length]

    async def lookup(self, table: SharedArray, index: SharedArray) -> SharedArray:
        """Return table[index] for secret places along the first axis, shape (*index.shape, *table.shape[1:]).

        Errors are those of `low_bits`.

        Cost: what `one_hot` costs, and 1 round, one product to be reduced per element of the result.
        """
        chosen = await self.one_hot(index.reshape(-1), table.shape[0])
        table = await self.reduce(table)
        found = await self.matmul(chosen.T, table.reshape(table.shape[0], -1))
        return replace(found, bound=table.bound).reshape(*index.shape, *table.shape[1:])

    async def group_sums(self, values: SharedArray, keys: SharedArray, n_groups: int) -> SharedArray:
        """Return the sum of the values, or of the rows of a matrix, in each group, shape (n_groups, *values.shape[1:]).

        Args:
            values: shape (n,) or (n, columns).
            keys: number of each value's group, from 0 to n_groups - 1, shape (n,); nobody learns who is where.
            n_groups: public.

        Errors are those of `low_bits`.

        Cost: what `one_hot` costs for all keys at once, and 1 round, one product to be reduced per sum.
        """
        if values.ndim not in (1, 2) or keys.shape != values.shape[:1]:
            raise ShapeError(f"values of shape {values.shape} cannot be added up by keys of shape {keys.shape}")
        groups = await self.one_hot(keys, n_groups)
        values = await self.reduce(values)
        sums = await self.matmul(groups, values.reshape(values.shape[0], -1))
        return sums.reshape(n_groups, *values.shape[1:])

    async def shuffle(self, x: SharedArray) -> SharedArray:
        """Return the parts along the first axis in a uniformly random order that no t parties know.

        Each t + 1 parties in turn, a *committee*, hold the array as a sum of t + 1 terms, one each; permute these by an
        order of which only they know; and deal them anew. Whoever is outside sees fresh shares. The N - t parties that
        do not collude contain a whole committee, whose order the others know nothing of. Source: [LWZ11].

        Raises:
            LocalFaultError: t is not 1: the members of a committee agree on an order by the key that a pair shares.
            PeerError: a party drops out, is silent or sent an invalid share.

        Privacy: perfect, for at most one party that reads along.
        Cost: C(N, 2) rounds, in each of which 2 parties deal the array.
        """
        if self.t != 1:
            raise LocalFaultError(f"an array is shuffled against one party that reads along, not against {self.t}")
        if not x.ndim:
            raise ShapeError("an array without axes has no order")
        x = await self.reduce(x)
        for committee in combinations(self._parties, 2):
            x = await self._permuted(x, committee)
        return x

    async def _permuted(self, x: SharedArray, committee: tuple[int, int]) -> SharedArray:
        stage = self._stage(f"order {committee[0]} {committee[1]}")
        with self._step():
            block = self._take_blocks(x.size)
            share = None
            mine = None
            if self.me in committee:
                assert x.share is not None, "a member of a committee holds shares"
                peer = next(party for party in committee if party != self.me)
                stream = self._exchange.secrets[peer].stream(*committee, f"{stage} key", block)
                order = permutation(stream, x.shape[0])
                weights = lagrange_weights(self.field, committee)
                term = self.field.combine([x.share], [weights[committee.index(self.me)]])
                mine = np.ascontiguousarray(term[:, order]).reshape(self.field.n_words, -1)
            if self.holds_shares:
                share = await self._summed(stage, block, committee, mine, x.size)
            return self._shared(x.shape, self.t, x.bound, share)

    async def _summed(
        self, stage: str, block: int, committee: tuple[int, int], mine: NDArray[np.uint64] | None, size: int
    ) -> NDArray[np.uint64]:
        """Return my share of the sum of what a committee deals, segment by segment."""
        total = np.empty((self.field.n_words, size), dtype=np.uint64)
        for place, segment in enumerate(self._segments(size)):
            parts = []
            if mine is not None:
                own = await self._exchange.deal(stage, block + place, np.ascontiguousarray(mine[:, segment]), self.t)
                parts.append(cast(NDArray[np.uint64], own))
            others = {party: (segment.stop - segment.start,) for party in committee if party != self.me}
            parts += (await self._exchange.take_all(others, stage, block + place, self.t)).values()
            total[:, segment] = self.field.add(*parts)
        return total


def permutation(stream: KeyStream, n: int) -> NDArray[np.int64]:
    """Return an order of n places, uniform up to a distance of 2^-65 n^2: that of n random words of 64 bits.

    Two equal words come in the order of their places; by the birthday bound that happens with less than 2^-65 n^2.
    """
    return np.argsort(stream.words(n), kind="stable")
