"""The noisy matrix X^T X of the joint table's rows: its plan, its noise, its opening. What several analyses stand on.

The parties' part, which counts it under shares, is `analyses.pca.protocol.party`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job, JobError
from analyses.job.plan import protected_of
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema
from analyses.rows.joint_computation import JointComputation
from analyses.rows.row_plan import RowBounds, RowPlan
from analyses.rows.traffic import JointTraffic
from dp.cost.accounting import CalibrationError
from dp.mechanism.gram import NoisyGram
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import expand_triangle
from mpc.errors import FieldTooSmallError, TooFewPartiesError
from mpc.protocol.session import Session
from mpc.traffic.walk import Traffic


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
        """The one release; every compute party adds its noise."""
        return (PlannedRelease(self.mechanism, self.compute_members),)

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost of the release in both views."""
        return self.mechanism.report(self.job.privacy.delta)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects."""
        return self.protected.name

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan`. Noise, rows, and the opening of what was counted; see `analyses.pca.protocol.party`."""
        joint = JointTraffic(self, n_rows)
        joint.join()
        joint.noise(self.mechanism.n_entries)
        joint.rows(self.widths, joint.n_rows)
        joint.open_noisy(self.mechanism.n_entries)
        return joint.ended()


def calibrate_gram(job: Job, schemas: Sequence[BlockSchema], rows: RowBounds, max_rows: int) -> tuple[NoisyGram, int]:
    """Return the release with the least noise that meets the job's privacy, and the primes of the field that holds it.

    The field bound: entry (i, j) of X^T X is at most max_rows * max_q B_q in size, by Cauchy-Schwarz on the rows of the
    blocks that i and j lie in (a constant column is a block of its own); to it comes the noise's tail bound.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    try:
        mechanism = NoisyGram.calibrate(
            n_columns=rows.n_columns,
            squared_norm_bound=rows.total,
            n_parties=len(job.compute_parties),
            colluding=job.t,
            epsilon=job.privacy.epsilon,
            delta=job.privacy.delta,
            view=job.privacy.view,
            protected=protected_of(job, tuple(schemas)),
        )
        bound = max_rows * rows.largest + mechanism.noise_tail_bound(LOG2_WRAP_PROBABILITY)
        return mechanism, len(ResidueField.for_bound(bound).primes)
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except (FieldTooSmallError, TooFewPartiesError) as error:
        raise JobError(f"parameters.max_rows, parameters.gamma: {error}") from error


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


def triangle_shape(plan: GramPlan) -> tuple[int]:
    """Return the shape of what is released: the entries on and above the diagonal."""
    return (plan.mechanism.n_entries,)
