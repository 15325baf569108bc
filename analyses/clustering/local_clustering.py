"""Private clustering of one party's own columns: what it releases, what that costs, and which row is in which cluster.

This is the first phase of [VertClust23, algorithm 1]. Columns are scaled by their public bounds to integers. Only
functions of noisy integer counts and sums leave the party, as integers on the same lattice.
"""

from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from analyses.clustering.noisy_lloyd import NoisyLloyd
from analyses.clustering.partition_tree import PartitionTree
from analyses.clustering.weighted_clustering import MAX_POWER, Choices, cluster, nearest
from analyses.job.job import PublicModel
from analyses.job.schema import BlockSchema
from dp.mechanism.release import StepwiseNoise

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

WIDTH = 1 << 12
"""Largest integer of a scaled column: the lattice of data and centres."""

FINEST = 1 << 20
"""Cost (squared sensitivity over variance) that a noise parameter of 1 stands for: so large that it gives no
privacy."""

Method = Literal["tree", "lloyd"]


class LocalClustering(PublicModel):
    """What one owner does to its columns. Public.

    Attributes:
        block: its columns and their public bounds, at least one.
        k: k', how many clusters.
        p: power of distances, see `weighted_clustering.cluster`; 2 where the method is `lloyd`.
        method: `tree`: `PartitionTree`, then clustering of its leaves; `lloyd`: `NoisyLloyd`.
        noise: FINEST divided by the total cost (sum of squares) of all releases, for add_or_remove_one.
    """

    block: BlockSchema
    k: Annotated[int, Field(ge=1)]
    p: Annotated[int, Field(ge=1, le=MAX_POWER)]
    method: Method
    noise: Annotated[int, Field(ge=1)]

    @property
    def mechanism(self) -> PartitionTree | NoisyLloyd:
        """The mechanism that adds the noise."""
        kind = PartitionTree if self.method == "tree" else NoisyLloyd
        return kind.of_cost(len(self.block.columns), WIDTH, Fraction(FINEST, self.noise))

    def quantise(self, values: Floats) -> tuple[Integers, NDArray[np.int64]]:
        """Scale rows by the public bounds, clip, and round to integers 0..WIDTH.

        Args:
            values: shape (rows, columns), finite.

        Returns:
            shape (rows, columns); per column, how many values lay outside the bounds. Both private.
        """
        lower, upper = bounds_of(self.block)
        outside = np.count_nonzero((values < lower) | (values > upper), axis=0).astype(np.int64)
        scaled = (np.clip(values, lower, upper) - lower) / (upper - lower)
        return np.rint(scaled * WIDTH).astype(np.int64), outside

    def release(self, rows: Integers, noise: StepwiseNoise, choices: Choices) -> Integers:
        """Return k private centres of quantised rows, integers 0..WIDTH, shape (k, columns).

        Two centres may be equal; the cluster of the later one is then empty.

        Args:
            rows: from `quantise`. Private.
            noise: fresh, drawn by `mechanism`.
            choices: that protect nothing.
        """
        mechanism = self.mechanism
        if isinstance(mechanism, NoisyLloyd):
            centres = mechanism.centres(rows, self.k, noise, choices)
        else:
            means, weights = mechanism.leaves(rows, noise, choices)
            centres = cluster(means, weights, self.k, self.p, choices).centres
        return np.clip(np.rint(centres), 0, WIDTH).astype(np.int64)

    def no_centres(self) -> Integers:
        """Return what stands for centres where releasing them raised an error: zeros, of the same shape."""
        return np.zeros((self.k, len(self.block.columns)), dtype=np.int64)

    def centre_deviation(self, sizes: Floats) -> Floats:
        """Return about how far noise moves a column of centres, as a standard deviation on the lattice, shape (k,).

        That of a noisy sum over the whole domain divided by the rows: sums of small boxes have less noise. No more than
        that of places anywhere in the domain.

        Args:
            sizes: rows of each cluster, shape (k,).
        """
        moved = self.mechanism.sum_deviation / np.maximum(sizes, 1.0) / 2
        return np.asarray(np.minimum(moved, WIDTH / np.sqrt(12)), dtype=np.float64)

    def memberships(self, rows: Integers, centres: Integers) -> Integers:
        """Return the number of the nearest released centre for each row, 0..k - 1. Private."""
        at, _ = nearest(rows.astype(np.float64), centres.astype(np.float64))
        return at

    def in_original_units(self, centres: Floats) -> Floats:
        """Return centres on the lattice in the units of the columns."""
        lower, upper = bounds_of(self.block)
        return lower + (upper - lower) * (centres / WIDTH)


def bounds_of(schema: BlockSchema) -> tuple[Floats, Floats]:
    """Return lower and upper public bounds, shape (columns,)."""
    return np.array([c.lower for c in schema.columns]), np.array([c.upper for c in schema.columns])
