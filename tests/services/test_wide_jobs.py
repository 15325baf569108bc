"""Tables as wide as those of gene expression, 801 x 20,531, over real services: who refuses them, and what it costs."""

import json

import pytest
from federation import Analyst, pca_job
from forked_services import ForkedDeployment
from typer.testing import CliRunner

from cli.main import app
from demo.local_deployment import COORDINATOR_NAME, LocalTable

PARTIES = ("bank", "hospital", "telco")
COLUMNS = {"bank": 6843, "hospital": 6844, "telco": 6844}
ROWS = 801
LIMITS_MIB = {"hospital": 1024, COORDINATOR_NAME: 4096}


class LimitedDeployment(ForkedDeployment):
    """Services two of which say how much memory a job may take."""

    def write_files(self) -> None:
        super().write_files()
        for name, mib in LIMITS_MIB.items():
            path = self.config_path(name)
            path.write_text(f"job_memory_mib = {mib}\n{path.read_text()}")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("genes")
    (folder / "run").mkdir()
    tables = {}
    for party, n_columns in COLUMNS.items():
        path = folder / f"{party}.csv"
        path.write_text("no table: whoever reads it fails\n")
        bounds = {f"gene{i}": (0.0, 20.0) for i in range(n_columns)}
        tables[party] = [LocalTable("people", path, bounds, (ROWS, ROWS))]
    with LimitedDeployment(folder / "run", tables) as running:
        yield running


def refused(deployment, n_columns):
    """Return a job on at most so many columns of each party once it has failed, unpaid, and no table was read."""
    inputs = [
        {"party": party, "table": "people", "columns": [f"gene{i}" for i in range(min(n_columns, most))]}
        for party, most in COLUMNS.items()
    ]
    job = pca_job(PARTIES, inputs=inputs, order="trusted", anyway=True, parameters={"components": 2, "max_rows": 1024})
    stages = []
    view = Analyst(deployment).run(job, on_event=lambda event: stages.append(event.stage))
    assert (view.state, view.result_json) == ("FAILED", "")
    assert "reading" not in stages
    for party in PARTIES:
        arguments = ["budget", "show", "--format", "json", "--config", str(deployment.config_path(party))]
        (budget,) = json.loads(CliRunner().invoke(app, arguments).stdout)["budgets"]
        assert (budget["committed_jobs"], budget["spent_epsilon"]) == (0, 0.0)
    return view


def test_more_columns_than_a_message_holds_have_no_plan(deployment):
    view = refused(deployment, 6844)
    assert view.stage == "plan"
    assert "X^T X of 20532 columns" in view.reason
    assert "name at most 16383 columns" in view.reason


def test_a_coordinator_refuses_what_takes_more_memory_than_it_may_with_forecast_and_setting(deployment):
    view = refused(deployment, 5000)
    assert (view.stage, view.code) == ("plan", "job-too-large")
    assert f"{COORDINATOR_NAME} would take about 9," in view.reason
    assert (
        "MiB of memory for 15,000 columns, and may take 4,096 MiB (job_memory_mib): name fewer columns" in view.reason
    )


def test_a_party_refuses_by_name_what_takes_more_memory_than_it_may_with_forecast_and_setting(deployment):
    view = refused(deployment, 2500)
    assert (view.stage, view.culprit, view.code) == ("reservation", "hospital", "job-too-large")
    assert "party hospital refused: inputs: hospital would take about 2," in view.reason
    assert "MiB of memory for 7,500 columns, and may take 1,024 MiB (job_memory_mib): name fewer columns" in view.reason
