"""Attacks that succeed today. Each test asserts that its attack works, and names the page that says so.

These are no guarantees, they are known limits: the adversary whom Moiety defends against follows the protocol. Whoever
builds protection from parties that deviate (abort security: proofs that what is shared keeps its public bounds) will
see these tests fail, and then turns them around and corrects docs/threat-model.md, "A party that deviates".
"""

import numpy as np
import pytest
from job_builders import make_job, make_table

from analyses.pca import protocol as pca
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy

OWNERS = ("attacker", "bank", "hospital")
N_ROWS, TARGET = 500, 137
AMPLIFIER = 1 << 30


class UnboundedPlan(pca.PcaPlan):
    """The plan of the job, but for one thing: its owner shares a number beyond its bound, in one row, and zeros."""

    def quantise(self, member, values):
        _, outside, clipped = super().quantise(member, values)
        lie = np.zeros(values.shape, dtype=np.int64)
        if len(values) == N_ROWS:  # the block that has the row
            lie[TARGET, 0] = AMPLIFIER
        return lie, outside, clipped


@pytest.fixture
def tables():
    rng = np.random.default_rng(11)
    return {name: make_table(name, rng.uniform(-1, 3, (N_ROWS, 2)).round(2)) for name in OWNERS}


def plan_for(tables, epsilon):
    job = make_job(
        inputs=[{"party": p, "table": "people"} for p in OWNERS],
        privacy={"epsilon": epsilon, "delta": 1e-6},
        parameters={"components": 6, "center": False, "gamma": 1024, "max_rows": 1_000_000},
    )
    return pca.plan(job, [tables[p].schema for p in OWNERS])


async def read_row(tables, plan, plan_of_attacker):
    """Run the job; return what the attacker makes of the analyst's result, and the others' integers of the row."""
    network = local_network(plan, entropy_of=lambda member: InsecureTestEntropy(f"attack {member}"))
    attack = {1: lambda session: pca.party(session, plan_of_attacker, tables["attacker"])}
    result = (await run_plan(plan, tables, network, parts=attack)).result
    assert result["privacy"]["views"]["coalition"]["epsilon"] <= plan.job.privacy.epsilon
    components, eigenvalues = np.array(result["components"]), np.array(result["eigenvalues"])
    matrix = components.T @ np.diag(eigenvalues) @ components / plan.unit**2
    row = [plan.quantise(n, tables[network.names[n]].values[TARGET : TARGET + 1])[0][0] for n in (2, 3)]
    return np.rint(matrix[0, 2:] / AMPLIFIER).astype(int).tolist(), np.concatenate(row).tolist()


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
async def test_an_owner_who_shares_a_number_beyond_its_bound_reads_a_row_of_all_others(tables, epsilon):
    """KNOWN LIMIT: nothing checks that shared integers keep the norm that the sensitivity is about.

    With M = 2^30 in row r of the attacker's column x, and 0 elsewhere, the opened matrix holds sum_i x_i y_i + noise =
    M y_r + noise for every column y of everybody else. The noise has a standard deviation of some 2^25, so rounding to
    a multiple of M gives y_r, an integer, exactly. The report states the epsilon of the job, which is not true then.
    """
    plan = plan_for(tables, epsilon)
    deviating = UnboundedPlan.model_validate(plan.model_dump() | {"job": plan.job, "schemas": plan.schemas})
    assert deviating.digest() == plan.digest()  # the attacker agrees to the plan that all have
    stolen, truth = await read_row(tables, plan, deviating)
    assert stolen == truth
    assert len(set(truth)) > 1


async def test_an_owner_who_keeps_its_bound_reads_nothing_so(tables):
    plan = plan_for(tables, 0.1)
    read, truth = await read_row(tables, plan, plan)
    assert read != truth
