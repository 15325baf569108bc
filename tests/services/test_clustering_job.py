"""Vertical clustering over real services: separate processes, mutual TLS on loopback."""

import json

import numpy as np
import pytest
from federation import Analyst, all_text, memory_table, result_of, tables_of
from forked_services import ForkedDeployment
from typer.testing import CliRunner

from analyses.clustering import protocol as clustering
from analyses.clustering.estimators.fm_sketch import UNIT_AGAINST_COORDINATOR
from analyses.clustering.weighted_clustering import loss
from analyses.job.job import Job
from cli.main import app
from dp.cost.views import UNIT

PARTIES = ("bank", "hospital", "telco")
MIDDLES = np.array([[-0.6, 0.5, 0.2, -0.7], [0.5, 0.6, -0.6, 0.1], [0.1, -0.7, 0.7, 0.6]])


def values():
    rng = np.random.default_rng(20261121)
    rows = (MIDDLES[rng.integers(0, 3, 3000)] + rng.normal(0, 0.08, (3000, 4))).clip(-1, 1).round(6)
    return {"bank": rows[:, :1], "hospital": rows[:, 1:3], "telco": rows[:, 3:]}


VALUES = values()
ROWS = (1000, 4000)
MAX_LOSS = 15.0
"""Largest loss, as a multiple of the loss of the true centres. Over 570 runs of this job in one process the excess over
1 had the median 0.05 and the largest value 1.74; one in 10 was above 0.5, one in 57 above 1.5, falling by a factor e
every 0.6. By this rate fewer than one run in 10^7 reaches 15; centres that ignore the data, all in the middle, come to
186.
"""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of(VALUES, folder, ROWS)
    (folder / "run").mkdir()
    policy = {party: {"policy.limits": {"withstand_coalition": 0}} for party in tables}  # sketches are among the jobs
    with ForkedDeployment(folder / "run", tables, budget=(20.0, 1e-5), policy=policy) as running:
        yield running


def job_of(epsilon=4.0, **parameters):
    fields = {
        "analysis": "clustering",
        "inputs": [{"party": p, "table": "people"} for p in PARTIES],
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "parameters": {"k": 3, "max_rows": 4000, "k_local": 4, **parameters},
    }
    return Job.model_validate(fields)


def spent(deployment, party):
    config = str(deployment.folder / f"{party}.toml")
    shown = CliRunner().invoke(app, ["budget", "show", "--format", "json", "--config", config])
    return json.loads(shown.stdout)["budgets"][0]["spent_epsilon"]


@pytest.mark.parametrize("k_local", [4, pytest.param(17, marks=pytest.mark.slow)])
def test_three_processes_find_the_clusters_and_each_is_charged_for_all_blocks_of_a_record(deployment, k_local):
    """The grid of 17 local clusters each is too large to be fitted: its cells are drawn from a model of the pairs."""
    before = [spent(deployment, party) for party in PARTIES]
    job = job_of(k_local=k_local)
    result = result_of(Analyst(deployment).run(job))
    tables = [memory_table(party, VALUES[party], ROWS) for party in PARTIES]
    plan = clustering.plan(job, [table.schema for table in tables])
    assert plan.counting.is_by_classes == (k_local == 17)
    rows = clustering.scaled_rows(tables, plan)
    found = clustering.in_scaled_units(np.array(result["centres"]), plan)
    middles = np.array([rows[np.abs(np.hstack(list(VALUES.values())) - m).max(axis=1) < 0.4].mean(0) for m in MIDDLES])
    assert loss(rows, found) < MAX_LOSS * loss(rows, middles)
    for party, spent_before in zip(PARTIES, before, strict=True):
        # At the ledger's delta, which is larger; and what comes after others adds less.
        assert (1.0 if spent_before else 3.0) < spent(deployment, party) - spent_before <= 4.0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"k": 65}, "65 clusters are more than the k_local^3 = 64 cells"),
        (
            {"epsilon": 0.002},
            "this job is infeasible: the error of a local cluster",
        ),
        ({"k": 3500, "k_local": 20}, "3500"),
        ({"columns": ("income",)}, "income"),
    ],
)
def test_what_cannot_be_answered_is_refused_and_nothing_is_spent(deployment, changes, says):
    before = [spent(deployment, party) for party in PARTIES]
    columns = changes.get("columns")
    job = job_of(**{name: value for name, value in changes.items() if name != "columns"})
    if columns:
        inputs = (job.inputs[0].model_copy(update={"columns": columns}), *job.inputs[1:])
        job = job.model_copy(update={"inputs": inputs})
    view = Analyst(deployment).run(job)
    assert view.state == "FAILED"
    assert says in view.reason
    assert "Traceback" not in all_text(deployment)
    assert before == [spent(deployment, party) for party in PARTIES]


def set_budgets(deployment, unit, period):
    for party in PARTIES:
        given = {"unit": unit, "period": period, "epsilon": "20", "delta": "1e-5", "reason": "countings by sketches"}
        options = [word for name, value in given.items() for word in (f"--{name}", value)]
        config = str(deployment.folder / f"{party}.toml")
        done = CliRunner().invoke(app, ["budget", "set", "people", "--config", config, *options])
        assert done.exit_code == 0, done.output


def test_owners_let_sketches_pass_by_a_budget_of_their_unit_only(deployment):
    job = job_of(
        k_local=2,
        counting="fm-sketch",
        counting_options={"accept_no_protection_against_parties": True, "sketches": 512},
    )
    job = job.model_copy(update={"target": job.privacy.model_copy(update={"view": "coordinator"})})
    refused = Analyst(deployment).run(job)
    assert refused.state == "FAILED"
    assert "this job protects the unit 'record of the joint table, against the coordinator alone'" in refused.reason
    set_budgets(deployment, UNIT_AGAINST_COORDINATOR, "sketches")
    try:
        result = result_of(Analyst(deployment).run(job))
        assert 0 < spent(deployment, "bank") < 20
    finally:
        set_budgets(deployment, UNIT, "after the sketches")
    assert result["privacy"]["views"]["coalition"]["epsilon"] is None
    assert result["privacy"]["views"]["coordinator"]["epsilon"] <= 4.0
    assert result["privacy"]["unit"] == UNIT_AGAINST_COORDINATOR
    assert sum(result["weights"]) == pytest.approx(3000, abs=600)
