"""Membership estimation from randomized memberships: LDP-AGG-2PEst [VertClust23, section 4.1 and appendix B.2].

Every owner reports the membership of every row by itself, most of them false: directly (GRR) or by local hashing (OLH),
whichever has less variance. The coordinator joins the reports about a row, counts every two owners' memberships without
bias and fits the grid to them. No party needs another one's help, and the error grows with the root of the rows and
with the square of the noise.

Differences from the paper (docs/analyses/clustering-countings.md): the reports of all owners about one row count
together; rows are reported from secret slots among `max_rows`, empty ones reporting a choice of their own, so that
neither the length nor the order of the reports tells how many rows there are; the number of buckets is an integer.
"""

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field

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
from analyses.job.job import JobError, PrivacyTarget
from analyses.job.plan import OPENING_STAGE
from analyses.job.releases import PlannedRelease
from analyses.rows.own_values import CountsFailures, zeros_instead
from analyses.rows.slots import MAX_SLOTS, place_rows
from analyses.rows.traffic import JointTraffic
from analyses.second_moments.spectrum import SimulatedNoise
from dp.mechanism.hashing import MAX_BUCKETS, LocalHashing
from dp.mechanism.response import RandomizedResponse
from mpc.errors import PeerViolationError
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import COORDINATOR, Session

SLOTS_AT_ONCE = 1 << 16
"""Per message."""

STEPS = 1 << 20

Oracle = RandomizedResponse | LocalHashing


class LdpEstimator(MembershipEstimator):
    """A report by randomized response about every slot, of every owner.

    The choices are the k' clusters and, for an empty slot, none. Adding or removing a row changes one slot at a secret
    place between empty and full, replacing it changes a full one; either way one choice per owner.

    Attributes:
        truthful_steps: probability of the truth, times 2^20.
        n_buckets: buckets of local hashing; 0 for direct reports.
    """

    truthful_steps: Annotated[int, Field(gt=0, lt=STEPS)]
    n_buckets: Annotated[int, Field(ge=0, le=MAX_BUCKETS)]

    @classmethod
    def calibrate(cls, grid: MembershipGrid, target: PrivacyTarget, options: Mapping[str, Any]) -> Self:
        """See `MembershipEstimator.calibrate`. There are no options."""
        if options:
            raise JobError(f"parameters.counting_options: the estimator `ldp` has no option {next(iter(options))!r}")
        if grid.max_rows > MAX_SLOTS:
            raise JobError(f"parameters.max_rows: the estimator `ldp` supports at most {MAX_SLOTS} rows")
        n_options, n_reports, epsilon, delta = grid.k_local + 1, len(grid.owners), target.epsilon, target.delta
        hashing = LocalHashing.calibrate(n_options, "", n_reports=n_reports, epsilon=epsilon, delta=delta)
        found = [cls._of(grid, hashing.response, hashing.response.n_options)]
        if n_options <= MAX_BUCKETS:
            direct = RandomizedResponse.calibrate(n_options, n_reports=n_reports, epsilon=epsilon, delta=delta)
            found.append(cls._of(grid, direct, 0))
        return min(found, key=lambda one: one.variance)

    @classmethod
    def _of(cls, grid: MembershipGrid, response: RandomizedResponse, n_buckets: int) -> Self:
        return cls(grid=grid, truthful_steps=int(response.truthful * STEPS), n_buckets=n_buckets)

    @property
    def response(self) -> RandomizedResponse:
        """The randomized response, about a choice or about its bucket."""
        return RandomizedResponse(self.n_buckets or self.grid.k_local + 1, Fraction(self.truthful_steps, STEPS))

    @property
    def variance(self) -> float:
        """Variance of the unbiased indicator of a choice, for a slot whose choice is another one."""
        q = self._other
        return q * (1 - q) / (float(self.response.truthful) - q) ** 2

    @property
    def _other(self) -> float:
        """How likely a report speaks for a choice that is not the slot's."""
        return 1 / self.n_buckets if self.n_buckets else float(self.response.other)

    def planned_releases(self) -> tuple[PlannedRelease, ...]:
        """Return one report per owner: a record has a membership at each, and all of them count.

        That a coalition needs no protection from its own members' reports is not made use of.
        """
        n_blocks = len(range(0, self.grid.max_rows, SLOTS_AT_ONCE))
        return tuple(PlannedRelease(self.response, (o,), n_blocks, AFTER_CENTRES) for o in self.grid.owners)

    def report(self, delta: float) -> dict[str, Any]:
        """See `MembershipEstimator.report`."""
        grid, response = self.grid, self.response
        how = f"local hashing to {self.n_buckets} buckets" if self.n_buckets else "direct reports"
        return self._reported(
            delta,
            mechanism=f"a report by randomized response ({how}) of each of {len(grid.owners)} owners about each of "
            f"{grid.max_rows} slots, the truth with probability {float(response.truthful):.6g}",
            sensitivity="a record changes one choice of each owner",
            noise={
                "coordinator": "which reports are true, and the rows' places, are unknown",
                "coalition": "which reports of the other owners are true is unknown",
            },
            parameters={
                "options": grid.k_local + 1,
                "buckets": self.n_buckets,
                "slots": grid.max_rows,
                "epsilon_of_one_report": response.pure_epsilon,
            },
        )

    def count_deviation(self, n_rows: int) -> float:
        """See `MembershipEstimator.count_deviation`. Empty slots count like full ones."""
        noise = self.variance
        return math.sqrt(self.grid.max_rows * noise**2 + 2 * n_rows / self.grid.k_local * noise)

    async def party(
        self,
        exchange: ShareExchange,
        membership: Memberships | None,
        n_rows: int,
        own: CountsFailures | None = None,
    ) -> None:
        """See `MembershipEstimator.party`. Cost: 3 or 4 rounds, a byte per slot and owner."""
        if membership is None:
            return
        session, grid = exchange.session, self.grid
        slots = await place_rows(exchange, grid.owners, n_rows, grid.max_rows, grid.max_rows)
        choice_of_row = np.append(membership, grid.k_local)  # the last one is that of EMPTY
        for block, start in enumerate(range(0, grid.max_rows, SLOTS_AT_ONCE)):
            rows = slots[start : start + SLOTS_AT_ONCE]
            choices = choice_of_row[rows]
            oracle = self._oracle(session, session.me, block)
            noise = await session.draw(self.response, len(choices))
            reports_of = partial(oracle.reports, noise=noise)
            nowhere = np.full_like(choices, grid.k_local)
            reports = await session.compute(zeros_instead, own, reports_of, choices, nowhere)
            await session.send(COORDINATOR, OPENING_STAGE, reports.astype(np.uint8))

    def walk_through(self, joint: JointTraffic) -> None:
        """See `MembershipEstimator.walk_through`: a byte for each slot."""
        joint.owners_key()
        joint.to_coordinator(dict.fromkeys(self.grid.owners, self.grid.max_rows))

    async def coordinator(self, exchange: ShareExchange) -> GridWeights:
        """See `MembershipEstimator.coordinator`. The weights are valid; the reports yield the number of rows."""
        grid, n_owners = self.grid, len(self.grid.owners)
        pairs = {pair: np.zeros((grid.k_local, grid.k_local)) for pair in combinations(range(n_owners), 2)}
        n_rows = 0.0
        for block, start in enumerate(range(0, grid.max_rows, SLOTS_AT_ONCE)):
            n_here = min(SLOTS_AT_ONCE, grid.max_rows - start)
            chosen = [await self._indicators(exchange.session, owner, block, n_here) for owner in grid.owners]
            n_rows += sum(float(of_owner.sum()) for of_owner in chosen) / n_owners
            for first, second in pairs:
                pairs[first, second] += chosen[first].T @ chosen[second]
        return weights_of_pairs(pairs, grid.shape, min(max(n_rows, 0.0), float(grid.max_rows)))

    def redrawn(self, weights: GridWeights, simulated: SimulatedNoise) -> Iterator[GridWeights]:
        """See `MembershipEstimator.redrawn`.

        Direct reports' indicators add up to 1 with that of an empty slot, so their sum is off by one noise per slot;
        the buckets of hashed ones are independent.
        """
        grid, noise, total, p = self.grid, self.variance, float(weights.sum()), float(self.response.truthful)
        if_true = p * (1 - p) / (p - self._other) ** 2
        pairs = pairs_of_weights(weights)
        off = {pair: deviations_of_products(counts, grid.max_rows, noise, if_true) for pair, counts in pairs.items()}
        per_slot = noise * (grid.k_local if self.n_buckets else 1)
        off_in_all = math.sqrt(grid.max_rows * per_slot / len(grid.owners))
        while True:
            noisy = {pair: counts + off[pair] * simulated.normal(*counts.shape) for pair, counts in pairs.items()}
            n_rows = total + off_in_all * float(simulated.normal(1)[0])
            yield weights_of_pairs(noisy, grid.shape, min(max(n_rows, 0.0), float(grid.max_rows)), SWEEPS_OF_DRAW)

    async def _indicators(self, session: Session, owner: int, block: int, n_slots: int) -> GridWeights:
        """Return the unbiased indicators of the clusters, shape (n_slots, k'), from an owner's next message."""
        reports = await session.receive(owner, OPENING_STAGE, (n_slots,), np.uint8)
        if np.any(reports >= self.response.n_options):
            what = f"{session.names[owner]} sent a report that is not one of {self.response.n_options} options"
            raise PeerViolationError(owner, OPENING_STAGE, what)
        oracle = self._oracle(session, owner, block)
        found = await session.compute(oracle.unbiased_indicators, reports.astype(np.int64))
        return found[:, : self.grid.k_local]

    def _oracle(self, session: Session, owner: int, block: int) -> Oracle:
        """Return how an owner reports; hash functions are public, of this job, owner and block of slots."""
        if not self.n_buckets:
            return self.response
        return LocalHashing(self.grid.k_local + 1, self.response, f"{session.job_id}/{owner}/{block}")
