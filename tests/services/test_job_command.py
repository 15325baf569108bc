"""`moiety job` against real services: what is printed where, and every exit code."""

import datetime
import json
import re
import signal
import subprocess
import sys
import time

import pytest
from child_processes import child_environ
from deadlines import GENEROUS_S
from federation import pca_job, random_values, tables_of
from forked_services import ForkedDeployment
from small_installation import environment_of
from typer.testing import CliRunner

from cli.main import app
from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME
from service.identity import Role
from service.pki import create_authority, issue

PARTIES = ("bank", "hospital", "telco")
VALUES = {name: random_values((200, 2), seed) for seed, name in enumerate(PARTIES)}
HEEDS_SIGINT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell lets what it starts in its background ignore
from cli.main import main
main()
"""
ASKED_FROM = 1000.0
"""Epsilon from which on the owner of telco is asked."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job_command")
    (folder / "run").mkdir()
    asks = {"telco": {"policy.automatic": {"max_epsilon_per_job": ASKED_FROM, "analysts": [ANALYST_NAME]}}}
    with ForkedDeployment(folder / "run", tables_of(VALUES, folder), policy=asks) as running:
        yield running


@pytest.fixture
def moiety(deployment):
    def run(*arguments, client=None):
        command = ["job", *map(str, arguments), "--client", str(client or deployment.client_config)]
        result = CliRunner().invoke(app, command)
        assert "Traceback" not in result.output
        return result

    return run


def budget_of(deployment, party):
    """Return how the budget of the only table of a party stands."""
    command = ["budget", "show", "--config", str(deployment.config_path(party)), "--format", "json"]
    return json.loads(CliRunner().invoke(app, command).stdout)["budgets"][0]


def toml_of(job) -> str:
    lines = [f'analysis = "{job.analysis}"', f"deadline_s = {job.deadline_s}", f"title = {json.dumps(job.title)}"]
    lines += ["[privacy]", f"epsilon = {job.privacy.epsilon}", f"delta = {job.privacy.delta}", "[parameters]"]
    lines += [f"{name} = {value}" for name, value in job.parameters.items()]
    for one in job.inputs:
        lines += ["[[inputs]]", f'party = "{one.party}"', f'table = "{one.table}"']
    return "\n".join(lines)


def started(moiety, job_file) -> str:
    """Submit a job and wait until the coordinator has begun it."""
    job_id = moiety("submit", job_file, "--no-watch").stdout.strip()
    while "SUBMITTED" in moiety("show", job_id).stdout.split():
        time.sleep(0.1)
    return job_id


@pytest.fixture
def job_file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(toml_of(pca_job(PARTIES, title="Who varies")))
    return path


@pytest.fixture
def long_job_file(tmp_path):
    """A job that goes on until the owner of telco has decided: who is stopped instead is soon not reached."""
    path = tmp_path / "long.toml"
    path.write_text(toml_of(pca_job(PARTIES, privacy={"epsilon": 2 * ASKED_FROM, "delta": 1e-6})))
    return path


def test_submit_watches_on_standard_error_and_prints_the_result_on_standard_output(moiety, job_file):
    result = moiety("submit", job_file)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("submitted job ")
    states = re.findall(r"^\S+ UTC ([A-Z]+)", result.stderr, re.MULTILINE)
    assert states in (["DONE"], ["SUBMITTED", "PROPOSED", "RUNNING", "OPENING", "DONE"])  # where it was short, or not
    assert len(result.stderr.splitlines()) == 1 + len(states)
    assert "component 1 (variance" in result.stdout
    assert "epsilon = " in result.stdout
    assert "PROPOSED" not in result.stdout


def test_the_result_is_drawn_where_it_is_waited_for_and_later(moiety, job_file, tmp_path):
    submitted = moiety("submit", job_file, "--plot", tmp_path / "at-once.svg")
    assert submitted.exit_code == 0
    assert submitted.stderr.endswith(f"plot: {tmp_path}/at-once.svg\n")
    job_id = submitted.stderr.split()[2]
    assert moiety("show", job_id, "--plot", tmp_path / "later.png").exit_code == 0
    assert moiety("watch", job_id, "--plot", tmp_path / "later.svg").exit_code == 0
    assert "bank.x0" in (tmp_path / "at-once.svg").read_text(encoding="utf-8")
    assert (tmp_path / "later.svg").read_bytes() == (tmp_path / "at-once.svg").read_bytes()
    assert (tmp_path / "later.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_all_that_is_on_standard_output(moiety, job_file):
    shown = json.loads(moiety("submit", job_file, "--format", "json").stdout)
    assert (shown["state"], shown["reason"], shown["submitted_by"]) == ("DONE", None, "analyst")
    assert shown["result"]["columns"][0] == "bank.x0"
    assert shown["plan"]["job"] == shown["job"]
    assert json.loads(moiety("show", shown["job_id"], "--format", "json").stdout) == shown


def test_submit_without_watching_prints_the_identifier_only(moiety, job_file):
    result = moiety("submit", job_file, "--no-watch")
    assert (result.exit_code, result.stderr) == (0, "")
    job_id = result.stdout.strip()
    assert moiety("watch", job_id).exit_code == 0
    assert moiety("show", job_id).stdout.startswith(f"job {job_id}: pca, DONE\n")


def test_the_same_key_gives_the_same_job(moiety, job_file):
    ids = [
        json.loads(moiety("submit", job_file, "--no-watch", "--key", "monday", "--format", "json").stdout)["job_id"]
        for _ in range(2)
    ]
    assert ids[0] == ids[1]
    job_file.write_text(job_file.read_text().replace("Who varies", "Something else"))
    again = moiety("submit", job_file, "--no-watch", "--key", "monday")
    assert again.exit_code == 2
    assert ids[0] in again.stderr
    assert moiety("watch", ids[0]).exit_code == 0


def test_list_shows_the_newest_first(moiety, job_file):
    ids = [moiety("submit", job_file, "--no-watch").stdout.strip() for _ in range(2)]
    assert [job["job_id"] for job in json.loads(moiety("list", "--limit", 2, "--format", "json").stdout)] == ids[::-1]
    lines = moiety("list").stdout.splitlines()
    assert lines[0].startswith(ids[1])
    assert "Who varies" in lines[0]
    for job_id in ids:
        moiety("watch", job_id)


def test_a_job_that_fails_ends_with_1_and_says_who_and_why(moiety, job_file):
    job_file.write_text(toml_of(pca_job(PARTIES, inputs=[{"party": p, "table": "nothing"} for p in PARTIES])))
    result = moiety("submit", job_file)
    assert result.exit_code == 1
    assert "reason: party bank refused: " in result.stdout
    assert "refused by: bank" in result.stdout
    job_id = result.stderr.split()[2]
    assert moiety("show", job_id).exit_code == 0
    shown = json.loads(moiety("show", job_id, "--format", "json").stdout)
    assert (shown["code"], "[" in shown["reason"]) == ("table-unknown", False)
    assert moiety("watch", job_id).exit_code == 1
    shown = moiety("show", job_id, "--plot", job_file.parent / "plot.svg")
    assert (shown.exit_code, "there is nothing to draw: the job is FAILED" in shown.stderr) == (1, True)
    cancelled = moiety("cancel", job_id)
    assert cancelled.exit_code == 1
    assert "has ended: it is FAILED" in cancelled.stderr


def test_a_plan_tells_cost_and_errors_from_the_tables_that_parties_list(moiety, job_file):
    shown = json.loads(moiety("plan", job_file, "--format", "json").stdout)
    (variance,) = shown["forecast"]["quantities"]
    assert (variance["name"], shown["forecast"]["infeasible"]) == ("variance along a component", "")
    assert shown["privacy"]["views"]["coalition"]["epsilon"] == pytest.approx(50, rel=0.03)
    text = moiety("plan", job_file).stdout
    assert (
        f"95 % within {variance['half_width']:.3g} in a bad case, {variance['best_half_width']:.3g} in the best" in text
    )
    assert "3 compute parties" in text
    wanted = ["--within", variance["half_width"] / 2, "--of", "variance"]
    enough = json.loads(moiety("plan", job_file, *map(str, wanted), "--format", "json").stdout)["enough"]
    assert enough["epsilon"] > 60
    assert (
        f"in a bad case needs epsilon {enough['epsilon']:g}; planned is"
        in moiety("plan", job_file, *map(str, wanted)).stdout
    )


def test_a_plan_tells_flights_bytes_and_seconds(moiety, job_file):
    distance = json.loads(moiety("plan", job_file, "--format", "json").stdout)["distance"]
    text = moiety("plan", job_file).stdout
    assert "7 messages follow one another in turn, 8 counting the coordinator" in text
    assert f"the busiest party sends {distance['party_bytes']:,} bytes with {distance['rows']:,} rows" in text
    networks = [(one["round_trip_ms"], one["bandwidth_mbit"]) for one in distance["network_seconds"]]
    assert networks == [(ms, mbit) for ms in (1, 20, 100) for mbit in (1000, 100)]
    at_worst = distance["network_seconds"][-1]["seconds"]
    assert at_worst >= 15 * 0.05
    assert distance["network_seconds"][-1]["seconds_by_relay"] >= 15 * 0.1
    assert f"{at_worst:.2f} s" in text


def test_an_infeasible_job_is_refused_before_it_costs_and_runs_if_it_is_wanted_anyway(moiety, deployment, tmp_path):
    def spent():
        return budget_of(deployment, "bank")["spent_epsilon"]

    path, before = tmp_path / "infeasible.toml", spent()
    path.write_text(toml_of(pca_job(PARTIES, privacy={"epsilon": 0.01, "delta": 1e-6})))
    why = "the spectral norm of the noise is"
    assert f"INFEASIBLE: {why}" in moiety("plan", path).stdout
    refused = moiety("submit", path)
    assert refused.exit_code == 1
    assert f"with 0.01 this job is infeasible: {why}" in refused.stdout
    assert "an epsilon of at least about" in refused.stdout
    assert spent() == before

    done = json.loads(moiety("submit", path, "--anyway", "--format", "json").stdout)
    assert (done["state"], done["job"]["anyway"]) == ("DONE", True)
    assert spent() > before


def test_an_unknown_party_is_a_mistake_in_the_file(moiety, job_file):
    job_file.write_text(job_file.read_text().replace('"telco"', '"tesco"'))
    result = moiety("submit", job_file)
    assert result.exit_code == 2
    assert "inputs: there is no party 'tesco' in the roster; the roster has bank, hospital, telco" in result.stderr


@pytest.mark.parametrize("command", ["show", "watch", "cancel"])
def test_an_unknown_job_ends_with_4(moiety, command):
    result = moiety(command, "0123456789abcdef")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "there is no job '0123456789abcdef' of yours" in result.stderr


def test_the_certificate_of_a_party_does_not_let_one_in(moiety, deployment):
    client = deployment.folder / "wrong-role.toml"
    text = deployment.client_config.read_text()
    client.write_text(text.replace("analyst.pem", "bank.pem").replace("analyst.key", "bank.key"))
    result = moiety("list", client=client)
    assert result.exit_code == 3
    assert "may be called by analyst only, not by spiffe://local/party/bank" in result.stderr


def test_the_certificate_of_another_authority_does_not_let_one_in(moiety, deployment, tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    foreign = create_authority(deployment.federation, days=1, now=now)
    pair = issue(foreign, Role.ANALYST, "analyst", days=1, now=now)
    (tmp_path / "ca.pem").write_bytes(foreign.certificate_pem)
    (tmp_path / "analyst.pem").write_bytes(pair.certificate_pem)
    (tmp_path / "analyst.key").touch(mode=0o600)
    (tmp_path / "analyst.key").write_bytes(pair.key_pem)
    client = tmp_path / "client.toml"
    client.write_text(deployment.client_config.read_text())
    result = moiety("list", client=client)
    assert result.exit_code == 3
    assert "another authority signed it, not the federation's own" in result.stderr


def test_an_interrupted_watch_ends_with_130_and_the_job_goes_on(moiety, deployment, long_job_file):
    watching = subprocess.Popen(
        [sys.executable, "-c", HEEDS_SIGINT, "job", "submit", str(long_job_file), "--client", deployment.client_config],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_environ(),
    )
    job_id = watching.stderr.readline().split()[2]
    watching.stderr.readline()  # the job's first event: the command watches
    watching.send_signal(signal.SIGINT)
    out, errors = watching.communicate(timeout=GENEROUS_S)
    assert (watching.returncode, out) == (130, "")
    assert f"the job goes on: moiety job watch {job_id}" in errors
    assert "Traceback" not in errors
    approve = ["party", "approve", job_id, "--yes", "--config", str(deployment.config_path("telco"))]
    while job_id not in CliRunner().invoke(app, ["party", "jobs", *approve[-2:]]).stdout:
        assert "FAILED" not in moiety("show", job_id).stdout.split()
        time.sleep(0.1)
    assert CliRunner().invoke(app, approve).exit_code == 0
    assert moiety("watch", job_id).exit_code == 0


def test_cancelling_a_running_job(moiety, long_job_file):
    job_id = started(moiety, long_job_file)
    result = moiety("cancel", job_id)
    assert result.exit_code == 0
    assert "reason: cancelled by analyst" in result.stdout
    assert moiety("watch", job_id).exit_code == 1


def test_a_coordinator_that_is_stopped_fails_its_jobs_with_the_reason_and_ends_in_order(
    moiety, deployment, job_file, long_job_file
):
    job_id = started(moiety, long_job_file)
    deployment.send_signal(COORDINATOR_NAME, signal.SIGTERM)
    assert deployment.processes[COORDINATOR_NAME].wait(timeout=GENEROUS_S) == 0
    deployment.start(COORDINATOR_NAME)
    deployment.wait_until_ready(COORDINATOR_NAME)
    shown = moiety("show", job_id)
    assert "FAILED" in shown.stdout
    assert "reason: the coordinator was stopped while the job was running" in shown.stdout
    assert moiety("submit", job_file).exit_code == 0


def test_an_analysts_installation_plans_submits_and_shows_a_job(deployment, tmp_path):
    (tmp_path / "job.toml").write_text(toml_of(pca_job(PARTIES)))
    (tmp_path / "absent").mkdir()
    environment = environment_of(tmp_path / "absent")

    def told(*arguments):
        command = [sys.executable, "-m", "cli.main", "job", *arguments, "--client", str(deployment.client_config)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path).stdout

    assert "epsilon" in told("plan", "job.toml")
    assert "pca, DONE" in told("submit", "job.toml")
