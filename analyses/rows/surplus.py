"""Bounding the rows per person: in a job that protects persons, at most a public number of each person's rows counts.

All owners of a joint table hold the same rows in the same order, and before anything is shared they have compared that
the rows are of the same persons (`analyses.rows.alignment`). They agree on a key that nobody else learns; every row has
a number among the rows of its person; and of each person those rows count that have the least keyed hashes
(`analyses.job.row_ids.Persons.kept`). So all owners choose the same rows, without a word about which.

What does not count is not left out, which would tell parties that hold shares how many rows count. Each owner brings
zeros for it: a row of zeros adds nothing to a product, a sum or a count. Shares of zeros look like any others.

Privacy: the choice depends on the key, which is drawn without looking at data, and for each person on nothing but its
own rows. Given the key, tables that differ in all rows of one person differ, after the choice, in at most
`most_rows_per_person` rows that are not zero; this is what `dp.cost.group` needs. Those who know the key are members of
coalitions, and what holds for each key holds for them; for all others it holds on average over keys, as divergences of
mixtures are at most the largest of their components.
"""

import numpy as np
from numpy.typing import NDArray

from analyses.job.plan import Plan, protects_persons
from analyses.job.schema import Table
from analyses.rows.own_values import zeros_if_raised
from analyses.rows.slots import owners_key
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.hashkey import HashKey
from mpc.protocol.session import Session

LABEL = "rows that count"
KEY_BYTES = 32


async def rows_that_count(exchange: ShareExchange, plan: Plan, table: Table | None) -> NDArray[np.bool_] | None:
    """Return which of my rows count, alike at all owners; None where all do, or where I have none.

    Args:
        exchange: my end, after all have compared their rows.
        plan: plan of the job.
        table: mine; None for a compute party without columns.

    Raises:
        PeerError: an owner is silent, drops out or violates the agreement on the key.

    Cost: none where the job protects records. Else 2 rounds among the owners, or 3 where one of them holds no shares.
    """
    if table is None or not protects_persons(plan.job):
        return None
    key = own_key(exchange.session) if len(plan.owners) < 2 else await owners_key(exchange, plan.owners, LABEL)
    return await exchange.session.compute(counting_rows, table, key, plan.protected.most_rows)


def own_key(session: Session) -> HashKey:
    """Return a key that only this party knows, for rows that no other party has."""
    return HashKey(session.entropy.read(KEY_BYTES), LABEL)


def counting_rows(table: Table, key: HashKey, most: int) -> NDArray[np.bool_]:
    """Return which rows of a table count, shape (rows,)."""
    persons = table.persons
    assert persons is not None, "a table without persons serves no job that protects them"
    return zeros_if_raised(table, lambda: persons.kept(key.digest, most), lambda: np.zeros(table.n_rows, dtype=bool))


def n_surplus(counts: NDArray[np.bool_] | None) -> int:
    """Return how many rows do not count: private, for their owner."""
    return 0 if counts is None else int(np.count_nonzero(~counts))
