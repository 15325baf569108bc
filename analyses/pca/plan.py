"""What all participants of a PCA agree on."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from analyses.job.declared_rows import parameters_of
from analyses.job.job import Job, JobError
from analyses.job.plan import check_roster, check_schemas
from analyses.job.schema import BlockSchema
from analyses.rows.row_plan import RowParams, plan_rows
from analyses.rows.row_plan import clipped_rows as clipped_rows
from analyses.second_moments.noisy_gram import GramPlan, calibrate_gram
from analyses.second_moments.noisy_moments import check_signal, gram_noise_level


class PcaParams(RowParams):
    """Parameters of the analysis, besides those of the rows.

    Attributes:
        components: k, how many principal components.
    """

    components: Annotated[int, Field(ge=1)]


class PcaPlan(GramPlan):
    """What all participants agree on before a PCA."""

    params: PcaParams


def plan(job: Job, schemas: Sequence[BlockSchema]) -> PcaPlan:
    """Fix everything public: bounds, noise, field.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, PcaParams)
    rows = plan_rows(job, schemas, params)
    if params.components > rows.n_columns:
        raise JobError(
            f"parameters.components: {params.components} components are more than the {rows.n_columns} columns of the "
            "table"
        )
    mechanism, n_primes = calibrate_gram(job, schemas, rows, params.max_rows)
    planned = PcaPlan(
        job=job,
        schemas=tuple(schemas),
        n_primes=n_primes,
        params=params,
        row_norm=rows.row_norm,
        squared_norm_bounds=rows.squared_norm_bounds,
        party_mu=mechanism.party_mu,
    )
    check_signal(planned, gram_noise_level(planned))
    return planned
