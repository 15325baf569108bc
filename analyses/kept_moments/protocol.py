"""Second moments of a vertically partitioned table, released once: questions about them are answered without a job.

The parties' part is that of `pca`: they share their quantised columns, multiply locally, add noise that nobody knows,
and open only the noisy matrix X^T X, with a constant column. It is the result itself.

    step                                             function
    columns become integers of bounded norm          `QuantisedRows.quantise`
    everybody's noise, dealt with degree 2t          `JointComputation.noise_of`
    products under shares, added up                  `JointComputation.gram_of_rows`
    the noisy matrix is opened                       `JointComputation.release`, `open_noisy_gram`
    answers, without the parties                     `ask`
"""

from typing import Any

import numpy as np

from analyses.job.analysis import Analysis
from analyses.job.survival import products_opened_once
from analyses.kept_moments.answer import has_rows, intervals
from analyses.kept_moments.forecast import forecast
from analyses.kept_moments.plan import KeptMomentsParams, KeptMomentsPlan, plan
from analyses.kept_moments.questions import ask
from analyses.kept_moments.reference import reference
from analyses.kept_moments.statistics import noisy_means
from analyses.rows.row_plan import clipped_rows as clipped_rows
from analyses.second_moments.forecast import signal
from analyses.second_moments.noisy_gram import open_noisy_gram, rows_told
from analyses.second_moments.party import party
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.rounding import stated_rounding
from analyses.second_moments.work import work
from mpc.protocol.session import Session

__all__ = ["ANALYSIS", "KeptMomentsParams", "KeptMomentsPlan", "ask", "coordinator", "party", "plan", "reference"]


async def coordinator(session: Session, plan: KeptMomentsPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the noisy matrix.

    Returns:
        JSON-able: `columns`, their names; `matrix`, the noisy second moments of the scaled columns and a constant
        column, which is the last; `noise_deviation`, standard deviation of its entries off the diagonal by noise;
        `bounds` of the columns; `mean` of each, in its own units, `mean_standard_errors` and `mean_intervals`, by noise
        alone, None where there is only noise; `n_rows`, about the number of rows, and `n_rows_standard_error`;
        `worst_rounding`, how far rounding may have moved any eigenvalue besides; `wrong_shares_from`, names of the
        parties whose corrupted shares were corrected; `privacy`, the report.

    Raises:
        PeerError: fewer than 2t + 1 parties sent their share.
        InconsistentSharesError: there are corrupted shares that cannot be corrected.
    """
    opened = await open_noisy_gram(session, plan)
    moments = ReleasedMoments.of(opened.matrix, plan)
    mean, error = noisy_means(moments) if has_rows(moments) else (None, None)
    upper = moments.lower + moments.widths
    ends = None if mean is None or error is None else intervals(mean, error, moments.lower, upper)
    return {
        "analysis": "second-moments",
        "columns": list(plan.column_names),
        "matrix": opened.matrix.tolist(),
        "noise_deviation": moments.deviation,
        "bounds": np.column_stack([moments.lower, upper]).tolist(),
        "mean": None if mean is None else mean.tolist(),
        "mean_standard_errors": None if error is None else error.tolist(),
        "mean_intervals": ends,
        **rows_told(opened.matrix, plan),
        "worst_rounding": stated_rounding(plan),
        "wrong_shares_from": opened.wrong_shares_from,
        "privacy": plan.privacy_report(),
    }


ANALYSIS = Analysis(
    names=("second-moments",),
    parameters=KeptMomentsParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=products_opened_once,
    page="analyses/second-moments.md",
    demo="second-moments",
    own_forecast=forecast,
    own_work=work,
    signal=signal,
    reference=reference,
    matching=("revealed", "secret"),
)
