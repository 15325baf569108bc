"""Products: local first, then brought back to degree t in as few rounds as possible."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mpc.arithmetic.gram import upper_triangle_indices
from mpc.arithmetic.moduli import check_galois
from mpc.errors import ShapeError
from mpc.protocol.double_sharing import double_sharings_win, reduce_with_double_sharings
from mpc.protocol.exchange import Words
from mpc.protocol.operations.core import ComputationCore
from mpc.protocol.operations.gram_sum import GramSum
from mpc.protocol.operations.product_sum import ProductSum
from mpc.protocol.reduction import Part, reduce_degree
from mpc.protocol.shared import SharedArray, combination, concatenate, stack


class Products(ComputationCore):
    """The part of `Computation` that multiplies."""

    async def reduce(self, x: SharedArray) -> SharedArray:
        """Return the same secrets with degree t, so that they can be multiplied on. See `reduce_degree`."""
        (reduced,) = await self.reduce_all([x])
        return reduced

    async def reduce_all(self, arrays: Sequence[SharedArray]) -> list[SharedArray]:
        """Reduce several arrays of one degree in one round.

        Raises:
            TooFewPartiesError: the degree is higher than the roster can open.
            ShapeError: arrays of different degrees.
            FieldMismatchError: an array of another field.
            PeerError: a party drops out, is silent or sent an invalid share, and too few parties are left.
            InconsistentSharesError: in a large batch, a party sent a corrupted share (`mpc.protocol.double_sharing`).

        Cost: 1 round (2 where N > 2t + 1), N - 1 - t words sent per element; nothing for degrees up to t. Large batches
        of 7 parties and more take 4 rounds and some 2 words per element (`mpc.protocol.double_sharing`).
        """
        degrees = {array.degree for array in arrays}
        if len(degrees) > 1:
            raise ShapeError(f"arrays of degrees {sorted(degrees)} cannot be reduced in one round")
        if not degrees or max(degrees) <= self.t:
            for array in arrays:
                self._check(array)
            return list(arrays)
        flat = concatenate([array.reshape(-1) for array in arrays]) if len(arrays) > 1 else arrays[0].reshape(-1)
        return await self._reduced(arrays, flat.__getitem__)

    async def multiply(self, x: SharedArray, y: SharedArray) -> SharedArray:
        """Return the element-wise product, degree t. Cost: as `reduce`; a segment is multiplied while others travel."""
        a, b = x.aligned(y)
        if a.degree + b.degree <= self.t:
            return await self._local(lambda: a * b)
        return await self._reduced_sum([(a, b)])

    async def sum_of_products(self, pairs: Sequence[tuple[SharedArray, SharedArray]]) -> SharedArray:
        """Return the sum of the element-wise products of several pairs of one shape, degree t; factors have degree t.

        Cost: one product per element, see `multiply`.
        """
        return await self._reduced_sum(pairs)

    async def _reduced_sum(self, pairs: Sequence[tuple[SharedArray, SharedArray]]) -> SharedArray:
        outline = _sum([replace(a, share=None) * replace(b, share=None) for a, b in pairs])
        flat = [(a.reshape(-1), b.reshape(-1)) for a, b in pairs]
        (total,) = await self._reduced([outline], lambda segment: _sum([a[segment] * b[segment] for a, b in flat]))
        return total

    async def multiply_all(self, pairs: Sequence[tuple[SharedArray, SharedArray]]) -> list[SharedArray]:
        """Return the element-wise products of several pairs, degree t, in one round; all factors have degree t."""
        return await self.reduce_all([a * b for a, b in pairs])

    async def dot(self, x: SharedArray, y: SharedArray) -> SharedArray:
        """Return the inner product of two vectors, degree t; one element is reduced, whatever their length."""
        if x.ndim != 1 or y.ndim != 1:
            raise ShapeError(f"an inner product takes two vectors, not shapes {x.shape} and {y.shape}")
        return (await self.matmul(x[None], y[:, None])).reshape()

    async def matmul(self, x: SharedArray, y: SharedArray) -> SharedArray:
        """Return the product of two matrices, degree t; one element is reduced per entry of the result."""
        if x.ndim != 2 or y.ndim != 2:
            raise ShapeError(f"a matrix product takes two matrices, not shapes {x.shape} and {y.shape}")
        product = self.product_sum(x.shape[0], y.shape[1])
        await product.add(x, y)
        return await self.reduce(await product.total())

    async def gram(self, x: SharedArray) -> SharedArray:
        """Return x.T @ x of a matrix, degree t; only the entries on and above the diagonal are reduced."""
        if x.ndim != 2 or not x.shape[1]:
            raise ShapeError(f"a Gram matrix is of a matrix with at least one column, not of shape {x.shape}")
        n_columns = x.shape[1]
        rows, columns = upper_triangle_indices(n_columns)
        gram = self.gram_sum(n_columns)
        await gram.add([x])
        triangle = await self.reduce(await gram.triangle())
        full = None
        if triangle.share is not None:
            full = np.empty((x.field.n_words, n_columns, n_columns), dtype=np.uint64)
            full[:, rows, columns] = triangle.share
            full[:, columns, rows] = triangle.share
        return self._shared((n_columns, n_columns), triangle.degree, triangle.bound, full)

    def product_sum(self, n_rows: int, n_columns: int) -> ProductSum:
        """Return an empty sum of products of matrices, of this shape, to which products are added."""
        return ProductSum(self._exchange.session, self.field, (n_rows, n_columns), holds_shares=self.holds_shares)

    def gram_sum(self, n_columns: int) -> GramSum:
        """Return an empty sum of x^T x, to which blocks of rows x are added."""
        return GramSum(self._exchange.session, self.field, n_columns, holds_shares=self.holds_shares)

    async def polynomial(self, x: SharedArray, coefficients: Any) -> SharedArray:
        """Evaluate a public polynomial at every element: sum_k coefficients[k] * x^k, degree t.

        Args:
            x: any array.
            coefficients: integers, the constant first; or a `galois.Poly` over a prime of the field.

        Of x^1 .. x^k and x^2k, x^3k .. x^mk, powers double per round; the last round adds up x^ik q_i(x) for q_i of
        degree k, so it costs one product per element. Source: [PS73].

        Cost: for degree d, ceil(log2(d)) times the rounds of `reduce` and k + m - 1 products per element (`powers_of`).
        """
        if hasattr(coefficients, "coefficients"):
            check_galois(coefficients.field, self.field.primes)
            coefficients = [int(c) for c in coefficients.coefficients(order="asc")]
        highest = max((k for k, c in enumerate(coefficients) if c), default=0)
        n_powers, n_giants = powers_of(highest)
        powers = await self._powers(await self.reduce(x), n_powers)
        giants = await self._powers(powers[-1], n_giants)

        def part(number: int) -> SharedArray:
            chosen = coefficients[number * n_powers + 1 : (number + 1) * n_powers + 1]
            return combination(powers[: len(chosen) or 1], chosen or [0])

        low = part(0) + (coefficients[0] if len(coefficients) else 0)
        parts = [part(number) for number in range(1, n_giants + 1)]
        if not parts:
            return low
        return low + await self.sum_of_products(list(zip(giants, parts, strict=True)))

    async def _powers(self, x: SharedArray, highest: int) -> list[SharedArray]:
        """Return x, x^2 .. x^highest."""
        powers = [x][:highest]
        while len(powers) < highest:
            more = powers[: highest - len(powers)]
            powers += list(await self.multiply(powers[-1], stack(more)))
        return powers

    async def _reduced(
        self, arrays: Sequence[SharedArray], segment_of: Callable[[slice], SharedArray]
    ) -> list[SharedArray]:
        """Reduce arrays of one degree above t in one round.

        Args:
            arrays: what counts of them is shape, degree and bound.
            segment_of: returns some of their elements, counted from the first array's first to the last one's last.
        """
        for array in arrays:
            self._check(array)

        def share_of(segment: slice) -> Words:
            share = segment_of(segment).share
            assert share is not None, "a compute party holds a share of every array"
            return share

        with self._step():
            sizes = [array.size for array in arrays]
            n_elements, degree = sum(sizes), arrays[0].degree
            first_block = self._take_blocks(n_elements + self._check_of_products.n_coins(degree, n_elements))
            reduced: Words | None = None
            if self._exchange.am_receiver:
                reduced = await self._reduced_share(first_block, share_of, n_elements, degree)
            ends = list(itertools.accumulate(sizes))
            return [
                self._shared(a.shape, self.t, a.bound, None if reduced is None else reduced[:, end - a.size : end])
                for a, end in zip(arrays, ends, strict=True)
            ]

    async def _reduced_share(self, first_block: int, share_of: Part, n_elements: int, degree: int) -> Words:
        """Reduce in the way that takes less time; all parties choose the same one, from what is public."""
        exchange = self._exchange
        wins = double_sharings_win(exchange.n_parties, exchange.t, n_elements, exchange.field.n_words)
        if wins and self._may_use_double_sharings:
            return await reduce_with_double_sharings(exchange, self._name, first_block, share_of, n_elements)
        return await reduce_degree(
            exchange, self._agreement, self._check_of_products, first_block, share_of, n_elements, degree
        )


def powers_of(degree: int) -> tuple[int, int]:
    """Return k and m, by which `Products.polynomial` of this degree takes the fewest products in the fewest rounds."""
    n_rounds = (max(degree, 1) - 1).bit_length()
    ways = [(1 << i, max(0, -(-degree >> i) - 1)) for i in range(n_rounds + 1)]
    return min(((k, m) for k, m in ways if _rounds(k) + _rounds(m) + (m > 0) <= n_rounds), key=sum)


def _rounds(highest_power: int) -> int:
    return (max(highest_power, 1) - 1).bit_length()


def _sum(arrays: Sequence[SharedArray]) -> SharedArray:
    return sum(arrays[1:], start=arrays[0])
