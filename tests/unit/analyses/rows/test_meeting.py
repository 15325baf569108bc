import numpy as np
import pytest
from job_builders import PARTIES, make_job, make_schema, make_table

from analyses.pca import protocol as pca
from analyses.rows.meeting import meet
from mpc.local.network import LocalNetwork
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.greeting import DifferentTermsError
from mpc.protocol.session import COORDINATOR

HELPERS = ("one", "two", "three")
N_ROWS = 40


def plan_of(**changes):
    job = make_job(compute=HELPERS, **changes)
    return pca.plan(job, [make_schema(m, 2 if m in PARTIES else 0, m in PARTIES, (20, 40)) for m in job.members])


async def meet_all(plans, tables, **options):
    """Let all members meet; a member's plan is that of its name, or the default."""
    names = {COORDINATOR: "main", **dict(enumerate((*HELPERS, *PARTIES), start=1))}
    plan_by = {m: plans.get(name, plans["all"]) for m, name in names.items()}
    network = LocalNetwork(names, terms_of=lambda m: plan_by[m].terms("ada"), deadline_s=5.0)
    ready = []

    async def member(session):
        exchange, n_rows, _ = await meet(session, plan_by[session.me], tables.get(names[session.me]), **options)
        ready.append(session.me)
        return n_rows, sorted(exchange.secrets)

    return await network.run({m: member for m in names if m != COORDINATOR}), network, ready


@pytest.fixture
def tables():
    values = np.random.default_rng(5).uniform(-1, 3, (N_ROWS, 2))
    return {party: make_table(party, values) for party in PARTIES}


@pytest.mark.parametrize("all_pairs", [False, True])
async def test_members_with_one_plan_know_their_peers_and_the_number_of_rows(tables, all_pairs):
    ends, _, _ = await meet_all({"all": plan_of()}, tables, all_pairs=all_pairs)
    assert ends[1] == (N_ROWS, [2, 3, 4, 5, 6])
    assert ends[4] == (N_ROWS, [1, 2, 3, 5, 6] if all_pairs else [1, 2, 3])


@pytest.mark.parametrize("odd", [("bank",), ("two",), ("bank", "hospital"), HELPERS])
async def test_no_member_is_ready_where_two_plans_were_shown(tables, odd):
    other = plan_of(privacy={"epsilon": 3.0, "delta": 1e-5})
    ends, network, ready = await meet_all({"all": plan_of(), **dict.fromkeys(odd, other)}, tables)
    assert ready == []
    assert any(isinstance(end, DifferentTermsError) for end in ends.values())
    assert {message.stage for message in network.transcript} <= {"keys", "key confirmation"}


async def test_tables_with_other_rows_are_found_out_before_anything_else(tables):
    tables["telco"] = make_table("telco", tables["telco"].values, ids=[str(i) for i in range(N_ROWS, 0, -1)])
    ends, _, ready = await meet_all({"all": plan_of()}, tables)
    assert ready == []
    assert all(isinstance(end, UnequalValuesError) for end in ends.values())
