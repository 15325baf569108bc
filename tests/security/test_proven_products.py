"""The second attack of test_known_attacks.py in jobs with `security = "malicious"`: nothing opens, the party is named.

Each case of the registry in which a compute party reads rows by wrong products either ends so, or its plan refuses.
"""

import contextlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from deviations import (
    CASES,
    FRACTIONS,
    amount_of,
    beyond_bounds,
    difference,
    everywhere,
    plan_of,
    run_once,
    tail_of,
    wrong_products,
)
from registry_jobs import HELPERS, VARIANTS

from analyses.job.job import JobError
from bench.protocols import proven_rows
from mpc.errors import PeerViolationError
from mpc.proofs.folding import Schedule

MALICIOUS = {"security": "malicious"}
COUNTS = CASES["pattern counts, `mpc`, three owners and more"]
CUBES = CASES["moments, `mpc`, order 3 and more"]
FOURTH = replace(CASES["moments, `mpc`, order 3 and more"], parameters={"order": 4})
CELLS = CASES["clustering, `mpc`, `joint` cells of three owners and more"]
PROGRAM = CASES["circuits with comparisons"]
PROVEN = {
    "pattern counts": COUNTS,
    "moments of order 3": CUBES,
    "moments of order 4": FOURTH,
    "joint cells": CELLS,
    "circuits": PROGRAM,
}
ROSTERS = {"three": (HELPERS, 1), "four": ((*HELPERS, "four"), 1), "five": ((*HELPERS, "four", "five"), 2)}


def planned(case, roster="three"):
    compute, colluding = ROSTERS[roster]
    return plan_of(case, case.tables(), compute=compute, colluding=colluding, **MALICIOUS)


@pytest.mark.parametrize("name", PROVEN)
@pytest.mark.parametrize("roster", ROSTERS)
async def test_honest_parties_open_an_answer_that_differs_by_noise_alone(name, roster):
    case = PROVEN[name]
    plan = planned(case, roster)
    assert plan.has_intermediate_products
    assert plan.proves_products
    assert await difference(plan, case, case.tables()) <= tail_of(plan)


@pytest.mark.parametrize("name", PROVEN)
@pytest.mark.parametrize("roster", ROSTERS)
@pytest.mark.parametrize("liar", [1, 3])
async def test_a_compute_party_that_makes_products_wrong_ends_the_job_and_is_named(name, roster, liar):
    """It is a helper without any table; the same deviation reads rows where nothing is proven."""
    case = PROVEN[name]
    plan = planned(case, roster)
    assert plan.job.members[liar - 1] == HELPERS[liar - 1]
    with wrong_products(liar, everywhere(amount_of(plan))) as reduced:
        ended = await run_once(plan, case.tables())
    assert reduced
    assert ended.opened is None
    assert isinstance(ended.error, PeerViolationError)
    assert ended.error.member == liar


@pytest.mark.parametrize("method", ["resharing", "double sharings"])
async def test_a_helper_reads_no_category_whatever_row_it_aims_at(method, monkeypatch):
    """The attack on released counts as it is used, row by row: the least error in one product of one row."""
    if method == "double sharings":
        monkeypatch.setattr("mpc.protocol.operations.products.double_sharings_win", lambda *public: True)
    plan = planned(COUNTS)
    for row in range(3):
        with wrong_products(1, lambda segment, row=row: {row - segment.start: 1} if segment.start == 0 else {}):
            ended = await run_once(plan, COUNTS.tables())
        assert ended.opened is None
        assert isinstance(ended.error, PeerViolationError)
        assert ended.error.member == 1


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case not in PROVEN.values()])
def test_what_proves_no_products_is_refused_or_has_none(name):
    case, plan = CASES[name], None
    with contextlib.suppress(JobError):
        plan = plan_of(case, case.tables(), **MALICIOUS)
    assert plan is None or plan.norm_bounds
    assert plan is None or plan.proves_products or not plan.has_intermediate_products


PAGE = Path(__file__).parents[2] / "docs" / "protocols" / "malicious.md"
GRADIENTS = "logistic regression by gradients, order 3"
LINES = {
    "pattern counts of three owners and more": COUNTS,
    "moments of order 3 and more": CUBES,
    "logistic regression by gradients of order 3": CASES[GRADIENTS],
    "circuits as jobs: comparisons": PROGRAM,
    "circuits as jobs: functions of fractions": FRACTIONS,
    "clustering with joint cells": CASES["clustering, `mpc`, `joint` cells of three owners and more"],
    "rows that are matched in secret": CASES["any whose rows are matched in secret"],
}


def test_the_page_says_which_analyses_prove_their_products():
    """Circuits are in tests/unit/mpc/proofs/test_products.py."""
    said = dict(re.findall(r"^\| ([^|]+) \| (yes|no: refused at planning) \|$", PAGE.read_text(), re.MULTILINE))
    found = {}
    for line, case in LINES.items():
        found[line] = "no: refused at planning"
        with contextlib.suppress(JobError):
            plan = plan_of(case, case.tables(), **MALICIOUS)
            assert plan.has_intermediate_products
            found[line] = "yes"
    assert found == {line: answer for line, answer in said.items() if line in LINES}
    others = [line for line in said if line not in LINES and not line.startswith("circuits")]
    assert not others


def test_the_page_says_how_many_rounds_jobs_take():
    plan = plan_of(FRACTIONS, FRACTIONS.tables(), **MALICIOUS)
    assert f"and a `truncate` takes {plan.traffic(300).flights} rounds." in PAGE.read_text()
    plan = proven_rows.plan_of(proven_rows.tables_of(10_000, 100), "malicious", 8192)
    assert f": {plan.traffic(10_000).flights} rounds, messages and tasks" in PAGE.read_text()


def test_the_page_says_how_many_rounds_a_million_products_take():
    folds = len(Schedule(10**6).rows)
    text = PAGE.read_text()
    assert (folds, "A million products take four folds, so 12 rounds" in text) == (4, True)
    assert 1 + 2 + 2 * folds + 1 == 12


@pytest.fixture(params=["label alone", "label beside features"])
def gradients(monkeypatch, request):
    """A label is an indicator where its owner brings no feature, else a bit beside a norm."""
    name = CASES[GRADIENTS].variant
    if request.param == "label alone":
        monkeypatch.setitem(VARIANTS, name, replace(VARIANTS[name], label_columns=("label",)))
    return replace(CASES[GRADIENTS], victim="bank")


async def test_a_wrong_cube_of_a_gradient_ends_the_job_and_names_the_party(gradients):
    plan = planned(gradients)
    assert plan.has_intermediate_products
    honest = await run_once(plan, gradients.tables())
    assert honest.error is None
    with wrong_products(2, everywhere(amount_of(plan))):
        ended = await run_once(plan, gradients.tables())
    assert ended.opened is None
    assert isinstance(ended.error, PeerViolationError)
    assert ended.error.member == 2


async def test_a_label_or_features_beyond_their_bounds_end_a_gradient_and_name_the_owner(gradients):
    plan = planned(gradients)
    for owner in ("bank", "telco"):
        number = plan.job.members.index(owner) + 1
        with beyond_bounds(number, 1 << 10):
            ended = await run_once(plan, gradients.tables())
        assert ended.opened is None
        assert isinstance(ended.error, PeerViolationError)
        assert ended.error.member == number
