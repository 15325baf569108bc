"""Membership estimation under the assumption that owners' memberships are independent: IND-LAP [VertClust23, 4.1].

Each owner releases the sizes of its own clusters with discrete Laplace noise; a cell gets the product of the shares of
its clusters. The noise is small, but the estimate has a bias that no budget removes: all dependence between the owners'
columns is ignored.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from analyses.clustering.estimators.cells import GridWeights
from analyses.clustering.estimators.membership import (
    AFTER_CENTRES,
    MembershipEstimator,
    MembershipGrid,
    Memberships,
)
from analyses.job.job import JobError, PrivacyTarget
from analyses.job.plan import OPENING_STAGE
from analyses.job.releases import PlannedRelease
from analyses.rows.own_values import CountsFailures, zeros_instead
from analyses.rows.traffic import JointTraffic
from analyses.second_moments.spectrum import SimulatedNoise
from dp.cost.accounting import Adjacency
from dp.cost.calibrate import Ladder, least_noise
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.views import ADJACENCY, VIEWS, View
from dp.draw.noise import MAX_SCALE, sample_discrete_laplace
from dp.mechanism.valid_counts import valid_counts
from entropy import Entropy
from mpc.errors import PeerViolationError
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import COORDINATOR
from mpc.traffic.shares import WORD_BYTES

_MAX_SIZE = 1 << 60  # no row count with noise comes near it, and sums of sizes fit


@dataclass(frozen=True)
class NoisySizes:
    """The sizes of one owner's clusters plus discrete Laplace noise.

    A row is in one cluster: adding or removing it moves one size by 1, replacing it two.

    Attributes:
        k_local: k', how many clusters.
        scale: scale of the noise, in rows.
    """

    k_local: int
    scale: int

    def events(self, view: View) -> tuple[DiscreteLaplaceDpEvent]:
        """Return what the sizes of this owner cost."""
        adjacency = ADJACENCY[view]
        l1 = 1 if adjacency is Adjacency.ADD_OR_REMOVE_ONE else 2
        return (DiscreteLaplaceDpEvent(l1, Fraction(self.scale), adjacency),)

    def draw(self, entropy: Entropy) -> NDArray[np.int64]:
        """Draw the owner's noise, shape (k',)."""
        return sample_discrete_laplace(entropy, self.scale, self.k_local)


class IndependentEstimator(MembershipEstimator):
    """The sizes of each owner's clusters plus discrete Laplace noise, multiplied.

    A row is in one cluster of each owner: adding or removing it moves one size by 1, replacing it two. Every owner adds
    its own noise to its own sizes, so a coalition learns nothing more of the others' than the coordinator does.

    Attributes:
        scale: scale of the noise, in rows.
    """

    scale: int

    @classmethod
    def calibrate(cls, grid: MembershipGrid, target: PrivacyTarget, options: Mapping[str, Any]) -> Self:
        """See `MembershipEstimator.calibrate`. There are no options."""
        if options:
            raise JobError(
                f"parameters.counting_options: the estimator `independent` has no option {next(iter(options))!r}"
            )

        def spends(scale: int) -> float:
            events = NoisySizes(grid.k_local, scale).events(target.view) * len(grid.owners)
            return composed_epsilon(events, target.delta, near=target.epsilon).epsilon

        scale = least_noise(spends, Ladder(MAX_SCALE), epsilon=target.epsilon, delta=target.delta)
        return cls(grid=grid, scale=scale)

    def planned_releases(self) -> tuple[PlannedRelease, ...]:
        """Return one release per owner: a record is in a cluster of each."""
        sizes = NoisySizes(self.grid.k_local, self.scale)
        return tuple(PlannedRelease(sizes, (owner,), earlier=AFTER_CENTRES) for owner in self.grid.owners)

    def report(self, delta: float) -> dict[str, Any]:
        """See `MembershipEstimator.report`."""
        grid = self.grid
        return self._reported(
            delta,
            mechanism=f"sizes of the {grid.k_local} clusters of each of {len(grid.owners)} owners plus discrete "
            "Laplace noise",
            sensitivity="of the sizes of one owner: 1-norm 1 (add_or_remove_one) and 2 (replace_one)",
            noise=dict.fromkeys(VIEWS, f"discrete Laplace noise of scale {self.scale} in each size"),
            parameters={"scale": self.scale},
        )

    def count_deviation(self, n_rows: int) -> float:
        """See `MembershipEstimator.count_deviation`. Covers the noise, not the bias of assuming independence."""
        return 2 * self.scale / self.grid.k_local

    async def party(
        self,
        exchange: ShareExchange,
        membership: Memberships | None,
        n_rows: int,
        own: CountsFailures | None = None,
    ) -> None:
        """See `MembershipEstimator.party`. Cost: 1 message of 8 k' bytes per owner."""
        if membership is None:
            return
        session = exchange.session
        noise = await session.draw(NoisySizes(self.grid.k_local, self.scale))
        sizes = zeros_instead(own, partial(np.bincount, minlength=self.grid.k_local), membership, membership[:0])
        await session.send(COORDINATOR, OPENING_STAGE, (sizes + noise).view(np.uint64))

    def walk_through(self, joint: JointTraffic) -> None:
        """See `MembershipEstimator.walk_through`."""
        joint.to_coordinator(dict.fromkeys(self.grid.owners, WORD_BYTES * self.grid.k_local))

    async def coordinator(self, exchange: ShareExchange) -> GridWeights:
        """See `MembershipEstimator.coordinator`. The weights are valid."""
        session, sizes = exchange.session, []
        for owner in self.grid.owners:
            words = await session.receive(owner, OPENING_STAGE, (self.grid.k_local,))
            of_owner = words.view(np.int64)
            if np.any((of_owner > _MAX_SIZE) | (of_owner < -_MAX_SIZE)):
                what = f"{session.names[owner]} sent an impossible cluster size"
                raise PeerViolationError(owner, OPENING_STAGE, what)
            sizes.append(of_owner.astype(np.float64))
        return independent_weights(sizes)

    def redrawn(self, weights: GridWeights, simulated: SimulatedNoise) -> Iterator[GridWeights]:
        """See `MembershipEstimator.redrawn`. What the assumption of independence does to weights is not among it."""
        axes = range(weights.ndim)
        sizes = [weights.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
        deviation = math.sqrt(2) * self.scale
        while True:
            yield independent_weights([of_owner + deviation * simulated.normal(len(of_owner)) for of_owner in sizes])


def independent_weights(sizes: list[GridWeights]) -> GridWeights:
    """Return n prod (size_l / n) for all combinations of clusters, n the mean of the owners' sums.

    Args:
        sizes: noisy, shape (k',) for each owner.

    Returns:
        shape (k',) * S, not negative; 0 where n is not positive.
    """
    n_rows = math.fsum(float(of_owner.sum()) for of_owner in sizes) / len(sizes)
    if n_rows <= 0:
        return np.zeros(tuple(len(of_owner) for of_owner in sizes))
    shares = [valid_counts(of_owner, n_rows) / n_rows for of_owner in sizes]
    return n_rows * reduce(np.multiply.outer, shares)
