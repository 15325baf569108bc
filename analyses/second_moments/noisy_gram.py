"""The noisy matrix X^T X of the joint table's rows: its plan, its noise, its opening. What several analyses stand on.

The parties' part, which counts it under shares, is `analyses.second_moments.party`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job, JobError
from analyses.job.norm_bounds import Bounds, by_owner, fitted, with_proofs
from analyses.job.plan import protected_of
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.rows.joint_computation import JointComputation
from analyses.rows.row_plan import RowBounds, RowParams, RowPlan
from analyses.rows.traffic import JointTraffic
from dp.cost.accounting import CalibrationError
from dp.mechanism.gram import NoisyGram
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from mpc.arithmetic.gram import expand_triangle
from mpc.errors import FieldTooSmallError, TooFewPartiesError
from mpc.proofs.norm_bound import NormBound
from mpc.protocol.session import Session
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
    def mechanism(self) -> NoisyGram:
        """The release, with its cost."""
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
    def norm_bounds(self) -> Bounds:
        """See `Plan`: the squared norm of an owner's block of a row, the sum of which the mechanism is about."""
        return fitted(proven_bounds(self.job, self.schemas, self, self.params.max_rows), self.n_primes)

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost of the release in both views."""
        return self.mechanism.report(self.job.privacy.delta)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects."""
        return self.protected.name

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan`. Noise, rows, and the opening of what was counted; see `analyses.second_moments.party`."""
        joint = JointTraffic(self, n_rows)
        joint.join()
        joint.noise_of(self.mechanism.n_entries, self.mechanism.noise_tail_bound(LOG2_WRAP_PROBABILITY))
        joint.rows(self.widths, joint.n_rows)
        joint.gram_of_rows(self.n_row_columns, self.mechanism.n_entries)
        joint.open_noisy(self.mechanism.n_entries)
        return joint.ended()


GramT = TypeVar("GramT", bound=GramPlan)


def calibrate_gram(job: Job, schemas: Sequence[BlockSchema], rows: RowBounds, max_rows: int) -> tuple[NoisyGram, int]:
    """Return the release with the least noise that meets the job's privacy, and the primes of the field that holds it.

    In a job with `security = "malicious"` the epsilon is that of the release and of what proofs show of rows, and the
    field is large enough for these.

    The field bound: entry (i, j) of X^T X is at most max_rows * max_q B_q in size, by Cauchy-Schwarz on the rows of the
    blocks that i and j lie in (a constant column is a block of its own); to it comes the noise's tail bound.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    protected = protected_of(job, tuple(schemas))

    def calibrated(epsilon: float) -> NoisyGram:
        return NoisyGram.calibrate(
            n_columns=rows.n_columns,
            squared_norm_bound=rows.total,
            n_parties=len(job.compute_parties),
            colluding=job.t,
            epsilon=epsilon,
            delta=job.privacy.delta,
            view=job.privacy.view,
            protected=protected,
        )

    def bound_of(mechanism: NoisyGram) -> int:
        return max_rows * rows.largest + mechanism.noise_tail_bound(LOG2_WRAP_PROBABILITY)

    try:
        return with_proofs(calibrated, bound_of, proven_bounds(job, schemas, rows, max_rows), job.privacy, protected)
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except (FieldTooSmallError, TooFewPartiesError) as error:
        raise JobError(f"parameters.max_rows, parameters.gamma: {error}") from error


def plan_gram(kind: type[GramT], job: Job, schemas: Sequence[BlockSchema], params: RowParams, rows: RowBounds) -> GramT:
    """Return the plan of a job that opens X^T X: its rows, its noise, its field.

    Args:
        kind: class of the plan.
        job: what is asked for.
        schemas: schemas of all members.
        params: parameters of the job, gamma filled in.
        rows: bounds of the integer rows.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    mechanism, n_primes = calibrate_gram(job, schemas, rows, params.max_rows)
    return kind(
        job=job,
        schemas=tuple(schemas),
        n_primes=n_primes,
        params=params,
        row_norm=rows.row_norm,
        squared_norm_bounds=rows.squared_norm_bounds,
        constant=rows.constant,
        party_mu=mechanism.party_mu,
    )


def proven_bounds(job: Job, schemas: Sequence[BlockSchema], rows: SquaredNorms, max_rows: int) -> Bounds:
    """Return what owners prove of their rows, with the smallest masks; nothing in a job that asks for no proofs.

    Args:
        job: what is asked for.
        schemas: all members' schemas.
        rows: bounds of the owners' blocks, and whether the last one has a constant column besides.
        max_rows: public bound of the number of rows.
    """
    columns = {schema.party: len(schema.columns) for schema in schemas}
    widths = [columns[brought.party] for brought in job.inputs]
    widths[-1] += rows.constant > 0
    return by_owner(job, (NormBound(w, norm, max_rows) for w, norm in zip(widths, rows.squared_norms, strict=True)))


@dataclass(frozen=True)
class OpenedGram:
    """The noisy matrix that the coordinator opened.

    Attributes:
        matrix: shape (columns, columns), the noisy X^T X in units of scaled rows; the constant column last.
        wrong_shares_from: names of the parties whose corrupted shares were corrected.
    """

    matrix: NDArray[np.float64] = field(repr=False)
    wrong_shares_from: list[str]


async def open_noisy_gram(session: Session, plan: GramPlan) -> OpenedGram:
    """Run the coordinator's part: open the noisy matrix.

    Raises:
        PeerError: fewer than 2t + 1 parties sent their share.
        InconsistentSharesError: there are corrupted shares that cannot be corrected.
    """
    c = JointComputation.of_coordinator(session, plan)
    opened = await c.open_noisy(c.noisy_outline(triangle_shape(plan)))
    assert opened is not None, "the coordinator is the receiver"
    matrix = expand_triangle(opened.values.astype(np.float64), plan.n_row_columns)
    return OpenedGram(matrix * plan.unit**2, c.names_of(opened.wrong))


def rows_standard_error(plan: GramPlan) -> float:
    """Return the standard error of the number of rows that the last entry of the noisy matrix tells.

    The entry is constant^2 times the number of rows, and noise on the diagonal has twice the variance of other noise,
    `n_parties` times `party_mu`.
    """
    return float(np.sqrt(2 * plan.n_parties * float(plan.party_mu))) / plan.constant**2


def rows_told(moments: NDArray[np.float64], plan: GramPlan) -> dict[str, float]:
    """Return `n_rows`, about the number of rows, and `n_rows_standard_error`, by noise.

    Args:
        moments: noisy second moments in units of scaled rows, the constant column last.
        plan: the job's plan.
    """
    n_rows = float(moments[-1, -1]) / (plan.constant * plan.unit) ** 2
    return {"n_rows": n_rows, "n_rows_standard_error": rows_standard_error(plan)}


def triangle_shape(plan: GramPlan) -> tuple[int]:
    """Return the shape of what is released: the entries on and above the diagonal."""
    return (plan.mechanism.n_entries,)
