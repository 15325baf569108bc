"""Noise that nobody knows, and sums that it hides: how a result is released without reducing its products."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldMismatchError, LocalFaultError, ShapeError
from mpc.hidden import Hidden
from mpc.protocol.exchange import Words
from mpc.protocol.operations.core import ComputationCore
from mpc.protocol.operations.inputs import Inputs
from mpc.protocol.operations.openings import OpenedArray
from mpc.protocol.session import COORDINATOR
from mpc.protocol.shared import SharedArray

NOISE_STAGE = "noise"
OPENING_STAGE = "opening"


class NoisySum(Hidden):
    """One member's share of everybody's noise and of all that has been added to it. It is opened once, as it is.

    Each party deals its noise with a fresh polynomial of degree d. So the sum of those of the N - t parties that do not
    collude is uniform but for its value at 0, whatever t others know, and hides all but the value at 0 of whatever
    polynomial of degree at most d is added to it. Products of degree 2t may therefore be opened without being reduced.

    That is true of one opening: two sums that are hidden by the same polynomials would tell their difference. Hence
    this is no `SharedArray`: one can add to it, and open it once, and nothing else.

    Attributes:
        field: field of the shares.
        shape: shape of the released array.
        degree: d.
    """

    def __init__(self, field: ResidueField, shape: tuple[int, ...], degree: int, share: Words | None) -> None:
        self.field, self.shape, self.degree = field, shape, degree
        self._share = share
        self._is_opened = False

    def __repr__(self) -> str:
        return f"NoisySum(shape={self.shape}, degree={self.degree})"

    def __iadd__(self, x: SharedArray) -> "NoisySum":
        """Add an array of the same shape.

        Raises:
            ShapeError: it has another shape, or a higher degree than the noise hides.
            FieldMismatchError: it lives in another field.
            LocalFaultError: the sum has been opened.
        """
        if x.field != self.field:
            raise FieldMismatchError(f"an array in a field of {x.field.primes} and noise in one of {self.field.primes}")
        if x.shape != self.shape:
            raise ShapeError(f"an array of shape {x.shape} cannot be added to noise of shape {self.shape}")
        if x.degree > self.degree:
            raise ShapeError(f"noise of degree {self.degree} does not hide an array of degree {x.degree}")
        self._check_not_opened()
        if self._share is not None and x.share is not None:
            self.field.accumulate(self._share, x.share)
        return self

    def opened_share(self) -> Words | None:
        """Return my share, for the one opening.

        Raises:
            LocalFaultError: it has been returned before.
        """
        self._check_not_opened()
        self._is_opened = True
        return self._share

    def _check_not_opened(self) -> None:
        if self._is_opened:
            raise LocalFaultError("a noisy sum is opened once: a second opening would tell more than the values")


class Noise(Inputs, ComputationCore):
    """The part of `Computation` that releases noisy sums."""

    async def noise(
        self, shape: tuple[int, ...], mine: NDArray[np.int64] | None, *, degree: int | None = None
    ) -> NoisySum:
        """Begin a sum with everybody's noise; every compute party brings its own part.

        Call it before the data are dealt: a party that drops out after that has left its noise with the others.

        Args:
            shape: shape of the noise, and of the array that it will hide.
            mine: my part, integers of this shape; ignored where I hold no shares. Secret.
            degree: degree of the sharing that will be opened; default: that of sums of products.

        Raises:
            LocalFaultError: I hold shares and brought no noise.
            PeerError: a party is silent, drops out or sent an invalid share: nothing can be opened without its noise.

        Privacy: each party learns nothing, as what it gets are shares.
        Cost: 1 round; N - 1 - degree words sent per value.
        """
        degree = self.product_degree if degree is None else degree
        with self._step():
            share = None
            if self.holds_shares:
                if mine is None:
                    raise LocalFaultError("my noise is missing: every compute party brings a part of it")
                words = await self._exchange.compute(np.size(mine), self.field.encode, mine)
                block, self._n_noises = self._n_noises, self._n_noises + 1
                share = await self._exchange.deal_and_sum(self._stage(NOISE_STAGE), words, degree, block)
            return NoisySum(self.field, shape, degree, share)

    def noisy_outline(self, shape: tuple[int, ...], *, degree: int | None = None) -> NoisySum:
        """Return what a member without shares knows of a noisy sum, to open it."""
        return NoisySum(self.field, shape, self.product_degree if degree is None else degree, None)

    async def shared_noise(self, shape: tuple[int, ...], mine: NDArray[np.int64] | None, *, bound: int) -> SharedArray:
        """Return everybody's noise as an array to compute with, degree t; opening needs a sharing of zero besides.

        Args:
            shape: shape of the noise.
            mine: my part, integers of this shape; ignored where I hold no shares. Secret.
            bound: public bound on the size of one party's part.

        Raises:
            LocalFaultError: I hold shares, and my noise is missing or beyond the bound.
            PeerError: a party is silent, lost or sent what is no share.

        Cost: 1 round; N - 1 - t words sent per value.
        """
        parties = range(1, self._exchange.n_parties + 1)
        parts = await self.inputs(dict.fromkeys(parties, shape), mine, bound=bound)
        first, *others = parts.values()
        return sum(others, start=first)

    async def open_noisy(self, total: NoisySum) -> OpenedArray | None:
        """Reveal a noisy sum to the coordinator; None for the others. Wrong shares are corrected as in `open`.

        Before that, surplus dealers of the reductions that led here are checked as in `open`. No round besides: the
        noise hides all but the values, and as all members need all noise and all rows, there are no two sets of dealers
        that could be mixed up.

        Raises:
            LocalFaultError: the sum was opened before.
            PeerViolationError: a party multiplied corrupted shares on the way.
            TooFewSharesError, InconsistentSharesError: see `mpc.arithmetic.opening.open_shares`.
            PeerError: fewer than degree + 1 parties answered; names one that did not.

        Privacy: reveals the values to the coordinator and to nobody else, and nothing besides.
        Cost: 1 round. Where N > 2t + 1, 2 more for what has been reduced.
        """
        with self._step():
            await self._check_reduced()
            stage, share = self._stage(OPENING_STAGE), total.opened_share()
            opening = await self._exchange.open(
                stage, share, total.shape, total.degree, (COORDINATOR,), deviating=self._deviating
            )
            if opening is None:
                return None
            words = opening.words
            values: NDArray[Any] = await self._exchange.compute(words.size, self.field.decode, words)
            return OpenedArray(values, opening.wrong, (), self.field)
