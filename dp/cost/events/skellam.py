"""Releases with Skellam noise: a vector by the sums that bound its differences, or few numbers that move."""

from fractions import Fraction

import attr
import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import ORDERS, Adjacency, Floats, float_orders, round_up
from dp.cost.events.event import GaussianTerms, PrivacyEvent, check_shifts
from dp.cost.losses.additive import skellam_losses
from dp.cost.losses.pairs import PairLosses, alike
from dp.cost.losses.skellam import shift_divergence


@attr.frozen
class SkellamDpEvent(PrivacyEvent):
    """The release of an integer vector F plus independent noise Sk(mu_i) on coordinate i.

    Sk(mu) is the difference of two Poisson(mu) variables: variance 2 mu. With d the difference of F on two neighbouring
    tables, the attributes bound sums over the coordinates, each over all pairs of neighbours. They are all that the
    cost depends on.

    Attributes:
        squares: bound of sum d_i^2 / mu_i.
        squares_second: bound of sum d_i^2 / mu_i^2.
        sizes: bound of sum |d_i| / mu_i.
        sizes_second: bound of sum |d_i| / mu_i^2.
        adjacency: the neighbouring relation.
    """

    word = "skellam"
    bounds = ("squares", "squares_second", "sizes", "sizes_second")

    squares: Fraction
    squares_second: Fraction
    sizes: Fraction
    sizes_second: Fraction
    adjacency: Adjacency

    @classmethod
    def of_vector(cls, squared_l2: int, l1: int, mu: Fraction, adjacency: Adjacency) -> "SkellamDpEvent":
        """Return the event of one parameter on all coordinates.

        Args:
            squared_l2: bound of sum d_i^2.
            l1: bound of sum |d_i|.
            mu: parameter of the noise Sk(mu) on each coordinate, positive.
            adjacency: the neighbouring relation.
        """
        return cls(squared_l2 / mu, squared_l2 / mu**2, l1 / mu, l1 / mu**2, adjacency)

    def times(self, n_times: int) -> "SkellamDpEvent":
        """Return what `n_times` such releases cost together, each with fresh noise.

        One event for all: each branch of `curve` is linear in the sums.
        """
        n = n_times
        sums = (n * self.squares, n * self.squares_second, n * self.sizes, n * self.sizes_second)
        return SkellamDpEvent(*sums, self.adjacency)

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """Return the Renyi divergence bound of a release at each order.

        [Agarwal21], restated as lemma 1 of [SPCA24], bounds it for one coordinate and integer order a > 1 by

            a d^2 / (4 mu) + min( ((2a - 1) d^2 + 6 |d|) / (16 mu^2),  3 |d| / (4 mu) ).

        The noise of the coordinates is independent, so divergences add; the sum of the minima is at most the minimum of
        the sums, which needs only the four sums that the event states.

        Args:
            event: the release.
            orders: integers, at least 2.

        Returns:
            same shape as `orders`, rounded up.
        """
        if orders is not ORDERS and (np.any(orders < 2) or not np.issubdtype(orders.dtype, np.integer)):
            raise ValueError("the bound for Skellam noise holds for integer orders from 2 on")
        order = float_orders(orders)
        squares, squares_second = round_up(self.squares), round_up(self.squares_second)
        sizes, sizes_second = round_up(self.sizes), round_up(self.sizes_second)
        with np.errstate(over="ignore"):  # to inf, an upper bound too
            first = order * squares / 4
            second = np.minimum(((2 * order - 1) * squares_second + 6 * sizes_second) / 16, 3 * sizes / 4)
            # Six roundings of non-negative terms, each of relative error at most 2^-53.
            found: Floats = (first + second) * (1 + 2.0**-49)
        return found

    def of_rows(self, most_rows: int) -> "SkellamDpEvent":
        """See `dp.cost.group`."""
        k = most_rows
        return attr.evolve(
            self,
            squares=k**2 * self.squares,
            squares_second=k**2 * self.squares_second,
            sizes=k * self.sizes,
            sizes_second=k * self.sizes_second,
        )


@attr.frozen
class SkellamVectorDpEvent(SkellamDpEvent):
    """A `SkellamDpEvent` of which it is known how many numbers neighbours move: `dp.cost.losses.rounded_gaussian`.

    Attributes:
        n_moved: bound of how many numbers differ, over all releases, at least 1.
        least_mu: least mu of the noise on any number that may differ; positive.
    """

    word = "skellam vector"

    n_moved: int
    least_mu: Fraction

    def __attrs_post_init__(self) -> None:
        if self.n_moved < 1 or self.least_mu <= 0:
            raise ValueError(f"invalid event: {self.n_moved} numbers move, with noise of parameter {self.least_mu}")

    @classmethod
    def knowing(cls, sums: SkellamDpEvent, n_moved: int, least_mu: Fraction) -> "SkellamVectorDpEvent":
        """Return the event of a release of which the sums are known, and what the attributes say besides."""
        s = sums
        return cls(s.squares, s.squares_second, s.sizes, s.sizes_second, s.adjacency, n_moved, least_mu)

    def times(self, n_times: int) -> "SkellamVectorDpEvent":
        """Return what `n_times` such releases cost together, each with fresh noise."""
        return self.knowing(super().times(n_times), n_times * self.n_moved, self.least_mu)

    def of_rows(self, most_rows: int) -> "SkellamVectorDpEvent":
        """See `dp.cost.group`."""
        sums = super().of_rows(most_rows)
        return self.knowing(sums, most_rows * self.n_moved, self.least_mu)

    @property
    def gaussian_terms(self) -> GaussianTerms:
        """See `PrivacyEvent`."""
        return self.squares, self.least_mu, self.n_moved


@attr.frozen
class SkellamShiftsDpEvent(PrivacyEvent):
    """The release of integers plus independent Skellam noise, of which a neighbour moves few, each by little.

    Says more than `SkellamDpEvent`: the worst neighbours are known, so its cost is exact (`dp.cost.losses.additive`).

    Attributes:
        shift: bound of how far one number moves, at least 1.
        n_shifts: bound of how many move, over all releases, at least 1.
        mu: parameter of the noise Sk(mu) of each number, positive.
        adjacency: the neighbouring relation.
    """

    word = "skellam shifts"

    shift: int
    n_shifts: int
    mu: Fraction
    adjacency: Adjacency

    def __attrs_post_init__(self) -> None:
        check_shifts(self.shift, self.n_shifts, self.mu)

    def times(self, n_times: int) -> "SkellamShiftsDpEvent":
        """Return what `n_times` such releases cost together, each with fresh noise."""
        return attr.evolve(self, n_shifts=n_times * self.n_shifts)

    @property
    def sums(self) -> SkellamDpEvent:
        """The same release, described by the sums that a bound for vectors needs: less is known of it."""
        n, d, mu = self.n_shifts, self.shift, self.mu
        return SkellamDpEvent(n * d**2 / mu, n * d**2 / mu**2, n * d / mu, n * d / mu**2, self.adjacency)

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """Return the divergence itself where it is computed (`dp.cost.losses.skellam`), else the bound for vectors."""
        bound = self.sums.curve(orders)
        exact = self.n_shifts * shift_divergence(self.shift, self.mu, orders) * (1 + 2.0**-52)
        return np.asarray(np.minimum(bound, exact), dtype=np.float64)

    def losses(self) -> tuple[PairLosses, ...] | None:
        """See `PrivacyEvent`."""
        return alike(skellam_losses(self.shift, self.mu), self.n_shifts)

    def of_rows(self, most_rows: int) -> SkellamDpEvent:
        """See `dp.cost.group`: what is known of single numbers is not proven for several rows."""
        return self.sums.of_rows(most_rows)

    @property
    def gaussian_terms(self) -> GaussianTerms:
        """See `PrivacyEvent`."""
        return self.sums.squares, self.mu, self.n_shifts
