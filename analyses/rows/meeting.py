"""The start of every analysis under shares: agree on keys, confirm the plan, and check that the tables match."""

from analyses.job.plan import Plan, protects_persons
from analyses.job.schema import Table
from analyses.rows.alignment import check_same_rows
from mpc.arithmetic.field import ResidueField
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets, confirm_pairwise_secrets
from mpc.protocol.session import Session


async def meet(
    session: Session, plan: Plan, table: Table | None, *, all_pairs: bool = False
) -> tuple[ShareExchange, int]:
    """Agree on pairwise secrets, confirm that all members run the same plan, and check that the tables match.

    No share, no noise and no masked vector leaves a member before this has ended: the secrets that hide them exist only
    between members with the same plan (`mpc.protocol.greeting`), and each has confirmed that to each other one.

    Args:
        session: my end of the job; its terms are those of the plan.
        plan: computed by this member itself.
        table: my rows; None for a compute party without columns.
        all_pairs: whether two input-only members need a pairwise secret, too.

    Returns:
        Dealing and taking of shares in the plan's field; the number of rows, which is private to the parties.

    Raises:
        DifferentTermsError: a member has computed another plan, or says so.
        UnequalValuesError: the tables do not hold the same rows in the same order, or, where the job protects persons,
            not rows of the same persons.
        PeerError: a member is silent, drops out or violates the protocol.

    Cost: 2 rounds and 96 bytes per pair and direction, then those of `check_same_rows`.
    """
    members = range(1, len(plan.schemas) + 1)
    session.progress("keys", 0, 1)
    secrets = await agree_pairwise_secrets(session, members, len(members) if all_pairs else plan.n_parties)
    await confirm_pairwise_secrets(session, secrets)
    exchange = ShareExchange(session, ResidueField(plan.n_primes), plan.n_parties, plan.job.t, secrets)
    session.progress("rows", 0, 1)
    return exchange, await check_same_rows(
        exchange, members, plan.owners, table, with_persons=protects_persons(plan.job)
    )
