"""Jobs with `security = "malicious"` over real services: one deals a row beyond its bound, one opens a wrong share."""

import json

import pytest
from federation import Analyst, pca_job, random_values, result_of, tables_of
from forked_services import ForkedDeployment
from lying_dealers import serve_a_liar, serve_a_wrong_opener
from typer.testing import CliRunner

from cli.main import app

PARTIES = ("bank", "hospital", "telco")
VALUES = {name: random_values((400, 2), seed) for seed, name in enumerate(PARTIES)}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of(VALUES, folder)
    (folder / "run").mkdir()
    serves = {"bank": serve_a_liar, "telco": serve_a_wrong_opener}
    with ForkedDeployment(folder / "run", tables, serves=serves) as running:
        yield running


def spent(deployment, party):
    command = ["budget", "show", "--format", "json", "--config", str(deployment.config_path(party))]
    (budget,) = json.loads(CliRunner().invoke(app, command).stdout)["budgets"]
    return budget["spent_epsilon"]


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
