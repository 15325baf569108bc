"""Principal components of a vertically partitioned table: SPCA [SPCA24, algorithm 1] with its privacy repaired.

Every party holds some columns of the same rows. The parties share their quantised columns, multiply locally, add noise
that nobody knows, and open only the noisy second-moment matrix X^T X to the coordinator. X has a constant column
besides, unless the job says `center = false`: so the matrix tells the number of rows and the means, and the coordinator
moves the origin to the mean and takes the leading eigenvectors of what is left.

    line of algorithm 1                              function
    2, each client discretises its columns           `QuantisedRows.quantise`: to the nearest, not at random
    8, each client samples noise                     `JointComputation.noise_of`: everybody's, dealt with degree 2t
    2 and 9, shares of the columns                   `JointComputation.rows`, in `JointComputation.gram_of_rows`
    9, inner products of two clients' columns        `GramSum.add`, and the noise is added by `NoisySum.__iadd__`
    11, one client's own inner products and noise    none: that noise would protect nobody from the owner's coalition;
                                                     all blocks take line 9
    12, the server obtains the noisy matrix          `JointComputation.release`, `open_noisy_gram`
    13, the server takes the top eigenvectors        `leading_components`, within `spectrum`
    no paper: the mean is subtracted                 `centred`, within `spectrum`

Differences from the paper (docs/privacy-guarantee.md): no rounded row is above its bound, so the sensitivity is
gamma^2; each party clips its own block to a public bound; the blocks that one party owns alone are computed under
shares and noised by all; off-diagonal entries carry half the noise variance; the noise of N - t parties suffices in the
coalition's view.
"""

from typing import Any

import numpy as np

from analyses.job.analysis import Analysis
from analyses.job.survival import products_opened_once
from analyses.pca.forecast import forecast
from analyses.pca.plan import PcaParams, PcaPlan, plan
from analyses.pca.reference import reference
from analyses.pca.spectrum import spectrum
from analyses.pca.work import work
from analyses.rows.row_plan import clipped_rows as clipped_rows
from analyses.second_moments.forecast import signal
from analyses.second_moments.gram_plan import rows_standard_error
from analyses.second_moments.noisy_gram import open_noisy_gram
from analyses.second_moments.party import party
from analyses.second_moments.rounding import stated_rounding
from analyses.second_moments.spectrum import leading_components
from mpc.protocol.session import Session

__all__ = [
    "ANALYSIS",
    "PcaParams",
    "PcaPlan",
    "clipped_rows",
    "coordinator",
    "leading_components",
    "party",
    "plan",
    "reference",
]


async def coordinator(session: Session, plan: PcaPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the noisy matrix, centre it, and take its leading eigenvectors.

    Returns:
        JSON-able: `columns`; `center`, `scaled`, as the job asked for; `components`, k rows of unit vectors over the
        columns (largest entry positive); per column in its own units, `mean`, None without `center`, `origin`, which is
        subtracted then, and `scale`, which is divided by; `left_out`, names of columns that vary too little to be
        scaled; `n_rows`, about the number of rows, and `n_rows_standard_error`;
        `explained_variance`, the variance of the columns less
        mean and by scale along each component, `explained_variance_interval`, where it lies in 19 of 20 cases, None
        for a component close to the noise or to another, and
        `explained_variance_ratio`, shares of the whole; `eigenvalues`, all of the noisy matrix that was decomposed, a
        sum over rows, largest first; `noise_edge`, the largest of them that the noise alone has; `n_above_noise`, how
        many are larger; `worst_rounding`, how far rounding may have moved any of them besides; `wrong_shares_from`,
        names of the parties whose corrupted shares were corrected; `privacy`, the report.

    Raises:
        PeerError: fewer than 2t + 1 parties sent their share.
        InconsistentSharesError: there are corrupted shares that cannot be corrected.
    """
    opened = await open_noisy_gram(session, plan)
    found = await session.compute(spectrum, opened.matrix, plan)
    columns = [column for owner in plan.owners for column in plan.schema_of(owner).columns]
    lower, upper = np.array([c.lower for c in columns]), np.array([c.upper for c in columns])
    origin = plan.zeros
    centre, variance, intervals = found.centre, found.variance, found.intervals
    return {
        "analysis": "pca",
        "columns": list(plan.column_names),
        "center": plan.params.center,
        "scaled": plan.params.scale,
        "components": found.components.tolist(),
        "mean": None if centre is None else np.clip(origin + (upper - lower) * centre.mean, lower, upper).tolist(),
        "origin": origin.tolist(),
        "scale": ((upper - lower) * found.divisors).tolist(),
        "left_out": [name for name, is_out in zip(plan.column_names, found.left_out, strict=True) if is_out],
        "n_rows": None if centre is None else centre.n_rows,
        "n_rows_standard_error": None if centre is None else rows_standard_error(plan),
        "explained_variance": None if variance is None else variance.tolist(),
        "explained_variance_interval": None
        if intervals is None
        else [None if np.isnan(ends).any() else ends.tolist() for ends in intervals],
        "explained_variance_ratio": found.ratio.tolist(),
        "eigenvalues": found.eigenvalues.tolist(),
        "noise_edge": found.noise_edge,
        "worst_rounding": stated_rounding(plan),
        "n_above_noise": found.n_above_noise,
        "wrong_shares_from": opened.wrong_shares_from,
        "privacy": plan.privacy_report(),
    }


ANALYSIS = Analysis(
    names=("pca",),
    parameters=PcaParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=products_opened_once,
    page="analyses/pca.md",
    demo="pca",
    own_forecast=forecast,
    own_work=work,
    signal=signal,
    reference=reference,
    synonyms={"n_components": "components", "rank": "components", "k": "components"},
    matching=("revealed", "secret"),
)
