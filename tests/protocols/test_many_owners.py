"""PCA of a hundred owners of one column each, computed by three parties that hold no data."""

import numpy as np
import pytest
from job_builders import make_job, make_schema, make_table

from analyses.job.schema import Table
from analyses.pca import protocol as pca
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.session import COORDINATOR

COMPUTE = ("one", "two", "three")
N_ROWS = 200


def tables_of(n_owners, *, with_ids=False):
    values = np.random.default_rng(7).uniform(-1.0, 3.0, (N_ROWS, n_owners))
    names = [f"owner-{i}" for i in range(n_owners)]
    if with_ids:
        return {name: make_table(name, values[:, [i]]) for i, name in enumerate(names)}
    return {name: Table(make_schema(name, 1, False), values[:, [i]]) for i, name in enumerate(names)}


def plan_of(tables, *, epsilon):
    job = make_job(
        inputs=[{"party": name, "table": "people"} for name in tables],
        order=None if next(iter(tables.values())).schema.has_ids else "trusted",
        compute=COMPUTE,
        privacy={"epsilon": epsilon, "delta": 1e-5},
        parameters={"components": len(tables), "center": False, "gamma": 4096, "max_rows": 1000},
    )
    return pca.plan(job, [tables[m].schema if m in tables else make_schema(m, 0, False) for m in job.members])


async def run(plan, tables, **options):
    network = local_network(plan, **{"entropy_of": lambda m: InsecureTestEntropy(f"member {m}"), **options})
    return (await run_plan(plan, tables, network)).ends, network


@pytest.fixture(scope="module")
def hundred():
    return tables_of(100)


@pytest.fixture
async def finished(hundred):
    plan = plan_of(hundred, epsilon=1e6)
    return plan, *await run(plan, hundred)


async def test_the_result_is_that_of_the_reference_but_for_the_noise(hundred, finished):
    plan, results, network = finished
    result = results[COORDINATOR]
    matrix = (np.array(result["components"]).T * result["eigenvalues"]) @ np.array(result["components"])
    unit = (plan.row_norm / plan.params.gamma) ** 2
    x = np.hstack([plan.quantiser_of(o).quantise(hundred[plan.job.members[o - 1]].values)[0] for o in plan.owners])
    noise = matrix / unit - x.T @ x
    assert np.abs(noise - np.rint(noise)).max() < 1e-2  # integers: nothing but noise was added
    assert 1 <= np.rint(np.abs(noise).max()) <= plan.mechanism.noise_tail_bound(-40)
    reference = pca.reference(list(hundred.values()), plan)
    assert np.abs(matrix - reference).max() < 0.02 * reference.max()

    # Owners of tables without ids exchange messages with compute parties only, the coordinator hears those only.
    pairs = {(m.sender, m.receiver) for m in network.transcript}
    owners = set(plan.owners)
    assert not [pair for pair in pairs if set(pair) <= owners]
    assert {sender for sender, receiver in pairs if receiver == COORDINATOR} == {1, 2, 3}


async def test_an_owner_whose_rows_are_others_is_named():
    tables = tables_of(12, with_ids=True)
    odd = tables["owner-7"]
    tables["owner-7"] = make_table("owner-7", odd.values, ids=[str(i + 1) for i in range(N_ROWS)])
    plan = plan_of(tables, epsilon=4.0)
    results, _ = await run(plan, tables, deadline_s=2.0)  # the coordinator hears nothing
    errors = [result for member, result in results.items() if member != COORDINATOR]
    assert all(isinstance(error, UnequalValuesError) for error in errors)
    assert {plan.job.members[error.member - 1] for error in errors} == {"owner-7"}
