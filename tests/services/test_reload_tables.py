"""SIGHUP on real parties: tables come, change and go, and jobs keep those that they were planned for."""

import json
import re
import signal
import time

import pytest
from deadlines import GENEROUS_S
from federation import BOUNDS, Analyst, pca_job, random_values, result_of, tables_of
from renewable_services import REFUSED, RenewableDeployment
from typer.testing import CliRunner

from cli.main import app
from demo.local_deployment import COORDINATOR_NAME
from demo.ports import free_row_of_ports

PARTIES = ("bank", "hospital", "telco")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    tables = tables_of({name: random_values((400, 2), seed) for seed, name in enumerate(PARTIES)}, folder)
    with RenewableDeployment(folder / "run", tables) as running:
        yield running


@pytest.fixture(autouse=True)
def as_before(deployment):
    """Let each test find the bank as it was."""
    path = deployment.config_path("bank")
    before = path.read_text()
    yield
    path.write_text(before)
    deployment.reload("bank")


def with_table(deployment, table):
    """A job about another table of the bank."""
    inputs = [{"party": p, "table": table if p == "bank" else "people"} for p in PARTIES]
    return pca_job(PARTIES, inputs=inputs, deadline_s=GENEROUS_S)


def command(deployment, *arguments, name="bank"):
    done = CliRunner().invoke(app, [*arguments, "--config", str(deployment.config_path(name)), "--format", "json"])
    return json.loads(done.stdout)


def test_tables_come_and_go_while_the_service_runs(deployment):
    analyst = Analyst(deployment)
    result_of(analyst.run(with_table(deployment, "people")))
    deployment.edit("bank", 'name = "people"', 'name = "clients"')
    assert deployment.reload("bank")[0]["changed"] == "tables"
    result_of(analyst.run(with_table(deployment, "clients")))  # whose budget has begun
    assert "no table 'people'" in analyst.run(with_table(deployment, "people")).reason
    assert deployment.lines("bank", "first budget set")[-1]["table"] == "clients"
    gone = "budget of table 'people': the configuration has no table that is charged to it"
    assert any(gone in line["about"] for line in deployment.lines("bank", "look at a budget"))
    shown = command(deployment, "budget", "show")
    assert [budget["dataset"] for budget in shown["budgets"]] == ["clients", "people"]
    assert any(gone in notice for notice in shown["notices"])


def test_a_job_that_runs_keeps_the_table_that_it_began_with(deployment):
    reloaded = []

    def reload_while_it_runs(event) -> None:
        if event.state == "RUNNING" and event.member == "bank" and not reloaded:  # the bank has begun
            deployment.send_signal("telco", signal.SIGSTOP)  # nobody gets far without it
            deployment.edit("bank", 'name = "people"', 'name = "clients"')
            reloaded.extend(deployment.reload("bank"))
            deployment.send_signal("telco", signal.SIGCONT)

    analyst = Analyst(deployment)
    view = analyst.run(with_table(deployment, "people"), on_event=reload_while_it_runs)
    result_of(view)
    assert reloaded[0]["changed"] == "tables"
    assert deployment.report("bank", view.job_id)["budget"]["dataset"] == "people"


def test_a_plan_that_is_approved_for_a_table_that_was_changed_meanwhile_is_refused_and_costs_nothing(deployment):
    deployment.edit("bank", '"analyst"', '"nobody"')  # so its owner is asked
    deployment.reload("bank")
    low, high = BOUNDS

    def change_and_approve(event) -> None:
        if event.member == "bank" and "approval" in event.text:
            while not (asked := command(deployment, "party", "jobs")):
                time.sleep(0.02)
            deployment.edit("bank", f'"x1" = [{low!r}, {high!r}]', f'"x1" = [{low!r}, {high + 1!r}]')
            deployment.reload("bank")
            command(deployment, "party", "approve", asked[0]["job_id"], "--yes")

    spent = command(deployment, "budget", "show")["budgets"]
    view = Analyst(deployment).run(with_table(deployment, "people"), on_event=change_and_approve)
    assert view.state == "FAILED"
    assert "the owner of bank has changed table 'people' since the job was planned; nothing was paid" in view.reason
    assert view.code == "table-changed"
    assert command(deployment, "budget", "show")["budgets"] == spent


def test_a_file_that_cannot_be_used_leaves_the_tables_and_log_and_doctor_say_so(deployment):
    analyst = Analyst(deployment)
    good = deployment.config_path("bank").read_text()
    deployment.edit("bank", '"x1" = [', '"x1" = [5.0, ')
    assert "tables.0.bounds.x1" in deployment.reload("bank", answer=REFUSED)[0]["reason"]
    result_of(analyst.run(with_table(deployment, "people")))
    (check,) = command(deployment, "doctor")["checks"]
    assert check["outcome"] == "failed"
    assert "tables.0.bounds.x1" in check["found"]
    assert "A service that runs goes on with what it read before" in check["fix"]
    deployment.config_path("bank").write_text(good.replace('name = "people"', 'name = "clients"'))
    deployment.edit("bank", 'log_format = "json"', 'log_format = "console"')
    deployment.reload("bank", answer=REFUSED)
    result_of(analyst.run(with_table(deployment, "people")))
    (check,) = (one for one in command(deployment, "doctor")["checks"] if one["name"] == "reload")
    assert check["outcome"] == "warning"
    assert re.search(r"goes on with those of before \(.* UTC: log_format: changes only when", check["found"])
    deployment.config_path("bank").write_text(good)
    deployment.reload("bank")
    assert "reload" not in {one["name"] for one in command(deployment, "doctor")["checks"]}


def test_doctor_lets_a_party_dial_the_peers_that_it_has_now(deployment):
    def reached():
        rows = command(deployment, "doctor", "--federation", "--timeout", str(GENEROUS_S), name=COORDINATOR_NAME)
        (row,) = (row for row in rows["members"] if row["name"] == "bank")
        return {cell["name"]: cell["outcome"] for cell in row["reaches"]}

    assert reached()["telco"] == "ok"
    deployment.edit("bank", deployment.addresses["telco"], f"127.0.0.1:{free_row_of_ports(1)}")
    deployment.reload("bank")
    assert reached() == {COORDINATOR_NAME: "ok", "hospital": "ok", "telco": "failed"}
