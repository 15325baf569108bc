"""Membership estimation by cardinality sketches: DPFMPS [VertClust23, algorithms 3 to 5] with its privacy repaired.

The owners hash each row with keys that the coordinator never learns; it gets the largest hash of each cluster, a few
thousand times over. From sketches of different owners under the same keys, the sizes of unions and intersections of
their clusters can be estimated. The messages are small, and their size does not grow with the number of rows.

ONE COLLUDING PARTY ENDS ALL PROTECTION: it knows the keys, so the coordinator can hash every row and infer from the
    sketches of the others which clusters the row is not in. An owner who reads the result knows the keys, too. The
    guarantee holds against the coordinator alone; only this guarantee is stated and charged, under a privacy unit that
    says so.

Differences from the paper (docs/analyses/clustering-countings.md): phantoms that all parties of a key share; the cost
of all parties' sketches together; a key per pair of owners, because only pairs are counted; maximum likelihood.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError

from analyses.clustering.estimators.cells import GridWeights
from analyses.clustering.estimators.grid_weights import (
    SWEEPS_OF_DRAW,
    pairs_of_weights,
    weights_of_pairs,
)
from analyses.clustering.estimators.membership import (
    AFTER_CENTRES,
    MembershipEstimator,
    MembershipGrid,
    Memberships,
)
from analyses.clustering.estimators.sketch_estimate import (
    Floats,
    complement_cardinality,
    deviation_of_meeting,
    likely_cardinality,
    likely_meeting,
)
from analyses.job.job import JobError, PrivacyTarget, PublicModel, parameters_error
from analyses.job.plan import OPENING_STAGE
from analyses.job.releases import PlannedRelease
from analyses.rows.own_values import CountsFailures, zeros_instead
from analyses.rows.traffic import JointTraffic
from analyses.second_moments.spectrum import SimulatedNoise
from dp.cost.views import UNIT_AGAINST_COORDINATOR, VIEWS
from dp.mechanism.cardinality import HIGHEST, Levels, PartitionSketch, calibrate_sketch
from dp.mechanism.valid_counts import valid_counts
from mpc.errors import PeerViolationError
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets
from mpc.protocol.hashkey import HashKey, HashKeys
from mpc.protocol.session import COORDINATOR
from mpc.traffic.walk import agree_on_key, greet

MAX_ROWS = 1 << 26
"""Largest number of rows. With more, sketches would reach the highest level too often."""

RELATIVE_DEVIATION = 1.04
"""Relative standard deviation of an estimated cardinality, times the square root of the number of sketches, at gamma =
1."""

Group = tuple[int, ...]
"""Positions of the owners, 0 .. S - 1, that share one hash key."""


class SketchOptions(PublicModel):
    """Options of the estimator `fm-sketch` (`counting_options` of a job).

    Attributes:
        accept_no_protection_against_parties: must be true. See the module.
        sketches: M, per key.
        estimator: `likelihood`: a key per pair of owners, the most likely intersections, fitted by 2PEst. The paper's:
            `2pest`: one key for all owners, unions of complements of pairs, fitted by 2PEst; `basic`: one key, unions
            of the complements of all owners' clusters at once.
    """

    accept_no_protection_against_parties: bool = False
    sketches: Annotated[int, Field(ge=16, le=1 << 16)] = 4096
    estimator: Literal["likelihood", "2pest", "basic"] = "likelihood"


class SketchEstimator(MembershipEstimator):
    """Sketches of every owner's clusters, with phantom rows.

    Attributes:
        options: validated.
        own_phantoms, shared_phantoms, floor: see `dp.mechanism.cardinality.PartitionSketch`.
    """

    options: SketchOptions
    own_phantoms: int
    shared_phantoms: int
    floor: int

    @classmethod
    def calibrate(cls, grid: MembershipGrid, target: PrivacyTarget, options: Mapping[str, Any]) -> Self:
        """See `MembershipEstimator.calibrate`. Options: `SketchOptions`."""
        try:
            chosen = SketchOptions.model_validate(dict(options))
        except ValidationError as error:
            raise parameters_error(error, SketchOptions, "parameters.counting_options") from None
        if not chosen.accept_no_protection_against_parties:
            raise JobError(
                "parameters.counting_options.accept_no_protection_against_parties: the estimator `fm-sketch` protects "
                "against the coordinator alone: a single colluding party reveals the hash keys, and with them all "
                "memberships. Set it to true to accept this, or use the estimator `mpc`"
            )
        if target.view != "coordinator":
            raise JobError(
                "privacy.view: the estimator `fm-sketch` has no guarantee against a coalition, so the view must be "
                "'coordinator'; the estimator `mpc` has one"
            )
        if grid.max_rows > MAX_ROWS:
            raise JobError(f"parameters.max_rows: the estimator `fm-sketch` supports at most {MAX_ROWS} rows")
        groups = _groups(len(grid.owners), chosen)
        sketch = calibrate_sketch(
            grid.k_local, chosen.sketches, len(groups[0]), len(groups), target.epsilon, target.delta
        )
        return cls(
            grid=grid,
            options=chosen,
            own_phantoms=sketch.own_phantoms,
            shared_phantoms=sketch.shared_phantoms,
            floor=sketch.floor,
        )

    @property
    def groups(self) -> list[Group]:
        """The groups of owners that share a key: each pair of owners, or all owners together."""
        return _groups(len(self.grid.owners), self.options)

    @property
    def sketch(self) -> PartitionSketch:
        """The mechanism of the sketches that the owners of one key publish."""
        return PartitionSketch(
            n_clusters=self.grid.k_local,
            n_sketches=self.options.sketches,
            n_parties=len(self.groups[0]),
            own_phantoms=self.own_phantoms,
            shared_phantoms=self.shared_phantoms,
            floor=self.floor,
            n_groups=len(self.groups),
        )

    @property
    def unit(self) -> str:
        """What the events protect, and from whom."""
        return UNIT_AGAINST_COORDINATOR

    @property
    def hides_from_parties(self) -> bool:
        """Always false; see the module."""
        return False

    def planned_releases(self) -> tuple[PlannedRelease, ...]:
        """Return the sketches of all keys, whose events are AGAINST THE COORDINATOR ALONE in both views.

        There is no event for the coalition's view, where nothing is protected: the unit `unit` promises nothing there,
        so no ledger charges it (`dp.cost.views.views_of`). Each owner draws for each key that it has.
        """
        n_keys = sum(0 in group for group in self.groups)  # of the first owner, and so of each
        return (PlannedRelease(self.sketch, self.grid.owners, n_keys, AFTER_CENTRES),)

    def report(self, delta: float) -> dict[str, Any]:
        """See `MembershipEstimator.report`. The coalition's epsilon is None: there is none."""
        grid, sketch, groups = self.grid, self.sketch, self.groups
        found = self._reported(
            delta,
            mechanism=f"{sketch.n_sketches} cardinality sketches of the {grid.k_local} clusters of each owner for each "
            f"of {len(groups)} keys, with {sketch.own_phantoms} phantom rows per cluster and {sketch.shared_phantoms} "
            f"per cell that {len(groups[0])} owners share",
            sensitivity="a record enters one cluster of each owner, with the same hash",
            noise=dict.fromkeys(VIEWS, "the hash keys, and so everybody's hashes, are unknown"),
            parameters={
                "estimator": self.options.estimator,
                "sketches": sketch.n_sketches,
                "keys": len(groups),
                "own_phantoms": sketch.own_phantoms,
                "shared_phantoms": sketch.shared_phantoms,
                "floor": sketch.floor,
            },
            unit=self.unit,
        )
        found["views"]["coalition"] |= {
            "epsilon": None,
            "order": None,
            "order_at_edge": False,
            "noise": "none: a colluding party knows the hash keys, so nothing is protected",
        }
        return found

    def count_deviation(self, n_rows: int) -> float:
        """See `MembershipEstimator.count_deviation`. For clusters of equal size that are independent."""
        sketch, k = self.sketch, self.grid.k_local
        if self.options.estimator == "likelihood":
            size = n_rows / k + sketch.phantoms_of_cluster
            common = n_rows / k**2 + sketch.phantoms_of_meeting
            return deviation_of_meeting(sketch.n_sketches, min(common, size), size, size, sketch.floor)
        union = n_rows * (1 - 1 / k**2) + _phantoms_of_complement(sketch, 2)
        return RELATIVE_DEVIATION * union / math.sqrt(sketch.n_sketches)

    async def party(
        self,
        exchange: ShareExchange,
        membership: Memberships | None,
        n_rows: int,
        own: CountsFailures | None = None,
    ) -> None:
        """See `MembershipEstimator.party`. Cost: 3 or 4 rounds; M k' bytes per owner and key."""
        if membership is None:
            return
        session, owners = exchange.session, self.grid.owners
        secrets = exchange.secrets
        if max(owners) > exchange.n_parties:  # two owners may have no secret in common yet
            secrets = await agree_pairwise_secrets(session, owners, max(owners))
        me = owners.index(session.me)
        mine = [(number, group) for number, group in enumerate(self.groups) if me in group]

        async def key_of(number: int, group: Group) -> HashKey:
            members = [owners[place] for place in group]
            return await HashKeys(session, members, secrets).agree(f"sketch {number}")

        keys = await asyncio.gather(*(key_of(number, group) for number, group in mine))
        for (_, group), key in zip(mine, keys, strict=True):
            drawn = await session.draw(self.sketch)
            publish = partial(self._published, place=group.index(me), key=key, drawn=drawn)
            published = await session.compute(zeros_instead, own, publish, membership, np.zeros_like(membership))
            await session.send(COORDINATOR, OPENING_STAGE, published)

    def _published(self, membership: Memberships, place: int, key: HashKey, drawn: Levels) -> Levels:
        return self.sketch.publish(membership, place, key.stream("rows"), key.stream("phantoms"), drawn)

    def walk_through(self, joint: JointTraffic) -> None:
        """See `MembershipEstimator.walk_through`: keys of all groups side by side, then a sketch for each."""
        owners, groups = self.grid.owners, self.groups
        if max(owners) > joint.n_parties:
            greet(joint.traffic, owners, max(owners))
        of_groups = [[owners[place] for place in group] for group in groups]
        joint.traffic.together(*(lambda of=of: agree_on_key(joint.traffic, of) for of in of_groups))
        n_bytes = self.options.sketches * self.grid.k_local
        joint.to_coordinator({o: n_bytes * sum(o in group for group in of_groups) for o in owners})

    async def coordinator(self, exchange: ShareExchange) -> GridWeights:
        """See `MembershipEstimator.coordinator`. The weights are valid."""
        session, grid = exchange.session, self.grid
        levels = [
            [await self._levels(exchange, grid.owners[place]) for place in group]  # an owner's come in this order
            for group in self.groups
        ]
        return await session.compute(self.estimate, levels)

    def estimate(self, levels: list[list[Levels]]) -> GridWeights:
        """Return the weights that are estimated from the sketches.

        Args:
            levels: for each of `groups`, of each of its owners, shape (M, k').
        """
        n_rows = self.estimated_rows(levels)
        if self.options.estimator == "basic":
            union = complement_cardinality(levels[0])
            phantoms = _phantoms_of_complement(self.sketch, len(self.grid.owners))
            return valid_counts(n_rows - (union - phantoms), n_rows)
        return weights_of_pairs(self.pair_counts(levels, n_rows), self.grid.shape, n_rows)

    def estimated_rows(self, levels: list[list[Levels]]) -> float:
        """Return the number of rows by the sizes of all clusters, within 0 .. max_rows."""
        sketch, grid = self.sketch, self.grid
        sizes = [likely_cardinality(of_owner, sketch.floor).sum() for group in levels for of_owner in group]
        rows = float(np.mean(sizes)) - grid.k_local * sketch.phantoms_of_cluster
        return min(max(rows, 0.0), float(grid.max_rows))

    def pair_counts(self, levels: list[list[Levels]], n_rows: float) -> dict[tuple[int, int], Floats]:
        """Return the rows that each two clusters of two owners have in common, shape (k', k') per pair of places.

        Args:
            levels: see `estimate`.
            n_rows: estimated; `2pest` counts what is not in a union.
        """
        sketch, pairs = self.sketch, list(combinations(range(len(self.grid.owners)), 2))
        if self.options.estimator == "likelihood":
            found = {}
            for pair, (first, second) in zip(pairs, levels, strict=True):
                sizes = likely_cardinality(first, sketch.floor), likely_cardinality(second, sketch.floor)
                found[pair] = likely_meeting(first, second, sizes, sketch.floor) - sketch.phantoms_of_meeting
            return found
        phantoms = _phantoms_of_complement(sketch, 2)
        unions = {(a, b): complement_cardinality([levels[0][a], levels[0][b]]) for a, b in pairs}
        return {pair: n_rows - (union - phantoms) for pair, union in unions.items()}

    def redrawn(self, weights: GridWeights, simulated: SimulatedNoise) -> Iterator[GridWeights]:
        """See `MembershipEstimator.redrawn`. Errors of different cells are drawn as if they were independent."""
        grid, n_groups, n_rows = self.grid, len(self.groups), float(weights.sum())
        # The sizes of one owner's clusters tell the number of rows, once for each key.
        size = n_rows / grid.k_local + self.sketch.phantoms_of_cluster
        off_in_all = RELATIVE_DEVIATION * size * math.sqrt(grid.k_local / self.sketch.n_sketches / n_groups)

        def rows() -> float:
            return min(max(n_rows + off_in_all * float(simulated.normal(1)[0]), 0.0), float(grid.max_rows))

        if self.options.estimator == "basic":
            deviations = self._deviations(weights, n_rows)
            while True:
                yield valid_counts(weights + deviations * simulated.normal(*weights.shape), rows())
        pairs = pairs_of_weights(weights)
        off = {pair: self._deviations(counts, n_rows) for pair, counts in pairs.items()}
        while True:
            noisy = {pair: counts + off[pair] * simulated.normal(*counts.shape) for pair, counts in pairs.items()}
            yield weights_of_pairs(noisy, grid.shape, rows(), SWEEPS_OF_DRAW)

    def _deviations(self, counts: GridWeights, n_rows: float) -> GridWeights:
        """Return about the standard deviations of the estimated counts of cells, of a pair of owners or of the grid."""
        sketch = self.sketch
        if self.options.estimator != "likelihood":
            phantoms = _phantoms_of_complement(sketch, counts.ndim)
            return RELATIVE_DEVIATION * (n_rows - counts + phantoms) / math.sqrt(sketch.n_sketches)
        sizes = [counts.sum(axis=axis) + sketch.phantoms_of_cluster for axis in (1, 0)]
        return np.array(
            [
                [
                    deviation_of_meeting(
                        sketch.n_sketches, min(common + sketch.phantoms_of_meeting, a, b), a, b, sketch.floor
                    )
                    for common, b in zip(row, sizes[1], strict=True)
                ]
                for row, a in zip(counts.tolist(), sizes[0].tolist(), strict=True)
            ]
        )

    async def _levels(self, exchange: ShareExchange, owner: int) -> Levels:
        session, sketch = exchange.session, self.sketch
        levels = await session.receive(owner, OPENING_STAGE, (sketch.n_sketches, sketch.n_clusters), np.uint8)
        if np.any((levels < sketch.floor) | (levels > HIGHEST)):
            what = f"{session.names[owner]} sent a sketch below its floor or above the highest level"
            raise PeerViolationError(owner, OPENING_STAGE, what)
        return levels


def _groups(n_owners: int, options: SketchOptions) -> list[Group]:
    places = tuple(range(n_owners))
    return list(combinations(places, 2)) if options.estimator == "likelihood" else [places]


def _phantoms_of_complement(sketch: PartitionSketch, n_owners: int) -> int:
    """Return the phantoms in the union of all clusters but one of each of `n_owners` owners of a key."""
    k, s = sketch.n_clusters, sketch.n_parties
    return int((k**s - k ** (s - n_owners)) * sketch.shared_phantoms + n_owners * (k - 1) * sketch.own_phantoms)
