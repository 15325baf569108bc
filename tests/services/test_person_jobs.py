"""Jobs that protect persons over real services: separate processes, mutual TLS on loopback."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from federation import BOUNDS, Analyst, all_text, memory_table, pca_job, random_values, result_of
from forked_services import ForkedDeployment
from typer.testing import CliRunner

from analyses.job.job import Job
from analyses.pca import protocol as pca
from cli.main import app
from demo.local_deployment import LocalTable

PARTIES = ("bank", "hospital", "telco")
N_PERSONS, MOST = 80, 2
ROWS_OF = 1 + np.arange(N_PERSONS) % 5
ORDER = np.random.default_rng(7).permutation(np.repeat(np.arange(N_PERSONS), ROWS_OF))
OF_PERSON = {name: random_values((N_PERSONS, 2), seed) for seed, name in enumerate(PARTIES)}
N_SURPLUS = int(np.maximum(ROWS_OF - MOST, 0).sum())
THAT_COUNT = np.repeat(np.arange(N_PERSONS), np.minimum(ROWS_OF, MOST))


def write(path, values, order, **of_table) -> LocalTable:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "x0", "person", "x1"])
        for row, person in enumerate(order):
            x0, x1 = values[ORDER[row]].tolist()
            writer.writerow([f"row-{row}", x0, f"nr {person}", x1])
    bounds = dict.fromkeys(("x0", "x1"), BOUNDS)
    given = {"person_column": "person", "most_rows_per_person": MOST, "unit": "person", **of_table}
    return LocalTable("people", path, bounds, (2, 1000), "id", **given)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = {}
    for name in PARTIES:
        people = write(folder / f"{name}.csv", OF_PERSON[name], ORDER)
        by_record = replace(people, name="by-record", unit="record of the joint table")
        silent = replace(by_record, name="silent", person_column=None, most_rows_per_person=None)
        more = replace(people, name="more", most_rows_per_person=MOST + (name == "telco"))
        swapped = ORDER.copy()
        if name == "telco":
            other = int(np.flatnonzero(ORDER[0] != ORDER)[0])
            swapped[[0, other]] = swapped[[other, 0]]
        others = replace(write(folder / f"{name}-others.csv", OF_PERSON[name], swapped), name="others")
        tables[name] = [people, by_record, silent, more, others]
    (folder / "run").mkdir()
    with ForkedDeployment(folder / "run", tables, budget=(1e7, 1e-6)) as running:
        yield running


@pytest.fixture(scope="module")
def analyst(deployment):
    return Analyst(deployment)


def inputs(table):
    return [{"party": p, "table": table} for p in PARTIES]


def pca_of(table, unit="person"):
    parameters = {"components": 2, "gamma": 1024, "max_rows": 1000, "unit": unit}
    return pca_job(PARTIES, inputs=inputs(table), parameters=parameters, privacy={"epsilon": 1e5, "delta": 1e-6})


def sum_of(table, unit="person", **changes):
    parameters = {"max_rows": 1000, "units": 1000, "unit": unit}
    fields = {"analysis": "secure-mean", "inputs": inputs(table), "parameters": parameters}
    return Job.model_validate({**fields, "privacy": {"epsilon": 1e5, "delta": 1e-6}, **changes})


def told(deployment, party, *arguments):
    return CliRunner().invoke(app, [*arguments, "--config", str(deployment.config_path(party))]).stdout


def check_charged(deployment, job_id, result):
    """Ledger and reports of every owner say whom the job protects, and what it cost."""
    assert result["privacy"]["unit"] == "person"
    for party in PARTIES:
        local = deployment.report(party, job_id)
        assert local["surplus_rows"] == N_SURPLUS
        assert local["privacy"]["unit"] == local["budget"]["unit"] == "person"
        shown = json.loads(told(deployment, party, "budget", "show", "--format", "json"))["budgets"]
        spent = {balance["dataset"]: balance for balance in shown}["people"]
        assert spent["unit"] == "person"
        assert spent["spent_epsilon"] >= result["privacy"]["views"]["coalition"]["epsilon"]
        assert "Protected: one person." in told(deployment, party, "party", "report", job_id)
    assert str(N_SURPLUS) not in re.findall(r"[^,:\[\] ]+", json.dumps(result))


def test_principal_components_are_those_of_the_rows_that_count(analyst, deployment):
    view = analyst.run(pca_of("people"))
    result = result_of(view)
    tables = [memory_table(p, OF_PERSON[p][THAT_COUNT]) for p in PARTIES]
    plan = pca.plan(pca_of("people", "record"), [t.schema for t in tables])
    values, _ = pca.leading_components(pca.reference(tables, plan), 2)
    assert result["eigenvalues"][:2] == pytest.approx(values[:2], rel=0.02)
    check_charged(deployment, view.job_id, result)


def test_a_mean_is_that_of_the_rows_that_count(analyst, deployment):
    view = analyst.run(sum_of("people"))
    result = result_of(view)
    everything = np.vstack([OF_PERSON[p][THAT_COUNT] for p in PARTIES])
    assert result["total_weight"] == pytest.approx(len(everything), abs=2)
    assert result["mean"] == pytest.approx(everything.mean(axis=0), abs=0.02)
    check_charged(deployment, view.job_id, result)


def test_of_a_persons_rows_at_each_party_a_budget_of_its_own_unit_is_needed(analyst):
    view = analyst.run(sum_of("people", "person-at-party"))
    assert view.state == "FAILED"
    assert "person in one party's table" in view.reason


@pytest.mark.parametrize("job_of", [pca_of, sum_of])
@pytest.mark.parametrize(("table", "unit"), [("people", "record"), ("by-record", "person")])
def test_a_budget_of_another_unit_refuses(analyst, job_of, table, unit):
    view = analyst.run(job_of(table, unit))
    assert (view.state, view.result_json) == ("FAILED", "")
    assert "person" in view.reason
    assert "record of the joint table" in view.reason


def test_a_budget_per_record_allows_jobs_about_records_of_a_table_that_names_persons(analyst):
    assert result_of(analyst.run(pca_of("by-record", "record")))["privacy"]["unit"] == "record of the joint table"


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (pca_of("silent"), "the table of bank has no person_column and no most_rows_per_person"),
        (sum_of("silent"), "the table of bank has no person_column and no most_rows_per_person"),
        (pca_of("more"), "the table of bank counts at most 2 rows of one person and the table of telco at most 3"),
        (pca_of("others"), "the tables of telco and bank do not hold the same rows in the same order"),
    ],
    ids=["no persons", "no persons in a sum", "unequal numbers", "unequal persons"],
)
def test_what_cannot_protect_persons_is_refused_by_name(analyst, job, why):
    view = analyst.run(job)
    assert (view.state, view.result_json) == ("FAILED", "")
    assert why in view.reason


def test_nothing_that_the_services_log_names_a_person_or_how_many_rows_count(analyst, deployment):
    result_of(analyst.run(pca_of("people")))
    text = all_text(deployment)
    assert '"job"' in text
    assert "nr 1" not in text
    assert "surplus" not in text
