"""Every way of counting memberships over gRPC and in one process: with the same entropy the same clusters."""

import asyncio
import json

import pytest
from mailbox_federation import JOB, running_federation

from analyses.clustering import protocol as clustering
from demo.job import example_job
from demo.kdd import write_kdd_parties
from entropy import InsecureTestEntropy
from mpc.local.network import LocalNetwork
from mpc.protocol.session import COORDINATOR

COUNTINGS = {
    "fm-sketch": {"accept_no_protection_against_parties": True, "sketches": 256},
    "independent": {},
    "ldp": {},
    "pattern": {"share": 0.5},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_kdd_parties(tmp_path_factory.mktemp("tables"), rows=600, most_rows=700)


async def result_of(job, tables, session_of):
    plan = clustering.plan(job, [table.schema for table in tables])
    parties = [clustering.party(session_of(number), plan, table) for number, table in enumerate(tables, start=1)]
    result, *_ = await asyncio.gather(clustering.coordinator(session_of(COORDINATOR), plan), *parties)
    return json.dumps(result, sort_keys=True, allow_nan=False)


@pytest.mark.parametrize("counting", COUNTINGS)
async def test_services_and_one_process_find_the_same_clusters(counting, data, tmp_path):
    changes = {
        "privacy.epsilon": 500.0,
        "privacy.view": "coordinator",
        "parameters.max_rows": 700,
        "parameters.k_local": 3,
        "parameters.counting": counting,
        "parameters.counting_options": COUNTINGS[counting],
    }
    job = example_job("clustering", changes)
    tables = data.in_memory({i.party: i.columns for i in job.inputs})
    async with running_federation(tmp_path, len(tables)) as federation:
        over_grpc = await result_of(job, tables, lambda number: federation.session(number, deadline_s=60.0))
    network = LocalNetwork(
        {number: federation.names[number] for number in range(len(tables) + 1)},
        job_id=JOB,
        deadline_s=60.0,
        entropy_of=lambda member: InsecureTestEntropy(str(member)),
    )
    sessions = {number: network.session(number) for number in range(len(tables) + 1)}
    assert await result_of(job, tables, sessions.__getitem__) == over_grpc
