"""Nothing of a job stays with a service that has ended it, but what its store, its ledger and its reports keep."""

import asyncio
import gc
import os
from collections import Counter

import pytest
from deadlines import GENEROUS_S
from federation import pca_job, random_values, tables_of
from watched_services import watched_services

from coordinator.proposal import Proposal
from coordinator.runner import JobRunner
from party.job_run import JobRun
from transport.messages.inbox import Inbox
from transport.messages.outlet import Outlet
from transport.messages.returning import ReturningReceiver
from transport.messages.session import GrpcSession

PARTIES = ("bank", "hospital", "telco")
OF_A_JOB = (JobRunner, Proposal, JobRun, GrpcSession, Inbox, Outlet, ReturningReceiver)


def kept():
    """Return what of jobs is alive in this process, in which all services run."""
    gc.collect()
    kinds = (type(thing) for thing in gc.get_objects())  # isinstance asks a weak proxy's target, which may be gone
    return Counter(kind.__name__ for kind in kinds if issubclass(kind, OF_A_JOB))


def held():
    return {"tasks": len(asyncio.all_tasks()), "descriptors": len(os.listdir("/proc/self/fd"))}


@pytest.mark.slow
async def test_services_that_have_ended_jobs_hold_no_more_than_after_the_first(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    tables = tables_of({name: random_values((40, 2), seed) for seed, name in enumerate(PARTIES)}, tmp_path)
    async with watched_services(tmp_path / "run", tables, monkeypatch) as services:

        async def run(n_jobs):
            for seen in await asyncio.gather(*(services.run(pca_job(PARTIES)) for _ in range(n_jobs))):
                assert seen.view.state == "DONE", seen.view.reason

        async def until_at_most(most):
            async with asyncio.timeout(GENEROUS_S):
                while kept() or any(n > most[what] for what, n in held().items()):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

        await run(4)
        await until_at_most({"tasks": 10**6, "descriptors": 10**6})
        base = held()
        await run(8)
        await until_at_most(base)
