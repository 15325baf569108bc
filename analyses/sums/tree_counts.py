"""Counts at every node of a tree over buckets, as one vector per member, and how far one number moves their sum.

**Sensitivity.** A number of whatever value is one in exactly one node of each of the L levels and zero elsewhere.
Adding or removing it moves the sum by a vector h of L ones: |h|^2 = |h|_1 = L. Replacing it by another moves the sum by
h - h', which is not zero only where the two differ: |h - h'|^2 = |h - h'|_1 <= 2 L. A number that cannot be used counts
nowhere, which is within these bounds too.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analyses.sums.noise import SumSensitivity
from analyses.sums.vector_bound import VectorBound
from dp.cost.views import VIEWS, View
from dp.local_mechanism.hierarchy import level_sizes
from mpc.secagg.vector.encoding import VectorEncoding

Integers = NDArray[np.int64]

BRANCHING = 4


@dataclass(frozen=True)
class TreeCounts:
    """What a member contributes: its numbers counted at every node of every level. Public.

    Attributes:
        n_buckets: d, the number of nodes of the last level.
        most_rows: the largest number of numbers that any member declares.
    """

    n_buckets: int
    most_rows: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of nodes of the levels, from below the root down to the buckets."""
        return level_sizes(self.n_buckets, BRANCHING)

    @property
    def n_entries(self) -> int:
        """Numbers in the vector of a member: the nodes of all levels."""
        return sum(self.sizes)

    @property
    def encoding(self) -> VectorEncoding:
        """The encoding of a member's contribution in the round."""
        return VectorEncoding(self.n_entries, float(self.most_rows))

    def sensitivities(self, unit: str) -> dict[View, SumSensitivity]:
        """Return how far one number moves the sum; see the head of the module.

        Args:
            unit: what is protected, in words.
        """
        n_levels = len(self.sizes)
        bound = VectorBound((1,) * self.n_entries, n_levels, is_non_negative=True, sizes=n_levels)
        return {view: bound.sensitivity(view, unit) for view in VIEWS}

    def counted(self, inputs: Integers) -> Integers:
        """Return the counts of all nodes, shape (n_entries,). Private.

        Args:
            inputs: the bucket of each row.
        """
        return np.concatenate(self.levels_above(np.bincount(inputs, minlength=self.n_buckets)))

    def levels_above(self, leaves: NDArray[np.generic]) -> list[NDArray[np.generic]]:
        """Return the sums at the nodes of each level, the leaves last, of what lies at the leaves."""
        levels = [leaves]
        for size in self.sizes[-2::-1]:
            levels.insert(0, np.add.reduceat(levels[0], np.arange(size) * BRANCHING))
        return levels

    def split(self, entries: NDArray[np.generic]) -> list[NDArray[np.generic]]:
        """Return the levels of a vector of all nodes."""
        return np.split(entries, np.cumsum(self.sizes)[:-1])
