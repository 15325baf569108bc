"""Releases with discrete Gaussian noise: a vector, or few numbers that move."""

from fractions import Fraction

import attr
import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, Floats, float_orders, round_up
from dp.cost.events.event import GaussianTerms, PrivacyEvent, check_shifts
from dp.cost.losses.additive import discrete_gaussian_losses
from dp.cost.losses.pairs import PairLosses, alike


@attr.frozen
class DiscreteGaussianDpEvent(PrivacyEvent):
    """The release of an integer vector plus independent discrete Gaussian noise of variance s_i on coordinate i.

    Attributes:
        squares: bound of sum d_i^2 / s_i, d the difference of neighbours.
        adjacency: the neighbouring relation.
    """

    word = "discrete gaussian"
    bounds = ("squares",)

    squares: Fraction
    adjacency: Adjacency

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """Return a / 2 * sum d_i^2 / s_i: the discrete Gaussian costs what the continuous one does [CKS20, theorem 14].

        Holds for integer differences and every order. At integer orders it is the divergence itself: the sum over x of
        exp(-(a (x - d)^2 - (a - 1) x^2) / (2 s)) is that of exp(-(x - a d)^2 / (2 s)), with a d an integer, times
        exp(a (a - 1) d^2 / (2 s)).
        """
        return float_orders(orders) / 2 * round_up(self.squares) * (1 + 2.0**-51)

    def of_rows(self, most_rows: int) -> "DiscreteGaussianDpEvent":
        """See `dp.cost.group`."""
        return attr.evolve(self, squares=most_rows**2 * self.squares)


@attr.frozen
class DiscreteGaussianVectorDpEvent(DiscreteGaussianDpEvent):
    """A `DiscreteGaussianDpEvent` of which it is known how many numbers neighbours move.

    Beside releases with Skellam noise it is charged as a rounded Gaussian, too (`dp.cost.losses.rounded_gaussian`).

    Attributes:
        n_moved: bound of how many numbers differ, over all releases, at least 1.
        least_variance: least variance of the noise on any number that may differ; positive.
    """

    word = "discrete gaussian vector"

    n_moved: int
    least_variance: Fraction

    def __attrs_post_init__(self) -> None:
        if self.n_moved < 1 or self.least_variance <= 0:
            raise ValueError(
                f"invalid event: {self.n_moved} numbers move, with noise of variance {self.least_variance}"
            )

    def of_rows(self, most_rows: int) -> "DiscreteGaussianVectorDpEvent":
        """See `dp.cost.group`."""
        return attr.evolve(self, squares=most_rows**2 * self.squares, n_moved=most_rows * self.n_moved)

    @property
    def gaussian_terms(self) -> GaussianTerms:
        """See `PrivacyEvent`: Sk(mu) has the variance 2 mu."""
        return 2 * self.squares, self.least_variance / 2, self.n_moved


@attr.frozen
class DiscreteGaussianShiftsDpEvent(PrivacyEvent):
    """Counterpart of `SkellamShiftsDpEvent` with discrete Gaussian noise.

    Attributes:
        shift: bound of how far one number moves, at least 1.
        n_shifts: bound of how many move, over all releases, at least 1.
        variance: parameter of the noise of each number, positive.
        adjacency: the neighbouring relation.
    """

    word = "discrete gaussian shifts"

    shift: int
    n_shifts: int
    variance: Fraction
    adjacency: Adjacency

    def __attrs_post_init__(self) -> None:
        check_shifts(self.shift, self.n_shifts, self.variance)

    @property
    def sums(self) -> DiscreteGaussianDpEvent:
        """The same release, described by the sum that a bound for vectors needs."""
        return DiscreteGaussianDpEvent(self.n_shifts * self.shift**2 / self.variance, self.adjacency)

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """Return the curve of the sums."""
        return self.sums.curve(orders)

    def losses(self) -> tuple[PairLosses, ...] | None:
        """See `PrivacyEvent`."""
        return alike(discrete_gaussian_losses(self.shift, self.variance), self.n_shifts)

    def of_rows(self, most_rows: int) -> DiscreteGaussianDpEvent:
        """See `dp.cost.group`: what is known of single numbers is not proven for several rows."""
        return self.sums.of_rows(most_rows)
