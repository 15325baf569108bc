"""Audit targets of private local clustering: the partition tree and noisy Lloyd iterations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from analyses.clustering.noisy_lloyd import NoisyLloyd
from analyses.clustering.partition_tree import PartitionTree
from analyses.clustering.weighted_clustering import Choices
from audit.less_noise import NoisyRelease, NoisyTarget, with_noise
from dp.audit.exact_audit import Part
from dp.audit.exact_law import Floats, Integers, Law, discrete_gaussian
from entropy import Entropy, InsecureTestEntropy

_CUTS = "the public cuts of this audit"
_OFFSET = 2**0.5 - 1


@dataclass(frozen=True)
class TreeRelease(NoisyRelease):
    """A release for `AdditiveTarget`: noisy counts and sums of the leaves of a tree of one column.

    The cuts, which protect nothing, come from a source that is written here, so the boxes are public. A leaf's noisy
    count is its weight, and its noisy sum follows from its mean, weight and box. So many rows are in every box that a
    noisy count below the threshold, a negative one, or a mean outside its box has a probability below 1e-12.

    Attributes:
        mechanism: tree of one column.
        enters, leaves: rows of the table of input 1 that input 0 has not, and the other way round.
        rows_per_value: rows of the table of input 0, for each of 0 .. width.
    """

    mechanism: PartitionTree
    enters: tuple[int, ...]
    leaves: tuple[int, ...]
    rows_per_value: int

    @cached_property
    def boxes(self) -> list[tuple[int, int]]:
        """The smallest and the largest value of each leaf, in the tree's order."""
        clear = replace(self.mechanism, count_variance=Fraction(1, 1 << 20), sum_cost=Fraction(1 << 20))
        table = np.repeat(np.arange(self.mechanism.width + 1), self.rows_per_value)[:, None]
        noise = clear.draw(InsecureTestEntropy("no noise"))
        means, weights = clear.leaves(table, noise, Choices(InsecureTestEntropy(_CUTS)))
        sides = np.rint(weights / self.rows_per_value) - 1
        low = np.rint(means[:, 0] - sides / 2)
        return [(int(a), int(a + side)) for a, side in zip(low, sides, strict=True)]

    @property
    def difference(self) -> tuple[int, ...]:
        """See `Release`: of the leaves' counts, then of the sums of those that hold more than one value."""
        exact = [self._exact(np.array(rows, dtype=np.int64)) for rows in (self.enters, self.leaves)]
        return tuple(int(x) for x in exact[0] - exact[1])

    def laws(self) -> Sequence[Law]:
        """See `Release`: the sum of a box has the variance of its squared side, raised to a power of two."""
        count = discrete_gaussian(self.mechanism.count_variance)
        of_side: dict[int, Law] = {}
        for low, high in self.boxes:
            if high > low and high - low not in of_side:
                squared = 1 << (int(high - low) ** 2 - 1).bit_length()
                of_side[high - low] = discrete_gaussian(squared / self.mechanism.sum_cost)
        return [count] * len(self.boxes) + [of_side[high - low] for low, high in self.boxes if high > low]

    def output(self, world: int, entropy: Entropy) -> Integers:
        """See `Release`."""
        rows = np.repeat(np.arange(self.mechanism.width + 1), self.rows_per_value)
        baseline = self._exact(rows)
        if world:
            for value in self.leaves:
                rows = np.delete(rows, np.flatnonzero(rows == value)[0])
            rows = np.append(rows, self.enters).astype(np.int64)
        means, weights = self.mechanism.leaves(
            rows[:, None], self.mechanism.draw(entropy), Choices(InsecureTestEntropy(_CUTS))
        )
        sums = [
            round(float(mean - (low + high) / 2) * 2 * weight)
            for mean, weight, (low, high) in zip(means[:, 0], weights, self.boxes, strict=True)
            if high > low
        ]
        return np.concatenate([np.rint(weights).astype(np.int64), np.array(sums, dtype=np.int64)]) - baseline

    def _exact(self, rows: Integers) -> Integers:
        inside = [rows[(rows >= low) & (rows <= high)] for low, high in self.boxes]
        sums = [
            int((2 * held - low - high).sum())
            for held, (low, high) in zip(inside, self.boxes, strict=True)
            if high > low
        ]
        return np.array([len(held) for held in inside] + sums, dtype=np.int64)


@dataclass(frozen=True)
class LloydTarget(NoisyTarget):
    """The centre that noisy Lloyd iterations release for one cluster of one column.

    With one cluster all rows belong to it, whatever earlier centres were, so the centre is a function of the noisy
    count and the noisy sum of the last iteration, and its law follows from theirs. The values told apart are those of
    round((centre - middle) * `cells`).

    Attributes:
        lloyd: mechanism of one column.
        rows: rows of input 0 and of input 1: how many hold 0, and how many the width.
        cells: per unit of the column.
    """

    lloyd: NoisyLloyd
    rows: tuple[tuple[int, int], tuple[int, int]]
    cells: int

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`."""
        lloyd = with_noise(self.lloyd, noise)
        n_cells = 2 * self._outermost() + 1
        masses = []
        for low, high in self.rows:
            count = discrete_gaussian(lloyd.count_variance).shifted(low + high)
            moved = discrete_gaussian(lloyd.sum_variance).shifted(lloyd.width * (high - low))
            counts, sums = np.arange(count.start, count.stop), np.arange(moved.start, moved.stop)
            cells = self._cells(lloyd.means(sums[None, :], counts[:, None]) - lloyd.width / 2)
            masses.append(np.bincount(cells.ravel(), np.outer(count.masses, moved.masses).ravel(), n_cells))
        return [Part(np.stack(masses))]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`."""
        lloyd, (low, high) = with_noise(self.lloyd, self.noise), self.rows[world]
        rows = np.repeat(np.array([0, lloyd.width]), [low, high])[:, None]
        found = np.empty((n_runs, 1))
        for run in range(n_runs):
            choices = Choices(InsecureTestEntropy(_CUTS))
            found[run] = lloyd.centres(rows, 1, lloyd.draw(entropy), choices)[0, 0] - lloyd.width / 2
        return self._cells(found)

    def _outermost(self) -> int:
        return self.cells * self.lloyd.width // 2

    def _cells(self, from_middle: Floats) -> Integers:
        """Return the number of the cell. Lattice points lie on no edge, as the edges are irrational."""
        edge = self._outermost()
        return np.clip(np.floor(from_middle * self.cells + _OFFSET), -edge, edge).astype(np.int64) + edge
