"""Membership estimation by randomized bits: pattern counting [VertPrim23, appendix B] with memberships as categories.

Each owner reports, for every row and each of its clusters, whether the row is in it, each bit truthful with a
probability a little above one half. With a `share`, only a secret sample of the slots is reported, which protects the
rows from the coordinator, and leaves more truth in each bit.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError

from analyses.clustering.estimators.cells import GridWeights
from analyses.clustering.estimators.grid_weights import (
    SWEEPS_OF_DRAW,
    deviations_of_products,
    pairs_of_weights,
    weights_of_pairs,
)
from analyses.clustering.estimators.membership import (
    AFTER_CENTRES,
    MembershipEstimator,
    MembershipGrid,
    Memberships,
)
from analyses.job.job import Finite, JobError, PrivacyTarget, PublicModel, parameters_error
from analyses.job.plan import OPENING_STAGE
from analyses.job.releases import PlannedRelease
from analyses.pattern_count.reports import PatternReports, PatternTally
from analyses.rows.own_values import CountsFailures, zeros_instead
from analyses.rows.slots import EMPTY, MAX_SLOTS, place_rows
from analyses.rows.traffic import JointTraffic
from analyses.second_moments.spectrum import SimulatedNoise
from dp.cost.composition import composed_epsilon
from dp.cost.losses.sampled_bits import MAX_BITS
from dp.mechanism.bits import BIAS_UNIT, RandomizedBits
from dp.mechanism.valid_counts import valid_counts
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import COORDINATOR


class PatternOptions(PublicModel):
    """Options of the estimator `pattern` (`counting_options` of a job).

    Attributes:
        share: fraction of the slots that is reported; all slots by default.
        patterns: `pairs` counts every two owners' memberships and fits the grid to them (2PEst); `all` counts the
            memberships of all owners at once, as the source does.
    """

    share: Annotated[Finite, Field(gt=0, lt=1)] | None = None
    patterns: Literal["pairs", "all"] = "pairs"


class PatternEstimator(MembershipEstimator):
    """A randomized bit of every owner about every reported slot and each cluster.

    Adding or removing a row sets or clears one bit per owner, in a slot at a secret place; replacing it moves one.

    Attributes:
        options: validated.
        bias_units: bias of the bits, in `dp.mechanism.bits.BIAS_UNIT`.
    """

    options: PatternOptions
    bias_units: Annotated[int, Field(gt=0)]

    @classmethod
    def calibrate(cls, grid: MembershipGrid, target: PrivacyTarget, options: Mapping[str, Any]) -> Self:
        """See `MembershipEstimator.calibrate`. Options: `PatternOptions`."""
        try:
            chosen = PatternOptions.model_validate(dict(options))
        except ValidationError as error:
            raise parameters_error(error, PatternOptions, "parameters.counting_options") from None
        if grid.max_rows > MAX_SLOTS:
            raise JobError(f"parameters.max_rows: the estimator `pattern` supports at most {MAX_SLOTS} rows")
        if len(grid.owners) > MAX_BITS:
            raise JobError(f"inputs: the estimator `pattern` supports at most {MAX_BITS} owners")

        def epsilon_of(bits: RandomizedBits) -> float:
            tried = cls(grid=grid, options=chosen, bias_units=int(bits.bias / BIAS_UNIT))
            return composed_epsilon(tried.events(target.view), target.delta, near=target.epsilon).epsilon

        bits = RandomizedBits.largest_bias(epsilon_of, epsilon=target.epsilon, delta=target.delta)
        return cls(grid=grid, options=chosen, bias_units=int(bits.bias / BIAS_UNIT))

    @property
    def reports(self) -> PatternReports:
        """What all owners report."""
        return self._reports_of(len(self.grid.owners))

    def _reports_of(self, n_owners: int) -> PatternReports:
        n_slots, share = max(2, self.grid.max_rows), self.options.share
        n_reported = n_slots if share is None else max(2, math.ceil(Fraction(share) * n_slots))
        bits = RandomizedBits(self.bias_units * BIAS_UNIT)
        return PatternReports((self.grid.k_local,) * n_owners, n_slots, n_reported, bits)

    def planned_releases(self) -> tuple[PlannedRelease, ...]:
        """Return the bits of all owners, of which each draws flips for each block of slots."""
        reports = self.reports
        return (PlannedRelease(reports, self.grid.owners, reports.n_blocks, AFTER_CENTRES),)

    def report(self, delta: float) -> dict[str, Any]:
        """See `MembershipEstimator.report`."""
        grid, reports = self.grid, self.reports
        return self._reported(
            delta,
            mechanism=f"a bit of each of {len(grid.owners)} owners about each of its clusters in {reports.n_reported} "
            f"of {reports.n_slots} slots, true with probability {float(reports.bits.truthful):.6g}",
            sensitivity="a record sets one bit per owner (add_or_remove_one), or moves it (replace_one)",
            noise={
                "coordinator": "all flips of bits, and the rows' places, are unknown",
                "coalition": "flips of the other owners' bits are unknown",
            },
            parameters={
                "bias": float(reports.bits.bias),
                "slots": reports.n_slots,
                "reported": reports.n_reported,
                "patterns": self.options.patterns,
            },
        )

    def count_deviation(self, n_rows: int) -> float:
        """See `MembershipEstimator.count_deviation`. Empty slots count like full ones; a sample is scaled up."""
        reports = self.reports
        noise, kept = self._noise, reports.n_reported / reports.n_slots
        of_pair = n_rows / self.grid.k_local**2
        noisy = reports.n_slots * noise**2 + 2 * n_rows / self.grid.k_local * noise
        return math.sqrt(noisy / kept + of_pair * (1 / kept - 1))

    @property
    def _noise(self) -> float:
        """Variance of the unbiased indicator that follows from a bit."""
        return float(1 / (16 * self.reports.bits.bias**2)) - 0.25

    def redrawn(self, weights: GridWeights, simulated: SimulatedNoise) -> Iterator[GridWeights]:
        """See `MembershipEstimator.redrawn`. A sample of the slots is scaled up."""
        grid, reports = self.grid, self.reports
        kept = reports.n_reported / reports.n_slots

        def deviations(counts: GridWeights) -> GridWeights:
            of_bits = deviations_of_products(counts, reports.n_slots, self._noise, self._noise)
            return np.sqrt(of_bits**2 / kept + counts * (1 / kept - 1))

        if self.options.patterns == "all":
            off = deviations(weights)
            while True:
                yield valid_counts(weights + off * simulated.normal(*weights.shape))
        pairs = pairs_of_weights(weights)
        off_of = {pair: deviations(counts) for pair, counts in pairs.items()}
        while True:
            noisy = {pair: counts + off_of[pair] * simulated.normal(*counts.shape) for pair, counts in pairs.items()}
            n_rows = math.fsum(float(counts.sum()) for counts in noisy.values()) / len(noisy)
            yield weights_of_pairs(noisy, grid.shape, min(max(n_rows, 0.0), float(grid.max_rows)), SWEEPS_OF_DRAW)

    async def party(
        self,
        exchange: ShareExchange,
        membership: Memberships | None,
        n_rows: int,
        own: CountsFailures | None = None,
    ) -> None:
        """See `MembershipEstimator.party`. Cost: 3 or 4 rounds, k' bits per reported slot and owner."""
        if membership is None:
            return
        session, reports = exchange.session, self.reports
        slots = await place_rows(exchange, self.grid.owners, n_rows, reports.n_slots, reports.n_reported)
        mine = self.grid.owners.index(session.me)
        cluster_of_row = np.append(membership, EMPTY)  # the last one is that of an empty slot
        for block in reports.blocks():
            in_slots = cluster_of_row[slots[block.start : block.stop]]
            flips = await session.draw(reports, mine, len(block))
            packed = partial(reports.packed, mine, flips=flips)
            message = await session.compute(zeros_instead, own, packed, in_slots, np.full_like(in_slots, EMPTY))
            await session.send(COORDINATOR, OPENING_STAGE, message)

    def walk_through(self, joint: JointTraffic) -> None:
        """See `MembershipEstimator.walk_through`."""
        joint.owners_key()
        blocks = list(self.reports.blocks())
        joint.to_coordinator(
            {o: sum(self.reports.message_bytes(j, block) for block in blocks) for j, o in enumerate(self.grid.owners)}
        )

    async def coordinator(self, exchange: ShareExchange) -> GridWeights:
        """See `MembershipEstimator.coordinator`. Raw counts with `all`, else valid weights that fit all pairs."""
        session, grid, reports = exchange.session, self.grid, self.reports
        n_owners = len(grid.owners)
        together = tuple(range(n_owners))
        groups = [together] if self.options.patterns == "all" else list(combinations(together, 2))
        tallies = {group: PatternTally(self._reports_of(len(group))) for group in groups}
        for block in reports.blocks():
            sizes = [reports.message_bytes(axis, block) for axis in together]
            coming = [
                session.receive(owner, OPENING_STAGE, (size,), np.uint8)
                for owner, size in zip(grid.owners, sizes, strict=True)
            ]
            messages = await asyncio.gather(*coming)
            for group, tally in tallies.items():
                await session.compute(tally.add, block, [messages[axis] for axis in group])
        if self.options.patterns == "all":
            return tallies[together].estimate().counts
        pairs = {(group[0], group[1]): tally.estimate().counts for group, tally in tallies.items()}
        n_rows = math.fsum(float(counts.sum()) for counts in pairs.values()) / len(pairs)
        return weights_of_pairs(pairs, grid.shape, min(max(n_rows, 0.0), float(grid.max_rows)))
