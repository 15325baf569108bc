"""The distribution by a masked sum: how many rows lie at each node of a tree over the buckets, in one noisy release.

The levels of a 4-ary tree, from below the root down to the buckets, are one vector of counts per party. The parties'
vectors are added under masks, with noise of which exactly the intended amount stays (`analyses.sums.noise`). All levels
are released at once, so one calibration pays for all of them, and the estimate makes them agree.

`analyses.sums.tree_counts` says how far a row moves the sum. No count is ever clipped: a table has at most as many rows
as its owner declares.

What a party adds is its own word: unlike a response, a lie can move the result without bound.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analyses.distribution.estimates.frequencies import Floats, Level
from analyses.distribution.estimates.tree_estimate import least_squares, total_of, variance_of_total
from analyses.distribution.estimates.ways import made_distribution
from analyses.distribution.methods import Way
from analyses.job.job import PrivacyTarget
from analyses.sums.noise import SumNoise
from analyses.sums.round import calibrated, configure, levels_of, ring_for
from analyses.sums.tree_counts import BRANCHING, TreeCounts
from dp.cost.views import ROW_UNIT
from mpc.protocol.session import Session
from mpc.secagg.config import RoundConfig, Topology
from mpc.secagg.vector.group import RingGroup
from mpc.transcript import RoundId

Integers = NDArray[np.int64]

VECTOR_NAME = "distribution"
"""Name of what is summed, in the configuration of a round."""


@dataclass(frozen=True)
class MaskedTree:
    """The masked sum of all parties' counts. Public.

    Attributes:
        counts: counts of a party.
        topology: who shares with whom: all parties with all others.
        n_corrupt: t, parties whose noise may be known.
        mu: Skellam parameter of the noise that stays in the sum.
        ring_bits: size of the ring that holds the sum.
    """

    counts: TreeCounts
    topology: Topology
    n_corrupt: int
    mu: int
    ring_bits: int

    @classmethod
    def calibrate(cls, counts: TreeCounts, topology: Topology, n_corrupt: int, target: PrivacyTarget) -> "MaskedTree":
        """Return the sum with the least noise that meets a target, whoever drops out.

        Raises:
            JobError: no noise on offer meets it.
            EncodingOverflowError: no ring holds the sum.
        """
        moved = counts.sensitivities(ROW_UNIT)
        noise = calibrated(moved, target, counts.n_entries, topology, of_any_kind=False, n_corrupt=n_corrupt)
        ring = ring_for(topology.n_members, counts.encoding, noise)
        return cls(counts, topology, n_corrupt, noise.mu, ring.bits)

    @cached_property
    def noise(self) -> SumNoise:
        """The one release."""
        counts, topology = self.counts, self.topology
        moved = counts.sensitivities(ROW_UNIT)
        return SumNoise(self.mu, counts.n_entries, levels_of(topology), self.n_corrupt, moved)

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


def leaves_of(counts: TreeCounts, noisy: NDArray[np.generic]) -> Floats:
    """Return the number of rows of each bucket by least squares over the tree: without bias, linear in the counts.

    Args:
        counts: counts of a party.
        noisy: shape (n_entries,), the sum with its noise.
    """
    levels = [Level(np.asarray(level, dtype=np.float64), 1.0) for level in counts.split(noisy)]
    return least_squares(levels, BRANCHING, total_of(levels, BRANCHING))[-1]


def rows_error(counts: TreeCounts, variance: float) -> float:
    """Return the standard error of the number of rows that `estimate_tree` finds, by noise of this variance."""
    levels = [Level(np.zeros(size), variance) for size in counts.sizes]
    return math.sqrt(variance_of_total(levels, BRANCHING))


def estimate_tree(
    counts: TreeCounts, noisy: NDArray[np.generic], way: Way | None = None
) -> tuple[Floats, float, bool | None]:
    """Return the distribution over the buckets, and the number of rows, from the noisy counts of all nodes.

    Least squares over the tree makes all levels agree. The number of rows is that of the root then; shares of it are
    made a distribution.

    Args:
        counts: counts of a party.
        noisy: shape (n_entries,), the sum with its noise.
        way: see `made_distribution`.

    Returns:
        Probabilities, shape (buckets,), uniform where the sum does not show a single row; the estimated number of
        rows, not negative; and whether the distribution was reached, None where no steps lead there.
    """
    leaves = leaves_of(counts, noisy)
    total = float(leaves.sum())
    if total < 1:
        return np.full(counts.n_buckets, 1 / counts.n_buckets), max(0.0, total), None
    shares = np.asarray(noisy, dtype=np.float64) / total
    levels = [Level(np.asarray(level, dtype=np.float64), 1.0) for level in counts.split(shares)]
    found, has_converged = made_distribution(way, leaves / total, levels, BRANCHING)
    return found, total, has_converged
