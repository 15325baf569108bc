"""Private k-means of one block of columns by a tree of random cuts: DPLSF-like [VertClust23, B.1], in exact integers.

Boxes of the public domain are cut in two, level by level, where a noisy count says that a box holds many rows; each
leaf then releases the noisy sum of its rows. The leaves' noisy means, weighted by their noisy counts, are clustered
without touching the data again.

Differences from DPLSF: the hash functions are axis-parallel cuts at random places of a known box, not hyperplanes
through the origin, which cannot tell clusters on one ray apart. So a leaf's rows lie in a known box, and the sum of
their distances to its middle has the box's sensitivity instead of the domain's. All noise is discrete.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from analyses.clustering.weighted_clustering import Choices
from dp.mechanism.release import StepwiseNoise, StepwiseRelease
from dp.mechanism.valid_counts import valid_counts

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_DEPTH = 20
CUTS_PER_COLUMN = 3
"""Levels of the tree: this many per column, at most MAX_DEPTH. One more cut halves a box once more."""

SUM_FRACTION = Fraction(1, 2)
"""Share of the tree's cost (the sum of squares) that is spent on the sums of the leaves; the counts of all levels share
the rest. With more than half, replacing a row would cost more than twice what adding one costs."""

SPLIT_DEVIATIONS = 4
"""A box is cut if its noisy count exceeds twice this number of standard deviations, so that half of it is still
visible."""

MAX_LEAVES = 4096


@dataclass(frozen=True)
class PartitionTree(StepwiseRelease):
    """The release of one tree, on integer rows of 0..width in each of m columns.

    Sensitivity. On each level a row is in at most one box, so adding or removing it moves one count by 1. In the end it
    is in one leaf, and its distance to the middle of the leaf's box, doubled, is an integer vector 2 x - low - high of
    squared norm at most |high - low|^2, hence at most B, the next power of two. The leaf's sum has noise of variance
    B / v; a count has noise of variance c. With L levels, the squares sum d_i^2 / s_i of all releases are at most

        add or remove:  L / c + v
        replace:        max(2 L / c + 2 v, 4 v)

    The second: the count of a box stays while both rows are in it. Either they part at some level: two counts on each
    of at most L levels move by 1, and two leaves' sums by at most sqrt B each. Or they share the leaf: no count moves,
    and the sum by the difference of two vectors of norm sqrt B. The boxes depend on the noisy counts only, so each
    level is a release that depends on earlier ones; the divergence of all is at most that of the largest sum of squares
    along any sequence of outcomes [FeldmanZrnic21]. Where the tree ends early, it costs less.

    Attributes:
        n_columns: m.
        width: largest value of each column, at least 1.
        count_variance: c, of each level's counts.
        sum_cost: v.
    """

    n_columns: int
    width: int
    count_variance: Fraction
    sum_cost: Fraction

    @classmethod
    def of_cost(cls, n_columns: int, width: int, squares: Fraction) -> "PartitionTree":
        """Return the tree whose squares for add_or_remove_one are `squares`."""
        levels = cls.levels_of(n_columns)
        return cls(n_columns, width, levels / ((1 - SUM_FRACTION) * squares), SUM_FRACTION * squares)

    @staticmethod
    def levels_of(n_columns: int) -> int:
        """Return how many levels are counted."""
        return min(MAX_DEPTH, CUTS_PER_COLUMN * n_columns)

    @property
    def levels(self) -> int:
        """L, how many levels are counted at most."""
        return self.levels_of(self.n_columns)

    @property
    def sum_deviation(self) -> float:
        """Standard deviation of the noise of a sum of 2 x - low - high over the rows of the largest box, per column."""
        return math.sqrt(_square_bound(self.n_columns * self.width**2) / self.sum_cost)

    def squares(self, *, replace: bool) -> Fraction:
        """Return the bound of sum d_i^2 / s_i over all releases of the tree."""
        counts = self.levels / self.count_variance
        if replace:
            return max(2 * counts + 2 * self.sum_cost, 4 * self.sum_cost)
        return counts + self.sum_cost

    def leaves(self, rows: Integers, noise: StepwiseNoise, choices: Choices) -> tuple[Floats, Floats]:
        """Release the tree of some rows.

        Args:
            rows: shape (n, m), values 0..width. Private.
            noise: fresh, of `draw`.
            choices: choices of the places of the cuts, which protect nothing.

        Returns:
            Means, shape (leaves, m), each within its leaf's box; weights, shape (leaves,), not negative, not all 0.
            Both are functions of noisy integers only.
        """
        low, high = self._root()
        counts = np.zeros(1)  # of the root; never asked for, as it is cut in any case
        leaf_of = np.zeros(len(rows), dtype=np.int64)
        is_open = np.ones(1, dtype=bool)
        for level in range(self.levels):
            wanted = np.flatnonzero(is_open & ((high - low).max(axis=1) >= 1))
            if level:
                enough = 2 * SPLIT_DEVIATIONS * float(self.count_variance) ** 0.5
                wanted = wanted[counts[wanted] > enough]
            wanted = wanted[: MAX_LEAVES - len(low)]
            if not len(wanted):
                break
            axis, place = self._cuts(low[wanted], high[wanted], choices)
            upper = len(low) + np.arange(len(wanted))
            new_of = np.full(len(low), -1)
            new_of[wanted] = np.arange(len(wanted))
            low, high = np.concatenate([low, low[wanted]]), np.concatenate([high, high[wanted]])
            high[wanted, axis] = place
            low[upper, axis] = place + 1
            cut = new_of[leaf_of]
            moves = (cut >= 0) & (rows[np.arange(len(rows)), axis[cut]] > place[cut])
            leaf_of = np.where(moves, upper[cut], leaf_of)
            children = np.concatenate([wanted, upper])
            counts = np.concatenate([counts, np.zeros(len(wanted))])
            true_counts = np.bincount(leaf_of, minlength=len(low))[children]
            counts[children] = noise.added_to(true_counts, self.count_variance)
            is_open = np.isin(np.arange(len(low)), children)
        return self._means(rows, leaf_of, low, high, counts, noise)

    def _root(self) -> tuple[Integers, Integers]:
        return np.zeros((1, self.n_columns), dtype=np.int64), np.full((1, self.n_columns), self.width, dtype=np.int64)

    def _cuts(self, low: Integers, high: Integers, choices: Choices) -> tuple[Integers, Integers]:
        """Return for each box the column to cut, a widest one, and the largest value that stays below the cut."""
        sides = high - low
        axis = (sides + choices.random(sides.shape) * np.maximum(sides.max(axis=1), 4)[:, None] / 4).argmax(axis=1)
        rows = np.arange(len(low))
        axis = np.where(sides[rows, axis] >= 1, axis, sides.argmax(axis=1))
        place = low[rows, axis] + np.floor((0.35 + 0.3 * choices.random(len(low))) * sides[rows, axis]).astype(np.int64)
        return axis, np.minimum(place, high[rows, axis] - 1)

    def _means(
        self, rows: Integers, leaf_of: Integers, low: Integers, high: Integers, counts: Floats, noise: StepwiseNoise
    ) -> tuple[Floats, Floats]:
        sums = grouped_sums(2 * rows - low[leaf_of] - high[leaf_of], leaf_of, len(low))
        bounds = np.array([_square_bound(int(norm)) for norm in np.square(high - low).sum(axis=1)])
        for bound in np.unique(bounds).tolist():
            at = bounds == bound
            sums[at] = noise.added_to(sums[at], bound / self.sum_cost)
        weights = valid_counts(counts)
        if not weights.any():
            weights = np.ones(len(low))
        middle = (low + high) / 2
        means = middle + sums / (2 * np.maximum(weights, 1.0))[:, None]
        return np.clip(means, low, high), weights


def _square_bound(squared_norm: int) -> int:
    """Return B, the next power of two."""
    return 1 << (squared_norm - 1).bit_length()


def grouped_sums(rows: Integers, group_of: Integers, n_groups: int) -> Integers:
    """Return the sum of the rows of each group, shape (n_groups, columns), exact below 2^53."""
    sums = [np.bincount(group_of, column, minlength=n_groups) for column in rows.T]
    return np.rint(np.stack(sums, axis=1)).astype(np.int64)
