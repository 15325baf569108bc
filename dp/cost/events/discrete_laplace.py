"""Releases with discrete Laplace noise, whole or as a sum of shares."""

import math
from fractions import Fraction

import attr
import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, Floats, float_orders, round_up
from dp.cost.events.event import PrivacyEvent, check_shifts
from dp.cost.losses.additive import discrete_laplace_losses
from dp.cost.losses.laplace_share import scale_of, share_losses, shift_divergence
from dp.cost.losses.pairs import PairLosses, alike


@attr.frozen
class DiscreteLaplaceDpEvent(PrivacyEvent):
    """The release of an integer vector plus independent discrete Laplace noise of one scale on each coordinate.

    Attributes:
        l1_sensitivity: bound of sum |d_i|, d the difference of neighbours.
        scale: scale of the noise, positive.
        adjacency: the neighbouring relation.
    """

    word = "discrete laplace"
    bounds = ("l1_sensitivity", "scale")

    l1_sensitivity: int
    scale: Fraction
    adjacency: Adjacency

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """Return the exact divergence of discrete Laplace noise for the worst split of the sensitivity.

        One coordinate, shifted by the integer d > 0, scale b, r = exp(-1/b), s = r^(2a - 1). Summing the geometric
        series left of both centres, between them and right of them,

            E_P[(P / Q)^(a - 1)]  =  (1 - B) e^((a - 1) d / b) + B e^(-a d / b),     B = (r - s) / ((1 + r) (1 - s)).

        The logarithm of such a sum is convex in d and 0 at d = 0, hence superadditive: a given L1 norm costs most when
        it lies in one coordinate. So the bound is this expression at d = `l1_sensitivity`; below the pure epsilon d /
        b. For large b it becomes that of the continuous Laplace distribution [Mironov17, table 2].
        """
        order = float_orders(orders)
        inverse = min(float(1 / self.scale), 700.0)  # exp(700) is finite; `less` is 0 to within 1e-304 from there on
        shift = round_up(self.l1_sensitivity / self.scale)
        if shift == 0:
            return np.zeros(len(order))
        less = np.expm1(-(2 * order - 2) * inverse) / np.expm1(-(2 * order - 1) * inverse) / (1 + math.exp(inverse))
        found = shift + np.log1p(less * np.expm1(-(2 * order - 1) * shift)) / (order - 1)
        # Both terms are at most `shift` in size and their relative errors below 2^-46: `less` is below 1/2, which keeps
        # the argument of log1p away from -1.
        bounded: Floats = np.minimum(np.maximum(found, 0.0) + shift * 2.0**-44, shift)
        return bounded

    def losses(self) -> tuple[PairLosses, ...] | None:
        """See `PrivacyEvent`."""
        if self.l1_sensitivity == 0:
            return None
        return alike(discrete_laplace_losses(self.l1_sensitivity, self.scale), 1)

    def of_rows(self, most_rows: int) -> "DiscreteLaplaceDpEvent":
        """See `dp.cost.group`."""
        return attr.evolve(self, l1_sensitivity=most_rows * self.l1_sensitivity)


@attr.frozen
class LaplaceSharesDpEvent(PrivacyEvent):
    """The release of integers plus a sum of shares of discrete Laplace noise, of which a neighbour moves few numbers.

    Such sums: `dp.draw.laplace_share`. What they cost: `dp.cost.losses.laplace_share`. The product of the losses of
    each number covers the release of all.

    Attributes:
        shift: bound of how far one number moves, at least 1.
        n_shifts: bound of how many move, over all releases, at least 1.
        shape: total shape parameter of all unknown shares, at least 1: a whole discrete Laplace variable, or more.
        mean: mean of a geometric variable of the shares' ratio; positive.
        adjacency: the neighbouring relation.
    """

    word = "laplace shares"

    shift: int
    n_shifts: int
    shape: Fraction
    mean: Fraction
    adjacency: Adjacency

    def __attrs_post_init__(self) -> None:
        check_shifts(self.shift, self.n_shifts, self.mean)
        if self.shape < 1:
            raise ValueError(f"what shares of a total shape of {self.shape} cost is not known: it must be at least 1")

    def times(self, n_times: int) -> "LaplaceSharesDpEvent":
        """Return what `n_times` such releases cost together, each with fresh noise."""
        return attr.evolve(self, n_shifts=n_times * self.n_shifts)

    @property
    def whole(self) -> DiscreteLaplaceDpEvent:
        """A release of the same 1-norm with discrete Laplace noise, which costs no less: see `scale_of`."""
        return DiscreteLaplaceDpEvent(self.shift * self.n_shifts, scale_of(self.mean), self.adjacency)

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """Return the divergence itself where it is computed, else that of discrete Laplace noise of the same ratio."""
        one = DiscreteLaplaceDpEvent(self.shift, scale_of(self.mean), self.adjacency)
        bound = self.n_shifts * one.curve(orders) * (1 + 2.0**-52)
        exact = self.n_shifts * shift_divergence(self.shape, self.mean, self.shift, orders)
        return np.asarray(np.minimum(bound, exact * (1 + 2.0**-52)), dtype=np.float64)

    def losses(self) -> tuple[PairLosses, ...] | None:
        """See `PrivacyEvent`."""
        return alike(share_losses(self.shape, self.mean, self.shift), self.n_shifts)

    def of_rows(self, most_rows: int) -> DiscreteLaplaceDpEvent:
        """See `dp.cost.group`."""
        return self.whole.of_rows(most_rows)
