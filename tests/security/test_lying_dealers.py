"""Owners that deal rows beyond their bounds: with `security = "malicious"` nothing is opened, and the owner is named.

The first attack of test_known_attacks.py ends here, and every better lie that is known. test_known_attacks.py keeps it
as it works among members that are trusted to follow the protocol.
"""

from functools import cache

import numpy as np
import pytest
from deviations import CASES, run_once
from deviations import plan_of as plan_of_case
from job_builders import make_job, make_table
from lying_dealers import BIT_LIES, ENTRY_LIES, LIES, ONE_HOT_LIES, lying

from analyses.job.job import JobError
from analyses.job.schema import BlockSchema
from analyses.registry import analysis_of
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy
from mpc.errors import PeerViolationError
from mpc.proofs import norm_proof
from mpc.protocol.session import COORDINATOR

OWNERS = ("attacker", "bank", "hospital")
N_ROWS = 40


def tables_of(n_rows=N_ROWS):
    rng = np.random.default_rng(11)
    return {name: make_table(name, rng.uniform(-1, 3, (n_rows, 3)).round(2)) for name in OWNERS}


def plan_of(tables, **changes):
    job = make_job(
        inputs=[{"party": p, "table": "people"} for p in OWNERS],
        privacy={"epsilon": 1.0, "delta": 1e-6},
        parameters={"components": 2, "gamma": 1 << 13, "max_rows": 1000},
        security="malicious",
        anyway=True,
        **changes,
    )
    schemas = [tables[name].schema if name in tables else BlockSchema(party=name) for name in job.members]
    return analysis_of(job).plan(job, schemas)


async def run(plan, tables):
    network = local_network(plan, entropy_of=lambda member: InsecureTestEntropy(f"dealers {member}"))
    return await run_plan(plan, tables, network)


ROSTERS = {
    "owners compute": {},
    "one of four may collude": {"compute": (*OWNERS, "helper"), "colluding": 1},
    "helpers compute": {"compute": ("helper", "second", "third"), "colluding": 1},
    "two of five may collude": {"compute": (*OWNERS, "helper", "second"), "colluding": 2},
}


@pytest.mark.parametrize("roster", ROSTERS)
async def test_honest_owners_get_their_answer(roster):
    tables = tables_of()
    ended = await run(plan_of(tables, **ROSTERS[roster]), tables)
    assert not ended.failures
    assert ended.result["privacy"]["security"] == "malicious"


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("roster", ["owners compute", "helpers compute"])
async def test_a_row_beyond_its_bound_ends_the_job_before_anything_is_opened_and_names_its_owner(roster, lie):
    tables = tables_of()
    plan = plan_of(tables, **ROSTERS[roster])
    liar = plan.job.members.index("attacker") + 1
    with lying(liar, LIES[lie]):
        ended = await run(plan, tables)
    opened = [message for message in ended.network.transcript if message.receiver == COORDINATOR]
    assert not opened
    assert isinstance(ended.failures[0], PeerViolationError)
    assert {failure.member for failure in ended.failures if isinstance(failure, PeerViolationError)} == {liar}


@pytest.mark.parametrize("lie", LIES)
async def test_it_does_where_the_owner_deals_combinations_of_its_rows(lie, monkeypatch):
    """True ones: the projections, or the squares, tell."""
    monkeypatch.setattr(norm_proof, "FEW_ROWS", 0)
    tables = tables_of()
    with lying(1, LIES[lie]):
        ended = await run(plan_of(tables), tables)
    assert not [message for message in ended.network.transcript if message.receiver == COORDINATOR]
    assert {failure.member for failure in ended.failures if isinstance(failure, PeerViolationError)} == {1}


@pytest.mark.parametrize("lie", LIES)
async def test_no_lie_passes_by_chance(lie):
    """Another coin each time; one projection alone would pass in a quarter to a half of them."""
    tables = tables_of()
    plan = plan_of(tables)
    with lying(1, LIES[lie]):
        for attempt in range(3):
            network = local_network(plan, entropy_of=lambda m, n=attempt: InsecureTestEntropy(f"chance {n} {m}"))
            ended = await run_plan(plan, tables, network)
            assert ended.failures
            assert ended.failures[0].member == 1


@pytest.mark.parametrize("lie", ONE_HOT_LIES)
async def test_a_row_that_is_of_no_category_ends_a_count_and_names_its_owner(lie):
    case = CASES["pattern counts, `mpc`, two owners"]
    plan = plan_of_case(case, case.tables(), security="malicious")
    liar = plan.job.members.index("bank") + 1
    with lying(liar, ONE_HOT_LIES[lie]):
        ended = await run_once(plan, case.tables())
    assert ended.opened is None
    assert isinstance(ended.error, PeerViolationError)
    assert ended.error.member == liar


@pytest.mark.parametrize("lie", ENTRY_LIES)
async def test_a_value_beyond_the_bounds_of_its_column_ends_a_program_and_names_its_owner(lie):
    case = CASES["circuits with comparisons"]
    plan = plan_of_case(case, case.tables(), security="malicious")
    liar = plan.job.members.index("bank") + 1
    with lying(liar, ENTRY_LIES[lie]):
        ended = await run_once(plan, case.tables())
    assert ended.opened is None
    assert isinstance(ended.error, PeerViolationError)
    assert ended.error.member == liar


GRADIENTS = CASES["logistic regression by gradients, order 3"]
FEATURES = "one and a half times the bound"


@cache
def plan_of_gradients():
    return plan_of_case(GRADIENTS, GRADIENTS.tables(), security="malicious")


@pytest.mark.parametrize("lie", [*BIT_LIES, FEATURES])
async def test_a_label_that_is_neither_0_nor_1_or_features_beside_it_end_a_regression_and_name_their_owner(lie):
    """Of the third order; rows of the first are dealt and proven by the same code."""
    case, plan = GRADIENTS, plan_of_gradients()
    liar = plan.job.members.index("telco") + 1
    assert plan.norm_bounds[liar].bit == 1
    with lying(liar, {**BIT_LIES, FEATURES: LIES[FEATURES]}[lie]):
        ended = await run_once(plan, case.tables())
    assert ended.opened is None
    assert isinstance(ended.error, PeerViolationError)
    assert ended.error.member == liar


async def test_rows_that_are_matched_openly_are_proven_as_all_rows_are():
    case = CASES["any whose rows are matched in secret"]
    tables = case.tables()
    plan = plan_of_case(case, tables, matching={"kind": "revealed"}, security="malicious")
    honest = await run(plan, tables)
    assert not honest.failures
    liar = plan.job.members.index("hospital") + 1
    with lying(liar, LIES["an idempotent of the field"]):
        ended = await run(plan, tables)
    assert not [message for message in ended.network.transcript if message.receiver == COORDINATOR]
    assert ended.failures[0].member == liar


def test_rows_that_are_matched_in_secret_refuse_the_mode():
    case = CASES["any whose rows are matched in secret"]
    with pytest.raises(JobError, match="security: rows that are matched in secret are known to nobody"):
        plan_of_case(case, case.tables(), security="malicious")


def test_a_masked_sum_of_tables_refuses_the_mode():
    tables = tables_of()
    inputs = [{"party": party, "table": "people"} for party in OWNERS]
    parameters = {"max_rows": 100, "units": 10, "names": ["first", "second", "third"]}
    job = make_job(analysis="secure-sum", inputs=inputs, parameters=parameters, security="malicious")
    with pytest.raises(JobError, match="security: secure-sum does not prove"):
        analysis_of(job).plan(job, [tables[name].schema for name in OWNERS])


def test_an_analysis_that_proves_nothing_refuses_the_mode():
    tables = tables_of()
    job = make_job(
        analysis="low-rank",
        inputs=[{"party": p, "table": "people"} for p in OWNERS],
        parameters={"rank": 2, "method": "sketch", "max_rows": 100},
        security="malicious",
    )
    with pytest.raises(JobError, match="security: low-rank does not prove"):
        analysis_of(job).plan(job, [tables[name].schema for name in OWNERS])
