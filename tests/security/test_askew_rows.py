"""A leader of a `revealed` match that sets two honest owners' rows askew, and forges that they are the same.

It sends both the same tags in different orders, waits for the others' shares of the verdict, and completes them to 0.
One person then stands in two rows of the joint table. Among members that are trusted to follow the protocol the job
goes on; with `security = "malicious"` it ends before any row is shared.
"""

from contextlib import contextmanager
from unittest import mock

import numpy as np

from analyses.job.job import Job
from analyses.job.matching import MatchingSchema
from analyses.job.row_ids import digests_of_ids
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.rows.alignment import LABEL
from analyses.run_locally import run_locally
from mpc.arithmetic.opening import Opening
from mpc.arithmetic.shamir import lagrange_weights
from mpc.errors import InconsistentSharesError
from mpc.matching import parcels, revealed
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.exchange import ShareExchange

OWNERS = ("bank", "clinic", "leader")
LEADER, N_ROWS = 3, 8
PROGRAM = [
    "a = column(bank.x)",
    "b = column(clinic.x)",
    "c = column(leader.x)",
    "d = mul(a, b)",
    "e = mul(d, c)",
    "open s = sum(e)",
]
VERDICTS = (f"{LABEL}/verdict", f"{LABEL}/opening 0")


def job_of(security, **changes):
    return Job.model_validate(
        {
            "analysis": "circuit",
            "inputs": [{"party": owner, "table": "rows"} for owner in OWNERS],
            "security": security,
            "privacy": {"epsilon": 400.0, "delta": 1e-5},
            "parameters": {"program": PROGRAM},
            **changes,
        }
    )


def tables_of(*, matched):
    found = {}
    for owner in OWNERS:
        values = np.ones((N_ROWS, 1))
        values[3] = owner == "leader"
        schema = BlockSchema(
            party=owner,
            columns=(ColumnSchema(name="x", lower=0, upper=1),),
            rows=(1, 16 if owner == "leader" else 32),
            matching=MatchingSchema(recipe=(("trim",),), reveal=True) if matched else None,
        )
        ids = digests_of_ids([[f"p{i}" for i in range(N_ROWS)]]) if matched else None
        found[owner] = Table(schema, values, ids=ids)
    return found


@contextmanager
def askew(*, forges):
    """Let the leader send one owner its tags in another order, and forge the verdict or not."""
    open_honestly, send_honestly = ShareExchange.open, parcels.ParcelLine.send
    forged = []

    async def open_last(self, label, share, shape, degree, receivers, senders=None, **options):
        session, field = self.session, self.field
        if not forges or session.me != LEADER or label not in VERDICTS:
            return await open_honestly(self, label, share, shape, degree, receivers, senders, **options)
        theirs = [await session.receive(p, label, (field.n_words, *shape)) for p in (1, 2)]
        *weights, own = lagrange_weights(field, (1, 2, 3))
        inverse = tuple(pow(-int(w), -1, p) for w, p in zip(own, field.primes, strict=True))
        mine = field.combine([field.combine(theirs, weights)], [inverse])
        for party in (1, 2):
            await session.send(party, label, mine)
        forged.append(label)
        return Opening(field.zeros(shape), ())

    async def send(self, rows):
        if self._sender == LEADER and self._stage == revealed.MATCHED and self._receiver == 2:
            rows = rows[::-1].copy()  # tags of what matched stand anywhere
        return await send_honestly(self, rows)

    with (
        mock.patch.object(ShareExchange, "open", open_last),
        mock.patch.object(parcels.ParcelLine, "send", send),
    ):
        yield forged


def shares_rows(ended):
    return any(message.stage == "table" for message in ended.network.transcript)


async def run_askew(security, *, forges):
    with askew(forges=forges) as forged:
        job = job_of(security, matching={"kind": "revealed"})
        ended = await run_locally(job, tables_of(matched=True))
    assert bool(forged) is forges
    return ended


async def test_a_leader_forges_that_rows_are_the_same_where_parties_are_trusted():
    ended = await run_askew("semi-honest", forges=True)
    assert not ended.failures
    assert ended.result["values"] == [N_ROWS - 2]  # one person's zero counts in two rows


async def test_a_leader_that_forges_that_rows_are_the_same_ends_a_malicious_job_before_any_row_is_shared():
    ended = await run_askew("malicious", forges=True)
    assert all(isinstance(ended.ends[party], InconsistentSharesError) for party in (1, 2))
    assert not shares_rows(ended)


async def test_a_leader_that_sets_rows_askew_ends_a_malicious_job_as_tables_that_differ_do():
    ended = await run_askew("malicious", forges=False)
    assert all(isinstance(ended.ends[party], UnequalValuesError) for party in (1, 2, 3))
    assert not shares_rows(ended)


async def test_a_wrong_share_of_the_verdict_ends_a_malicious_job_and_names_nobody():
    lied = []

    def fault(message):
        if message.sender != LEADER or message.stage not in VERDICTS:
            return (message,)
        lied.append(message.stage)
        array = message.array.copy()
        array[0, 0] ^= np.uint64(1)
        return (message.altered(array),)

    ended = await run_locally(job_of("malicious", order="trusted"), tables_of(matched=False), fault=fault)
    assert lied
    assert all(isinstance(ended.ends[party], InconsistentSharesError) for party in (1, 2))


async def test_rows_that_are_the_same_go_on():
    ended = await run_locally(job_of("malicious", order="trusted"), tables_of(matched=False))
    assert not ended.failures
    assert ended.result["values"] == [N_ROWS - 1]
    assert shares_rows(ended)
