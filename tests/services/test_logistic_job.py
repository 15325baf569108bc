"""Logistic regression over real services: separate processes, mutual TLS on loopback."""

import json
from dataclasses import replace

import numpy as np
import pytest
from federation import Analyst, all_text, random_values, result_of, write_table
from forked_services import ForkedDeployment
from labelled_tables import PARTIES, moments_job
from typer.testing import CliRunner

from cli.main import app

BUDGET = 300.0


@pytest.fixture(scope="module")
def values():
    blocks = {party: random_values((500, 2), seed) for seed, party in enumerate(PARTIES)}
    blocks["telco"][:, 1] = blocks["bank"][:, 0] > blocks["hospital"][:, 1]
    return blocks


ROWS = (100, 500)


@pytest.fixture(scope="module")
def deployment(values, tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    tables = {party: [write_table(folder / f"{party}.csv", block, rows=ROWS)] for party, block in values.items()}
    label = {"x0": (-1.0, 3.0), "x1": (0.0, 1.0)}
    spoilt = values["telco"].copy()
    spoilt[17, 1] = 0.731942
    doubtful = write_table(folder / "doubtful.csv", spoilt, rows=ROWS)
    only = replace(tables["telco"][0], name="labels", bounds={"x1": label["x1"]}, on_request=("x1",))
    usual, doubtful = (replace(tables["telco"][0], bounds=label), replace(doubtful, name="doubtful", bounds=label))
    tables["telco"] = [usual, doubtful, only]
    with ForkedDeployment(folder / "run", tables, budget=(BUDGET, 1e-4)) as running:
        yield running


BATCHES = {
    "method": "gradient",
    "iterations": 40,
    "sampling_rate": 0.3,
    "weight_norm": 8.0,
    "learning_rate": 0.3,
}


def job_of(table="people", *, view="coordinator", **parameters):
    inputs = [{"party": p, "table": table if p == "telco" else "people"} for p in PARTIES]
    given = {"label": "telco.x1", "max_rows": 500, **parameters}
    return moments_job(given, inputs=inputs, privacy={"epsilon": 20.0, "delta": 1e-5, "view": view})


def budgets(deployment, table="people"):
    found = {}
    for party in PARTIES:
        command = ["budget", "show", "--format", "json", "--config", str(deployment.folder / f"{party}.toml")]
        shown = json.loads(CliRunner().invoke(app, command).stdout)["budgets"]
        found[party] = next(b for b in shown if b["dataset"] == (table if party == "telco" else "people"))
    return found


def right_labels(result, values):
    rows = np.hstack([values["bank"], values["hospital"], values["telco"][:, :1]])
    scores = rows @ np.array(result["weights"]) + result["intercept"]
    return ((scores > 0) == values["telco"][:, 1]).mean()


def test_three_processes_learn_the_label_from_one_release(deployment, values):
    before = budgets(deployment)
    result = result_of(Analyst(deployment).run(job_of(view="coalition"), timeout_s=120.0))
    assert result["columns"] == ["bank.x0", "bank.x1", "hospital.x0", "hospital.x1", "telco.x0"]
    assert result["method"] == "moments"
    assert right_labels(result, values) > 0.85
    views = result["privacy"]["views"]
    assert views["coordinator"]["epsilon"] < views["coalition"]["epsilon"] <= 20.0
    for party, budget in budgets(deployment).items():
        assert 0 < budget["spent_epsilon"] - before[party]["spent_epsilon"] <= views["coalition"]["epsilon"]


def test_three_processes_learn_the_label_batch_by_batch_and_are_charged_for_what_a_coalition_sees(deployment, values):
    before = budgets(deployment)
    result = result_of(Analyst(deployment).run(job_of(**BATCHES), timeout_s=120.0))
    assert right_labels(result, values) > 0.85
    views = result["privacy"]["views"]
    assert views["coordinator"]["epsilon"] <= 20.0 < views["coalition"]["epsilon"]
    for party, budget in budgets(deployment).items():
        # Charged is the coalition's cost, at the delta of the budget and on top of what was spent.
        spent = budget["spent_epsilon"] - before[party]["spent_epsilon"]
        assert 0.5 * views["coalition"]["epsilon"] < spent <= views["coalition"]["epsilon"]


def test_labels_that_are_not_0_or_1_are_mapped_and_counted_in_their_owners_report_alone(deployment):
    view = Analyst(deployment).run(job_of("doubtful", **BATCHES), timeout_s=120.0)
    result_of(view)
    mapped = {party: deployment.report(party, view.job_id)["mapped_values"] for party in PARTIES}
    assert mapped == {"bank": {}, "hospital": {}, "telco": {"x1": 1}}
    assert "0.731942" not in all_text(deployment)


@pytest.mark.parametrize("method", [{}, pytest.param(BATCHES, marks=pytest.mark.slow)], ids=["moments", "batches"])
def test_a_party_that_has_the_label_alone_gives_it_only_to_a_job_that_names_it(deployment, method):
    job = job_of("labels", **method)
    view = Analyst(deployment).run(job, timeout_s=120.0)
    assert view.state == "FAILED"
    assert "table 'labels' of party 'telco': its columns are given on request only" in view.reason
    *features, labels = job.inputs
    named = job.model_copy(update={"inputs": (*features, labels.model_copy(update={"columns": ("x1",)}))})
    result = result_of(Analyst(deployment).run(named, timeout_s=120.0))
    assert result["columns"] == ["bank.x0", "bank.x1", "hospital.x0", "hospital.x1"]
