"""A whole job in one call: what it returns, whose errors it names, which tables it takes."""

import json
from dataclasses import replace

import numpy as np
import pytest
from job_builders import PARTIES, make_job, make_table
from registry_jobs import VARIANTS

from analyses.job.job import JobError
from analyses.pca import protocol as pca
from analyses.run_locally import local_network, run_locally, run_plan
from entropy import InsecureTestEntropy, SystemEntropy
from mpc.errors import PeerLostError, PeerViolationError
from mpc.protocol.session import COORDINATOR


@pytest.fixture
def tables():
    rng = np.random.default_rng(7)
    return {name: make_table(name, rng.uniform(-1, 3, (40, 2))) for name in PARTIES}


def reproducible(member):
    return InsecureTestEntropy(f"member {member}")


async def test_the_result_is_what_a_service_would_send_and_equal_entropy_gives_equal_results(tables):
    first = await run_locally(make_job(), tables, entropy_of=reproducible)
    again = await run_locally(make_job(), tables, entropy_of=reproducible)
    assert first.result == again.result == json.loads(json.dumps(first.result))
    assert first.plan.digest() == again.plan.digest()
    assert {name: report.n_rows for name, report in first.reports.items()} == dict.fromkeys(PARTIES, 40)


async def test_noise_is_fresh_in_every_run_unless_entropy_is_given(tables):
    first, again = [await run_locally(make_job(), tables) for _ in range(2)]
    assert first.result["eigenvalues"] != again.result["eigenvalues"]
    assert isinstance(first.network.entropy_of(1), SystemEntropy)


async def test_a_job_takes_the_columns_that_it_names_in_its_order(tables):
    inputs = [{"party": p, "table": "people", "columns": ["x1", "x0"] if p == "bank" else ["x0"]} for p in PARTIES]
    run = await run_locally(make_job(inputs=inputs), tables)
    assert run.result["columns"] == ["bank.x1", "bank.x0", "hospital.x0", "telco.x0"]
    inputs[0]["columns"] = ["age"]
    with pytest.raises(JobError, match="table of bank has no column 'age'"):
        await run_locally(make_job(inputs=inputs), tables)


async def test_a_table_of_nobody_is_refused(tables):
    with pytest.raises(JobError, match="stranger has no input in this job"):
        await run_locally(make_job(), {**tables, "stranger": make_table("stranger", np.zeros((40, 2)))})


async def test_members_without_a_table_compute(tables):
    variant = VARIANTS["pca"]
    assert set((await run_locally(variant.job(), variant.tables())).reports) == set(variant.members)


async def test_the_first_error_of_any_member_ends_the_job_at_once_and_is_the_one_that_is_raised(tables):
    async def fails(session, plan, table):
        if session.me == 2:
            raise PeerViolationError(1, "keys", "bank sent nonsense")
        return await pca.party(session, plan, table)

    plan = pca.plan(make_job(), [tables[name].schema for name in PARTIES])
    network = local_network(plan, deadline_s=20.0)
    run = await run_plan(plan, tables, network, analysis=replace(pca.ANALYSIS, own_party=fails))
    assert [type(run.ends[m]) for m in (COORDINATOR, 1, 3)] == [PeerLostError] * 3  # not PeerSilentError
    with pytest.raises(PeerViolationError, match="bank sent nonsense"):
        _ = run.result
