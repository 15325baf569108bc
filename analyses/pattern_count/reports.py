"""How often each pattern of categories occurs, from randomized bits: reports of the parties and what they add up to.

A pattern names one category of each of v parties. Each party reports, for each slot and each of its categories, whether
the slot is of that category, by randomized response [VertPrim23, algorithm 1].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from dp.cost.events.event import PrivacyEvent
from dp.cost.events.sampled_bits import SampledBitsDpEvent
from dp.cost.views import ADJACENCY, RECORD, Protected, View
from dp.mechanism.bits import Bits, RandomizedBits
from entropy import Entropy

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Packed = NDArray[np.uint8]

LEAST_BY_CHANCE = 2.5
"""Rows that an error by chance counts at least: where 3 are to be expected there is none in one case of 20, and these 3
are then within 1.96 standard errors of 0, as 1.96 sqrt(2.5) are 3."""

_MAX_BLOCK_BITS = 1 << 23  # of one party: a message of 1 MB
_MAX_BLOCK_SLOTS = 1 << 16
_CHUNK = 1 << 13  # slots multiplied at once: sums of so many signs are exact in single precision


@dataclass(frozen=True)
class PatternEstimate:
    """Estimated counts, all of shape (M_1, ..., M_v).

    Attributes:
        counts: unbiased; may be negative.
        standard_errors: standard errors of the counts, estimated from the reports.
    """

    counts: Floats
    standard_errors: Floats

    @property
    def clipped(self) -> Floats:
        """The counts, negative ones raised to 0: closer, but no longer unbiased."""
        return np.maximum(self.counts, 0.0)


@dataclass(frozen=True)
class PatternReports:
    """Parameters of the reports. Public.

    Attributes:
        n_categories: M_j of each of v parties.
        n_slots: N, for which the counts are estimated.
        n_reported: k, in a uniform sample of the slots; N for all of them.
        bits: how bits are randomized.
        protected: whose contribution neighbouring tables differ in.
    """

    n_categories: tuple[int, ...]
    n_slots: int
    n_reported: int
    bits: RandomizedBits
    protected: Protected = RECORD

    def __post_init__(self) -> None:
        if self.protected.most_rows > 1 and self.n_reported < self.n_slots:
            raise ValueError("what a sample of slots costs a unit with several rows is not known")

    @property
    def least_deviation(self) -> float:
        """Standard deviation of the estimated count of a pattern that nobody has: no count is closer.

        A bit that is false has a z (see `PatternTally`) of mean 0 and variance 1 / (16 b^2) - 1/4, and each of k of N
        slots counts N / k times the product of its v bits' z.
        """
        variance = float(1 / (16 * self.bits.bias**2)) - 0.25
        return float(self.n_slots * (variance ** len(self.n_categories) / self.n_reported) ** 0.5)

    @property
    def _block_height(self) -> int:
        return min(_MAX_BLOCK_SLOTS, max(8, _MAX_BLOCK_BITS // max(self.n_categories)))

    @property
    def n_blocks(self) -> int:
        """How many blocks of slots each party reports on."""
        return -(-self.n_reported // self._block_height)

    def blocks(self) -> Iterator[range]:
        """Yield the reported slots in blocks, one message per party each."""
        for start in range(0, self.n_reported, self._block_height):
            yield range(start, min(start + self._block_height, self.n_reported))

    def message_bytes(self, party: int, block: range) -> int:
        """Return the length of the message of a party (0 .. v - 1) about a block of slots."""
        return -(-len(block) * self.n_categories[party] // 8)

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what reports about one record of the joint table cost: those of all v parties together.

        Coordinator, add_or_remove_one: the record's slot is empty instead, and its place and the sample are unknown.
        One bit per party differs. Coalition, replace_one: the places are known; two bits per party differ. That members
        of a coalition need no protection from themselves is not made use of.

        A person's k rows are in k slots, and where all slots are reported, bits of different slots are randomized
        independently, given the places, which depend on no data: k times as many bits differ. It is exact: what a
        coalition sees of k rows is k times what it sees of one. For samples of slots no bound is stated, and k is 1.
        """
        n_parties, adjacency = len(self.n_categories), ADJACENCY[view]
        if view == "coordinator" and self.n_reported < self.n_slots:
            share = Fraction(self.n_reported, self.n_slots)
            return (SampledBitsDpEvent(self.bits.truthful, n_parties, share, adjacency),)
        n_bits = n_parties if view == "coordinator" else 2 * n_parties
        return (self.bits.event(adjacency),) * (n_bits * self.protected.most_rows)

    def draw(self, entropy: Entropy, party: int, n_slots: int) -> Bits:
        """Draw which bits of a party (0 .. v - 1) about some slots are flipped, shape (n_slots, M)."""
        return self.bits.draw(entropy, (n_slots, self.n_categories[party]))

    def packed(self, party: int, categories: Integers, flips: Bits) -> Packed:
        """Return the reports of a party about one block.

        Args:
            party: 0 .. v - 1.
            categories: shape (slots,), 0 .. M - 1; anything else is no category and sets no bit.
            flips: shape (slots, M), fresh from `draw`.

        Returns:
            shape (message_bytes,): the bits of slot after slot.
        """
        return np.packbits((categories[:, None] == np.arange(self.n_categories[party])) ^ flips)

    def unpack(self, party: int, block: range, packed: Packed) -> NDArray[np.float32]:
        """Return reported bits as -1 and 1 after a column of ones, shape (slots, 1 + M)."""
        n = self.n_categories[party]
        bits = np.unpackbits(packed, count=len(block) * n).reshape(len(block), n)
        signs = np.ones((len(block), 1 + n), dtype=np.float32)
        np.multiply(bits, 2.0, out=signs[:, 1:])
        signs[:, 1:] -= 1
        return signs


class PatternTally:
    """Sums up reports and estimates the counts. Memory does not grow with the number of slots.

    With s = -1 or 1 for a reported bit and b the bias, z = 1/2 + s / (4 b) has mean 1 where the slot is of the category
    and 0 else. The parties' noise is independent, so the product of their z has mean 1 where the slot has the pattern.
    Its sum is a linear combination of sums of products of s over subsets of the parties: these are integers, and all
    that is kept. As s^2 = 1, z^2 is linear in s too, and the same integers give the sums of squares.
    """

    def __init__(self, reports: PatternReports) -> None:
        self._reports = reports
        widths = [1 + n for n in reports.n_categories]
        self._n_left = _balanced_split(widths)
        self._sums = np.zeros((prod(widths[: self._n_left]), prod(widths[self._n_left :])))

    def add(self, block: range, messages: Sequence[Packed]) -> None:
        """Take in the messages of all parties about one block."""
        signs = [self._reports.unpack(party, block, message) for party, message in enumerate(messages)]
        for start in range(0, len(block), _CHUNK):
            parts = [s[start : start + _CHUNK] for s in signs]
            self._sums += reduce(_row_products, parts[: self._n_left]).T @ reduce(_row_products, parts[self._n_left :])

    def estimate(self) -> PatternEstimate:
        """Return the estimates for all slots.

        For X = the product of the z of a slot: sum X over k of N slots, times N / k, is unbiased. Its variance is
        that of all X, sum E X^2 - count, as X has mean 0 or 1; and, of sampling, N^2 (1 - k / N) S^2 / k, S^2 the
        variance among the slots.

        E X^2 is the product of the V + E z, V = c^2 - 1/4 the variance of a z, so its sum is one over all sets of
        parties: V for each party outside of it, times how many slots resemble the pattern at those in it. These numbers
        are estimated like the counts, and negative ones are 0. Sums of X^2 themselves have the same mean, but are as
        good as 0 where no bit that matters happened to flip. Of sampling no pattern has less than one of which the
        sample holds `LEAST_BY_CHANCE` rows.
        """
        reports = self._reports
        n, k, c = reports.n_slots, reports.n_reported, float(1 / (4 * reports.bits.bias))
        alike = self._sums.reshape([1 + m for m in reports.n_categories])
        for axis in range(alike.ndim):
            first, rest = np.split(alike, [1], axis=axis)
            alike = np.concatenate([first, 0.5 * first + c * rest], axis=axis)
        total = alike[(slice(1, None),) * alike.ndim].copy()
        noise = np.maximum(alike, 0.0)
        noise[(slice(1, None),) * alike.ndim] = 0.0  # X is 1 itself where all parties resemble the pattern
        for axis in range(alike.ndim):
            first, rest = np.split(noise, [1], axis=axis)
            noise = (c**2 - 0.25) * first + rest
        variances = n / k * noise
        if k < n:
            among = (noise + total - total**2 / k) / (k - 1)
            variances += n**2 * (1 - k / n) / k * np.maximum(among, noise / k + min(LEAST_BY_CHANCE, k / 2) / k)
        return PatternEstimate(n / k * total, np.sqrt(variances))


def _balanced_split(widths: Sequence[int]) -> int:
    """Return how many of the factors to put on the left of a matrix product so that its two sides are narrowest."""
    return min(range(1, len(widths)), key=lambda n: prod(widths[:n]) + prod(widths[n:]))


def _row_products(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the outer product of each row of two matrices, flattened."""
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)
