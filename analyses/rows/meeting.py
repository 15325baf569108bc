"""The start of every analysis under shares: agree on keys, confirm the plan, match rows, and check that they agree."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from analyses.job.plan import Plan, matches_in_secret, protects_persons
from analyses.job.schema import Table
from analyses.rows.alignment import check_same_rows
from mpc.arithmetic.field import ResidueField
from mpc.errors import LocalFaultError, PeerSilentError
from mpc.matching.parcels import parcels
from mpc.matching.revealed import match_revealed
from mpc.protocol.concurrency import run_together
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets, confirm_pairwise_secrets
from mpc.protocol.pairwise import PairwiseSecret
from mpc.protocol.session import Session

MATCHED = "rows matched"
"""Stage in which owners tell compute parties without tables that they have matched their rows: no number, no row."""

STEPS_BESIDES = 8
"""Deadlines that such a party waits for more than the owners have lists to go through."""


async def meet(
    session: Session, plan: Plan, table: Table | None, *, all_pairs: bool = False
) -> tuple[ShareExchange, int, Table | None]:
    """Agree on pairwise secrets, confirm that all members run the same plan, and check that the tables agree.

    Where the job reveals to owners which of their rows all have, they match them first, and go on with those. Where it
    names a match that they have kept, each takes its rows from there, and they compare ids, order and origin as always.

    No share, no noise and no masked vector leaves a member before this has ended: the secrets that hide them exist only
    between members with the same plan (`mpc.protocol.greeting`), and each has confirmed that to each other one.

    Args:
        session: my end of the job; its terms are those of the plan.
        plan: computed by this member itself.
        table: my rows; None for a compute party without columns.
        all_pairs: whether two input-only members need a pairwise secret, too.

    Returns:
        Dealing and taking of shares in the plan's field; the number of rows of the joint table, which is private to the
        parties; my rows of it.

    Raises:
        DifferentTermsError: a member has computed another plan, or says so.
        UnequalValuesError: the tables do not hold the same rows in the same order, or, where the job protects persons,
            not rows of the same persons.
        PeerError: a member is silent, drops out or violates the protocol.
        LocalFaultError: the job matches rows under shares, where tables never agree; or it names a kept match, and my
            table comes without; see `greet`.

    Cost: 2 rounds and 96 bytes per pair and direction, then those of `match_revealed` and `check_same_rows`.
    """
    if matches_in_secret(plan.job):
        raise LocalFaultError("rows that are matched in secret are in no order that their owners could agree on")
    members, reveals, rows = range(1, len(plan.schemas) + 1), matches_openly(plan), None
    exchange = await greet(session, plan, all_pairs=all_pairs or reveals)
    if reveals:
        session.progress("matching", 0, 1)
        table, rows = await _match(session, plan, table, exchange.secrets)
    elif table is not None and plan.job.matching is not None:
        table = await session.compute(_as_kept, table)
    session.progress("rows", 0, 1)
    with_persons, proves = protects_persons(plan.job), plan.job.is_malicious
    n_rows = await check_same_rows(exchange, members, plan.owners, table, with_persons=with_persons, proves=proves)
    if table is not None and table.match is not None and table.match.rows is None:
        table.match.rows, table.match.origin = rows, session.binding
    return exchange, n_rows, table


async def greet(session: Session, plan: Plan, *, all_pairs: bool = False) -> ShareExchange:
    """Agree on pairwise secrets and confirm that all members run the same plan. Arguments and errors as of `meet`.

    Returns:
        Dealing and taking of shares in the plan's field.
    """
    members = range(1, len(plan.schemas) + 1)
    session.progress("keys", 0, 1)
    secrets = await agree_pairwise_secrets(session, members, len(members) if all_pairs else plan.n_parties)
    await confirm_pairwise_secrets(session, secrets)
    return ShareExchange(session, ResidueField(plan.n_primes), plan.n_parties, plan.job.t, secrets)


def matches_openly(plan: Plan) -> bool:
    """Return whether owners learn in this job which of their rows all have."""
    matching = plan.job.matching
    return matching is not None and matching.kind == "revealed" and matching.match is None


def _as_kept(table: Table) -> Table:
    """Return my rows of the match that I have kept from an earlier job."""
    if table.match is None or table.match.rows is None:
        raise LocalFaultError("the job names a kept match, and the table comes without one")
    return table.matched(table.match.rows, table.match.origin)


async def _match(
    session: Session, plan: Plan, table: Table | None, secrets: Mapping[int, PairwiseSecret]
) -> tuple[Table | None, NDArray[np.int64] | None]:
    """Return my rows that all owners have, in an order common to all, and their numbers.

    None and None for a compute party without columns.

    Such a party waits until the owners have matched. None of them sends it anything meanwhile, so it may hear nothing
    for as long as that takes; each step of theirs ends within the deadline, or fails and ends the job here, too.
    """
    sizes = {owner: declared[1] for owner in plan.owners if (declared := plan.schema_of(owner).rows) is not None}
    ids = None if table is None else table.ids
    rows = await match_revealed(session, plan.owners, ids, sizes, secrets, strict=plan.job.is_malicious)
    if table is not None and rows is not None:
        found = await session.compute(table.matched, rows)
        others = set(plan.compute_members) - set(plan.owners)
        await run_together(*(session.send(other, MATCHED, np.zeros(1, dtype=np.uint8)) for other in sorted(others)))
        return found, rows
    n_steps = sum(len(parcels(size)) for size in sizes.values())
    await run_together(*(_hear_of_the_end(session, owner, n_steps) for owner in plan.owners))
    return None, None


async def _hear_of_the_end(session: Session, owner: int, n_steps: int) -> None:
    for step in reversed(range(n_steps + STEPS_BESIDES)):
        try:
            await session.receive(owner, MATCHED, (1,), np.uint8)
        except PeerSilentError:
            if not step:
                raise
        else:
            return
