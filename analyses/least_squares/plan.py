"""What all participants of a linear regression agree on."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from analyses.job.declared_rows import parameters_of
from analyses.job.job import Finite, Job, JobError
from analyses.job.plan import check_roster, check_schemas
from analyses.job.schema import BlockSchema
from analyses.rows.quantise import check_units
from analyses.rows.reach import Origin
from analyses.rows.row_plan import RowBounds, plan_rows
from analyses.second_moments.constant_column import with_constant
from analyses.second_moments.gram_plan import GramPlan
from analyses.second_moments.noisy_moments import plan_moments, with_moment_units
from analyses.second_moments.noisy_sketch import MAX_SKETCH_ROWS, MomentParams, SketchPlan

SKETCH_ROWS_PER_COLUMN = 8


class LeastSquaresParams(MomentParams):
    """Parameters of the analysis, besides those of the rows and of the method.

    Attributes:
        label: `party.column`, one of the job's columns; all others are features.
        ridge: penalty on the squared coefficients, in units of scaled rows; 0 for none. Default: the least that lifts
            the smallest eigenvalue to half of the noise's level (`analyses.second_moments.ridge.solve`).
        origin: here `middle` by default: rows are shortest for columns that vary around their middle.
        row_norm, norm_bounds: bounds of features and label; with method `sketch` the constant column is included.
    """

    label: str
    ridge: Annotated[Finite, Field(ge=0)] | None = None
    origin: Origin = "middle"


class LeastSquaresGramPlan(GramPlan):
    """What all participants agree on, method `mpc`."""

    params: LeastSquaresParams


class LeastSquaresSketchPlan(SketchPlan):
    """What all participants agree on, method `sketch`."""

    params: LeastSquaresParams


LeastSquaresPlan = LeastSquaresGramPlan | LeastSquaresSketchPlan


def plan(job: Job, schemas: Sequence[BlockSchema]) -> LeastSquaresPlan:
    """Fix everything public: bounds, noise, field or sketch.

    A sketch has 8 rows per column by default.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, LeastSquaresParams)
    brought = {s.party: s.columns for s in schemas}
    columns = {f"{i.party}.{column.name}": column for i in job.inputs for column in brought[i.party]}
    names = list(columns)
    _check_label(params.label, names, [i.party for i in job.inputs])
    label = columns[params.label]
    check_units(columns.items(), max(abs(label.lower), abs(label.upper), label.upper - label.lower))
    if params.ridge == 0 and params.max_rows < len(names):
        raise JobError(
            f"parameters.ridge: {params.max_rows} rows (max_rows) cannot determine {len(names)} coefficients, because "
            "the design matrix is singular; leave out the ridge, or set it above 0"
        )

    def bounds_of(chosen: LeastSquaresParams) -> RowBounds:
        if chosen.method == "sketch":
            return plan_rows(job, schemas, chosen, with_constant=True)
        return with_constant(plan_rows(job, schemas, chosen))

    params = with_moment_units(job, schemas, params, bounds_of)
    rows = bounds_of(params)
    if params.sketch_rows is not None and params.sketch_rows < rows.n_columns:
        raise JobError(
            f"parameters.sketch_rows: a sketch of {params.sketch_rows} rows cannot determine {rows.n_columns} columns"
        )
    default = min(SKETCH_ROWS_PER_COLUMN * rows.n_columns, MAX_SKETCH_ROWS)
    return plan_moments(
        LeastSquaresGramPlan, LeastSquaresSketchPlan, job, schemas, params, rows, default_sketch_rows=default
    )


def _check_label(label: str, names: Sequence[str], parties: Sequence[str]) -> None:
    if label not in names:
        party, dot, column = label.partition(".")
        if not dot or not column:
            raise JobError(f"parameters.label: {label!r} is not of the form party.column")
        if party not in parties:
            raise JobError(f"parameters.label: party {party!r} of the label is not among the inputs of this job")
        raise JobError(f"parameters.label: the input of {party} has no column {column!r} (inputs.columns)")
    if len(names) < 2:
        raise JobError("inputs: there must be at least one column besides the label")
