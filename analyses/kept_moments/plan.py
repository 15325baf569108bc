"""What all participants agree on before second moments are released for many questions."""

from collections.abc import Sequence
from typing import Any

from pydantic import model_validator

from analyses.job.declared_rows import parameters_of
from analyses.job.job import Job
from analyses.job.plan import check_roster, check_schemas
from analyses.job.schema import BlockSchema
from analyses.rows.row_plan import RowBounds, RowParams, plan_rows
from analyses.second_moments.constant_column import with_constant
from analyses.second_moments.gram_plan import GramPlan


class KeptMomentsParams(RowParams):
    """Parameters of the rows.

    Attributes:
        origin: see `RowParams`. Default: `middle`, with which rows are shortest; `lower` where `row_norm` is given,
            which is then a bound of rows scaled to [0, 1].
    """

    @model_validator(mode="before")
    @classmethod
    def _rows_are_shortest_from_the_middle(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("row_norm") is not None:
            return given
        return {"origin": "middle"} | given


class KeptMomentsPlan(GramPlan):
    """What all participants agree on before second moments are released."""

    params: KeptMomentsParams


def plan(job: Job, schemas: Sequence[BlockSchema]) -> KeptMomentsPlan:
    """Fix everything public: bounds, noise, field.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    from analyses.second_moments.noisy_gram import plan_gram  # with kernels, which a plan that is read does without
    from analyses.second_moments.rounding import with_units

    check_roster(job)
    check_schemas(job, tuple(schemas))

    def bounds_of(chosen: KeptMomentsParams) -> RowBounds:
        return with_constant(plan_rows(job, schemas, chosen))

    params = with_units(job, schemas, parameters_of(job, schemas, KeptMomentsParams), bounds_of)
    return plan_gram(KeptMomentsPlan, job, schemas, params, bounds_of(params))
