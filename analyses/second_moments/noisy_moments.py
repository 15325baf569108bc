"""Two ways to one estimate of X^T X: counted under shares (`noisy_gram`), or from sketches (`noisy_sketch`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job
from analyses.job.schema import BlockSchema
from analyses.rows.row_plan import RowBounds
from analyses.second_moments.gram_plan import GramPlan, GramT
from analyses.second_moments.noisy_gram import open_noisy_gram, plan_gram
from analyses.second_moments.noisy_sketch import (
    N_PRIMES,
    MomentParams,
    SketchPlan,
    calibrate_sketch,
    gather_sketches,
)
from analyses.second_moments.rounding import LEAST_GAMMA, with_units
from analyses.second_moments.spectrum import noise_edge, sketch_edge
from mpc.protocol.session import Session

MomentPlan = GramPlan | SketchPlan

SketchT = TypeVar("SketchT", bound=SketchPlan)
ParamsT = TypeVar("ParamsT", bound=MomentParams)


def with_moment_units(
    job: Job, schemas: Sequence[BlockSchema], params: ParamsT, bounds_of: Callable[[ParamsT], RowBounds]
) -> ParamsT:
    """Return parameters with a gamma, as `with_units`; 4096 for a sketch, whose noise is larger by far."""
    if params.method == "sketch" and params.gamma is None:
        return params.model_copy(update={"gamma": LEAST_GAMMA})
    return with_units(job, schemas, params, bounds_of)


def plan_moments(
    by_gram: type[GramT],
    by_sketch: type[SketchT],
    job: Job,
    schemas: Sequence[BlockSchema],
    params: MomentParams,
    rows: RowBounds,
    *,
    default_sketch_rows: int,
) -> GramT | SketchT:
    """Fix noise, and field or sketch, for the method that the job names.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    if params.method == "mpc":
        return plan_gram(by_gram, job, schemas, params, rows)
    s = params.sketch_rows or default_sketch_rows
    return by_sketch(
        job=job,
        schemas=tuple(schemas),
        n_primes=N_PRIMES,
        params=params,
        row_norm=rows.row_norm,
        squared_norm_bounds=rows.squared_norm_bounds,
        constant=rows.constant,
        sketch_rows=s,
        multiplier=calibrate_sketch(job, schemas, rows, params, s).multiplier,
    )


def gram_noise_level(plan: GramPlan) -> float:
    """Return about the spectral norm of the noise on X^T X, in squared integer units.

    The noise is a symmetric matrix with independent entries, of variance N party_mu off the diagonal and twice that on
    it: for n columns its norm is near 2 sqrt(n N party_mu).
    """
    return float(2 * np.sqrt(plan.n_row_columns * plan.n_parties * float(plan.party_mu)))


def sketch_noise_level(plan: SketchPlan, noise: float) -> float:
    """Return about the spectral norm of N^T N / s less its mean, N with s rows, n columns and variance `noise`.

    By the bounds of a Gaussian matrix's singular values: noise * (2 sqrt(n / s) + n / s).
    """
    ratio = plan.n_row_columns / plan.sketch_rows
    return float(noise * (2 * np.sqrt(ratio) + ratio))


def edge_of(plan: MomentPlan, noise_level: float) -> float:
    """Return the largest eigenvalue that the noise alone has, in 19 of 20 cases no more, in the unit of its norm.

    Args:
        plan: the job's plan.
        noise_level: norm of the noise, in a result or a forecast.
    """
    if isinstance(plan, GramPlan):
        return noise_edge(plan.n_row_columns, float(noise_level / (2 * np.sqrt(plan.n_row_columns))))
    return noise_level / sketch_noise_level(plan, 1.0) * sketch_edge(plan.n_row_columns, plan.sketch_rows)


@dataclass(frozen=True)
class NoisyMoments:
    """An estimate of X^T X without bias.

    Attributes:
        matrix: shape (columns, columns), symmetric, in units of scaled rows; the constant column last.
        noise_level: about the spectral norm of its noise, same unit; see `edge_of`.
        wrong_shares_from: names of the parties whose corrupted shares were corrected.
    """

    matrix: NDArray[np.float64] = field(repr=False)
    noise_level: float
    wrong_shares_from: list[str]


async def open_moments(session: Session, plan: MomentPlan) -> NoisyMoments:
    """Run the coordinator's part; see `open_noisy_gram` and `gather_sketches`.

    A sketch's second moments are those of X plus the noise's, whose mean is known and subtracted.
    """
    if isinstance(plan, GramPlan):
        opened = await open_noisy_gram(session, plan)
        return NoisyMoments(opened.matrix, gram_noise_level(plan) * plan.unit**2, opened.wrong_shares_from)
    sketch = await gather_sketches(session, plan)
    matrix = sketch.rows.T @ sketch.rows - sketch.noise * np.eye(plan.n_row_columns)
    return NoisyMoments(matrix, sketch_noise_level(plan, sketch.noise), [])
