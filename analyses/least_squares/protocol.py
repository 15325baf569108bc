"""Linear regression of one party's label on the columns of all [VertPrim23, appendix E.2].

Two methods. `sketch` is the paper's: every party releases a noisy sketch of its block, the label's with it. `mpc`,
which no paper has, counts the second moments of features, label and a constant under shares and noises them once. From
either the coordinator has an estimate of these moments, and solves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from analyses.job.analysis import Analysis
from analyses.job.declared_rows import parameters_of
from analyses.job.job import Finite, Job, JobError
from analyses.job.plan import check_roster, check_schemas
from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.job.survival import by_parameter
from analyses.pca.protocol import party as count_second_moments
from analyses.rows.quantise import Origin, check_units
from analyses.rows.row_plan import RowPlan, clipped_rows, plan_rows
from analyses.second_moments.noisy_gram import GramPlan
from analyses.second_moments.noisy_moments import open_moments, plan_moments
from analyses.second_moments.noisy_sketch import MAX_SKETCH_ROWS, MomentParams, SketchPlan, release_sketch
from analyses.second_moments.ridge import RidgeSolution, solve
from mpc.protocol.session import Session

Floats = NDArray[np.float64]

SKETCH_ROWS_PER_COLUMN = 8


class LeastSquaresParams(MomentParams):
    """Parameters of the analysis, besides those of the rows and of the method.

    Attributes:
        label: `party.column`, one of the job's columns; all others are features.
        ridge: penalty on the squared coefficients, in units of scaled rows; 0 for none. Default: the least that lifts
            the smallest eigenvalue above the noise (`analyses.second_moments.ridge.solve`).
        origin: here `middle` by default: rows are shortest for columns that vary around their middle.
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
            f"parameters.ridge: {params.max_rows} rows at most cannot determine {len(names)} coefficients; the design "
            "matrix would be singular; leave the ridge out, or give one above 0"
        )
    rows = plan_rows(job, schemas, params, with_constant=True)
    if params.sketch_rows is not None and params.sketch_rows < rows.n_columns:
        raise JobError(
            f"parameters.sketch_rows: {params.sketch_rows} rows make a singular problem of {rows.n_columns} columns"
        )
    default = min(SKETCH_ROWS_PER_COLUMN * rows.n_columns, MAX_SKETCH_ROWS)
    return plan_moments(
        LeastSquaresGramPlan, LeastSquaresSketchPlan, job, schemas, params, rows, default_sketch_rows=default
    )


def _check_label(label: str, names: Sequence[str], parties: Sequence[str]) -> None:
    if label not in names:
        party, dot, column = label.partition(".")
        if not dot or not column:
            raise JobError(f"parameters.label: {label!r} is not written as party.column")
        if party not in parties:
            raise JobError(f"parameters.label: the label party {party!r} brings nothing to this job (inputs)")
        raise JobError(f"parameters.label: {party} brings no column {column!r} to this job (inputs.columns)")
    if len(names) < 2:
        raise JobError("inputs: there is no column but the label")


async def party(session: Session, plan: LeastSquaresPlan, table: Table | None) -> LocalReport:
    """Run a party's part; see `analyses.pca.protocol.party` for method `mpc`, and `release_sketch` for `sketch`."""
    if isinstance(plan, GramPlan):
        return await count_second_moments(session, plan, table)
    return await release_sketch(session, plan, table)


async def coordinator(session: Session, plan: LeastSquaresPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the estimate of the moments and solve.

    Returns:
        JSON-able: `label`, `features`, their names; `coefficients`, `intercept`, in the units of the columns, None
        where there is no answer; `r_squared`, an estimate from the same release, None where it does not tell;
        `ridge`, the penalty used, `smallest_eigenvalue` and `noise_level`, in units of scaled rows; `note`, what is to
        be said about the answer; `wrong_shares_from`; `privacy`, the report.

    Raises:
        PeerError: too few parties sent their part.
    """
    moments = await open_moments(session, plan)
    solution = solve_moments(moments.matrix, moments.noise_level, plan)
    line = in_units_of_columns(solution, plan)
    return {
        "analysis": "least-squares",
        "method": plan.params.method,
        "label": plan.params.label,
        "features": list(feature_names(plan)),
        "coefficients": None if line is None else line.coefficients.tolist(),
        "intercept": None if line is None else line.intercept,
        "r_squared": solution.r_squared,
        "ridge": solution.ridge,
        "smallest_eigenvalue": solution.smallest_eigenvalue,
        "noise_level": moments.noise_level,
        "note": solution.note,
        "wrong_shares_from": moments.wrong_shares_from,
        "privacy": plan.privacy_report(),
    }


def feature_names(plan: LeastSquaresPlan) -> tuple[str, ...]:
    """Return the names of all columns but the label, in the order of the joint table."""
    return tuple(name for name in plan.column_names if name != plan.params.label)


def solve_moments(matrix: Floats, noise_level: float, plan: LeastSquaresPlan) -> RidgeSolution:
    """Solve for the label, given second moments of the joint table's columns and the constant, in scaled units."""
    label = plan.column_names.index(plan.params.label)
    order = [i for i in range(len(matrix) - 1) if i != label] + [label, len(matrix) - 1]
    return solve(matrix[np.ix_(order, order)], plan.constant * plan.unit, noise_level, plan.params.ridge)


@dataclass(frozen=True)
class Line:
    """label = intercept + features @ coefficients, in the units of the columns."""

    coefficients: Floats
    intercept: float

    def predict(self, features: Floats) -> Floats:
        """Return the label of rows, shape (rows, features)."""
        return np.asarray(features @ self.coefficients + self.intercept, dtype=np.float64)


def in_units_of_columns(solution: RidgeSolution, plan: LeastSquaresPlan) -> Line | None:
    """Undo the public scaling of features and label.

    A column x with origin o and width w (upper less lower bound) is scaled to (x - o) / w. So label = o_y + w_y (sum
    b_i (x_i - o_i) / w_i + b_0).
    """
    if solution.coefficients is None or solution.intercept is None:
        return None
    return _line(solution.coefficients, solution.intercept, plan)


def _line(scaled_coefficients: Floats, scaled_intercept: float, plan: LeastSquaresPlan) -> Line:
    origins, widths = _scales(plan)
    is_label = np.array(plan.column_names) == plan.params.label
    coefficients = scaled_coefficients * widths[is_label] / widths[~is_label]
    intercept = scaled_intercept * widths[is_label][0] + origins[is_label][0]
    return Line(coefficients, float(intercept - coefficients @ origins[~is_label]))


def _scales(plan: RowPlan) -> tuple[Floats, Floats]:
    columns = [c for s in map(plan.schema_of, plan.owners) for c in s.columns]
    lower, upper = np.array([c.lower for c in columns]), np.array([c.upper for c in columns])
    return (lower if plan.params.origin == "lower" else (lower + upper) / 2), upper - lower


def scaled_moments(tables: Sequence[Table], plan: LeastSquaresPlan) -> Floats:
    """Return the exact second moments of the clipped table and the constant, in scaled units."""
    rows = clipped_rows(tables, plan)
    rows = np.hstack([rows, np.full((len(rows), 1), plan.constant * plan.unit)])
    return np.asarray(rows.T @ rows, dtype=np.float64)


def reference(tables: Sequence[Table], plan: LeastSquaresPlan) -> Line:
    """Return the line of least squares of the clipped table, in plain NumPy, without privacy.

    The shortest of all such coefficients where the design matrix is singular; with the plan's ridge where it has one.

    Args:
        tables: all parties' tables, in the order of the joint table.
        plan: as for the job.
    """
    rows = clipped_rows(tables, plan)
    is_label = np.array(plan.column_names) == plan.params.label
    means = rows.mean(axis=0)
    features, label = (rows - means)[:, ~is_label], (rows - means)[:, is_label]
    penalty = np.sqrt(plan.params.ridge or 0.0) * np.eye(features.shape[1])
    zeros = np.zeros((len(penalty), 1))
    b = np.linalg.lstsq(np.vstack([features, penalty]), np.vstack([label, zeros]))[0][:, 0]
    intercept = float(means[is_label][0] - means[~is_label] @ b)
    return _line(b, intercept, plan)


ANALYSIS = Analysis(
    names=("least-squares",),
    parameters=LeastSquaresParams,
    plan=plan,
    party=party,
    coordinator=coordinator,
    survival=by_parameter("method"),
    page="analyses/least-squares.md",
    demo="least-squares",
    reference=reference,
)
