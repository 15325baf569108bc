"""How values come into a computation: dealt by those that have them, public, or random."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.arithmetic.moduli import check_galois
from mpc.errors import LocalFaultError, ShapeError
from mpc.protocol.concurrency import run_together
from mpc.protocol.exchange import Words
from mpc.protocol.operations.core import ComputationCore
from mpc.protocol.reduction import random_sharing
from mpc.protocol.shared import SharedArray, public_array


class Inputs(ComputationCore):
    """The part of `Computation` that shares values."""

    async def input(
        self, dealer: int, shape: tuple[int, ...], values: ArrayLike | None = None, *, bound: int | None
    ) -> SharedArray:
        """Share an array of one member; see `inputs`."""
        arrays = await self.inputs({dealer: shape}, values, bound=bound)
        return arrays[dealer]

    async def inputs(
        self, shapes: Mapping[int, tuple[int, ...]], values: ArrayLike | None = None, *, bound: int | None
    ) -> dict[int, SharedArray]:
        """Share one array of each of several members, all at once.

        Args:
            shapes: dealer (a compute party or an input-only one) to the public shape of its array.
            values: mine, integers, if I am a dealer; ignored else.
            bound: public bound on the size of all values; None for elements of the field, of any size (`modular`).

        Raises:
            LocalFaultError: my values are missing, no integers, or beyond the bound.
            FieldMismatchError: my values are a `galois` array of another field.
            ShapeError: my values have another shape.
            PeerError: a dealer is silent, drops out or sent an invalid share.

        Privacy: any t parties see uniform elements. Cost: 1 round; a dealer sends N - t words per element, one less if
        it is a compute party.
        """
        with self._step():
            own = self._checked_input(shapes[self.me], values, bound) if self.me in shapes else np.zeros(0, np.int64)
            return await self._dealt_by(shapes, bound, self.t, lambda segment: self.field.encode(own[segment]))

    async def _dealt_by(
        self, shapes: Mapping[int, tuple[int, ...]], bound: int | None, degree: int, mine: Callable[[slice], Words]
    ) -> dict[int, SharedArray]:
        """Share arrays as `inputs` does, within a step.

        Args:
            shapes: shapes given to `inputs`.
            bound: bound of the results.
            degree: degree of the polynomials.
            mine: returns elements of mine, flat; is asked where I am a dealer.
        """
        me, stage = self.me, self._stage("input")
        sizes = {dealer: prod(shape) for dealer, shape in shapes.items()}
        first_block = self._take_blocks(max(sizes.values(), default=0))
        dealt = [self._deal(stage, first_block, mine, sizes[me], degree)] if me in shapes else []
        others = [dealer for dealer in shapes if dealer != me and self._exchange.am_receiver]
        taken = [self._take(dealer, stage, first_block, sizes[dealer], degree) for dealer in others]
        results = iter(await run_together(*dealt, *taken))
        flat: dict[int, Words | None] = {me: next(results)} if dealt else {}
        flat |= dict(zip(others, results, strict=True))
        return {d: self._shared(shapes[d], degree, bound, flat.get(d)) for d in shapes}

    def public(self, values: ArrayLike) -> SharedArray:
        """Return public integers as an array like the shared ones (degree 0); operators take plain integers too."""
        return public_array(self.field, values, holds_shares=self._exchange.am_receiver)

    async def random(self, shape: tuple[int, ...]) -> SharedArray:
        """Return uniform elements of the field that no t parties and nobody else know. Cost: 1 round.

        Raises:
            PeerError: a party drops out, is silent or sent an invalid share, and too few parties are left.
        """
        with self._step():
            first_block = self._take_blocks(prod(shape))
            share = None
            if self._exchange.am_receiver:
                share = await random_sharing(self._exchange, self._agreement, first_block, prod(shape))
            return self._shared(shape, self.t, None, share)

    async def zeros(self, shape: tuple[int, ...], degree: int) -> SharedArray:
        """Return zeros, shared with polynomials of this degree that nobody knows. Cost: 1 round. Raises as `random`."""
        with self._step():
            return await self._zeros(shape, degree)

    def _checked_input(self, shape: tuple[int, ...], values: ArrayLike | None, bound: int | None) -> NDArray[Any]:
        if values is None:
            raise LocalFaultError("values are missing: this member is one of the dealers of this input")
        integers = np.asarray(values)
        if integers.shape != tuple(shape):
            raise ShapeError(f"the values of this member have shape {integers.shape}, not {tuple(shape)}")
        check_galois(type(values), self.field.primes)
        integers = integers.reshape(-1)
        if bound is None:
            return self.field.reduced(integers)
        integers = self.field.encodable(integers)
        if integers.size and max(-int(integers.min()), int(integers.max())) > bound:
            raise LocalFaultError("a value of this member is beyond the public bound")
        return integers

    async def _deal(
        self, stage: str, first_block: int, mine: Callable[[slice], Words], size: int, degree: int
    ) -> Words | None:
        own = np.empty((self.field.n_words, size), np.uint64) if self._exchange.am_receiver else None
        for number, segment in enumerate(self._segments(size)):
            made, n_made = partial(mine, segment), segment.stop - segment.start
            share = await self._exchange.deal_made(stage, first_block + number, made, degree, n_made)
            if own is not None and share is not None:
                own[:, segment] = share
        return own

    async def _take(self, dealer: int, stage: str, first_block: int, size: int, degree: int) -> Words:
        share = np.empty((self.field.n_words, size), dtype=np.uint64)
        for number, segment in enumerate(self._segments(size)):
            part = share[:, segment]
            part[:] = await self._exchange.take(dealer, stage, first_block + number, (part.shape[1],), degree)
        return share
