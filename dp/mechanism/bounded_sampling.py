"""Successive Poisson samples of one table that contain no unit more than a public number of times."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency
from dp.cost.events.sampling import BoundedSampledDpEvent, PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent
from dp.cost.group import for_rows
from entropy import KeyStream

RATE_UNITS = 1 << 32
"""Rates are whole multiples of 1 / RATE_UNITS: a coin is one 32-bit word below a threshold, so the rate is exact."""

ACCEPTED_LOSS = 0.01


@dataclass(frozen=True)
class BoundedPoisson:
    """The random choice of the units that take part in each of several steps.

    Each unit throws a coin of its own before each step and takes part if it shows heads, unless it has taken part
    `most_participations` times already. Its coins do not depend on any other unit or on any data.

    What that costs, for releases with independent symmetric noise added to a sum over the sample, each of which may
    depend on everything opened before:

    *Who knows the coins.* Let x be replaced by x' and the coins be fixed, whatever they are. In a step in which x takes
    no part the two releases have one distribution, given what was opened before. There are at most K =
    `most_participations` other steps, by construction and not on average; each costs one release without sampling, for
    replace_one. So the whole costs K releases. This holds for every outcome of the coins, hence for the average.

    *Who does not know the coins*, and sees nothing but the releases; x is removed or added. Fix the coins of all other
    units: they have the same distribution with and without x, and Renyi divergences are quasi-convex. Let P be the
    distribution of all releases without x, Q that with x. Under P step s releases M_0, given what was opened before;
    under Q it releases (1 - q_s) M_0 + q_s M_1 where M_1 has x in the sample and

        q_s  =  rate * P[x has taken part less than K times | what was opened before]  <=  rate,

    as the coin of step s is independent of all before it. Divergences of adaptive steps add up, at most the supremum
    over what was opened before [Mironov17, proposition 1], so it remains to compare one step with q_s to one with the
    rate. (1 - q_s) M_0 + q_s M_1 is a mixture of M_0 and (1 - rate) M_0 + rate M_1; by quasi-convexity its divergence
    from M_0, in either direction, is at most that of the latter. So n_steps releases, each sampled with `rate`
    (`dp.cost.sampling.poisson_sampled_rdp`), cover the whole: the bound only helps. All this holds for hockey-stick
    divergences as well, which are convex and compose adaptively.

    Nor does it cost more than if the coins were known: for every outcome of them x is in at most K releases, which is
    at most K times one without sampling, and the average over the coins is no worse, by quasi-convexity. At each order
    the smaller of both bounds holds.

    *A person with k units*, here rows, each with coins of its own and a bound K of its own:

    *Who knows the coins.* Fix them. Of the person's rows J_s take part in step s, J_s <= k, and sum_s J_s <= k K. Step
    s costs what J_s rows do, of which each bound grows with J_s or J_s^2 (`dp.cost.group`). As J_s^2 <= k J_s, the sum
    over the steps is at most k^2 K and k K times those of one row: K releases about k rows. All rows in the same K
    steps attain that.

    *Who does not.* With J the set of the person's rows in step s, given the coins of all others and what was opened
    before, Q releases sum_J P[J] M_J. The rows' coins are independent of each other and of all before, so, whichever
    rows have already taken part K times, P[J is not empty] <= r = 1 - (1 - rate)^k. Write this mixture as one over J !=
    {} of (1 - q_s) M_0 + q_s M_J, q_s <= r: divergences from M_0, and of M_0 from it, are at most the largest of these
    (quasi-convexity), each M_J differs from M_0 in at most k rows, and q_s becomes r as above. So n_steps releases
    about k rows, each sampled with rate r.

    Attributes:
        rate_units: the rate times RATE_UNITS, 1 .. RATE_UNITS.
        n_steps: how many samples.
        most_participations: K, 1 .. n_steps.
    """

    rate_units: int
    n_steps: int
    most_participations: int

    def __post_init__(self) -> None:
        if not 1 <= self.rate_units <= RATE_UNITS:
            raise ValueError(f"a sampling rate must be in 1/2^32 .. 1, not {self.rate_units}/2^32")
        if not 1 <= self.most_participations <= self.n_steps:
            raise ValueError(f"most_participations must be in 1..{self.n_steps}, not {self.most_participations}")
        if self.rate_units == RATE_UNITS and self.most_participations < self.n_steps:
            raise ValueError(
                "at rate 1 every unit takes part in every step, so no unit would be left after "
                f"{self.most_participations} of the {self.n_steps} steps"
            )

    @classmethod
    def with_rate(cls, rate: float, n_steps: int, most_participations: int | None = None) -> Self:
        """Return the sampling at the nearest exact rate.

        Args:
            rate: 2^-32 .. 1.
            n_steps: at least 1.
            most_participations: where absent, the least number that a unit without a bound would exceed with
                probability 1 % at most.

        Raises:
            ValueError: something is out of range.
        """
        units = round(Fraction(rate) * RATE_UNITS)
        if most_participations is None:
            from scipy.special import bdtr  # the binomial distribution function; scipy.stats takes a second to import

            reached = bdtr(np.arange(n_steps + 1, dtype=np.float64), n_steps, units / RATE_UNITS) >= 1 - ACCEPTED_LOSS
            expected = max(1, int(np.argmax(reached)))
            most_participations = n_steps if units == RATE_UNITS else min(expected, n_steps)
        return cls(units, n_steps, most_participations)

    @property
    def rate(self) -> Fraction:
        """Exact probability that a coin shows heads."""
        return Fraction(self.rate_units, RATE_UNITS)

    def samples(self, stream: KeyStream, n_units: int) -> Iterator[NDArray[np.intp]]:
        """Draw all samples in order; holders of the same stream draw the same samples.

        Args:
            stream: the source of the coins; it must be secret from observers that the sampling is to protect from.
            n_units: how many there are.

        Yields:
            n_steps times the numbers, ascending, of the units that take part.
        """
        left = np.full(n_units, self.most_participations, dtype=np.int64)
        for _ in range(self.n_steps):
            coins = stream.words((n_units + 1) // 2).view(np.uint32)[:n_units]
            takes_part = np.flatnonzero((coins < self.rate_units) & (left > 0))
            left[takes_part] -= 1
            yield takes_part

    def sampled_event(
        self, release: SkellamDpEvent | SkellamShiftsDpEvent, most_rows: int = 1
    ) -> BoundedSampledDpEvent:
        """Return the cost of all steps in the view of an observer who does not know the coins.

        Args:
            release: one step about one row without sampling, for add_or_remove_one.
            most_rows: k, of what is protected.
        """
        sampled = PoissonSampledDpEvent(for_rows(release, most_rows), self.rate_of_any(most_rows))
        return BoundedSampledDpEvent(sampled, self.n_steps, self.most_participations)

    def rate_of_any(self, n_rows: int) -> Fraction:
        """Return the probability that a coin of some of so many rows shows heads, rounded up to a multiple of 2^-32."""
        any_of_them = 1 - (1 - self.rate) ** n_rows
        return Fraction(math.ceil(any_of_them * RATE_UNITS), RATE_UNITS)

    def participation_event(
        self, release: SkellamDpEvent | SkellamShiftsDpEvent, most_rows: int = 1
    ) -> SkellamDpEvent | SkellamShiftsDpEvent:
        """Return the cost of all steps for an observer who knows the coins: that of the releases with the unit.

        Args:
            release: one step about one row without sampling, for replace_one.
            most_rows: k, of what is protected.
        """
        if release.adjacency is not Adjacency.REPLACE_ONE:
            raise ValueError(
                "a view that knows the coins knows the number of units, so its neighbouring relation must be "
                "replace_one"
            )
        return for_rows(release, most_rows).times(self.most_participations)

    def most_sampled(self, most_units: int, log2_probability: float) -> int:
        """Return a number of units that no sample exceeds, but with a stated probability over all steps.

        A sample has at most Binomial(n, q) units. Bernstein: with v = n q (1 - q) <= n q,
        P(X - n q >= x) <= exp(-x^2 / (2 (v + x / 3))), which is at most exp(-L) for x = L / 3 + sqrt(L^2 / 9 + 2 v L).
        One unit is added for the rounding of the square root.

        Args:
            most_units: n, public bound.
            log2_probability: negative.
        """
        exponent = -log2_probability * np.log(2) + np.log(self.n_steps)
        mean = float(self.rate * most_units)
        reach = exponent / 3 + np.sqrt(exponent**2 / 9 + 2 * mean * exponent)
        return min(most_units, int(mean + reach) + 2)
