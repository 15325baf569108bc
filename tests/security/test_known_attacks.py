"""Attacks that succeed today. Each test asserts that its attack works, and names the page that says so.

There are two: an owner shares numbers beyond their bounds; a compute party, with a table or without one, adds to its
own shares of intermediate products. The table of docs/threat-model.md says which analyses each of them reaches.

These are no guarantees, they are known limits: the adversary whom Moiety defends against follows the protocol. Whoever
builds protection from parties that deviate (abort security: proofs that what is shared keeps its public bounds) will
see these tests fail, and then turns them around and corrects docs/threat-model.md, "A party that deviates".
"""

import re
from pathlib import Path
from typing import get_args
from unittest import mock

import numpy as np
import pytest
from deviations import (
    CASES,
    amount_of,
    beyond_bounds,
    difference,
    everywhere,
    plan_of,
    run_once,
    tail_of,
    wrong_products,
)
from job_builders import make_job, make_table
from registry_jobs import HELPERS, VARIANTS

from analyses.clustering.plan import ESTIMATORS
from analyses.job.job import JobError
from analyses.pattern_count.plan import PatternCountParams
from analyses.pca import protocol as pca
from analyses.power_moments.plan import Method
from analyses.registry import ANALYSES
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy
from mpc.errors import InconsistentSharesError, PeerViolationError
from mpc.protocol.agreement import DealerAgreement

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


# -- both attacks, in every analysis of the registry -------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "threat-model.md"
REACHED, NOT_REACHED = "**reads rows**", "no"


def table_of_the_page():
    """Return what the page says, line by line: whether an owner reads rows, and whether a compute party does."""
    cell = r" (\*\*reads rows\*\*|no) \|"
    rows = re.findall(rf"^\| ([^|]+) \|{cell}{cell}$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == len({line for line, *_ in rows})
    return {line: (owner == REACHED, party == REACHED) for line, owner, party in rows}


SAID = table_of_the_page()
LINES = {name: case.line or name for name, case in CASES.items()}
BY_OWNERS = [name for name, line in LINES.items() if SAID.get(line, (0, 0))[0]]
BY_PARTIES = [name for name, line in LINES.items() if SAID.get(line, (0, 0))[1]]


def test_the_table_of_the_page_has_all_analyses_of_the_registry_and_their_options():
    assert list(SAID) == list(dict.fromkeys(LINES.values()))
    assert {case.variant for case in CASES.values()} >= {*VARIANTS}
    assert {VARIANTS[case.variant].analysis for case in CASES.values()} == {*ANALYSES}
    assert {c.parameters.get("counting", "mpc") for c in CASES.values()} >= {*ESTIMATORS} - {"ldp"}
    of_moments = [c.job().parameters for c in CASES.values() if c.variant.startswith("moments")]
    assert {p.get("method", "mpc") for p in of_moments} == {*get_args(Method)}
    patterns = PatternCountParams.model_fields["method"].annotation
    assert {*get_args(patterns)} == {"mpc", "randomized-response", "subsampled"}  # both others report row by row


@pytest.mark.parametrize("name", CASES)
def test_the_page_says_which_jobs_have_intermediate_products_as_their_plans_do(name):
    """A policy with `intermediate_products = false` refuses these; test_traffic holds the plans to runs."""
    case = CASES[name]
    assert plan_of(case, case.tables()).has_intermediate_products == SAID[LINES[name]][1]


async def assert_reads(case, plan, deviation):
    """Nothing tells the tables apart without the deviation; with it what is opened does, beyond all noise."""
    tables = case.tables()
    assert await difference(plan, case, tables) <= tail_of(plan)
    with deviation:
        assert await difference(plan, case, tables) > 2 * tail_of(plan)


QUICK = ("moments, `mpc`, order 2", "moments, `mpc`, order 3 and more", "pattern counts, `mpc`, three owners and more")


def in_turn(names):
    """Return the names as parameters: the quick tests take a few of them."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", in_turn(BY_OWNERS))
async def test_an_owner_who_shares_beyond_its_bounds_tells_others_rows_apart(name):
    """KNOWN LIMIT, of all analyses that multiply what owners share, whoever computes."""
    case = CASES[name]
    plan = plan_of(case, case.tables())
    attacker = next(owner for owner in case.owners if owner != case.victim)
    await assert_reads(case, plan, beyond_bounds(plan.job.members.index(attacker) + 1, amount_of(plan)))


PROVE_ROWS = (
    "principal components",
    "second moments",
    "low rank",
    "least squares",
    "logistic regression by moments",
    "logistic regression by gradients, order 1",
    "logistic regression by gradients, order 3",
    "pattern counts, `mpc`, two owners",
    "pattern counts, `mpc`, three owners and more",
    "cross-tables",
    "moments, `mpc`, order 2",
    "moments, `mpc`, order 3 and more",
    "clustering, `mpc`, pairs of owners",
    "clustering, `mpc`, `joint` cells of three owners and more",
    "circuits with comparisons",
)
"""Analyses in which owners prove their rows, of those that an owner can attack."""


@pytest.mark.parametrize("name", in_turn(PROVE_ROWS))
async def test_in_malicious_mode_an_owner_who_shares_beyond_its_bounds_ends_the_job_and_is_named(name):
    """The same deviation. Better ones, that complete their rows modulo each prime, are in test_lying_dealers.py."""
    case = CASES[name]
    plan = plan_of(case, case.tables(), security="malicious")
    assert (await run_once(plan, case.tables())).error is None
    attacker = plan.job.members.index(next(owner for owner in case.owners if owner != case.victim)) + 1
    with beyond_bounds(attacker, amount_of(plan)):
        ended = await run_once(plan, case.tables())
    assert ended.opened is None
    assert isinstance(ended.error, PeerViolationError)
    assert ended.error.member == attacker


@pytest.mark.parametrize("name", [name for name in BY_OWNERS if name not in PROVE_ROWS])
def test_in_malicious_mode_an_analysis_that_proves_no_rows_is_refused(name):
    case = CASES[name]
    with pytest.raises(JobError, match=r"^security: "):
        plan_of(case, case.tables(), security="malicious")


@pytest.mark.parametrize("name", in_turn(BY_PARTIES))
async def test_a_compute_party_that_makes_products_wrong_tells_rows_apart(name):
    """KNOWN LIMIT, of all analyses with intermediate products; where helpers compute, it is one that has no table.

    All inputs keep their bounds.
    """
    case = CASES[name]
    plan = plan_of(case, case.tables())
    assert case.is_secret or plan.job.helpers[0] == plan.job.members[0]
    await assert_reads(case, plan, wrong_products(1, everywhere(amount_of(plan))))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in {*BY_OWNERS, *BY_PARTIES}])
async def test_neither_attack_has_anything_to_change_where_the_page_says_so(name):
    """Nothing is shared there, or only added: what an owner adds it knows already."""
    case = CASES[name]
    plan, tables = plan_of(case, case.tables()), case.tables()
    attacker = plan.job.members.index(case.owners[0]) + 1
    with wrong_products(1, everywhere(1 << 12)) as reduced, beyond_bounds(attacker, 1000) as dealt:
        found = await difference(plan, case, tables)
    assert not reduced
    assert not dealt or found <= tail_of(plan)


FOUR = (*HELPERS, "four")


@pytest.mark.parametrize("name", in_turn(BY_PARTIES))
async def test_with_3t_plus_1_parties_a_wrong_product_ends_the_job_before_anything_is_opened(name):
    """The same deviation, among four parties of whom one may collude (`mpc.protocol.product_check`)."""
    case = CASES[name]
    plan = plan_of(case, case.tables(), compute=FOUR, colluding=1)
    assert (await run_once(plan, case.tables())).error is None
    with wrong_products(1, everywhere(amount_of(plan))):
        ended = await run_once(plan, case.tables())
    assert ended.opened is None
    assert isinstance(ended.error, (PeerViolationError, InconsistentSharesError))


async def test_with_3t_plus_1_parties_whoever_leaves_out_a_dealer_multiplies_wrongly_unseen():
    """KNOWN LIMIT: it says that it received nothing from the fourth party, as if that had dropped out.

    The three dealers that are left are as many as the degree needs, and agree with anything. Jobs that survive one bad
    message (`tests/protocols/test_survival.py`) cannot tell this lie from it.
    """
    case = CASES["moments, `mpc`, order 3 and more"]
    tables = case.tables()
    plan, amount = plan_of(case, tables, compute=FOUR, colluding=1), amount_of(plan_of(case, tables))
    agree = DealerAgreement.agree

    async def without_the_fourth(self, received, n_required):
        mine = self._exchange.session.me == 1
        return await agree(self, [d for d in received if not (mine and d == 4)], n_required)

    with wrong_products(1, everywhere(amount)), mock.patch.object(DealerAgreement, "agree", without_the_fourth):
        ended = await run_once(plan, tables)
    assert ended.error is None
    assert abs(int(ended.opened[0])) > amount / 2


@pytest.mark.parametrize("method", ["resharing", "double sharings"])
async def test_a_helper_reads_categories_row_by_row_out_of_released_counts(method, monkeypatch):
    """KNOWN LIMIT, as an attacker would use it: the error in a row's product is multiplied by the third owner's row."""
    if method == "double sharings":
        monkeypatch.setattr("mpc.protocol.operations.products.double_sharings_win", lambda *public: True)
    case = CASES["pattern counts, `mpc`, three owners and more"]
    tables, read = case.tables(), []
    plan, amount = plan_of(case, tables), 1 << 12
    assert plan.privacy_report()["views"]["coalition"]["epsilon"] <= 1.0
    for row in range(4):
        with wrong_products(1, lambda segment, row=row: {row - segment.start: amount} if segment.start == 0 else {}):
            ended = await run_once(plan, tables)
        counts = np.abs(ended.opened.reshape(4, 4, 4).astype(int))
        (category,) = [c for c in range(4) if counts[c].max() > amount / 2]
        read.append(category)
    assert read == tables["bank"].values[:4, 0].astype(int).tolist()
