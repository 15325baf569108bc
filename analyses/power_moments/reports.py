"""Moments of a sum of columns of counts from local reports: large sums from noisy values, small ones from noisy bits.

[VertPrim23, algorithm 2]: each party releases its values with discrete Laplace noise. Slots whose noisy sum is large
are released a second time, with fresh noise; of the others each party reports, by randomized response, which value
1 .. K it holds. The second release costs a slot the same whichever it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import comb, factorial, log, prod, sinh, sqrt
from typing import Any

import numpy as np
from numpy.polynomial.polynomial import polymul, polyval
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.event import PrivacyEvent
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.views import ADJACENCY, View
from dp.draw.noise import sample_discrete_laplace
from dp.mechanism.bits import RandomizedBits
from entropy import Entropy

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Packed = NDArray[np.uint8]

DRAWS_OF_REPORTS = 3
"""Number of draws of each party: for all its values, for large ones again, and for the bits of small ones."""

_CHUNK = 1 << 14


@dataclass(frozen=True)
class MomentReports:
    """Parameters of the reports. Public.

    Attributes:
        order: p.
        threshold: M; a slot is large if its noisy sum is at least M / 2.
        largest: K_j, the largest value that party j reports in bits; larger ones become it, and their owner is told.
        bits: bits of the second release of small slots.
    """

    order: int
    threshold: int
    largest: tuple[int, ...]
    bits: RandomizedBits

    @property
    def odds(self) -> Fraction:
        """Odds of a truthful bit against a flipped one; two bits have a privacy loss of at most 2 ln(odds)."""
        return self.bits.truthful / (1 - self.bits.truthful)

    @property
    def scale(self) -> Fraction:
        """Scale of the discrete Laplace noise: the smallest multiple of 2^-16 that costs no more than two bits."""
        exact = 1 / (2 * log(self.odds))
        return Fraction(int(exact * 65536) + 1, 65536)

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what both releases of all parties cost when one event is added or removed, or replaced by another.

        An event more or less changes one value of one party by 1, so one value is released that is 1 off, and then
        either again (discrete Laplace) or as at most two bits that flip. Both are mechanisms of pure epsilon at most
        2 ln(odds), and every such mechanism is a post-processing of randomized response of that epsilon about the two
        cases [KOV15]: its cost bounds both. A replaced event is one that goes and one that comes.
        """
        adjacency, squared = ADJACENCY[view], self.odds**2
        first = DiscreteLaplaceDpEvent(1, self.scale, adjacency)
        second = RandomizedResponseDpEvent(2, squared / (1 + squared), adjacency)
        return (first, second) * (2 if adjacency is Adjacency.REPLACE_ONE else 1)

    def least_deviation(self, n_slots: int) -> float:
        """Return a bound below the standard deviation of the estimated moment where all values are 0.

        That of a large slot's is at least that of Gaussian noise, p! V^p, V the variance of the sum of v noises:
        discrete Laplace noise spreads wider.
        """
        one = 1 / (2 * sinh(1 / (2 * float(self.scale))) ** 2)
        large = factorial(self.order) * (len(self.largest) * one) ** self.order
        return sqrt(n_slots * min(self.variance_of_empty, large))

    @property
    def variance_of_empty(self) -> float:
        """Variance of the estimate of a small slot in which all values are 0; other values have a larger one.

        Of the sums z_a of `small_powers`, z_0 = 1, E z_a z_b = V sum_c c^(a + b) for a, b >= 1, V = 1 / (16 b^2) - 1/4
        the variance of a z[c], and different parties' are independent. So with a factor 1 / (a! b!) the second moment
        of the sum of products is (p!)^2 times an entry of a convolution over the parties.
        """
        bit, order = float(1 / (16 * self.bits.bias**2)) - 0.25, self.order
        total = np.zeros((order + 1, order + 1))
        total[0, 0] = 1.0
        for most in self.largest:
            sums = [float(np.sum(np.arange(1.0, most + 1) ** power)) for power in range(2 * order + 1)]
            moved = total.copy()
            for a, b in product(range(1, order + 1), repeat=2):
                second = bit * sums[a + b] / (factorial(a) * factorial(b))
                moved[a:, b:] += second * total[: order + 1 - a, : order + 1 - b]
            total = moved
        return float(factorial(order) ** 2 * total[order, order])

    def largest_deviation(self, n_slots: int, largest_sum: int) -> float:
        """Return about a bound above the standard deviation of the estimated moment of slots with the largest values.

        Every slot is taken to be the worse of a large and a small one. A large one's polynomial of y = x + noise, of
        deviation s, errs by (x + s)^p - x^p, and by `p! s^(2 p)` as in `least_deviation`. A small one's is at most the
        sum of products of root mean squares, of z_a = sum_c c^a z[c] each.

        Args:
            n_slots: how many.
            largest_sum: largest sum of all parties' values in one slot.
        """
        one = 1 / (2 * sinh(1 / (2 * float(self.scale))) ** 2)
        s, p = sqrt(len(self.largest) * one), self.order
        large = (largest_sum + s) ** p - float(largest_sum) ** p + sqrt(factorial(2 * p)) * s**p
        bit = float(1 / (16 * self.bits.bias**2)) - 0.25
        small = 0.0
        for exponents in _compositions(p, len(self.largest)):
            weight = factorial(p) / prod(map(factorial, exponents))
            small += weight * prod(
                sqrt(bit * sum(float(c) ** (2 * a) for c in range(1, most + 1)) + float(most) ** (2 * a))
                for most, a in zip(self.largest, exponents, strict=True)
                if a
            )
        return sqrt(n_slots) * max(large, small)

    def draw(self, entropy: Entropy, n_slots: int, party: int | None = None) -> NDArray[Any]:
        """Draw one party's noise about some slots.

        Args:
            entropy: gives the key of the stream.
            n_slots: how many.
            party: 0 .. v - 1 for the flips of the bits of its small values; None for what is added to values.

        Returns:
            Values: discrete Laplace noise, shape (n_slots,). Bits: which are flipped, shape (n_slots, K_j).
        """
        if party is None:
            return sample_discrete_laplace(entropy, self.scale, n_slots)
        return self.bits.draw(entropy, (n_slots, self.largest[party]))

    def is_large(self, noisy_sums: Integers) -> NDArray[np.bool_]:
        """Return which slots are released a second time in full."""
        return 2 * noisy_sums >= self.threshold

    def packed(self, party: int, values: Integers, flips: NDArray[np.bool_]) -> Packed:
        """Return a party's randomized bits about small slots, shape (report_bytes,); the value 0 sets no bit.

        Args:
            party: 0 .. v - 1.
            values: its values, shape (slots,).
            flips: shape (slots, K_j), fresh from `draw`.
        """
        capped = np.minimum(values, self.largest[party])
        return np.packbits((capped[:, None] == np.arange(1, self.largest[party] + 1)) ^ flips)

    def report_bytes(self, party: int, n_slots: int) -> int:
        """Return the length of a report."""
        return -(-n_slots * self.largest[party] // 8)

    def large_powers(self, noisy_sums: Integers) -> Floats:
        """Return unbiased estimates of x^p from the sums of all parties' values with fresh noise.

        With mu_k the moments of the noise, E (x + n)^p = sum_k C(p, k) mu_k x^(p - k), so A_0 = 1 and
        A_p(y) = y^p - sum_{k >= 1} C(p, k) mu_k A_(p - k)(y) has mean x^p. The source takes y^p, which is too large.
        """
        return np.asarray(polyval(noisy_sums.astype(np.float64), self._unbiased), dtype=np.float64)

    def large_variances(self, noisy_sums: Integers) -> Floats:
        """Return about the variances of the estimates of `large_powers`: as if the noisy sums were the sums."""
        mu = _noise_moments(self.scale, len(self.largest), 2 * self.order)
        found = np.zeros(2 * self.order + 1)
        for m, factor in enumerate(polymul(self._unbiased, self._unbiased)):
            found[: m + 1] += [factor * comb(m, k) * mu[m - k] for k in range(m + 1)]
        found[2 * self.order] -= 1.0
        variances = polyval(np.maximum(noisy_sums, 0).astype(np.float64), found)
        return np.asarray(np.maximum(variances, 0.0), dtype=np.float64)

    @property
    def _unbiased(self) -> Floats:
        """The coefficients of A_p, that of the constant first."""
        mu = _noise_moments(self.scale, len(self.largest), self.order)
        powers: list[Floats] = [np.eye(self.order + 1)[0]]
        for p in range(1, self.order + 1):
            powers.append(np.eye(self.order + 1)[p] - sum(comb(p, k) * mu[k] * powers[p - k] for k in range(1, p + 1)))
        return powers[self.order]

    def small_powers(self, n_slots: int, reports: Sequence[Packed]) -> Floats:
        """Return unbiased estimates of x^p from the reports of all parties, shape (n_slots,).

        The source adds up estimated counts of patterns, each times the p-th power of its sum. Expanding that power, a
        slot's part is a sum of products over the parties of z_a = sum_c c^a z[c], z[c] the unbiased estimate of
        "the value is c". Terms in which a party does not occur have the factor sum_c z[c], an estimate of 1: we take 1.
        """
        total = np.zeros(n_slots)
        for start in range(0, n_slots, _CHUNK):
            stop = min(start + _CHUNK, n_slots)
            parts = [self._values(party, packed, start, stop, n_slots) for party, packed in enumerate(reports)]
            for exponents in _compositions(self.order, len(parts)):
                weight = factorial(self.order) / prod(map(factorial, exponents))
                term = np.full(stop - start, weight)
                for powers, exponent in zip(parts, exponents, strict=True):
                    if exponent:
                        term *= powers[exponent - 1]
                total[start:stop] += term
        return total

    def _values(self, party: int, packed: Packed, start: int, stop: int, n_slots: int) -> list[Floats]:
        """Return estimates of a party's value to the powers 1 .. p for some slots."""
        n = self.largest[party]
        first = start * n // 8  # _CHUNK is a multiple of 8: a chunk begins with a byte
        bits = np.unpackbits(packed[first : -(-stop * n // 8)], count=(stop - start) * n).reshape(stop - start, n)
        bias = float(self.bits.bias)
        z = (bits - (0.5 - bias)) / (2 * bias)
        return [z @ np.arange(1.0, n + 1) ** a for a in range(1, self.order + 1)]


@lru_cache(maxsize=32)
def _compositions(total: int, parts: int) -> tuple[tuple[int, ...], ...]:
    if parts == 1:
        return ((total,),)
    return tuple((k, *rest) for k in range(total + 1) for rest in _compositions(total - k, parts - 1))


@lru_cache(maxsize=32)
def _noise_moments(scale: Fraction, n_parties: int, order: int) -> tuple[float, ...]:
    """Return the moments 0 .. order of a sum of independent discrete Laplace variables of one scale."""
    reach = int(60 * float(scale)) + 60
    k = np.arange(1, reach + 1, dtype=np.float64)
    r = np.exp(-1 / float(scale))
    mass = (1 - r) / (1 + r) * np.exp(-k / float(scale))
    one = [1.0] + [0.0 if p % 2 else float(2 * np.sum(mass * k**p)) for p in range(1, order + 1)]
    total = [1.0] + [0.0] * order
    for _ in range(n_parties):
        total = [sum(comb(p, i) * total[i] * one[p - i] for i in range(p + 1)) for p in range(order + 1)]
    return tuple(total)
