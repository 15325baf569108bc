"""How far the rounding of rows to integers may move X^T X at worst, and units so small that noise hides it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil, log2, sqrt
from typing import TypeVar

from analyses.job.declared_rows import declared_rows
from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema
from analyses.rows.row_plan import MAX_GAMMA, RowBounds, RowParams, RowPlan
from analyses.second_moments.noisy_gram import calibrate_gram

LARGEST_FRACTION = 0.1
"""Largest fraction of the noise's spectral norm that rounding may reach in planned units."""

LEAST_GAMMA = 4096
"""Planned units per 1 are no fewer."""

ParamsT = TypeVar("ParamsT", bound=RowParams)


def worst_rounding(n_columns: int, squared_norm: int, n_rows: float) -> float:
    """Return a bound of the spectral norm of (Y^T Y - X^T X), Y the integer rows that X was rounded to.

    Every entry of E = X - Y lies in -1..1, and for every row |x|^2 <= B, |y|^2 <= B and |e|^2 <= n: a quarter of that
    where it is rounded to the nearest, all of it where it is rounded toward zero, as the nearest is too long. With m
    rows the spectral norms of X and Y are at most sqrt(m B), that of E at most sqrt(m n), and

        X^T X - Y^T Y  =  X^T E + E^T Y,    of norm at most 2 m sqrt(B n).

    A constant column is an integer from the start: it adds to B here, and to n nothing.

    Args:
        n_columns: n, of the columns that are rounded.
        squared_norm: B.
        n_rows: m.
    """
    return 2 * n_rows * sqrt(float(squared_norm) * n_columns)


def stated_rounding(plan: RowPlan) -> float:
    """Return `worst_rounding` for the largest number of rows that owners declare, in squared units of scaled rows."""
    most = declared_rows(plan.job, plan.schemas).most
    return worst_rounding(len(plan.column_names), plan.total_squared_norm, most) * plan.unit**2


def with_units(
    job: Job, schemas: Sequence[BlockSchema], params: ParamsT, bounds_of: Callable[[ParamsT], RowBounds]
) -> ParamsT:
    """Return parameters with a gamma: the job's own, or the smallest power of two that makes rounding unimportant.

    That is: where all rows that max_rows allows are as long as they may be, and all are rounded as badly as can be, the
    spectral norm of the change is below `LARGEST_FRACTION` of the noise's. Both are publicly known. Noise grows with
    gamma^2, rounding with gamma. Where the noise or the field leaves no room for so large a gamma, it is the largest
    that there is room for.

    Args:
        job: what is asked for.
        schemas: all members' schemas.
        params: the job's parameters.
        bounds_of: the bounds of integer rows for parameters with a gamma.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    if params.gamma is not None:
        return params

    def share_at(gamma: int) -> float:
        chosen = params.model_copy(update={"gamma": gamma})
        rows = bounds_of(chosen)
        mechanism, _ = calibrate_gram(job, schemas, rows, params.max_rows)
        noise = 2 * sqrt(rows.n_columns * len(job.compute_parties) * float(mechanism.party_mu))
        return worst_rounding(rows.n_columns - (rows.constant > 0), rows.total, params.max_rows) / noise

    gamma, share = LEAST_GAMMA, share_at(LEAST_GAMMA)
    while share > LARGEST_FRACTION and gamma < MAX_GAMMA:
        wanted = min(MAX_GAMMA, gamma << max(1, ceil(log2(share / LARGEST_FRACTION))))
        while wanted > gamma:
            with suppress(JobError):
                gamma, share = wanted, share_at(wanted)
                break
            wanted //= 2
        else:
            break
    return params.model_copy(update={"gamma": gamma})
