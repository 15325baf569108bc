"""Arithmetic modulo primes: inverses of elements and matrices, by openings under multiplicative masks.

A circuit that works modulo one prime, or modulo a product of them, deals its inputs with `bound=None`: they are
elements of the field, of any size, and nothing is said of their order. `ResidueField.over([p])` is such a field.

Each of t + 1 parties draws what has an inverse modulo every prime, uniformly, and deals it; their product r is unknown
to any t of them. What is opened is x r, which is uniform among all that have an inverse, whatever x is, if x has one;
else it tells modulo which primes it has none. Source: [BB89]; matrices are masked on both sides, so that a singular one
tells its rank modulo each prime and nothing else. This is perfect, for parties that follow the protocol.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.arithmetic.elimination import inverse_and_determinant
from mpc.arithmetic.field import ResidueField
from mpc.errors import LocalFaultError, ShapeError
from mpc.protocol.operations.bits import Bits
from mpc.protocol.shared import SharedArray, stack

Residues = NDArray[np.int64]


class Modular(Bits):
    """The part of `Computation` that inverts."""

    async def inverse(self, x: SharedArray) -> SharedArray:
        """Return 1 / x modulo the order of the field, element by element.

        Modulo one prime `zero = await c.is_zero(x)` and `await c.inverse(x + zero) - zero` give 0 for 0.

        Raises:
            LocalFaultError: an element has no inverse, which all members learn.
            TooFewPartiesError, PeerError: see `reduce`. No party may drop out while it deals.

        Privacy: tells only whether all elements have an inverse, and which have not.
        Cost: 2 + ceil(log2(t + 1)) rounds, 3 for products; per element t + 1 parties deal 1 element, t products are
            reduced and 1 is opened to all members.
        """
        x = await self.reduce(x)
        (dealt,) = await self._dealt([x.shape], lambda stream: [_invertible(self.field, stream, x.shape)])
        mask = await self.prod(stack(dealt))
        inverses = []
        for opened, p in zip(await self._opened_residues(x * mask), self.field.primes, strict=True):
            if not opened.all():
                raise LocalFaultError(f"an element has no inverse modulo {p}")
            inverses.append(_power(opened, p - 2, p))
        return mask * self._integers(inverses)

    async def inv(self, matrix: SharedArray) -> SharedArray:
        """Return the inverse of a square matrix, shape (n, n).

        Raises:
            ShapeError: no square matrix.
            LocalFaultError: it is singular modulo a prime of the field, which all members learn.
            TooFewPartiesError, PeerError: see `reduce`. No party may drop out while it deals.

        Privacy: tells whether the matrix is singular, then its rank too.
        Cost: 4 + ceil(log2(t + 1)) rounds; t + 1 parties deal 2 n^2 + 1 elements, (2 t + 2) n^2 are reduced.
        """
        left, right, _ = await self._two_masks(matrix)
        hidden = await self.reduce(left @ matrix)
        inverse = self._inverse_of(await self._opened_residues(hidden @ right))
        return await self.reduce((right @ inverse) @ left)

    async def solve(self, matrix: SharedArray, right_side: SharedArray) -> SharedArray:
        """Return x with matrix @ x = right_side, shape (n,) or (n, columns). The rest as `inv`."""
        left, right, _ = await self._two_masks(matrix)
        hidden, side = await self.reduce_all([left @ matrix, left @ right_side])
        inverse = self._inverse_of(await self._opened_residues(hidden @ right))
        return await self.reduce((right @ inverse) @ side)

    async def det(self, matrix: SharedArray) -> SharedArray:
        """Return the determinant of a square matrix, shape (); that of a singular one, too.

        Errors and privacy are those of `inv`, which refuses singular ones.

        Cost: 3 + ceil(log2(t + 1)) rounds, and no less products than `inv`.
        """
        left, right, factor = await self._two_masks(matrix)
        hidden = await self.reduce(left @ matrix)
        opened = await self._opened_residues(hidden @ right)
        found = [np.asarray(inverse_and_determinant(m, p)[1]) for m, p in zip(opened, self.field.primes, strict=True)]
        return factor * self._integers(found)

    # -- parts ---------------------------------------------------------------------------------------------------------

    async def _two_masks(self, matrix: SharedArray) -> tuple[SharedArray, SharedArray, SharedArray]:
        """Return two secret matrices that have inverses, and the inverse of the product of their determinants."""
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
            raise ShapeError(f"a square matrix is inverted, not one of shape {matrix.shape}")
        if matrix.degree > self.t:
            raise LocalFaultError("a product is reduced before it is inverted: `await c.reduce(x)`")
        n = len(matrix)

        def draw(stream: KeyStream) -> list[list[Residues]]:
            drawn = [
                [_invertible_matrix(self.field, stream, n, i) for i in range(len(self.field.primes))] for _ in "lr"
            ]
            both = [(a[1] * b[1] % p, p) for a, b, p in zip(*drawn, self.field.primes, strict=True)]
            return [*([m for m, _ in side] for side in drawn), [np.asarray(pow(d, -1, p)) for d, p in both]]

        lefts, rights, factors = await self._dealt([(n, n), (n, n), ()], draw)
        while len(lefts) > 1:
            products = [a @ b for side in (lefts, rights) for a, b in zip(side[::2], side[1::2], strict=False)]
            reduced = await self.reduce_all(products)
            half = len(reduced) // 2
            rest = 2 * half
            lefts, rights = reduced[:half] + lefts[rest:], reduced[half:] + rights[rest:]
        return lefts[0], rights[0], await self.prod(stack(factors))

    async def _dealt(
        self, shapes: Sequence[tuple[int, ...]], draw: Callable[[KeyStream], Sequence[Sequence[Residues]]]
    ) -> list[list[SharedArray]]:
        """Return for each shape what each of t + 1 parties has drawn: residues for each shape and prime."""
        dealers = range(1, self.t + 2)
        mine = None
        if self.me in dealers:
            drawn = draw(KeyStream(self._exchange.session.entropy.read(32)))
            mine = np.concatenate([self._integers(residues).reshape(-1) for residues in drawn])
        sizes = [prod(shape) for shape in shapes]
        dealt = await self.inputs(dict.fromkeys(dealers, (sum(sizes),)), mine, bound=None)
        starts = np.cumsum([0, *sizes])
        return [
            [array[start : start + size].reshape(*shape) for array in dealt.values()]
            for start, size, shape in zip(starts[:-1].tolist(), sizes, shapes, strict=True)
        ]

    async def _opened_residues(self, x: SharedArray) -> list[Residues]:
        """Open elements to all members, and return their residues for each prime."""
        opened = await self.open(x, self.members)
        assert opened is not None, "all members receive"
        return [np.asarray(opened.values % p, dtype=np.int64) for p in self.field.primes]

    def _inverse_of(self, matrices: Sequence[Residues]) -> NDArray[Any]:
        found = []
        for matrix, p in zip(matrices, self.field.primes, strict=True):
            inverse, determinant = inverse_and_determinant(matrix, p)
            if not determinant:
                raise LocalFaultError(f"the matrix is singular modulo {p}")
            found.append(inverse)
        return self._integers(found)

    def _integers(self, residues: Sequence[Residues]) -> NDArray[Any]:
        """Return integers with these residues."""
        return self.field.decode(self.field.pack(residues))


def _invertible(field: ResidueField, stream: KeyStream, shape: tuple[int, ...]) -> list[Residues]:
    """Return uniform residues other than 0 for each prime."""
    found = field.residues(field.random(stream, shape))
    while any((residues == 0).any() for residues in found):
        again = field.residues(field.random(stream, shape))
        found = [np.where(old == 0, new, old) for old, new in zip(found, again, strict=True)]
    return found


def _invertible_matrix(field: ResidueField, stream: KeyStream, n: int, place: int) -> tuple[Residues, int]:
    """Return a uniform matrix modulo one prime of those that have an inverse, and its determinant."""
    while True:
        matrix = field.residues(field.random(stream, (n, n)))[place]
        _, determinant = inverse_and_determinant(matrix, field.primes[place])
        if determinant:
            return matrix, determinant


def _power(values: Residues, exponent: int, p: int) -> Residues:
    """Return values^exponent modulo p < 2^21."""
    result = np.ones_like(values)
    for digit in bin(exponent)[2:]:
        result = result * result % p
        if digit == "1":
            result = result * values % p
    return result
