"""An analyst who chooses the next job by what the last one showed, and parties that keep the budget all the same."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from federation import Analyst, result_of
from forked_services import ForkedDeployment
from typer.testing import CliRunner

from analyses.job.job import Job
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.registry import analysis_of
from cli.main import app
from demo.local_deployment import LocalTable
from dp.cost.accounting import epsilon_of_rdp
from dp.cost.events.record import event_from, rdp_of
from dp.cost.renyi_filter import RenyiFilter

PARTIES = ("bank", "hospital", "telco")
EPSILON, DELTA = 1.0, 1e-6
ROWS = (100, 5000)
N_ROWS, N_ONES = 2000, 1500


def table_in(folder: Path, party: str) -> LocalTable:
    path = folder / f"{party}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "code"])
        writer.writerows([f"row-{i}", int(i < N_ONES)] for i in range(N_ROWS))
    return LocalTable("people", path, {"code": (0.0, 1.0)}, ROWS, id_column="id")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    tables = {party: [table_in(folder, party)] for party in PARTIES}
    with ForkedDeployment(folder / "run", tables, budget=(EPSILON, DELTA)) as running:
        yield running


GRAM = {"analysis": "pca", "parameters": {"components": 1, "center": False, "gamma": 256, "max_rows": ROWS[1]}}
SUM = {"analysis": "moments", "parameters": {"method": "laplace", "order": 1, "max_rows": ROWS[1]}}


def job_of(what: dict, epsilon: float) -> Job:
    """A Gram matrix with Skellam noise, nearly Gaussian; or a sum with Laplace noise, whose loss is bounded."""
    fields = {
        "inputs": [{"party": p, "table": "people"} for p in PARTIES],
        "privacy": {"epsilon": epsilon, "delta": DELTA},
    }
    return Job.model_validate({**what, **fields})


def plan_of(job: Job) -> Plan:
    columns = (ColumnSchema(name="code", lower=0.0, upper=1.0),)
    schemas = [BlockSchema(party=p, columns=columns, has_ids=True, rows=ROWS) for p in PARTIES]
    return analysis_of(job).plan(job, schemas)


FIRST = job_of(GRAM, 0.3)
EIGENVALUE = len(PARTIES) * N_ONES
"""The largest one of the exact matrix: all parties have the same column of zeros and ones."""


def second_that_only_another_order_admits() -> Job:
    """The most that the rule before this one let follow: some Renyi order, whichever, within the budget."""
    spent, low, high = plan_of(FIRST).cost().curve, 0.1, EPSILON
    for _ in range(14):
        middle = (low + high) / 2
        curve = spent + plan_of(job_of(SUM, middle)).cost().curve
        low, high = (middle, high) if epsilon_of_rdp(curve, 9, DELTA).epsilon <= EPSILON else (low, middle)
    return job_of(SUM, low)


def moiety(deployment: ForkedDeployment, party: str, *arguments: str):
    return CliRunner().invoke(app, [*arguments, "--config", str(deployment.config_path(party))])


def begin(deployment: ForkedDeployment, period: str) -> None:
    for party in PARTIES:
        arguments = ["--epsilon", str(EPSILON), "--delta", str(DELTA), "--period", period, "--reason", "test"]
        assert moiety(deployment, party, "budget", "set", "people", *arguments).exit_code == 0


def curve_in(deployment: ForkedDeployment, party: str, period: str) -> tuple[np.ndarray, int]:
    """What a ledger says was opened in a period, summed up here from the events that it holds, view by view."""
    history = json.loads(moiety(deployment, party, "budget", "history", "--format", "json").stdout)
    begun = next(e["sequence"] for e in history if e["kind"] == "budget" and e["budget"]["period"] == period)
    here = [entry for entry in history if entry["sequence"] > begun]
    committed = {entry["job_id"] for entry in here if entry["kind"] == "committed"}
    jobs = [entry["events"] for entry in here if entry["kind"] == "reserved" and entry["job_id"] in committed]
    curves = [sum(rdp_of(event_from(event)) for job in jobs for event in job[view]) for view in jobs[0]]
    return np.maximum.reduce(curves), sum(len(job["coalition"]) for job in jobs)


@pytest.mark.parametrize(("threshold", "follows"), [(EIGENVALUE // 2, "pca"), (2 * EIGENVALUE, "moments")])
def test_what_follows_is_admitted_by_orders_that_were_fixed_before_anything_was_seen(deployment, threshold, follows):
    analyst, period = Analyst(deployment), f"threshold {threshold}"
    begin(deployment, period)
    other = second_that_only_another_order_admits()
    eigenvalues = result_of(analyst.run(FIRST))["eigenvalues"]
    chosen = FIRST if eigenvalues[0] > threshold else other
    assert chosen.analysis == follows
    view = analyst.run(chosen)
    if follows == "pca":
        result_of(view)
    else:
        assert (view.state, view.stage, view.result_json) == ("FAILED", "reservation", "")
        assert "does not cover this job" in view.reason
        assert "as a job may be chosen by the results of others" in view.reason
        smaller = other.model_copy(update={"target": other.privacy.model_copy(update={"epsilon": 0.2})})
        result_of(analyst.run(smaller))
    for party in PARTIES:
        curve, n_events = curve_in(deployment, party, period)
        assert n_events >= 2
        assert RenyiFilter.of_budget(EPSILON, DELTA).covers(curve, n_events)
