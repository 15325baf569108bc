"""Estimating how many rows fall into each combination of local clusters: the interface of all membership estimators.

Each of S owners has split the rows into k' local clusters of its own columns, so each row has S memberships
(a_1 .. a_S), each 0 .. k' - 1. A membership estimator gives the coordinator noisy counts of the rows in each of the
k'^S cells of that grid, and states their privacy cost. `analyses.clustering.protocol` chooses an estimator by name and
uses it through this interface only.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from analyses.clustering.estimators.cells import Cells, GridWeights
from analyses.job.job import PrivacyTarget, PublicModel
from analyses.job.norm_bounds import Bounds
from analyses.job.releases import PlannedRelease
from analyses.rows.own_values import CountsFailures
from analyses.rows.traffic import JointTraffic
from analyses.second_moments.spectrum import SimulatedNoise
from dp.cost.events.event import PrivacyEvent
from dp.cost.report import privacy_report
from dp.cost.views import UNIT, VIEWS, View
from dp.mechanism.valid_counts import valid_counts
from mpc.arithmetic.field import ResidueField
from mpc.protocol.exchange import ShareExchange

Memberships = NDArray[np.int64]
"""The local cluster of each row at one party: shape (rows,), values 0 .. k' - 1."""

MAX_CELLS = 1 << 16
"""Largest number of cells that can be counted, and largest number of those of a grid that is held."""


CENTRES_STAGE = "centres"
"""Messages of owners to the coordinator: the gate lets them pass once the cost is committed."""

AFTER_CENTRES = frozenset({CENTRES_STAGE})
"""Owners' centres leave before the noise of a counting is drawn: they have noise of their own."""


class MembershipGrid(PublicModel):
    """What is counted, and among whom. Public.

    Attributes:
        owners: member numbers of the S parties with memberships, in the order of the joint table.
        members: all member numbers but the coordinator's.
        n_parties: N; the compute parties are 1..N.
        colluding: t.
        k_local: k', local clusters of each owner.
        is_proven: whether owners prove that a row has one membership; the JSON of other jobs does not show the field.
        max_rows: public upper bound of the number of rows. The number itself is known to the parties and must not get
            to the coordinator, not even as the length of a message.
    """

    owners: tuple[int, ...]
    members: tuple[int, ...]
    n_parties: int
    colluding: int
    k_local: Annotated[int, Field(ge=2)]
    max_rows: Annotated[int, Field(ge=1)]
    is_proven: Annotated[bool, Field(exclude_if=lambda proven: not proven)] = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(k',) * S."""
        return (self.k_local,) * len(self.owners)

    @property
    def n_owners(self) -> int:
        """S."""
        return len(self.owners)

    @property
    def n_cells(self) -> int:
        """k'^S."""
        return int(self.k_local ** len(self.owners))


class MembershipEstimator(PublicModel, ABC):
    """A planned membership estimator: noise and sizes are fixed. It is public, a part of the plan and of its digest.

    A subclass adds the fields that its own parameters need. All numbers in it are computed alike by all members.

    Attributes:
        grid: what is counted.
    """

    grid: MembershipGrid

    @classmethod
    @abstractmethod
    def calibrate(cls, grid: MembershipGrid, target: PrivacyTarget, options: Mapping[str, Any]) -> Self:
        """Return the estimator with the smallest error whose events cost at most `target`.

        Args:
            grid: what is counted.
            target: the estimator's share of the job's budget: `events(target.view)` at `target.delta` must cost at most
                `target.epsilon`. The centres' cost comes on top; `analyses.clustering.protocol` composes both.
            options: `parameters.counting_options` of the job, not yet validated.

        Raises:
            JobError: an option is unknown or out of range, or the target cannot be met; names the field.
            CalibrationError: the noise would leave the range of the sampler.
        """

    @abstractmethod
    def planned_releases(self) -> tuple[PlannedRelease, ...]:
        """Return everything that the counting releases, and who draws the noise; centres leave before.

        A record of the joint table is the unit: all owners' messages about one row count together.
        """

    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what all releases cost, for the neighbours of a view (`dp.cost.views.ADJACENCY`)."""
        return tuple(chain.from_iterable(planned.release.events(view) for planned in self.planned_releases()))

    @abstractmethod
    def report(self, delta: float) -> dict[str, Any]:
        """Return mechanism, sensitivity and noise as plain JSON data; public."""

    def _reported(self, delta: float, **words: Any) -> dict[str, Any]:
        """Return the report of what all members of the grid draw, with words of an estimator: `privacy_report`."""
        return privacy_report(
            n_parties=self.grid.n_parties,
            colluding=self.grid.colluding,
            delta=delta,
            events={view: self.events(view) for view in VIEWS},
            **words,
        )

    @abstractmethod
    def count_deviation(self, n_rows: int) -> float:
        """Return about how far, in rows, a count of one pair of memberships of two owners is off (standard deviation).

        It is used only to choose k'; no guarantee depends on it.

        Args:
            n_rows: a public guess of the number of rows.
        """

    @abstractmethod
    def redrawn(self, weights: GridWeights, simulated: SimulatedNoise) -> Iterator[GridWeights]:
        """Yield weights as they might come out if `weights` were true, without end: errors as of `coordinator`, anew.

        Errors are drawn by their public law, or one of about the same deviations, so that results can say how far they
        may be off. It looks at released numbers only.

        Args:
            weights: valid.
            simulated: where draws come from.
        """

    @property
    def unit(self) -> str:
        """The unit that the events protect; budgets are kept per unit. It differs where the guarantee is weaker."""
        return UNIT

    @classmethod
    def counts_pairs(cls, options: Mapping[str, Any]) -> bool:
        """Return whether pairs are counted, and a model of their counts stands for a grid that is too large to be held.

        Args:
            options: `parameters.counting_options` of the job, not yet validated.
        """
        return False

    @property
    def hides_from_parties(self) -> bool:
        """Whether there is a guarantee against a coalition.

        If not, `events` returns the coordinator's events for both views, `unit` says so, and the epsilon of the
        coalition's view is None in the report.
        """
        return True

    @property
    def opened_bound(self) -> int:
        """Bound on the absolute value of all opened values; it determines the field. 1 if nothing is shared."""
        return 1

    @property
    def norm_bounds(self) -> Bounds:
        """What owners prove of their memberships in a job with `security = "malicious"`; empty if they prove nothing.

        `planned_releases` has what these proofs show.
        """
        return {}

    @property
    def n_primes(self) -> int:
        """Primes of the field that holds all opened values, and of proofs what they need."""
        return len(ResidueField.for_bound(self.opened_bound).primes)

    @abstractmethod
    async def party(
        self,
        exchange: ShareExchange,
        membership: Memberships | None,
        n_rows: int,
        own: CountsFailures | None = None,
    ) -> None:
        """Run a party's part, after the rows were found to be aligned and this party's centres were released.

        Args:
            exchange: my end, with pairwise keys with the compute parties; in the field that `opened_bound` chose.
                Its `session.entropy` is the only source of randomness.
            membership: mine; None for a compute party without columns.
            n_rows: rows of the joint table, known to all parties; 0 for members that hold no shares and no table.
            own: my table, which keeps account of what its values raise (`analyses.rows.own_values`).

        Raises:
            PeerError: a member is silent, drops out or violates the protocol.
        """

    @abstractmethod
    def walk_through(self, joint: JointTraffic) -> None:
        """Walk through what `party` sends, at all parties (`mpc.traffic`)."""

    @abstractmethod
    async def coordinator(self, exchange: ShareExchange) -> GridWeights:
        """Run the coordinator's part and return the estimated rows of each cell, float64 of shape `grid.shape`.

        Raw: may be negative and need not add up; `dp.mechanism.valid_counts.valid_counts` makes
        weights of them. An estimator that can do better by itself may return valid weights.

        Raises:
            PeerError, TooFewSharesError, InconsistentSharesError: see `ShareExchange.open`.
        """

    async def weighted_cells(self, exchange: ShareExchange) -> Cells:
        """Run the coordinator's part and return the cells with valid weights.

        Raises:
            PeerError, TooFewSharesError, InconsistentSharesError: see `ShareExchange.open`.
        """
        return Cells.of_grid(valid_counts(await self.coordinator(exchange)))

    def redrawn_cells(self, cells: Cells, simulated: SimulatedNoise) -> Iterator[Cells]:
        """Yield cells as they might come out if those of `cells` were true; see `redrawn`."""
        weights = cells.weights.reshape(self.grid.shape)
        return (Cells.of_grid(drawn) for drawn in self.redrawn(weights, simulated))
