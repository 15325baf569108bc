"""Linear regression of one party's label on the columns of all [VertPrim23, appendix E.2].

Two methods. `sketch` is the paper's: every party releases a noisy sketch of its block, the label's with it. `mpc`,
which no paper has, counts the second moments of features, label and a constant under shares and noises them once. From
either the coordinator has an estimate of these moments, and solves.

    source                                              function
    appendix E.2, each party's noisy sketch             `release_sketch`: the label is a column like any other
    appendix E.2, the server puts them side by side     `gather_sketches`
    appendix E.2, the server solves                     `open_moments`, `solve_moments`
    no paper: the moments under shares, noised once     `analyses/second_moments/party.py`, `open_noisy_gram`
    no paper: the answer in the units of the columns    `in_units_of_columns`
"""

from typing import Any

from analyses.job.analysis import Analysis
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import by_parameter
from analyses.least_squares.fit import fit_of
from analyses.least_squares.forecast import forecast
from analyses.least_squares.line import Line, feature_bounds, feature_names, in_units_of_columns, solve_moments
from analyses.least_squares.plan import (
    LeastSquaresGramPlan,
    LeastSquaresParams,
    LeastSquaresPlan,
    LeastSquaresSketchPlan,
    plan,
)
from analyses.least_squares.reference import reference
from analyses.second_moments.forecast import signal_of_regression
from analyses.second_moments.gram_plan import GramPlan
from analyses.second_moments.noisy_gram import rows_told
from analyses.second_moments.noisy_moments import open_moments
from analyses.second_moments.noisy_sketch import release_sketch
from analyses.second_moments.party import party as party_of_second_moments
from analyses.second_moments.rounding import stated_rounding
from analyses.second_moments.work import work
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
    "solve_moments",
]


async def party(session: Session, plan: LeastSquaresPlan, table: Table | None) -> LocalReport:
    """Run a party's part; see `analyses.second_moments.party` for method `mpc`, and `release_sketch` for `sketch`."""
    if isinstance(plan, GramPlan):
        return await party_of_second_moments(session, plan, table)
    return await release_sketch(session, plan, table)


async def coordinator(session: Session, plan: LeastSquaresPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the estimate of the moments and solve.

    Returns:
        JSON-able: `label`, `features`, their names, and `bounds`, pairs of their public bounds; `coefficients`,
        `intercept`, in the units of the columns, None
        where there is no answer; `standard_errors` and `intercept_standard_error`, by the noise, None by a sketch or
        where nothing tells; `r_squared`, an estimate from the same release without the noise's share in it, and
        `r_squared_interval`, where it lies in 19 of 20 cases, None likewise; `ridge`, the penalty used,
        `n_rows`, about the number of rows, and `n_rows_standard_error`, absent by a sketch;
        `smallest_eigenvalue`, `noise_level` and `worst_rounding` of second moments, in units of scaled rows; `note`,
        what is to be said about the answer; `wrong_shares_from`; `privacy`, the report.

    Raises:
        PeerError: too few parties sent their part.
    """
    moments = await open_moments(session, plan)
    solution = solve_moments(moments.matrix, moments.noise_level, plan)
    line, fit, r_squared = in_units_of_columns(solution, plan), None, solution.r_squared
    if isinstance(plan, GramPlan):
        fit = await session.compute(fit_of, moments.matrix, plan, solution, moments.noise_level)
        r_squared = None if fit is None else fit.r_squared
    return {
        "analysis": "least-squares",
        "method": plan.params.method,
        "label": plan.params.label,
        "features": list(feature_names(plan)),
        "bounds": feature_bounds(plan),
        "coefficients": None if line is None else line.coefficients.tolist(),
        "intercept": None if line is None else line.intercept,
        "standard_errors": None if fit is None else fit.standard_errors.tolist(),
        "intercept_standard_error": None if fit is None else fit.intercept_error,
        "r_squared": r_squared,
        "r_squared_interval": None if fit is None else list(fit.interval),
        "ridge": solution.ridge,
        "smallest_eigenvalue": solution.smallest_eigenvalue,
        "noise_level": moments.noise_level,
        "worst_rounding": stated_rounding(plan),
        **(rows_told(moments.matrix, plan) if isinstance(plan, GramPlan) else {}),
        "note": "; ".join(filter(None, (solution.note, "" if fit is None else fit.note))),
        "wrong_shares_from": moments.wrong_shares_from,
        "privacy": plan.privacy_report(),
    }


ANALYSIS = Analysis(
    names=("least-squares",),
    parameters=LeastSquaresParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=by_parameter("method"),
    page="analyses/least-squares.md",
    demo="least-squares",
    own_forecast=forecast,
    own_work=work,
    signal=signal_of_regression,
    reference=reference,
    synonyms={"target": "label", "y": "label"},
    matching=("revealed", "secret"),
    open_methods=("sketch",),
)
