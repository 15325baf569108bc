"""Jobs of whole services whose rows workers share and multiply: as processes of their parties, and in Dask clusters."""

import asyncio
import os
import re
import signal
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from deadlines import GENEROUS_S, wait_until
from federation import Analyst, pca_job, result_of
from forked_services import ForkedDeployment
from worked_jobs import (
    N_ROWS,
    N_WORKERS,
    OUTSIDE,
    OWNERS,
    assert_sums_right,
    certified_workers,
    local_tables,
    processes_of,
    worker_tls,
)
from workers import Setting

from demo.local_deployment import COORDINATOR_NAME
from mpc.protocol.shards import WorkerLostError
from party.engine.processes import WorkerProcess
from tests.support.dask_clusters import DaskCluster

pytestmark = pytest.mark.slow

PARAMETERS = {"components": 7, "center": False, "gamma": 4096, "max_rows": 400_000}
EPSILON = 50.0


def job_of(**changes):
    fields = {"privacy": {"epsilon": EPSILON, "delta": 1e-7}, "deadline_s": GENEROUS_S, "parameters": PARAMETERS}
    return pca_job(tuple(OWNERS), **fields, **changes)


def assert_paid_once(report):
    """The budget is that of a new federation; its accounting at its own delta says a little less than the job."""
    assert 0.8 * EPSILON < report["budget"]["spent_epsilon"] <= EPSILON


@contextmanager
def federation(folder, engines, n_rows=N_ROWS, dial_out=()):
    """Yield a federation of parties whose sections `[engine]` are given, and an analyst."""
    (folder / "run").mkdir()
    policy = {owner: {"engine": section} for owner, section in engines.items() if section is not None}
    tables = local_tables(folder, n_rows)
    how = {"members": certified_workers(), "policy": policy, "dial_out": dial_out}
    with ForkedDeployment(folder / "run", tables, **how) as deployment:
        yield deployment, Analyst(deployment)


def run(analyst, **changes):
    return analyst.run(job_of(**changes), timeout_s=GENEROUS_S)


def shards_of(deployment, party, view):
    """Return of each lane how many attempts there were, by what the party's report says of its messages."""
    traffic = deployment.report(party, view.job_id)["traffic"]
    sent = [traffic.get(f"shards/{lane}/ends", {}).get("sent_bytes", 0) for lane in range(N_WORKERS)]
    return [n_bytes // (17 * (len(OWNERS) - 1)) for n_bytes in sent]


def worker_pids(deployment, party):
    """Return the processes of a party's workers, the last ones that it has started."""
    log = deployment.log_path(party).read_text()
    return [int(pid) for pid in re.findall(r'"pid": (\d+), "address"', log)][-N_WORKERS:]


def test_a_party_with_threads_makes_all_parties_work_alone(tmp_path):
    engines = {"bank": processes_of("bank"), "hospital": None, "telco": processes_of("telco")}
    with federation(tmp_path, engines) as (deployment, analyst):
        view = run(analyst)
        assert_sums_right(result_of(view))
        assert shards_of(deployment, "bank", view) == [0, 0]


def test_a_worker_that_is_killed_is_replaced_and_the_job_is_paid_once(tmp_path):
    """One of the hospital's workers is killed as soon as it begins; a large table keeps it busy for some time.

    Without a loss workers compute what threads do, and count what they clip.
    """
    n_rows = 399_999
    with federation(tmp_path, {owner: processes_of(owner) for owner in OWNERS}, n_rows) as (deployment, analyst):
        log = deployment.log_path("hospital")
        wait_until(lambda: len(worker_pids(deployment, "hospital")) == N_WORKERS)
        job_id = analyst.submit(job_of())
        wait_until(lambda: "a worker begins" in log.read_text())
        os.kill(worker_pids(deployment, "hospital")[0], signal.SIGKILL)
        view = analyst.wait(job_id, timeout_s=GENEROUS_S)
        assert_sums_right(result_of(view), n_rows)
        for owner in OWNERS:
            report = deployment.report(owner, view.job_id)
            assert_paid_once(report)
            assert report["clipped_values"]["x0"] == OUTSIDE
        view = run(analyst)
        assert_sums_right(result_of(view), n_rows)
        assert shards_of(deployment, "bank", view) == [1, 1]
        assert deployment.report("bank", view.job_id)["rows"] == n_rows
        assert '"workers":2' in view.plan_json
        assert str(n_rows) not in view.plan_json
        assert "a worker was lost; another one takes its place" in log.read_text()


def test_workers_of_parties_that_only_dial_out_share_the_rows_by_the_relay(tmp_path):
    with federation(tmp_path, {o: processes_of(o) for o in OWNERS}, dial_out=tuple(OWNERS)) as (deployment, analyst):
        view = run(analyst)
        assert_sums_right(result_of(view))
        assert shards_of(deployment, "bank", view) == [1, 1]
        for owner in OWNERS:
            assert_paid_once(deployment.report(owner, view.job_id))
        relay = deployment.log_path(COORDINATOR_NAME).read_text()
        assert {owner: relay.count(f'worker/{owner}", "event": "a member is connected') for owner in OWNERS} == (
            dict.fromkeys(OWNERS, N_WORKERS)
        )


async def test_a_process_that_is_killed_in_the_middle_of_its_shard_is_noticed_and_its_shard_done_by_another(tmp_path):
    setting = Setting(tmp_path)
    workers = {m: await WorkerProcess.start(setting.settings(name)) for m, name in setting.members.items()}
    try:

        async def prepare(number):
            orders = {m: setting.order(m, number=number, deadline_s=GENEROUS_S) for m in workers}
            for member, worker in workers.items():
                found = await worker.ask("prepare", order=orders[member].model_dump(mode="json"))
                assert found["address"] == worker.address
            return {m: order.session_id for m, order in orders.items()}

        async def work(member, session):
            others = {str(m): worker.address for m, worker in workers.items() if m != member}
            return (await workers[member].ask("work", session=session, addresses=others))["answer"]

        sessions = await prepare(0)
        first = [asyncio.create_task(work(member, sessions[member])) for member in (1, 2)]
        await asyncio.sleep(0)  # member 3 does not begin, so that members 1 and 2 wait in the middle
        os.kill(workers[1].pid, signal.SIGKILL)
        with pytest.raises(WorkerLostError):
            await first[0]
        await workers[2].ask("abandon", session=sessions[2])
        assert (await first[1])["kind"] in ("lost", "PeerLostError")
        await workers[1].end()
        workers[1] = await WorkerProcess.start(setting.settings(setting.members[1]))
        sessions = await prepare(1)
        answers = dict(zip(workers, await asyncio.gather(*(work(m, sessions[m]) for m in workers)), strict=True))
        parsed = {member: _answer(answer) for member, answer in answers.items()}
        assert np.array_equal(setting.opened(parsed), setting.exact())
    finally:
        await asyncio.gather(*(worker.end() for worker in workers.values()))


def _answer(tree):
    from party.engine.order import Answer

    return Answer.model_validate(tree)


@contextmanager
def clustered(folder, n_rows=N_ROWS):
    """Yield a federation of parties with a Dask cluster each, of two workers, and the clusters."""
    with ExitStack() as stack:
        clusters = {o: stack.enter_context(DaskCluster(folder / f"cluster-{o}", o, N_WORKERS)) for o in OWNERS}
        engines = {}
        for owner, cluster in clusters.items():
            files = {field: str(folder / "run" / name) for field, name in worker_tls(owner).items()}
            engines[owner] = cluster.section(workers=N_WORKERS, tls=files)
        yield *stack.enter_context(federation(folder, engines, n_rows)), clusters


def test_a_worker_of_a_cluster_that_is_killed_leaves_its_shard_to_another_one(tmp_path):
    n_rows, works = 399_999, "Run out-of-band function 'work'"
    with clustered(tmp_path, n_rows) as (deployment, analyst, clusters):
        cluster = clusters["hospital"]
        view = run(analyst)
        assert_sums_right(result_of(view), n_rows)
        assert shards_of(deployment, "bank", view) == [1, 1]
        for owner in OWNERS:
            assert clusters[owner].log().count(works) == N_WORKERS
            report = deployment.report(owner, view.job_id)
            assert report["clipped_values"]["x0"] == OUTSIDE
            assert_paid_once(report)
        job_id = analyst.submit(job_of())
        wait_until(lambda: cluster.log().count(works) > N_WORKERS)
        cluster.workers[0].send_signal(signal.SIGKILL)
        cluster.workers[0].wait()
        view = analyst.wait(job_id, timeout_s=GENEROUS_S)
        assert_sums_right(result_of(view), n_rows)
        assert result_of(run(analyst))  # one worker is left for both parts
        for owner in OWNERS:  # two jobs cost less than twice as much as one, and three more
            assert EPSILON < deployment.report(owner, job_id)["budget"]["spent_epsilon"] <= 2 * EPSILON
