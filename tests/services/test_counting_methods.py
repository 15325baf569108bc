"""Every method of pattern counts and moments over gRPC and in one process: with the same entropy the same result."""

import asyncio
import json

import pytest
from mailbox_federation import JOB, running_federation

from analyses.registry import analysis_of
from demo.job import example_job
from demo.kdd import write_kdd_parties
from entropy import InsecureTestEntropy
from mpc.local.network import LocalNetwork
from mpc.protocol.session import COORDINATOR

METHODS = {
    "randomized-response": ("pattern-count", {"method": "randomized-response"}),
    "subsampled": ("pattern-count", {"method": "subsampled", "share": 0.3}),
    "laplace": ("moments", {"method": "laplace", "order": 1}),
    "sketch": ("moments", {"method": "sketch", "sketch_rows": 64}),
    "threshold": ("moments", {"method": "threshold", "threshold": 20, "order": 3}),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_kdd_parties(tmp_path_factory.mktemp("tables"), rows=600, most_rows=700)


async def result_of(job, tables, session_of):
    analysis = analysis_of(job)
    plan = analysis.plan(job, [table.schema for table in tables])
    parties = [analysis.party(session_of(number), plan, table) for number, table in enumerate(tables, start=1)]
    result, *_ = await asyncio.gather(analysis.coordinator(session_of(COORDINATOR), plan), *parties)
    return json.dumps(result, sort_keys=True, allow_nan=False)


@pytest.mark.parametrize("method", METHODS)
async def test_services_and_one_process_find_the_same(method, data, tmp_path):
    name, parameters = METHODS[method]
    changes = {f"parameters.{key}": value for key, value in {"max_rows": 700, **parameters}.items()}
    job = example_job(name, {"privacy.epsilon": 100.0, **changes})
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
