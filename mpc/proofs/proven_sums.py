"""Sums of products whose result has degree t: what is added up is kept until the sum is reduced, for its proof."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from mpc.arithmetic.field import ResidueField
from mpc.errors import LocalFaultError
from mpc.proofs.summed_products import Factor
from mpc.protocol.operations.gram_sum import GramSum
from mpc.protocol.operations.product_sum import ProductSum
from mpc.protocol.session import Session
from mpc.protocol.shared import SharedArray

MOST_KEPT = 1 << 21
"""Entries of factors that wait for a reduction at most. It bounds the memory where factors are made block by block."""


class Kept:
    """Factors of a sum since it was reduced last.

    Args:
        shape: shape of the sum; of a triangle, that of the whole matrix.
        is_triangle: whether only the entries on and above the diagonal are dealt.

    Attributes:
        factors: my shares of each product's factors, the left one transposed; empty where I hold no shares.
        length: how many products an entry of the sum adds up.
        size: entries of all factors.
    """

    def __init__(self, shape: tuple[int, int], *, is_triangle: bool) -> None:
        self.shape, self.is_triangle = shape, is_triangle
        self.factors: list[tuple[Factor, Factor]] = []
        self.length = self.size = 0

    def keep(self, left: Sequence[SharedArray], right: Sequence[SharedArray], t: int) -> None:
        """Keep two factors, blocks of columns of the same rows.

        Raises:
            LocalFaultError: a factor has a degree above t: it has not been reduced.
        """
        blocks = [*left] if left is right else [*left, *right]
        if max(block.degree for block in blocks) > t:
            raise LocalFaultError("a sum of products is proven of factors of degree t: reduce them first")
        if not blocks[0].shape[0]:
            return
        self.length += blocks[0].shape[0]
        self.size += sum(block.size for block in blocks)
        lefts = [block.share for block in left if block.share is not None]
        rights = lefts if left is right else [block.share for block in right if block.share is not None]
        if lefts and rights:
            self.factors.append((lefts, rights))


class ReducesSums(Protocol):
    """A computation that proves what it reduces."""

    @property
    def t(self) -> int:
        """Degree of what has been reduced."""

    async def reduce_sum(self, total: SharedArray, kept: Kept) -> SharedArray:
        """Return a sum of products with degree t, to be proven before the next opening."""

    async def check_products(self) -> None:
        """Prove what has been reduced."""


class _Reduced:
    """The part of a proven sum that has been reduced."""

    def __init__(self, computation: ReducesSums, kept: Kept) -> None:
        self._computation, self._kept = computation, kept
        self._total: SharedArray | None = None

    @property
    def is_due(self) -> bool:
        """Whether the factors take so much memory that the sum has to be reduced and proven."""
        return self._kept.size > MOST_KEPT

    def keep(self, left: Sequence[SharedArray], right: Sequence[SharedArray]) -> None:
        """Keep factors of what has been added."""
        self._kept.keep(left, right, self._computation.t)

    async def add(self, part: SharedArray, *, prove: bool) -> SharedArray:
        """Reduce what was added since the last time, and prove it where that is due; return the sum of all so far."""
        kept, self._kept = self._kept, Kept(self._kept.shape, is_triangle=self._kept.is_triangle)
        part = await self._computation.reduce_sum(part, kept) if kept.length else replace(part, degree=0)  # zeros
        self._total = part if self._total is None else self._total + part
        if prove:
            await self._computation.check_products()
        return self._total


class ProvenProductSum(ProductSum):
    """A `ProductSum` of degree t; arguments besides those of it: the computation, which proves it."""

    def __init__(
        self,
        computation: ReducesSums,
        session: Session,
        field: ResidueField,
        shape: tuple[int, int],
        *,
        holds_shares: bool,
    ) -> None:
        super().__init__(session, field, shape, holds_shares=holds_shares)
        self._reduced = _Reduced(computation, Kept(shape, is_triangle=False))

    async def add(self, left: SharedArray, right: SharedArray) -> None:
        """Add left @ right, and prove what has been added where much has.

        Raises:
            LocalFaultError, ShapeError, FieldMismatchError: factors that do not fit, or have not been reduced.
            PeerError, InconsistentSharesError: see `Proofs.check`.
        """
        await super().add(left, right)
        self._reduced.keep([left.T], [right])
        if self._reduced.is_due:
            await self._reduced.add(self._taken(), prove=True)

    async def total(self) -> SharedArray:
        """Return the sum so far, degree t, to be proven before the next opening. Cost: as of `Products.reduce`."""
        return await self._reduced.add(self._taken(), prove=False)


class ProvenGramSum(GramSum):
    """A `GramSum` of degree t; see `ProvenProductSum`."""

    def __init__(
        self, computation: ReducesSums, session: Session, field: ResidueField, n_columns: int, *, holds_shares: bool
    ) -> None:
        super().__init__(session, field, n_columns, holds_shares=holds_shares)
        self._reduced = _Reduced(computation, Kept((n_columns, n_columns), is_triangle=True))

    async def add(self, columns: Sequence[SharedArray]) -> None:
        """Add the products of some rows; see `ProvenProductSum.add`."""
        await super().add(columns)
        self._reduced.keep(columns, columns)
        if self._reduced.is_due:
            await self._reduced.add(await self._taken(), prove=True)

    async def triangle(self) -> SharedArray:
        """Return the entries on and above the diagonal, row by row; see `ProvenProductSum.total`."""
        return await self._reduced.add(await self._taken(), prove=False)
