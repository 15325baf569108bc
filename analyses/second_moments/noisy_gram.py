"""The noisy matrix X^T X of the joint table's rows: its plan, its noise, its opening. What several analyses stand on.

The parties' part, which counts it under shares, is `analyses.second_moments.party`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job, JobError
from analyses.job.norm_bounds import with_proofs
from analyses.job.plan import protected_of
from analyses.job.schema import BlockSchema
from analyses.rows.joint_computation import JointComputation
from analyses.rows.row_plan import RowBounds, RowParams
from analyses.second_moments.gram_plan import GramPlan, GramT, proven_bounds, rows_standard_error
from dp.cost.accounting import CalibrationError
from dp.mechanism.gram import NoisyGram
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import expand_triangle
from mpc.errors import FieldTooSmallError, TooFewPartiesError
from mpc.protocol.session import MAX_ARRAY_BYTES, Session


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
        proven, n_noises = proven_bounds(job, schemas, rows, max_rows), len(job.compute_parties)
        found = with_proofs(calibrated, bound_of, proven, job.privacy, protected, n_noises)
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except (FieldTooSmallError, TooFewPartiesError) as error:
        raise JobError(f"parameters.max_rows, parameters.gamma: {error}") from error
    _check_size(*found)
    return found


def _check_size(mechanism: NoisyGram, n_primes: int) -> None:
    """Refuse a matrix that no message holds, before it is paid for; its noisy triangle is opened as one array.

    Raises:
        JobError: says how many columns there may be.
    """
    most = MAX_ARRAY_BYTES // (8 * ResidueField(n_primes).n_words)
    if mechanism.n_entries > most:
        raise JobError(
            f"inputs: X^T X of {mechanism.n_columns} columns has {mechanism.n_entries} numbers, and at most {most} can "
            f"be opened: name at most {(math.isqrt(8 * most + 1) - 1) // 2} columns"
        )


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
