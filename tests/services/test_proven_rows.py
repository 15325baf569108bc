"""Jobs with `security = "malicious"` over real services: one deals wrong rows or labels, one opens a wrong share."""

import json
from dataclasses import replace

import numpy as np
import pytest
from federation import BOUNDS, Analyst, pca_job, random_values, result_of, tables_of, write_table
from forked_services import ForkedDeployment
from lying_dealers import serve_a_liar, serve_a_wrong_opener
from typer.testing import CliRunner

from analyses.job.job import Job
from cli.main import app

PARTIES = ("bank", "hospital", "telco")
VALUES = {name: random_values((400, 2), seed) for seed, name in enumerate(PARTIES)}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of(VALUES, folder)
    x0 = VALUES["bank"][:, 0]
    labelled = write_table(folder / "labelled.csv", np.column_stack([x0, x0 > 1]))
    tables["bank"].append(replace(labelled, name="labelled", bounds={"x0": BOUNDS, "x1": (0.0, 1.0)}))
    (folder / "run").mkdir()
    serves = {"bank": serve_a_liar, "telco": serve_a_wrong_opener}
    with ForkedDeployment(folder / "run", tables, serves=serves) as running:
        yield running


def spent(deployment, party):
    command = ["budget", "show", "--format", "json", "--config", str(deployment.config_path(party))]
    budgets = json.loads(CliRunner().invoke(app, command).stdout)["budgets"]
    return sum(budget["spent_epsilon"] for budget in budgets)


def job_of(parties):
    return pca_job(parties, security="malicious", privacy={"epsilon": 4.0, "delta": 1e-6})


def test_owners_who_keep_their_bounds_get_their_answer_and_a_liar_is_named_before_anything_is_opened(deployment):
    analyst = Analyst(deployment)
    result = result_of(analyst.run(job_of(("hospital", "telco", "bank"))))
    assert result["privacy"]["security"] == "malicious"
    assert result["privacy"]["views"]["coalition"]["epsilon"] <= 4.0
    before = {party: spent(deployment, party) for party in PARTIES}
    view = analyst.run(job_of(PARTIES))  # its first member lies
    assert view.state == "FAILED"
    assert view.culprit == "bank"
    assert "bank shared rows beyond their bound" in view.reason
    assert not view.result_json
    # What projections show of rows is a release: it was paid for before they were opened.
    assert all(spent(deployment, party) > before[party] for party in PARTIES)


def test_a_party_that_opens_a_wrong_share_ends_the_job_and_nothing_is_released(deployment):
    view = Analyst(deployment).run(job_of(("telco", "hospital", "bank")))  # its first member lies
    assert view.state == "FAILED"
    assert "contradict each other" in view.reason
    assert not view.result_json


def gradients_of(parties):
    steps = {"method": "gradient", "iterations": 3, "optimiser": "sgd"}
    return Job.model_validate(
        {
            "analysis": "logistic-regression",
            "inputs": [{"party": p, "table": "labelled" if p == "bank" else "people"} for p in parties],
            "privacy": {"epsilon": 50.0, "delta": 1e-6},
            "parameters": {"label": "bank.x1", "max_rows": 1000, **steps},
            "security": "malicious",
        }
    )


def test_gradients_of_a_label_beside_features_come_out_and_an_owner_whose_label_is_2_is_named(deployment):
    analyst = Analyst(deployment)
    result = result_of(analyst.run(gradients_of(("hospital", "telco", "bank"))))
    weights = dict(zip(result["columns"], result["weights"], strict=True))
    assert result["privacy"]["security"] == "malicious"
    assert weights["bank.x0"] > 4 * max(abs(weight) for name, weight in weights.items() if name != "bank.x0")
    view = analyst.run(gradients_of(PARTIES))  # its first member lies
    assert view.state == "FAILED"
    assert view.culprit == "bank"
    assert "not the products" in view.reason
    assert not view.result_json
