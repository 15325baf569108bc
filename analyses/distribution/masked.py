"""The distribution by a masked sum: how many rows lie at each node of a tree over the buckets, in one noisy release.

The levels of a 4-ary tree, from below the root down to the buckets, are one vector of counts per party. The parties'
vectors are added under masks, with noise of which exactly the intended amount stays (`analyses.sums.noise`). All levels
are released at once, so one calibration pays for all of them, and the estimate makes them agree.

**Sensitivity.** A row of whatever value is one in exactly one node of each of the L levels and zero elsewhere. Adding
or removing it moves the sum by a vector h of L ones: |h|^2 = |h|_1 = L. Replacing it by another moves the sum by
h - h', which is not zero only where the two differ: |h - h'|^2 = |h - h'|_1 <= 2 L. No count is ever clipped: a table
has at most as many rows as its owner declares.

What a party adds is its own word: unlike a response, a lie can move the result without bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates.frequencies import Floats, Level
from analyses.distribution.estimates.monotone import isotonic
from analyses.distribution.estimates.tree_estimate import least_squares, total_of
from analyses.job.job import PrivacyTarget
from analyses.sums.noise import SumNoise, SumSensitivity
from analyses.sums.round import calibrated, configure, levels_of, ring_for
from analyses.sums.vector_bound import VectorBound
from dp.cost.views import ROW_UNIT, VIEWS, View
from dp.local_mechanism.hierarchy import level_sizes
from mpc.protocol.session import Session
from mpc.secagg.config import RoundConfig, Topology
from mpc.secagg.vector.encoding import VectorEncoding
from mpc.secagg.vector.group import RingGroup
from mpc.transcript import RoundId

Integers = NDArray[np.int64]

BRANCHING = 4

VECTOR_NAME = "distribution"
"""Of what is summed, in the configuration of a round."""


@dataclass(frozen=True)
class TreeCounts:
    """What a party contributes: its rows counted at every node of every level. Public.

    Attributes:
        n_buckets: d, the number of nodes of the last level.
        most_rows: the largest number of rows that any party declares.
    """

    n_buckets: int
    most_rows: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of nodes of the levels, from below the root down to the buckets."""
        return level_sizes(self.n_buckets, BRANCHING)

    @property
    def n_entries(self) -> int:
        """Numbers in the vector of a party: the nodes of all levels."""
        return sum(self.sizes)

    @property
    def encoding(self) -> VectorEncoding:
        """The encoding of a party's contribution in the round."""
        return VectorEncoding(self.n_entries, float(self.most_rows))

    @property
    def sensitivities(self) -> dict[View, SumSensitivity]:
        """How far one row moves the sum; see the head of the module."""
        n_levels = len(self.sizes)
        bound = VectorBound((1,) * self.n_entries, n_levels, is_non_negative=True, sizes=n_levels)
        return {view: bound.sensitivity(view, ROW_UNIT) for view in VIEWS}

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


@dataclass(frozen=True)
class MaskedTree:
    """The masked sum of all parties' counts. Public.

    Attributes:
        counts: of a party.
        topology: who shares with whom: all parties with all others.
        mu: Skellam parameter of the noise that stays in the sum.
        ring_bits: size of the ring that holds the sum.
    """

    counts: TreeCounts
    topology: Topology
    mu: int
    ring_bits: int

    @classmethod
    def calibrate(cls, counts: TreeCounts, topology: Topology, target: PrivacyTarget) -> "MaskedTree":
        """Return the sum with the least noise that meets a target, whoever drops out.

        Raises:
            JobError: no noise on offer meets it.
            EncodingOverflowError: no ring holds the sum.
        """
        noise = calibrated(counts.sensitivities, target, counts.n_entries, topology, of_any_kind=False)
        ring = ring_for(topology.n_members, counts.encoding, noise)
        return cls(counts, topology, noise.mu, ring.bits)

    @cached_property
    def noise(self) -> SumNoise:
        """The one release."""
        counts, topology = self.counts, self.topology
        return SumNoise(self.mu, counts.n_entries, levels_of(topology), topology.n_corrupt, counts.sensitivities)

    def config_of(self, session: Session, attempt: int, identities: Mapping[int, bytes]) -> RoundConfig:
        """Return the configuration of an attempt, the same for all participants."""
        return configure(
            RoundId(session.job_id, 0, attempt),
            [(session.names[i], identities[i]) for i in range(1, self.topology.n_members + 1)],
            self.topology,
            RingGroup(self.ring_bits),
            VECTOR_NAME,
            self.counts.encoding,
            self.noise,
        )

    def variance(self, n_survivors: int) -> Fraction:
        """Return that of the noise on each number of the sum of so many survivors."""
        return self.noise.variance(n_survivors)


def estimate_tree(counts: TreeCounts, noisy: NDArray[np.generic], variance: float) -> tuple[Floats, float]:
    """Return the distribution over the buckets, and the number of rows, from the noisy counts of all nodes.

    Least squares over the tree makes all levels agree. The number of rows is that of the root then; shares of it are
    made a distribution by the isotonic regression of their cumulative sums.

    Args:
        counts: of a party.
        noisy: shape (n_entries,), the sum with its noise.
        variance: of the noise of each number.

    Returns:
        Probabilities, shape (buckets,), uniform where the sum does not show a single row; and the estimated number of
        rows, not negative.
    """
    levels = [Level(np.asarray(level, dtype=np.float64), variance) for level in counts.split(noisy)]
    total = total_of(levels, BRANCHING)
    if total < 1:
        return np.full(counts.n_buckets, 1 / counts.n_buckets), max(0.0, total)
    shares = [Level(level.frequencies / total, variance / total**2) for level in levels]
    return isotonic(least_squares(shares, BRANCHING)[-1]), total
