"""Low-rank approximation of a vertically partitioned table: the subspace closest to it [VertPrim23, appendix E.1].

Two methods. `sketch` is the paper's: the top right singular vectors of a noisy sketch G X + N. `mpc`, which no paper
has, takes the top eigenvectors of X^T X, counted under shares and noised once.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from analyses.job.analysis import Analysis
from analyses.job.declared_rows import parameters_of
from analyses.job.job import Job, JobError
from analyses.job.plan import check_roster, check_schemas
from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.job.survival import by_parameter
from analyses.pca.protocol import leading_components
from analyses.pca.protocol import party as count_second_moments
from analyses.pca.text import component_lines
from analyses.rows.row_plan import clipped_rows, plan_rows
from analyses.second_moments.noisy_gram import GramPlan
from analyses.second_moments.noisy_moments import open_moments, plan_moments
from analyses.second_moments.noisy_sketch import MomentParams, SketchPlan, release_sketch
from mpc.protocol.session import Session

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
    rows = plan_rows(job, schemas, params)
    if params.rank >= rows.n_columns:
        raise JobError(
            f"parameters.rank: a subspace of {params.rank} dimensions approximates nothing in a table of "
            f"{rows.n_columns} columns; the rank must be smaller"
        )
    if params.sketch_rows is not None and params.sketch_rows < params.rank:
        raise JobError(f"parameters.sketch_rows: {params.sketch_rows} rows do not span {params.rank} dimensions")
    default = SKETCH_ROWS_PER_RANK * params.rank
    return plan_moments(LowRankGramPlan, LowRankSketchPlan, job, schemas, params, rows, default_sketch_rows=default)


async def party(session: Session, plan: LowRankPlan, table: Table | None) -> LocalReport:
    """Run a party's part; see `analyses.pca.protocol.party` for method `mpc`, and `release_sketch` for `sketch`."""
    if isinstance(plan, GramPlan):
        return await count_second_moments(session, plan, table)
    return await release_sketch(session, plan, table)


async def coordinator(session: Session, plan: LowRankPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the estimate of X^T X and take its top eigenvectors.

    Those of a sketch's second moments are the top right singular vectors of the sketch: the same number is subtracted
    from all eigenvalues.

    Returns:
        JSON-able: `columns`; `method`; `components`, k orthonormal rows over the columns, the V^T for which X V V^T
        approximates X; `eigenvalues` of the estimate, in units of scaled rows, largest first; `kept`, what the
        first k have of all positive ones, None where none is above the noise: an estimate from the same release, and
        as noisy; `noise_level`, below which an eigenvalue means nothing; `n_seen`, how many of the k are above it;
        `wrong_shares_from`; `privacy`, the report.

    Raises:
        PeerError: too few parties sent their part.
    """
    moments = await open_moments(session, plan)
    k = plan.params.rank
    eigenvalues, components = leading_components(moments.matrix, k)
    n_seen = int(np.count_nonzero(eigenvalues[:k] > moments.noise_level))
    positive = eigenvalues.clip(min=0.0)
    return {
        "analysis": "low-rank",
        "method": plan.params.method,
        "columns": list(plan.column_names),
        "components": components.tolist(),
        "eigenvalues": eigenvalues.tolist(),
        "kept": float(positive[:k].sum() / positive.sum()) if n_seen else None,
        "noise_level": moments.noise_level,
        "n_seen": n_seen,
        "wrong_shares_from": moments.wrong_shares_from,
        "privacy": plan.privacy_report(),
    }


def residual(rows: NDArray[np.float64], components: NDArray[np.float64]) -> float:
    """Return ||X - X V V^T||_F / ||X||_F for rows X and orthonormal rows V^T: what the approximation loses."""
    lost = rows - rows @ components.T @ components
    return float(np.linalg.norm(lost) / np.linalg.norm(rows))


def reference(tables: Sequence[Table], plan: LowRankPlan) -> NDArray[np.float64]:
    """Return the top k right singular vectors of the clipped table, in plain NumPy, as rows; no privacy.

    Args:
        tables: all parties' tables, in the order of the joint table.
        plan: as for the job.
    """
    rows = clipped_rows(tables, plan)
    return leading_components(rows.T @ rows, plan.params.rank)[1]


ANALYSIS = Analysis(
    names=("low-rank",),
    parameters=LowRankParams,
    plan=plan,
    party=party,
    coordinator=coordinator,
    survival=by_parameter("method"),
    page="analyses/low-rank.md",
    demo="low-rank",
    reference=reference,
    lines=component_lines,
)
