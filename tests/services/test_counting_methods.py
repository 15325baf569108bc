"""Every method of pattern counts and moments over gRPC and in one process: with the same entropy the same result."""

import pytest
from both_ways import in_one_process, over_sessions
from mailbox_federation import JOB, running_federation

from demo.data_sets.kdd import write_kdd_parties
from demo.job import example_job

METHODS = {
    "randomized-response": ("pattern-count", {"method": "randomized-response"}),
    "subsampled": ("pattern-count", {"method": "subsampled", "share": 0.3}),
    "sums": ("pattern-count", {"counted": "sums"}),
    "laplace": ("moments", {"method": "laplace", "order": 1}),
    "sketch": ("moments", {"method": "sketch", "sketch_rows": 64}),
    "threshold": ("moments", {"method": "threshold", "threshold": 20, "order": 3}),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_kdd_parties(tmp_path_factory.mktemp("tables"), rows=600, most_rows=700)


@pytest.mark.parametrize("method", METHODS)
async def test_services_and_one_process_find_the_same(method, data, tmp_path):
    name, parameters = METHODS[method]
    changes = {f"parameters.{key}": value for key, value in {"max_rows": 700, **parameters}.items()}
    job = example_job(name, {"privacy.epsilon": 100.0, **changes})
    tables = data.in_memory({i.party: i.columns for i in job.inputs})
    async with running_federation(tmp_path, len(tables)) as federation:
        over_grpc = await over_sessions(job, tables, lambda number: federation.session(number, deadline_s=60.0))
    assert await in_one_process(job, tables, federation.names, JOB) == over_grpc
