"""What all participants of a PCA agree on."""

from collections.abc import Sequence
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from analyses.job.declared_rows import declared_rows, parameters_of
from analyses.job.job import Job, JobError
from analyses.job.plan import check_roster, check_schemas
from analyses.job.schema import BlockSchema
from analyses.rows.reach import centres
from analyses.rows.row_plan import RowBounds, RowParams, plan_rows
from analyses.rows.row_plan import clipped_rows as clipped_rows
from analyses.second_moments.constant_column import with_constant
from analyses.second_moments.gram_plan import GramPlan
from analyses.second_moments.noisy_gram import plan_gram
from analyses.second_moments.rounding import with_units


class PcaParams(RowParams):
    """Parameters of the analysis, besides those of the rows.

    Attributes:
        components: k, how many principal components.
        center: whether the columns' means, noisy too, are subtracted; else directions are those from the origin.
        scale: whether each column is divided by its standard deviation, noisy too; it needs `center`.
        origin: see `RowParams`. Default: `middle`, with which rows are shortest; deviations from the mean are the same
            with either. `lower` with `center` false, where directions are those from the lower bounds, and where
            `row_norm` is given, which is then a bound of rows scaled to [0, 1].
    """

    components: Annotated[int, Field(ge=1)]
    center: bool = True
    scale: bool = False

    @model_validator(mode="before")
    @classmethod
    def _rows_are_shortest_from_the_middle(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("center") is False or given.get("row_norm") is not None:
            return given
        return {"origin": "middle"} | given

    @model_validator(mode="after")
    def _scale_needs_a_mean(self) -> Self:
        if self.scale and not self.center:
            raise ValueError("scale: it divides by deviations from the mean, so it needs center = true")
        return self


class PcaPlan(GramPlan):
    """What all participants agree on before a PCA."""

    params: PcaParams

    @property
    def reach(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the largest value of each scaled column, shape (columns,)."""
        blocks = (self.schema_of(owner).columns for owner in self.owners)
        least = -np.concatenate([centres(columns, self.params.origin) for columns in blocks])
        return least, 1.0 + least

    @property
    def possible_rows(self) -> tuple[int, int]:
        """The smallest and the largest number of rows that can count, at least 1, by the owners' declarations."""
        declared = declared_rows(self.job, self.schemas)
        return (max(1, declared.least) if self.params.unit == "record" else 1), declared.most

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise off the diagonal, in units of scaled rows; on it, sqrt(2) as much."""
        return float(np.sqrt(self.n_parties * float(self.party_mu))) * self.unit**2


def plan(job: Job, schemas: Sequence[BlockSchema]) -> PcaPlan:
    """Fix everything public: bounds, noise, field.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, PcaParams)
    n_columns = sum(len(s.columns) for s in schemas if s.party in {i.party for i in job.inputs})
    if params.components > n_columns:
        raise JobError(
            f"parameters.components: {params.components} components are more than the {n_columns} columns of the table"
        )

    def bounds_of(chosen: PcaParams) -> RowBounds:
        rows = plan_rows(job, schemas, chosen)
        return with_constant(rows) if chosen.center else rows

    params = with_units(job, schemas, params, bounds_of)
    return plan_gram(PcaPlan, job, schemas, params, bounds_of(params))
