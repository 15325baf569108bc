"""Membership estimation in MPC: one-hot memberships are shared, their products are summed, noise is added once.

None of the papers has this estimator. Its error is that of a trusted curator, for any number of rows and parties.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from analyses.clustering.estimators.cells import Cells, GridWeights, Pair
from analyses.clustering.estimators.grid_weights import (
    SWEEPS_OF_DRAW,
    pairs_of_weights,
    weights_of_pairs,
)
from analyses.clustering.estimators.latent_classes import cells_of_pairs
from analyses.clustering.estimators.membership import (
    AFTER_CENTRES,
    MembershipEstimator,
    MembershipGrid,
    Memberships,
)
from analyses.clustering.weighted_clustering import Choices
from analyses.job.job import JobError, PrivacyTarget
from analyses.job.norm_bounds import Bounds, fitted, projections_of, with_proofs
from analyses.job.plan import OPENING_STAGE
from analyses.job.releases import PlannedRelease
from analyses.pattern_count.products import count_patterns, walk_through_patterns
from analyses.rows.integer_column import NO_PLACE
from analyses.rows.integer_rows import indicators
from analyses.rows.joint_computation import JointComputation, computation_of
from analyses.rows.own_values import CountsFailures, zeros_instead
from analyses.rows.traffic import JointTraffic
from analyses.second_moments.spectrum import SimulatedNoise
from dp.cost.views import RECORD, View
from dp.mechanism.norm_proof import MaskedProjections
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from dp.mechanism.valid_counts import valid_counts
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from mpc.proofs.norm_bound import NormBound
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.operations.rows import RowsOf
from mpc.protocol.shared import SharedArray, concatenate

Counted = Literal["pairs", "joint"]

SCALE = 16
"""Factor on the counts before noise is added. Without it the noise would be whole rows, too coarse where little is
needed."""

ROWS_PER_BLOCK = 1 << 14

COMPUTATION = "memberships"

MAX_FITTED_CELLS = 1 << 12
"""Largest grid whose weights are all fitted to the counts of pairs. Eight owners with four local clusters each would
take 9 s of a processor for it; a model of classes takes .02 s, and the clusters lose no more."""

_KEY = b"classes of memberships: the key."


class MpcEstimator(MembershipEstimator):
    """Counts of memberships plus Skellam noise of which each compute party adds a part.

    `pairs`: for every two owners the k' x k' counts of their memberships, products of one-hot columns summed over the
    rows, of which nothing has to be reduced; the grid's weights are estimated from them (`weights_of_pairs`), and where
    the grid is large only cells that a model draws (`latent_classes`). `joint`: the counts of all k'^S cells
    (`analyses.pattern_count.products.count_patterns`); three or four owners need one layer of products.
    With two owners both are the same. With more, a cell of the grid has too few rows to be seen in the noise where a
    pair still has many; what only three memberships together show is lost.

    Sensitivity: a row is in one cell per pair of owners, or in one of the grid: adding or removing it moves so many
    counts by SCALE, replacing it twice as many at most.

    Attributes:
        cells: what is counted.
        party_mu: Skellam parameter of each party's noise in each count.
        proof_primes: primes of the field, chosen for proofs of memberships; 0 where nothing is proven. The JSON of
            other jobs does not show the field.
    """

    cells: Counted
    party_mu: int
    proof_primes: Annotated[int, Field(exclude_if=lambda primes: not primes)] = 0

    @classmethod
    def calibrate(cls, grid: MembershipGrid, target: PrivacyTarget, options: Mapping[str, Any]) -> Self:
        """See `MembershipEstimator.calibrate`; option `cells`: `pairs` (default) or `joint`."""
        if unknown := sorted(set(options) - {"cells"}):
            raise JobError(f"parameters.counting_options: the estimator `mpc` has no option {unknown[0]!r}")
        cells = options.get("cells", "pairs")
        if cells not in ("pairs", "joint"):
            raise JobError(f"parameters.counting_options.cells: must be 'pairs' or 'joint', not {cells!r}")

        def calibrated(epsilon: float) -> SharedSkellam:
            return SharedSkellam.calibrate(
                length=_n_counts(grid, cells),
                sensitivities=_sensitivities(grid, cells),
                n_parties=grid.n_parties,
                colluding=grid.colluding,
                epsilon=epsilon,
                delta=target.delta,
                view=target.view,
            )

        proven = _proven_bounds(grid, cells)
        mechanism, n_primes = with_proofs(
            calibrated, lambda made: _opened_bound(grid, made), proven, target, RECORD, grid.n_parties
        )
        return cls(grid=grid, cells=cells, party_mu=mechanism.party_mu, proof_primes=n_primes if grid.is_proven else 0)

    @cached_property
    def mechanism(self) -> SharedSkellam:
        """The release, with its cost."""
        grid, cells = self.grid, self.cells
        length, sensitivities = _n_counts(grid, cells), _sensitivities(grid, cells)
        return SharedSkellam(length, sensitivities, grid.n_parties, grid.colluding, self.party_mu)

    def planned_releases(self) -> tuple[PlannedRelease, ...]:
        """Return the one release, to which every compute party adds its noise; and what owners' proofs show."""
        proofs = (PlannedRelease(self._masks_of(owner), (owner,), earlier=AFTER_CENTRES) for owner in self.norm_bounds)
        parties = tuple(range(1, self.grid.n_parties + 1))
        return (PlannedRelease(self.mechanism, parties, earlier=AFTER_CENTRES), *proofs)

    @cached_property
    def norm_bounds(self) -> Bounds:
        """See `MembershipEstimator`: a row has one membership, or none."""
        return fitted(_proven_bounds(self.grid, self.cells), self.proof_primes) if self.proof_primes else {}

    @property
    def n_primes(self) -> int:
        """See `MembershipEstimator`."""
        return self.proof_primes or super().n_primes

    def _masks_of(self, owner: int) -> MaskedProjections:
        return projections_of(self.norm_bounds[owner], RECORD)

    def _computation(self, exchange: ShareExchange) -> JointComputation:
        me = exchange.session.me
        masks = self._masks_of(me) if me in self.norm_bounds else None
        return computation_of(exchange, self.norm_bounds, masks, COMPUTATION)

    def report(self, delta: float) -> dict[str, Any]:
        """See `MembershipEstimator.report`."""
        mechanism = self.mechanism
        of = "the grid" if self.cells == "joint" else "pairs of owners"
        return mechanism.report(f"{SCALE} times the rows in each of {mechanism.length} cells of {of}", delta)

    def count_deviation(self, n_rows: int) -> float:
        """Return that of a pair's count; the number of rows does not matter.

        With joint counts a pair consists of k'^(S - 2) cells. What `valid_counts` cuts off or leaves adds up in size,
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
        return _opened_bound(self.grid, self.mechanism)

    async def party(
        self,
        exchange: ShareExchange,
        membership: Memberships | None,
        n_rows: int,
        own: CountsFailures | None = None,
    ) -> None:
        """See `MembershipEstimator.party`.

        Cost: 4 rounds, with joint counts one more per layer of products; an owner sends k' (N - t) words per row, with
        joint counts of four owners some 2 (k' - 1)^2 (N - 1 - t) more.
        """
        grid, c = self.grid, self._computation(exchange)
        noise = await c.shared_noise_of(self.mechanism, (self.mechanism.length,), bound=self._noise_bound)
        if self.cells == "joint":
            mine = None if membership is None else indicators_of(membership, grid.k_local - 1, own)
            counts = await count_patterns(c, grid.owners, grid.shape, mine, n_rows, grid.max_rows)
        else:
            counts = await count_pairs(c, grid, membership, n_rows, own)
        c.session.progress(OPENING_STAGE, 0, 1)
        await c.open(counts * SCALE + noise)

    def walk_through(self, joint: JointTraffic) -> None:
        """See `MembershipEstimator.walk_through`."""
        grid = self.grid
        joint.shared_noise_of(self.mechanism.length, self._noise_bound)
        if self.cells == "joint":
            walk_through_patterns(joint, grid.owners, grid.shape)
        else:
            widths = dict.fromkeys(grid.owners, grid.k_local)
            k = grid.k_local
            sums = [joint.product_sum(k * k) for _ in _pairs(grid)]

            def multiplied(n_block: int) -> None:
                for counts in sums:
                    counts.add(n_block, 2 * k * n_block)

            joint.rows_in_step(widths, joint.n_rows, ROWS_PER_BLOCK, multiplied, completes_input=False)
            for counts in sums:
                counts.total()
        joint.open(self.mechanism.length, joint.product_degree)

    async def coordinator(self, exchange: ShareExchange) -> GridWeights:
        """See `MembershipEstimator.coordinator`."""
        grid, counts = self.grid, await self._opened(exchange)
        if self.cells == "joint":
            return counts.reshape(grid.shape)
        tables = counts.reshape(-1, grid.k_local, grid.k_local)
        return weights_of_pairs(dict(zip(_pairs(grid), tables, strict=True)), grid.shape, _rows_of(tables))

    async def _opened(self, exchange: ShareExchange) -> NDArray[np.float64]:
        c = self._computation(exchange)
        opened = await c.open(c.outline((self.mechanism.length,), c.product_degree, self.opened_bound))
        assert opened is not None, "the coordinator is the receiver"
        return np.asarray(opened.values, dtype=np.float64) / SCALE

    @classmethod
    def counts_pairs(cls, options: Mapping[str, Any]) -> bool:
        """See `MembershipEstimator.counts_pairs`."""
        return options.get("cells") != "joint"

    @property
    def is_by_classes(self) -> bool:
        """Whether cells are drawn from a model of the counts of pairs (`latent_classes`), as all of them are many."""
        return self.cells == "pairs" and self.grid.n_owners > 2 and self.grid.n_cells > MAX_FITTED_CELLS

    async def weighted_cells(self, exchange: ShareExchange) -> Cells:
        """See `MembershipEstimator.weighted_cells`."""
        if not self.is_by_classes:
            return await super().weighted_cells(exchange)
        tables = (await self._opened(exchange)).reshape(-1, self.grid.k_local, self.grid.k_local)
        return await exchange.session.compute(self.cells_of, dict(zip(_pairs(self.grid), tables, strict=True)))

    def cells_of(self, pairs: Mapping[Pair, NDArray[np.float64]]) -> Cells:
        """Return the cells of noisy counts of pairs by the model (`is_by_classes`)."""
        n_rows, choices = _rows_of(list(pairs.values())), Choices.of_key(_KEY)
        return cells_of_pairs(pairs, self.grid.n_owners, n_rows, self.cell_deviation, choices)

    def redrawn_cells(self, cells: Cells, simulated: SimulatedNoise) -> Iterator[Cells]:
        """See `MembershipEstimator.redrawn_cells`."""
        if not self.is_by_classes:
            yield from super().redrawn_cells(cells, simulated)
            return
        pairs, deviation = cells.pairs(), self.cell_deviation
        while True:
            noisy = {pair: counts + deviation * simulated.normal(*counts.shape) for pair, counts in pairs.items()}
            yield self.cells_of(noisy)

    def redrawn(self, weights: GridWeights, simulated: SimulatedNoise) -> Iterator[GridWeights]:
        """See `MembershipEstimator.redrawn`."""
        deviation, shape = self.cell_deviation, self.grid.shape
        pairs = pairs_of_weights(weights)
        while True:
            if self.cells == "joint":
                yield valid_counts(weights + deviation * simulated.normal(*shape))
                continue
            noisy = {pair: counts + deviation * simulated.normal(*counts.shape) for pair, counts in pairs.items()}
            yield weights_of_pairs(noisy, shape, _rows_of(list(noisy.values())), SWEEPS_OF_DRAW)


def _pairs(grid: MembershipGrid) -> list[Pair]:
    return list(itertools.combinations(range(len(grid.owners)), 2))


def _rows_of(tables: Sequence[NDArray[np.float64]] | NDArray[np.float64]) -> float:
    """Return how many rows tables of pairs have, which all count each row once."""
    return math.fsum(float(counts.sum()) for counts in tables) / len(tables)


def _n_counts(grid: MembershipGrid, cells: Counted) -> int:
    return grid.n_cells if cells == "joint" else len(_pairs(grid)) * grid.k_local**2


def _opened_bound(grid: MembershipGrid, mechanism: SharedSkellam) -> int:
    return SCALE * grid.max_rows + grid.n_parties * mechanism.noise_tail_bound(LOG2_WRAP_PROBABILITY)


def _proven_bounds(grid: MembershipGrid, cells: Counted) -> Bounds:
    """Return what owners prove of rows of indicators, with the smallest masks; nothing where nothing is proven."""
    if not grid.is_proven:
        return {}
    width = grid.k_local - 1 if cells == "joint" else grid.k_local
    return dict.fromkeys(grid.owners, NormBound(width, 1, grid.max_rows, is_one_hot=True))


def _sensitivities(grid: MembershipGrid, cells: Counted) -> Mapping[View, VectorSensitivity]:
    touched = 1 if cells == "joint" else len(_pairs(grid))
    return {
        "coordinator": VectorSensitivity(squared_l2=touched * SCALE**2, l1=touched * SCALE),
        "coalition": VectorSensitivity(squared_l2=2 * touched * SCALE**2, l1=2 * touched * SCALE),
    }


def indicators_of(membership: Memberships, n_indicators: int, own: CountsFailures | None = None) -> RowsOf:
    """Return what makes rows of indicators, shape (rows, n_indicators); further places have none."""

    def of_rows(rows: slice) -> Memberships:
        mine = membership[rows]
        return zeros_instead(own, lambda places: indicators(places, n_indicators), mine, np.full_like(mine, NO_PLACE))

    return of_rows


async def count_pairs(
    c: JointComputation,
    grid: MembershipGrid,
    membership: Memberships | None,
    n_rows: int,
    own: CountsFailures | None = None,
) -> SharedArray:
    """Return the shared counts of all pairs, one pair after the other, row-major. Nothing is opened.

    The cost is committed already, before the centres were sent: no input is reported here.
    """
    sums = [c.product_sum(grid.k_local, grid.k_local) for _ in _pairs(grid)]
    mine = None if membership is None else indicators_of(membership, grid.k_local, own)
    widths = dict.fromkeys(grid.owners, (grid.k_local,))
    async for one_hot in c.rows_in_step(widths, n_rows, mine, height=ROWS_PER_BLOCK, bound=1, completes_input=False):
        blocks = [one_hot[owner] for owner in grid.owners]
        for counts, (i, j) in zip(sums, _pairs(grid), strict=True):
            await counts.add(blocks[i].T, blocks[j])
    return concatenate([(await counts.total()).reshape(-1) for counts in sums])
