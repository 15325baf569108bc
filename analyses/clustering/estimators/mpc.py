"""Membership estimation in MPC: one-hot memberships are shared, their products are summed, noise is added once.

None of the papers has this estimator. Its error is that of a trusted curator, for any number of rows and parties.
"""

import itertools
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from analyses.clustering.estimators.grid_weights import (
    SWEEPS_OF_DRAW,
    Pair,
    pairs_of_weights,
    valid_weights,
    weights_of_pairs,
)
from analyses.clustering.estimators.membership import (
    AFTER_CENTRES,
    GridWeights,
    MembershipEstimator,
    MembershipGrid,
    Memberships,
)
from analyses.job.job import JobError, PrivacyTarget
from analyses.job.plan import OPENING_STAGE
from analyses.job.releases import PlannedRelease
from analyses.pattern_count.products import count_patterns, walk_through_patterns
from analyses.rows.integer_rows import indicators
from analyses.rows.joint_computation import JointComputation
from analyses.rows.traffic import JointTraffic
from analyses.second_moments.spectrum import SimulatedNoise
from dp.cost.views import View
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.operations.rows import RowsOf
from mpc.protocol.shared import SharedArray, concatenate

Cells = Literal["pairs", "joint"]

SCALE = 16
"""Factor on the counts before noise is added. Without it the noise would be whole rows, too coarse where little is
needed."""

ROWS_PER_BLOCK = 1 << 14

COMPUTATION = "memberships"


class MpcEstimator(MembershipEstimator):
    """Counts of memberships plus Skellam noise of which each compute party adds a part.

    `pairs`: for every two owners the k' x k' counts of their memberships, products of one-hot columns summed over the
    rows, of which nothing has to be reduced; the grid's weights are estimated from them (`weights_of_pairs`). `joint`:
    the counts of all k'^S cells (`analyses.pattern_count.products.count_patterns`); three or four owners need one layer
    of products.
    With two owners both are the same. With more, a cell of the grid has too few rows to be seen in the noise where a
    pair still has many; what only three memberships together show is lost.

    Sensitivity: a row is in one cell per pair of owners, or in one of the grid: adding or removing it moves so many
    counts by SCALE, replacing it twice as many at most.

    Attributes:
        cells: what is counted.
        party_mu: of each party's noise in each count.
    """

    cells: Cells
    party_mu: int

    @classmethod
    def calibrate(cls, grid: MembershipGrid, target: PrivacyTarget, options: Mapping[str, Any]) -> Self:
        """See `MembershipEstimator.calibrate`; option `cells`: `pairs` (default) or `joint`."""
        if unknown := sorted(set(options) - {"cells"}):
            raise JobError(f"parameters.counting_options: the estimator `mpc` has no option {unknown[0]!r}")
        cells = options.get("cells", "pairs")
        if cells not in ("pairs", "joint"):
            raise JobError(f"parameters.counting_options.cells: must be 'pairs' or 'joint', not {cells!r}")
        mechanism = SharedSkellam.calibrate(
            length=_n_counts(grid, cells),
            sensitivities=_sensitivities(grid, cells),
            n_parties=grid.n_parties,
            colluding=grid.colluding,
            epsilon=target.epsilon,
            delta=target.delta,
            view=target.view,
        )
        return cls(grid=grid, cells=cells, party_mu=mechanism.party_mu)

    @cached_property
    def mechanism(self) -> SharedSkellam:
        """The release, with its cost."""
        grid, cells = self.grid, self.cells
        length, sensitivities = _n_counts(grid, cells), _sensitivities(grid, cells)
        return SharedSkellam(length, sensitivities, grid.n_parties, grid.colluding, self.party_mu)

    def planned_releases(self) -> tuple[PlannedRelease, ...]:
        """Return the one release; every compute party adds its noise."""
        return (PlannedRelease(self.mechanism, tuple(range(1, self.grid.n_parties + 1)), earlier=AFTER_CENTRES),)

    def report(self, delta: float) -> dict[str, Any]:
        """See `MembershipEstimator.report`."""
        mechanism = self.mechanism
        of = "the grid" if self.cells == "joint" else "pairs of owners"
        return mechanism.report(f"{SCALE} times the rows in each of {mechanism.length} cells of {of}", delta)

    def count_deviation(self, n_rows: int) -> float:
        """Return that of a pair's count; the number of rows does not matter.

        With joint counts a pair consists of k'^(S - 2) cells. What `valid_weights` cuts off or leaves adds up in size,
        not in squares, so it is so many times the deviation of a cell: each cell should be seen by itself.
        """
        cells_of_a_pair = int(self.grid.k_local ** (len(self.grid.owners) - 2))
        return self.cell_deviation * (cells_of_a_pair if self.cells == "joint" else 1)

    @property
    def cell_deviation(self) -> float:
        """Return the standard deviation of the noise of one count, all parties' together, in rows."""
        return self.mechanism.standard_deviation("coordinator") / SCALE

    @property
    def _noise_bound(self) -> int:
        return self.mechanism.noise_tail_bound(LOG2_WRAP_PROBABILITY)

    @property
    def opened_bound(self) -> int:
        """All rows in one cell, and the noise of all parties."""
        return SCALE * self.grid.max_rows + self.grid.n_parties * self._noise_bound

    async def party(self, exchange: ShareExchange, membership: Memberships | None, n_rows: int) -> None:
        """See `MembershipEstimator.party`.

        Cost: 4 rounds, with joint counts one more per layer of products; an owner sends k' (N - t) words per row, with
        joint counts of four owners some 2 (k' - 1)^2 (N - 1 - t) more.
        """
        grid, c = self.grid, JointComputation(exchange, COMPUTATION)
        noise = await c.shared_noise_of(self.mechanism, (self.mechanism.length,), bound=self._noise_bound)
        if self.cells == "joint":
            mine = None if membership is None else indicators_of(membership, grid.k_local - 1)
            counts = await count_patterns(c, grid.owners, grid.shape, mine, n_rows, grid.max_rows)
        else:
            counts = await count_pairs(c, grid, membership, n_rows)
        c.session.progress(OPENING_STAGE, 0, 1)
        await c.open(counts * SCALE + noise)

    def walk_through(self, joint: JointTraffic) -> None:
        """See `MembershipEstimator.walk_through`."""
        grid = self.grid
        joint.shared_noise(self.mechanism.length)
        if self.cells == "joint":
            walk_through_patterns(joint, grid.owners, grid.shape)
        else:
            widths = dict.fromkeys(grid.owners, grid.k_local)
            joint.rows_in_step(widths, joint.n_rows, ROWS_PER_BLOCK, lambda n_block: None, completes_input=False)
        joint.open(self.mechanism.length, 2 * grid.colluding)

    async def coordinator(self, exchange: ShareExchange) -> GridWeights:
        """See `MembershipEstimator.coordinator`."""
        grid, c = self.grid, JointComputation(exchange, COMPUTATION)
        opened = await c.open(c.outline((self.mechanism.length,), 2 * c.t, self.opened_bound))
        assert opened is not None, "the coordinator is the receiver"
        counts = np.asarray(opened.values, dtype=np.float64) / SCALE
        if self.cells == "joint":
            return counts.reshape(grid.shape)
        tables = counts.reshape(-1, grid.k_local, grid.k_local)
        n_rows = float(counts.sum()) / len(tables)
        return weights_of_pairs(dict(zip(_pairs(grid), tables, strict=True)), grid.shape, n_rows)

    def redrawn(self, weights: GridWeights, simulated: SimulatedNoise) -> Iterator[GridWeights]:
        """See `MembershipEstimator.redrawn`."""
        deviation, shape = self.cell_deviation, self.grid.shape
        pairs = pairs_of_weights(weights)
        while True:
            if self.cells == "joint":
                yield valid_weights(weights + deviation * simulated.normal(*shape))
                continue
            noisy = {pair: counts + deviation * simulated.normal(*counts.shape) for pair, counts in pairs.items()}
            n_rows = sum(float(counts.sum()) for counts in noisy.values()) / len(noisy)
            yield weights_of_pairs(noisy, shape, n_rows, SWEEPS_OF_DRAW)


def _pairs(grid: MembershipGrid) -> list[Pair]:
    return list(itertools.combinations(range(len(grid.owners)), 2))


def _n_counts(grid: MembershipGrid, cells: Cells) -> int:
    return grid.n_cells if cells == "joint" else len(_pairs(grid)) * grid.k_local**2


def _sensitivities(grid: MembershipGrid, cells: Cells) -> Mapping[View, VectorSensitivity]:
    touched = 1 if cells == "joint" else len(_pairs(grid))
    return {
        "coordinator": VectorSensitivity(squared_l2=touched * SCALE**2, l1=touched * SCALE),
        "coalition": VectorSensitivity(squared_l2=2 * touched * SCALE**2, l1=2 * touched * SCALE),
    }


def indicators_of(membership: Memberships, n_indicators: int) -> RowsOf:
    """Return what makes rows of indicators, shape (rows, n_indicators); further places have none."""
    return lambda rows: indicators(membership[rows], n_indicators)


async def count_pairs(
    c: JointComputation, grid: MembershipGrid, membership: Memberships | None, n_rows: int
) -> SharedArray:
    """Return the shared counts of all pairs, one pair after the other, row-major: degree 2t, nothing is opened.

    The cost is committed already, before the centres were sent: no input is reported here.
    """
    total = c.public(np.zeros(_n_counts(grid, "pairs"), dtype=np.int64))
    mine = None if membership is None else indicators_of(membership, grid.k_local)
    widths = dict.fromkeys(grid.owners, (grid.k_local,))
    async for one_hot in c.rows_in_step(widths, n_rows, mine, height=ROWS_PER_BLOCK, bound=1, completes_input=False):
        blocks = [one_hot[owner] for owner in grid.owners]
        total = total + await c.session.compute(_cross_counts, blocks)
    return total


def _cross_counts(blocks: list[SharedArray]) -> SharedArray:
    return concatenate([(a.T @ b).reshape(-1) for a, b in itertools.combinations(blocks, 2)])
