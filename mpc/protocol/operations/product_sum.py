"""Sums of products of matrices, x y of one block of rows after another, which are reduced or opened once."""

from mpc.arithmetic.field import ResidueField
from mpc.hidden import Hidden
from mpc.protocol.session import Session
from mpc.protocol.shared import SharedArray


class ProductSum(Hidden):
    """One member's share of a sum of products of matrices. Local: nothing is sent.

    Args:
        session: my end of the job, which computes off the event loop.
        field: field of the shares.
        shape: shape of each product.
        holds_shares: whether I am a compute party.
    """

    instead = "`add` two matrices to it, and take its `total()`"

    def __init__(self, session: Session, field: ResidueField, shape: tuple[int, int], *, holds_shares: bool) -> None:
        self._session = session
        self._empty = SharedArray(field, shape, 0, 0, field.zeros(shape) if holds_shares else None)
        self._sum = self._empty

    async def add(self, left: SharedArray, right: SharedArray) -> None:
        """Add left @ right.

        Args:
            left: shape (rows of the sum, k).
            right: shape (k, columns of the sum).

        Raises:
            ShapeError: shapes do not fit.
            FieldMismatchError: an array of another field.
        """
        self._sum = self._sum + await self._session.compute(lambda: left @ right)

    async def total(self) -> SharedArray:
        """Return the sum so far; its degree is that of the products."""
        return self._sum

    def _taken(self) -> SharedArray:
        """Return the sum so far and begin anew."""
        taken, self._sum = self._sum, self._empty
        return taken
