"""Linear regression of one party's label on the columns of all [VertPrim23, appendix E.2].

Two methods. `sketch` is the paper's: every party releases a noisy sketch of its block, the label's with it. `mpc`,
which no paper has, counts the second moments of features, label and a constant under shares and noises them once. From
either the coordinator has an estimate of these moments, and solves.

    source                                              function
    appendix E.2, each party's noisy sketch             `release_sketch`: the label is a column like any other
    appendix E.2, the server puts them side by side     `gather_sketches`
    appendix E.2, the server solves                     `open_moments`, `solve_moments`
    no paper: the moments under shares, noised once     `party` of `analyses/pca/protocol.py`, `open_noisy_gram`
    no paper: the answer in the units of the columns    `in_units_of_columns`
"""

from typing import Any

from analyses.job.analysis import Analysis
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import by_parameter
from analyses.least_squares.line import Line, feature_names, in_units_of_columns, solve_moments
from analyses.least_squares.plan import (
    LeastSquaresGramPlan,
    LeastSquaresParams,
    LeastSquaresPlan,
    LeastSquaresSketchPlan,
    plan,
)
from analyses.least_squares.reference import reference, scaled_moments
from analyses.pca.protocol import party as count_second_moments
from analyses.second_moments.noisy_gram import GramPlan
from analyses.second_moments.noisy_moments import open_moments
from analyses.second_moments.noisy_sketch import release_sketch
from mpc.protocol.session import Session

__all__ = [
    "ANALYSIS",
    "LeastSquaresGramPlan",
    "LeastSquaresParams",
    "LeastSquaresPlan",
    "LeastSquaresSketchPlan",
    "Line",
    "coordinator",
    "feature_names",
    "in_units_of_columns",
    "party",
    "plan",
    "reference",
    "scaled_moments",
    "solve_moments",
]


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
