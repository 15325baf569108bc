"""A party's part of every analysis that stands on the second moments of the joint rows: X^T X, noised once."""

from analyses.job.schema import LocalReport, Table
from analyses.rows.joint_computation import joined
from analyses.rows.own_rows import report_of
from analyses.second_moments.gram_plan import GramPlan
from analyses.second_moments.noisy_gram import triangle_shape
from mpc.protocol.session import Session


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
    async with joined(session, plan, table) as (c, n_rows, counting, table):
        mine = None if table is None else plan.own_rows(session.me, table, counting)
        total = await c.noise_of(plan.mechanism, triangle_shape(plan))
        total += await c.gram_of_rows(plan, n_rows, mine)
        await c.release(total)
    return report_of(mine, n_rows)
