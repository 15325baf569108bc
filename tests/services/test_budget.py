"""Budgets, policies and consent over real services: what an analyst sees, and what the ledgers hold afterwards."""

import json
import signal
import threading
import time

import pytest
from deadlines import GENEROUS_S
from federation import Analyst, pca_job, random_values, result_of, tables_of
from forked_services import ForkedDeployment
from typer.testing import CliRunner

from cli.main import app

PARTIES = ("bank", "hospital", "telco")
BUDGET = 3.0


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    values = {name: random_values((200, 2), seed) for seed, name in enumerate(PARTIES)}
    (folder / "run").mkdir()
    policy = {
        "telco": {
            "policy": {"approval_deadline_s": GENEROUS_S},
            "policy.automatic": {"max_epsilon_per_job": 1.0},
            "policy.limits": {"max_epsilon_per_job": 2.5, "receivers": ["analyst", "coordinator"]},
        }
    }
    running = ForkedDeployment(folder / "run", tables_of(values, folder), budget=(BUDGET, 1e-6), policy=policy)
    with running:
        yield running


@pytest.fixture(scope="module")
def analyst(deployment):
    return Analyst(deployment)


def job_of(epsilon, **changes):
    return pca_job(PARTIES, privacy={"epsilon": epsilon, "delta": 1e-6}, **changes)


def moiety(deployment, party, *arguments):
    """Run a command of the owner; in this process, but on the files of the running service."""
    return CliRunner().invoke(app, [*arguments, "--config", str(deployment.folder / f"{party}.toml")])


def budget_of(deployment, party):
    shown = json.loads(moiety(deployment, party, "budget", "show", "--format", "json").stdout)
    return shown["budgets"][0]


def settled_budget_of(deployment, party):
    """The budget once the party has heard that a failed job ended and has given back what it held."""
    deadline = time.monotonic() + GENEROUS_S
    while (budget := budget_of(deployment, party))["reserved_jobs"] and time.monotonic() < deadline:
        time.sleep(0.05)
    return budget


def approve(deployment, job_id, *command):
    """Wait until telco is asked about a job, then answer."""
    deadline = time.monotonic() + GENEROUS_S
    while time.monotonic() < deadline:
        if job_id in moiety(deployment, "telco", "party", "jobs").stdout:
            break
        time.sleep(0.1)
    return moiety(deployment, "telco", "party", *command)


def refill(deployment, period):
    for party in PARTIES:
        arguments = ["--epsilon", str(BUDGET), "--delta", "1e-6", "--period", period, "--reason", "test"]
        done = moiety(deployment, party, "budget", "set", "people", *arguments)
        assert done.exit_code == 0, done.stderr


def test_a_job_is_charged_at_every_party_and_its_report_says_what_remains(analyst, deployment):
    refill(deployment, "first")
    view = analyst.run(job_of(1.0))
    epsilon = result_of(view)["privacy"]["views"]["coalition"]["epsilon"]
    for party in PARTIES:
        budget = budget_of(deployment, party)
        assert (budget["committed_jobs"], budget["reserved_jobs"]) == (1, 0)
        assert budget["least_colluding"] == 1
        assert budget["spent_epsilon"] == pytest.approx(epsilon, rel=1e-6)
        report = deployment.report(party, view.job_id)
        assert report["budget"]["remaining_epsilon"] == pytest.approx(BUDGET - epsilon, rel=1e-6)
    told = moiety(deployment, "bank", "party", "report", view.job_id).stdout
    assert "Budget of table 'people', period 'first': epsilon 3 at delta 1e-06" in told


def test_an_exhausted_budget_names_party_and_reason_opens_nothing_and_leaves_room_for_a_smaller_job(
    analyst, deployment
):
    refill(deployment, "second")
    arguments = ["--epsilon", "1.2", "--delta", "1e-6", "--period", "second", "--reason", "less at the hospital"]
    moiety(deployment, "hospital", "budget", "set", "people", *arguments)
    result_of(analyst.run(job_of(0.9)))
    view = analyst.run(job_of(1.0))
    assert (view.state, view.culprit, view.stage) == ("FAILED", "hospital", "reservation")
    assert "party hospital refused: the privacy budget of table 'people' does not cover this job" in view.reason
    assert view.code == "budget-exhausted"
    assert view.result_json == ""
    for party in PARTIES:
        budget = settled_budget_of(deployment, party)
        assert (budget["committed_jobs"], budget["reserved_jobs"]) == (1, 0)
    result_of(analyst.run(job_of(0.3)))
    assert budget_of(deployment, "hospital")["spent_epsilon"] <= 1.2


def test_a_job_waits_in_the_state_proposed_until_the_owner_approves(analyst, deployment):
    refill(deployment, "third")
    job_id = analyst.submit(job_of(2.0, title="Trends"))
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(approve(deployment, job_id, "approve", job_id, "--yes")), daemon=True
    )
    thread.start()
    states = []
    view = analyst.wait(job_id, lambda event: states.append((event.state, event.stage, event.text)))
    result_of(view)
    (waited,) = [state for state in states if state[1] == "approval"]
    assert waited[0] == "PROPOSED"
    assert "telco waits for its owner's approval" in waited[2]
    thread.join(120)
    assert "asked by   analyst" in answers[0].stdout
    assert "2 against the worst coalition" in answers[0].stdout
    history = json.loads(moiety(deployment, "telco", "budget", "history", "--format", "json").stdout)
    consents = {entry["job_id"]: entry["consent"] for entry in history if entry["kind"] == "reserved"}
    assert consents[job_id] == "owner"


def test_other_jobs_run_while_owners_think(analyst, deployment):
    refill(deployment, "fourth")
    waiting = [analyst.submit(job_of(1.1)) for _ in range(3)]  # more than run at a time
    result_of(analyst.run(job_of(0.5)))
    for job_id in waiting:
        assert analyst.show(job_id).state == "PROPOSED"
        while analyst.show(job_id).waits_for_owners_of != ("telco",):
            time.sleep(0.05)
        ended = analyst.cancel(job_id)
        assert (ended.state, ended.waits_for_owners_of) == ("CANCELLED", ())
    while (
        moiety(deployment, "telco", "party", "jobs").stderr != "no job waits\n"
    ):  # a party hears of it after the analyst
        time.sleep(0.05)


def test_the_owners_refusal_reaches_the_analyst(analyst, deployment):
    refill(deployment, "fifth")
    job_id = analyst.submit(job_of(2.0))
    assert approve(deployment, job_id, "refuse", job_id, "--reason", "not before the audit").exit_code == 0
    view = analyst.wait(job_id)
    assert (view.state, view.culprit) == ("FAILED", "telco")
    assert "the owner refused the job: not before the audit" in view.reason
    assert view.code == "job-refused-owner"
    assert settled_budget_of(deployment, "bank")["held_epsilon"] == 0


def test_a_job_beyond_the_limits_is_refused_with_the_rule(analyst, deployment):
    refill(deployment, "sixth")
    view = analyst.run(job_of(2.8))
    assert (view.state, view.culprit) == ("FAILED", "telco")
    assert "by its policy: epsilon 2.8 of the job is above 2.5" in view.reason


def test_a_delta_that_is_too_large_is_refused_without_a_count(analyst, deployment):
    view = analyst.run(pca_job(PARTIES, privacy={"epsilon": 0.1, "delta": 1e-3}))
    assert view.state == "FAILED"
    assert "delta is too large for table 'people'" in view.reason
    assert "200" not in view.reason


def test_a_party_killed_while_it_holds_a_reservation_gives_it_back_at_its_start(analyst, deployment):
    refill(deployment, "seventh")
    job_id = analyst.submit(job_of(2.0))  # the others hold budget while telco's owner thinks
    deadline = time.monotonic() + GENEROUS_S
    while budget_of(deployment, "bank")["reserved_jobs"] == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert budget_of(deployment, "bank")["reserved_jobs"] == 1
    deployment.send_signal("bank", signal.SIGKILL)
    deployment.start("bank")
    deployment.wait_until_ready("bank")
    assert budget_of(deployment, "bank")["held_epsilon"] == 0
    view = analyst.wait(job_id)
    assert (view.state, view.culprit, view.stage) == ("FAILED", "bank", "reservation")
    result_of(analyst.run(job_of(0.5)))


def test_a_restored_ledger_keeps_the_party_from_serving(deployment):
    name = "bank"
    deployment.send_signal(name, signal.SIGTERM)
    deployment.processes[name].wait(timeout=120)
    ledger = deployment.data_dir(name) / "ledger.sqlite"
    kept = ledger.read_bytes()
    try:
        ledger.unlink()
        deployment.start(name)
        assert deployment.processes[name].wait(timeout=300) == 1
        assert "truncated or restored from an old copy" in deployment.log_path(name).read_text()
    finally:
        for leftover in deployment.data_dir(name).glob("ledger.sqlite*"):
            leftover.unlink()
        ledger.write_bytes(kept)
        deployment.start(name)
        deployment.wait_until_ready(name)
