"""Sums that workers count are those that the parties themselves count, bit for bit, whatever is lost on the way."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from job_builders import PARTIES, make_job, make_schema, make_table

from analyses.job.schema import ColumnSchema, LocalReport
from analyses.registry import analysis_of
from analyses.rows.joint_computation import gram_of_shard
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy
from mpc.errors import ProtocolError
from mpc.local.network import LocalNetwork
from mpc.protocol import shards
from mpc.protocol.shards import ShardSum, WorkerLostError


class PartOfTable:
    """Rows of a table in memory, as a worker reads them."""

    def __init__(self, table, start, stop):
        self.schema, self.n_rows = table.schema, stop - start
        self._values = table.values[start:stop]

    def block(self, rows):
        return self._values[rows]


class Workers:
    """Workers of one member in this process: the attempts of all members meet in networks of their own."""

    def __init__(self, plan, me, table, hall, lost=()):
        self.plan, self.me, self.table, self.hall, self.lost = plan, me, table, hall, lost
        self.n_lanes = plan.n_lanes
        self.attempts = []

    def run_of(self, lane, attempt, counting):
        self.attempts.append((attempt.shard.number, attempt.number))
        return Run(self, attempt, counting)


class Run:
    def __init__(self, workers, attempt, counting):
        self.workers, self.attempt, self.counting = workers, attempt, counting

    async def prepare(self):
        return "127.0.0.1:1"

    async def work(self, addresses):
        workers, attempt = self.workers, self.attempt
        network = workers.hall.setdefault(
            attempt.session_id,
            LocalNetwork(
                dict(enumerate(workers.plan.job.members, start=1)),
                job_id=attempt.session_id,
                deadline_s=5.0,
                terms_of=lambda member: attempt.terms,
                entropy_of=lambda member: InsecureTestEntropy(f"{attempt.session_id} {member}"),
            ),
        )
        if (attempt.shard.number, attempt.number) in workers.lost:
            network.kill(workers.me)
            raise WorkerLostError("a worker has ended")
        part = mine = None
        if workers.table is not None:
            part = PartOfTable(workers.table, attempt.shard.start, attempt.shard.stop)
            mine = workers.plan.own_rows(workers.me, part, self.counting)
        triangle = await gram_of_shard(network.session(workers.me), workers.plan, attempt.shard.n_rows, mine)
        return ShardSum(triangle.share, {} if mine is None else mine.counts())

    async def abandon(self):
        """Nothing runs on by itself."""


def tables_of(n_rows):
    rng = np.random.default_rng(3)
    return {p: make_table(p, rng.uniform(-1.2, 3.2, (n_rows, 2))) for p in PARTIES}


def with_label(table):
    """Return a table with one more column, most of whose values are labels."""
    label = ColumnSchema(name="label", lower=0.0, upper=1.0)
    schema = table.schema.model_copy(update={"columns": (*table.schema.columns, label)})
    labels = np.random.default_rng(4).choice([0.0, 1.0, 0.3], table.n_rows, p=[0.4, 0.5, 0.1])
    return replace(table, schema=schema, values=np.column_stack([table.values, labels]))


def plan_of(tables, *, n_workers, **changes):
    job = make_job(**changes)
    schemas = [tables[m].schema if m in tables else make_schema(m, 0, False) for m in job.members]
    schemas = [schema.model_copy(update={"workers": n_workers}) for schema in schemas]
    return analysis_of(job).plan(job, schemas)


async def run(plan, tables, *, with_workers, lost=None):
    network = local_network(plan, entropy_of=lambda m: InsecureTestEntropy(f"member {m}"), deadline_s=60.0)
    hall, own_session = {}, network.session
    workers = {
        member: Workers(plan, member, tables.get(name), hall, (lost or {}).get(name, ()))
        for member, name in enumerate(plan.job.members, start=1)
    }

    def session(member):
        made = own_session(member)
        if with_workers and member:
            made.row_workers = workers[member]
        return made

    network.session = session
    return (await run_plan(plan, tables, network)), workers


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(shards, "LEAST_SHARD_ROWS", 16)


PARAMETERS = {
    "pca": {"components": 2, "gamma": 1024, "max_rows": 20_000},
    "low-rank": {"rank": 2, "max_rows": 20_000},
    "least-squares": {"label": f"{PARTIES[0]}.x0", "max_rows": 20_000},
    "logistic-regression": {"label": f"{PARTIES[0]}.label", "max_rows": 20_000, "method": "moments"},
}


@pytest.mark.parametrize("analysis", PARAMETERS)
async def test_the_result_and_the_reports_are_those_of_threads_bit_for_bit(analysis):
    tables = tables_of(9000)
    if analysis == "logistic-regression":
        tables[PARTIES[0]] = with_label(tables[PARTIES[0]])
    plan = plan_of(tables, n_workers=2, analysis=analysis, parameters=PARAMETERS[analysis])
    alone, idle = await run(plan, tables, with_workers=False)
    worked, workers = await run(plan, tables, with_workers=True)
    assert worked.result == alone.result
    assert worked.reports == alone.reports
    assert any(sum(report.clipped_values.values()) for report in worked.reports.values())
    mapped = worked.reports[PARTIES[0]].mapped_values
    assert (mapped.get("label", 0) > 0) == (analysis == "logistic-regression")
    assert idle[1].attempts == []
    assert workers[1].attempts == workers[2].attempts == [(0, 0), (1, 0)]


async def test_attempts_that_are_lost_change_nothing_of_the_result_or_of_the_reports():
    tables = tables_of(9000)
    plan = plan_of(tables, n_workers=2, parameters=PARAMETERS["pca"])
    alone, _ = await run(plan, tables, with_workers=False)
    lost = {PARTIES[0]: [(0, 0)], PARTIES[1]: [(0, 1), (1, 0)]}
    worked, workers = await run(plan, tables, with_workers=True, lost=lost)
    assert worked.result == alone.result
    assert worked.reports == alone.reports
    assert sorted(workers[1].attempts) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


async def test_owners_without_shares_and_compute_parties_without_tables_have_workers_too():
    tables = tables_of(9000)
    compute = ("one", "two", "three")
    plan = plan_of(tables, n_workers=2, parameters=PARAMETERS["pca"], compute=compute)
    alone, _ = await run(plan, tables, with_workers=False)
    worked, workers = await run(plan, tables, with_workers=True)
    assert worked.result == alone.result
    assert all(workers[member].attempts for member in workers)


async def test_the_parties_work_alone_where_one_has_no_workers_or_rows_are_few():
    tables = tables_of(9000)
    plan = plan_of(tables, n_workers=2, parameters=PARAMETERS["pca"])
    schemas = [plan.schemas[0].model_copy(update={"workers": None}), *plan.schemas[1:]]
    without = analysis_of(plan.job).plan(plan.job, schemas)
    assert without.n_lanes == 0
    worked, workers = await run(without, tables, with_workers=True)
    assert isinstance(worked.ends[1], LocalReport)
    assert workers[1].attempts == []
    few = tables_of(20)
    worked, workers = await run(plan, few, with_workers=True)
    assert not isinstance(worked.ends[0], ProtocolError)
    assert workers[1].attempts == []


async def test_tables_that_differ_never_reach_a_worker():
    tables = tables_of(9000)
    tables[PARTIES[1]] = make_table(PARTIES[1], tables[PARTIES[1]].values[:-1])
    plan = plan_of(tables, n_workers=2, parameters=PARAMETERS["pca"])
    worked, workers = await run(plan, tables, with_workers=True)
    assert isinstance(worked.ends[1], ProtocolError)
    assert all(workers[member].attempts == [] for member in workers)


async def test_a_worker_with_the_terms_of_another_attempt_has_no_key_in_common():
    tables = tables_of(9000)
    plan = plan_of(tables, n_workers=1, parameters=PARAMETERS["pca"])
    network = LocalNetwork(
        dict(enumerate(plan.job.members, start=1)),
        deadline_s=5.0,
        terms_of=lambda member: b"attempt 0" if member == 1 else b"attempt 1",
    )

    async def work(member):
        mine = plan.own_rows(member, tables[plan.job.members[member - 1]], None)
        return await gram_of_shard(network.session(member), plan, 9000, mine)

    ends = await asyncio.gather(*map(work, range(1, 4)), return_exceptions=True)
    assert all(isinstance(end, ProtocolError) for end in ends)
    assert not any(message.stage == "table" for message in network.transcript)


def told(run_of_job):
    """Return what each member tells the coordinator of its progress, in order, as a service tells it."""
    events = {}
    for member, stage, done, total in run_of_job:
        mine = events.setdefault(member, [])
        before = mine[-1][1] if mine and mine[-1][0] == stage else -25
        mine += [(stage, quarter) for quarter in range(before + 25, done * 4 // total * 25 + 1, 25)]
    return events


COMPUTE = ("one", "two", "three", "four", "five", "six", "seven")


def federations():
    for n_parties in (3, 4, 5, 7):
        for t in range(1, (n_parties - 1) // 2 + 1):
            marks = pytest.mark.slow if n_parties > 5 else ()
            yield pytest.param(COMPUTE[:n_parties], t, id=f"{n_parties} of others, t = {t}", marks=marks)
            owners = (*PARTIES, *COMPUTE[: n_parties - 3])
            yield pytest.param(owners, t, id=f"{n_parties} with owners, t = {t}", marks=marks)


@pytest.mark.parametrize(("compute", "colluding"), list(federations()))
async def test_events_and_messages_to_the_coordinator_are_the_same_on_both_sides_of_the_threshold(compute, colluding):
    shapes = set()
    for n_rows, n_workers in [(31, 2), (32, 2), (9000, None)]:
        tables = {p: make_table(p, np.full((n_rows, 2), 0.5)) for p in PARTIES}
        declared = {p: one.schema.model_copy(update={"rows": (2, 10_000)}) for p, one in tables.items()}
        tables = {p: replace(one, schema=declared[p]) for p, one in tables.items()}
        plan = plan_of(tables, n_workers=n_workers, parameters=PARAMETERS["pca"], compute=compute, colluding=colluding)
        worked, workers = await run(plan, tables, with_workers=n_workers is not None)
        network = worked.network
        assert bool(workers[1].attempts) == (n_workers is not None and n_rows >= n_workers * 16)
        to_coordinator = sorted((m.sender, m.stage, m.array.nbytes) for m in network.transcript if m.receiver == 0)
        shapes.add((str(told(network.progress_log)), str(to_coordinator)))
    assert len(shapes) == 1
