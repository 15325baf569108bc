"""Low-rank approximation of a vertically partitioned table: the subspace closest to it [VertPrim23, appendix E.1].

Two methods. `sketch` is the paper's: the top right singular vectors of a noisy sketch G X + N. `mpc`, which no paper
has, takes the top eigenvectors of X^T X, counted under shares and noised once.

    source                                              function
    algorithm 4, each party's noisy sketch G X + N      `release_sketch`
    algorithm 4, the server puts them side by side      `gather_sketches`
    algorithm 4, the top right singular vectors         `open_moments`, `leading_components`
    no paper: X^T X under shares, noised once           `analyses/second_moments/party.py`, `open_noisy_gram`
"""

from typing import Any

import numpy as np

from analyses.job.analysis import Analysis
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import by_parameter
from analyses.low_rank.forecast import forecast
from analyses.low_rank.plan import LowRankGramPlan, LowRankParams, LowRankPlan, LowRankSketchPlan, plan
from analyses.low_rank.reference import reference, residual
from analyses.second_moments.forecast import signal
from analyses.second_moments.gram_plan import GramPlan
from analyses.second_moments.noisy_moments import edge_of, open_moments
from analyses.second_moments.noisy_sketch import release_sketch
from analyses.second_moments.party import party as party_of_second_moments
from analyses.second_moments.rounding import stated_rounding
from analyses.second_moments.spectrum import leading_components
from analyses.second_moments.work import work
from mpc.protocol.session import Session

__all__ = [
    "ANALYSIS",
    "LowRankGramPlan",
    "LowRankParams",
    "LowRankPlan",
    "LowRankSketchPlan",
    "coordinator",
    "party",
    "plan",
    "reference",
    "residual",
]


async def party(session: Session, plan: LowRankPlan, table: Table | None) -> LocalReport:
    """Run a party's part; see `analyses.second_moments.party` for method `mpc`, and `release_sketch` for `sketch`."""
    if isinstance(plan, GramPlan):
        return await party_of_second_moments(session, plan, table)
    return await release_sketch(session, plan, table)


async def coordinator(session: Session, plan: LowRankPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the estimate of X^T X and take its top eigenvectors.

    Those of a sketch's second moments are the top right singular vectors of the sketch: the same number is subtracted
    from all eigenvalues.

    Returns:
        JSON-able: `columns`; `method`; `components`, k orthonormal rows over the columns, the V^T for which X V V^T
        approximates X; `origin`, per column in its own units the value that is 0 in X; `eigenvalues` of the estimate,
        in units of scaled rows, largest first; `kept`, what the first k have of all positive ones, None where none is
        above the noise: an estimate from the same release, and as noisy; `noise_level`, the largest eigenvalue that the
        noise alone has, in 19 of 20 cases no more; `worst_rounding`, how far rounding may have moved one besides;
        `n_seen`, how many of the k are above it; `wrong_shares_from`; `privacy`, the report.

    Raises:
        PeerError: too few parties sent their part.
    """
    moments = await open_moments(session, plan)
    k = plan.params.rank
    eigenvalues, components = leading_components(moments.matrix, k)
    edge = await session.compute(edge_of, plan, moments.noise_level)
    n_seen = int(np.count_nonzero(eigenvalues[:k] > edge))
    positive = eigenvalues.clip(min=0.0)
    return {
        "analysis": "low-rank",
        "method": plan.params.method,
        "columns": list(plan.column_names),
        "components": components.tolist(),
        "origin": plan.zeros.tolist(),
        "eigenvalues": eigenvalues.tolist(),
        "kept": float(positive[:k].sum() / positive.sum()) if n_seen else None,
        "noise_level": edge,
        "worst_rounding": stated_rounding(plan),
        "n_seen": n_seen,
        "wrong_shares_from": moments.wrong_shares_from,
        "privacy": plan.privacy_report(),
    }


ANALYSIS = Analysis(
    names=("low-rank",),
    parameters=LowRankParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=by_parameter("method"),
    page="analyses/low-rank.md",
    demo="low-rank",
    own_forecast=forecast,
    own_work=work,
    signal=signal,
    reference=reference,
    synonyms={"n_components": "rank", "components": "rank", "k": "rank"},
    matching=("revealed", "secret"),
    open_methods=("sketch",),
)
