"""What all participants of a low-rank approximation agree on."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from analyses.job.declared_rows import parameters_of
from analyses.job.job import Job, JobError
from analyses.job.plan import check_roster, check_schemas
from analyses.job.schema import BlockSchema
from analyses.rows.row_plan import plan_rows
from analyses.second_moments.gram_plan import GramPlan
from analyses.second_moments.noisy_moments import plan_moments, with_moment_units
from analyses.second_moments.noisy_sketch import MomentParams, SketchPlan

SKETCH_ROWS_PER_RANK = 8


class LowRankParams(MomentParams):
    """Parameters of the analysis, besides those of the rows and of the method.

    Attributes:
        rank: k, dimensions of the subspace, below the number of columns.
    """

    rank: Annotated[int, Field(ge=1)]


class LowRankGramPlan(GramPlan):
    """What all participants agree on, method `mpc`."""

    params: LowRankParams


class LowRankSketchPlan(SketchPlan):
    """What all participants agree on, method `sketch`."""

    params: LowRankParams


LowRankPlan = LowRankGramPlan | LowRankSketchPlan


def plan(job: Job, schemas: Sequence[BlockSchema]) -> LowRankPlan:
    """Fix everything public: bounds, noise, field or sketch.

    A sketch has 8 k rows by default: its error falls with 1 / sqrt(rows), its noise grows with them.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, LowRankParams)
    params = with_moment_units(job, schemas, params, lambda chosen: plan_rows(job, schemas, chosen))
    rows = plan_rows(job, schemas, params)
    if params.rank >= rows.n_columns:
        raise JobError(
            f"parameters.rank: a table of {rows.n_columns} columns needs no approximation of rank {params.rank}; the "
            "rank must be smaller than the number of columns"
        )
    if params.sketch_rows is not None and params.sketch_rows < params.rank:
        raise JobError(
            f"parameters.sketch_rows: a sketch of {params.sketch_rows} rows cannot span a subspace of {params.rank} "
            "dimensions"
        )
    default = SKETCH_ROWS_PER_RANK * params.rank
    return plan_moments(LowRankGramPlan, LowRankSketchPlan, job, schemas, params, rows, default_sketch_rows=default)
