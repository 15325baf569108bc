"""Principal components of a vertically partitioned table: SPCA [SPCA24, algorithm 1] with its privacy repaired.

Every party holds some columns of the same rows. The parties share their quantised columns, multiply locally, add noise
that nobody knows, and open only the noisy second-moment matrix X^T X to the coordinator, who takes its leading
eigenvectors.

    line of algorithm 1                              function
    2, each client discretises its columns           `QuantisedRows.quantise`: toward zero, not at random
    8, each client samples noise                     `JointComputation.noise_of`: everybody's, dealt with degree 2t
    2 and 9, shares of the columns                   `JointComputation.rows`, block by block
    9, inner products of two clients' columns        `GramSum.add`, and the noise is added by `NoisySum.__iadd__`
    11, one client's own inner products and noise    none: that noise would protect nobody from the owner's coalition;
                                                     all blocks take line 9
    12, the server obtains the noisy matrix          `JointComputation.release`, `open_noisy_gram`
    13, the server takes the top eigenvectors        `leading_components`

Differences from the paper (docs/privacy-guarantee.md): rows are rounded toward zero, so the sensitivity is gamma^2;
each party clips its own block to a public bound; the blocks that one party owns alone are computed under shares and
noised by all; off-diagonal entries carry half the noise variance; the noise of N - t parties suffices in the
coalition's view.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.analysis import Analysis
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import products_opened_once
from analyses.pca.plan import PcaParams, PcaPlan, plan
from analyses.pca.reference import reference
from analyses.pca.text import component_lines
from analyses.rows.joint_computation import ROWS_PER_BLOCK, joined
from analyses.rows.own_rows import report_of
from analyses.rows.row_plan import QuantisedRows
from analyses.rows.row_plan import clipped_rows as clipped_rows
from analyses.second_moments.noisy_gram import GramPlan, open_noisy_gram, triangle_shape
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


async def party(session: Session, plan: GramPlan, table: Table | None) -> LocalReport:
    """Run a party's part: agree on keys, check that rows match, share noise and rows, multiply, send the noisy share.

    Args:
        session: my end of the job.
        plan: computed by this party itself.
        table: my rows, columns as in my schema; None for a compute party without columns.

    Raises:
        UnequalValuesError: the tables do not hold the same rows in the same order.
        PeerError: a member is silent, drops out or violates the protocol.

    Noise is dealt before the rows, so that N - 2t - 1 parties may drop out once all have dealt their rows.

    Privacy: at most t colluding parties learn nothing but the released matrix; see `NoisyGram` for what it costs.
    Cost: 6 rounds; per element of the table at most 8 * n_words * (N - t) bytes sent by its owner.
    """
    async with joined(session, plan, table) as (c, n_rows, counting):
        mine = None if table is None else QuantisedRows(plan, session.me, table, counting)
        total = await c.noise_of(plan.mechanism, triangle_shape(plan))
        gram = c.gram_sum(plan.n_row_columns)
        async for x in c.rows(plan.widths, n_rows, mine, height=ROWS_PER_BLOCK):
            await gram.add(x)
        total += await gram.triangle()
        await c.release(total)
    return report_of(mine, n_rows)


async def coordinator(session: Session, plan: PcaPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the noisy matrix and take its leading eigenvectors.

    Returns:
        JSON-able: `columns`; `components`, k rows of unit vectors over the columns (largest entry positive);
        `eigenvalues`, of the whole noisy matrix, in units of scaled rows, largest first; `wrong_shares_from`, names of
        the parties whose corrupted shares were corrected; `privacy`, the report.

    Raises:
        PeerError: fewer than 2t + 1 parties sent their share.
        InconsistentSharesError: there are corrupted shares that cannot be corrected.
    """
    opened = await open_noisy_gram(session, plan)
    eigenvalues, components = leading_components(opened.matrix, plan.params.components)
    return {
        "analysis": "pca",
        "columns": list(plan.column_names),
        "components": components.tolist(),
        "eigenvalues": eigenvalues.tolist(),
        "wrong_shares_from": opened.wrong_shares_from,
        "privacy": plan.privacy_report(),
    }


def leading_components(matrix: NDArray[np.float64], k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all eigenvalues of a symmetric matrix, largest first, and the k leading eigenvectors as rows.

    The sign of a component is arbitrary; the entry of largest size is made positive, so that equal matrices print
    alike.
    """
    values, vectors = np.linalg.eigh(matrix)
    components = vectors[:, ::-1][:, :k].T
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(k), largest])
    return values[::-1], components * signs[:, None]


ANALYSIS = Analysis(
    names=("pca",),
    parameters=PcaParams,
    plan=plan,
    party=party,
    coordinator=coordinator,
    survival=products_opened_once,
    page="analyses/pca.md",
    demo="pca",
    reference=reference,
    lines=component_lines,
    has_plot=True,
)
