"""Low-rank approximation and least squares over real services: separate processes, mutual TLS on loopback."""

import json

import numpy as np
import pytest
from federation import BOUNDS, Analyst, all_text, memory_table, random_values, result_of, tables_of
from forked_services import ForkedDeployment
from typer.testing import CliRunner

from analyses.job.job import Job
from analyses.least_squares import protocol as least_squares
from analyses.low_rank import protocol as low_rank
from cli.main import app

PARTIES = ("bank", "hospital", "telco")
METHODS = {"mpc": {}, "sketch": {"method": "sketch", "sketch_entries": "signs", "sketch_rows": 1024}}


def values():
    """The bank's x0 is a line in the others' columns."""
    blocks = {"hospital": random_values((400, 2), 1), "telco": random_values((400, 1), 2)}
    line = 0.5 + 0.4 * blocks["hospital"][:, 0] - 0.3 * blocks["telco"][:, 0]
    return {"bank": line.clip(*BOUNDS)[:, None].round(6), **blocks}


VALUES = values()


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of(VALUES, folder)
    (folder / "run").mkdir()
    with ForkedDeployment(folder / "run", tables, budget=(1e7, 1e-6)) as running:
        yield running


def job_of(analysis, parameters, epsilon=5e4):
    fields = {
        "analysis": analysis,
        "inputs": [{"party": p, "table": "people"} for p in PARTIES],
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "parameters": {"gamma": 1 << 16, "max_rows": 1000, **parameters},
    }
    return Job.model_validate(fields)


def reference_of(module, job):
    tables = [memory_table(p, VALUES[p]) for p in PARTIES]
    return module.reference(tables, module.plan(job, [t.schema for t in tables]))


@pytest.mark.parametrize("method", METHODS)
def test_least_squares_over_services_agrees_with_the_reference(deployment, method):
    job = job_of("least-squares", {"label": "bank.x0", **METHODS[method]})
    view = Analyst(deployment).run(job)
    result = result_of(view)
    line = reference_of(least_squares, job)
    assert [*result["coefficients"], result["intercept"]] == pytest.approx(
        [*line.coefficients, line.intercept], abs=0.1
    )
    assert deployment.report("bank", view.job_id)["budget"] is not None


@pytest.mark.parametrize("method", METHODS)
def test_low_rank_over_services_agrees_with_the_reference(deployment, method):
    job = job_of("low-rank", {"rank": 1, **METHODS[method]})
    result = result_of(Analyst(deployment).run(job))
    assert abs(float(np.dot(result["components"][0], reference_of(low_rank, job)[0]))) > 0.99


def spent(deployment, party):
    config = str(deployment.folder / f"{party}.toml")
    shown = CliRunner().invoke(app, ["budget", "show", "--format", "json", "--config", config])
    return json.loads(shown.stdout)["budgets"][0]["spent_epsilon"]


def test_the_form_of_the_paper_is_charged_at_every_party_for_the_record_in_all_blocks(deployment):
    before = {p: spent(deployment, p) for p in PARTIES}
    job = job_of("low-rank", {"rank": 1, **METHODS["sketch"]}, epsilon=100.0)
    result_of(Analyst(deployment).run(job))
    for party in PARTIES:
        assert spent(deployment, party) > before[party]


def test_a_job_without_its_label_party_is_refused_and_nothing_is_spent(deployment):
    before = [spent(deployment, p) for p in PARTIES]
    view = Analyst(deployment).run(job_of("least-squares", {"label": "school.x0"}))
    assert view.state == "FAILED"
    assert "parameters.label: party 'school' of the label is not among the inputs of this job" in view.reason
    assert "Traceback" not in all_text(deployment)
    assert before == [spent(deployment, p) for p in PARTIES]
