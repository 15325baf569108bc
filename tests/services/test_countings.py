"""Every membership estimator over gRPC and in one process: with the same entropy they give the same clusters."""

import pytest
from both_ways import in_one_process, over_sessions
from mailbox_federation import JOB, running_federation

from demo.data_sets.kdd import write_kdd_parties
from demo.job import example_job

ESTIMATORS = {
    "fm-sketch": {"accept_no_protection_against_parties": True, "sketches": 256},
    "independent": {},
    "ldp": {},
    "pattern": {"share": 0.5},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_kdd_parties(tmp_path_factory.mktemp("tables"), rows=600, most_rows=700)


@pytest.mark.parametrize("counting", ESTIMATORS)
async def test_services_and_one_process_find_the_same_clusters(counting, data, tmp_path):
    changes = {
        "privacy.epsilon": 500.0,
        "privacy.view": "coordinator",
        "parameters.max_rows": 700,
        "parameters.k_local": 3,
        "parameters.counting": counting,
        "parameters.counting_options": ESTIMATORS[counting],
    }
    job = example_job("clustering", changes)
    tables = data.in_memory({i.party: i.columns for i in job.inputs})
    async with running_federation(tmp_path, len(tables)) as federation:
        over_grpc = await over_sessions(job, tables, lambda number: federation.session(number, deadline_s=60.0))
    assert await in_one_process(job, tables, federation.names, JOB) == over_grpc
