"""The plan of a release of X^T X, without what computes under shares: whoever asks a release again reads it."""

from collections.abc import Sequence
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from analyses.job.declared_rows import declared_rows
from analyses.job.job import Job
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.rows.row_plan import RowPlan

if TYPE_CHECKING:  # with kernels, which take seconds to load
    from analyses.job.norm_bounds import Bounds
    from dp.mechanism.gram import NoisyGram
    from mpc.traffic.walk import Traffic


class SquaredNorms(Protocol):
    """What says how long owners' blocks of a row are: `RowBounds`, `RowPlan`."""

    @property
    def constant(self) -> int:
        """Integer in the constant column; 0 where there is none."""

    @property
    def squared_norms(self) -> tuple[int, ...]:
        """Per owner the largest squared norm of all that it brings, a constant column included."""


class GramPlan(RowPlan):
    """What all participants agree on before X^T X is released.

    Attributes:
        party_mu: Skellam parameter of each party's noise on the diagonal; half of it off the diagonal.
    """

    party_mu: int

    @cached_property
    def mechanism(self) -> "NoisyGram":
        """The release, with its cost."""
        from dp.mechanism.gram import NoisyGram

        return NoisyGram(
            n_columns=self.n_row_columns,
            squared_norm_bound=self.total_squared_norm,
            n_parties=self.n_parties,
            colluding=self.job.t,
            party_mu=self.party_mu,
            protected=self.protected,
        )

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The one release, to which every compute party adds its noise; and what owners' proofs show."""
        return (PlannedRelease(self.mechanism, self.compute_members), *self.proof_releases)

    @cached_property
    def norm_bounds(self) -> "Bounds":
        """See `Plan`: the squared norm of an owner's block of a row, the sum of which the mechanism is about."""
        from analyses.job.norm_bounds import fitted

        return fitted(proven_bounds(self.job, self.schemas, self, self.params.max_rows), self.n_primes)

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost of the release in both views."""
        return self.mechanism.report(self.job.privacy.delta)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects."""
        return self.protected.name

    def traffic(self, n_rows: int) -> "Traffic":
        """See `Plan`. Noise, rows, and the opening of what was counted; see `analyses.second_moments.party`."""
        from analyses.rows.traffic import JointTraffic
        from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY

        joint = JointTraffic(self, n_rows)
        joint.join()
        joint.noise_of(self.mechanism.n_entries, self.mechanism.noise_tail_bound(LOG2_WRAP_PROBABILITY))
        joint.rows(self.widths, joint.n_rows)
        joint.gram_of_rows(self.n_row_columns, self.mechanism.n_entries)
        joint.open_noisy(self.mechanism.n_entries)
        return joint.ended()


GramT = TypeVar("GramT", bound=GramPlan)


def proven_bounds(job: Job, schemas: Sequence[BlockSchema], rows: SquaredNorms, max_rows: int) -> "Bounds":
    """Return what owners prove of their rows, with the smallest masks; nothing in a job that asks for no proofs.

    Args:
        job: what is asked for.
        schemas: all members' schemas.
        rows: bounds of the owners' blocks, and whether the last one has a constant column besides.
        max_rows: public bound of the number of rows.
    """
    from analyses.job.norm_bounds import by_owner
    from mpc.proofs.norm_bound import NormBound

    columns = {schema.party: len(schema.columns) for schema in schemas}
    widths = [columns[brought.party] for brought in job.inputs]
    widths[-1] += rows.constant > 0
    return by_owner(job, (NormBound(w, norm, max_rows) for w, norm in zip(widths, rows.squared_norms, strict=True)))


def rows_of(plan: RowPlan) -> tuple[int, int]:
    """Return the fewest and the most rows that can count, by the owners' declarations; at least 1."""
    declared = declared_rows(plan.job, plan.schemas)
    return (max(1, declared.least) if plan.params.unit == "record" else 1), declared.most


def deviation_of(plan: GramPlan) -> float:
    """Return the standard deviation of the noise off the diagonal of X^T X, in units of scaled rows."""
    return sqrt(plan.n_parties * float(plan.party_mu)) * plan.unit**2


def rows_standard_error(plan: GramPlan) -> float:
    """Return the standard error of the number of rows that the last entry of the noisy matrix tells.

    The entry is constant^2 times the number of rows, and noise on the diagonal has twice the variance of other noise,
    `n_parties` times `party_mu`.
    """
    return sqrt(2 * plan.n_parties * float(plan.party_mu)) / plan.constant**2
