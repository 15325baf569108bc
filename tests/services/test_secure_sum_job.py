"""Sums as jobs over real services: separate processes, mutual TLS, a party that is killed in the middle."""

import json
import signal

import numpy as np
import pytest
from federation import BOUNDS, Analyst, all_text, random_values, result_of, tables_of
from forked_services import ForkedDeployment
from typer.testing import CliRunner

from analyses.job.job import Job
from cli.main import app

PARTIES = ("bank", "clinic", "hospital", "telco")
ROWS = 317
VALUES = {name: random_values((ROWS, 2), seed) for seed, name in enumerate(PARTIES)}
BUDGET = (5.0, 1e-6)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    exact = {"exact_tables": ["people"], "analyses": ["secure-mean", "secure-sum"]}
    automatic = {"max_epsilon_per_job": 4.0, **exact}
    allowing = {"policy.automatic": automatic, "policy.limits": exact}
    policy = {"bank": allowing, "clinic": allowing, "hospital": allowing, "telco": allowing}
    with ForkedDeployment(folder / "run", tables_of(VALUES, folder), budget=BUDGET, policy=policy) as running:
        yield running


@pytest.fixture(scope="module")
def analyst(deployment):
    return Analyst(deployment)


def job_of(analysis="secure-mean", **changes):
    fields = {
        "analysis": analysis,
        "inputs": [{"party": p, "table": "people"} for p in PARTIES],
        "colluding": 1,
        "parameters": {"max_rows": 1000, "units": 3000},
    }
    return Job.model_validate({**fields, **changes})


def told(deployment, party, *arguments):
    return CliRunner().invoke(app, [*arguments, "--config", str(deployment.config_path(party))]).stdout


def test_an_exact_mean_is_that_of_all_rows_and_its_report_says_that_nobody_is_protected(analyst, deployment):
    view = analyst.run(job_of())
    result = result_of(view)
    everything = np.vstack(list(VALUES.values()))
    assert result["mean"] == pytest.approx(everything.mean(axis=0), abs=BOUNDS[1] / 3000)
    assert result["total_weight"] == len(PARTIES) * ROWS
    assert result["privacy"]["guarantee"] == "none"
    assert deployment.report("bank", view.job_id)["rows"] == ROWS
    assert "NO PRIVACY GUARANTEE" in told(deployment, "bank", "party", "report", view.job_id)
    assert "without noise, by consent of the policy" in told(deployment, "telco", "budget", "history")
    assert "1 results were opened without noise" in told(deployment, "telco", "budget", "show")


def test_a_noisy_mean_is_charged_reported_in_both_views_and_the_next_one_is_refused(analyst, deployment):
    view = analyst.run(job_of(privacy={"epsilon": 4.0, "delta": 1e-6}))
    result = result_of(view)
    views = result["privacy"]["views"]
    assert 3.9 < views["coalition"]["epsilon"] <= 4.0
    assert views["coordinator"]["epsilon"] < views["coalition"]["epsilon"]
    everything = np.vstack(list(VALUES.values()))
    assert result["mean"] == pytest.approx(everything.mean(axis=0), abs=0.5)
    for party in PARTIES:
        shown = json.loads(told(deployment, party, "budget", "show", "--format", "json"))["budgets"][0]
        assert 3.9 < shown["spent_epsilon"] <= 4.0
        local = deployment.report(party, view.job_id)
        assert local["privacy"]["views"] == views
        assert local["budget"]["spent_epsilon"] == shown["spent_epsilon"]
    again = analyst.run(job_of(privacy={"epsilon": 4.0, "delta": 1e-6}))
    assert again.state == "FAILED"
    assert "the privacy budget of table 'people' does not cover this job" in again.reason
    assert again.result_json == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
def test_a_party_that_is_lost_in_the_round_does_not_stop_the_sum(analyst, deployment, number):
    """Four parties, one may collude: one may drop out, at whatever moment after all have committed."""
    struck = []

    def strike(event):
        if (event.member, event.stage) == ("coordinator", "advertise keys") and not struck:  # it has heard all
            deployment.send_signal("clinic", number)
            struck.append(event.stage)

    try:
        job = job_of("secure-sum", deadline_s=240.0, parameters={"max_rows": 1000, "units": 1})
        result = result_of(analyst.run(job, on_event=strike))
    finally:
        if number == signal.SIGSTOP:
            deployment.send_signal("clinic", signal.SIGCONT)
        else:
            deployment.start("clinic")
            deployment.wait_until_ready("clinic")
    assert struck
    survivors = set(result["survivors"])
    assert set(PARTIES) - survivors <= {"clinic"}
    assert set(result["vanished"]) == set(PARTIES) - survivors
    exact = sum(np.rint(np.clip(VALUES[name], *BOUNDS) / 3.0).sum(axis=0) * 3.0 for name in survivors)
    assert result["sum"] == exact.tolist()


def test_nothing_that_the_services_log_shows_a_count(deployment, analyst):
    result_of(analyst.run(job_of()))
    text = all_text(deployment)
    assert '"job"' in text
    assert str(ROWS) not in [word for line in text.splitlines() for word in line.replace(",", " ").split()]
