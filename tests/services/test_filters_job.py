"""Filters over real services: a sum over the rows that pass, and nobody but the owner sees how many do."""

import json
import re

import numpy as np
import polars as pl
import pytest
from commands import moiety as run_command
from federation import Analyst
from forked_services import ForkedDeployment

from analyses.job.job import Job
from demo.local_deployment import LocalTable

N_ROWS = 1237
FILTERS = """
[tables.filters]
adults = { age = { at_least = 18 } }
nobody = { age = { at_least = 101 } }
"""


def frame(seed):
    rng = np.random.default_rng(seed)
    return pl.DataFrame({"age": rng.integers(0, 90, N_ROWS), "stay": rng.random(N_ROWS)})


PARTIES = {"bank": frame(1), "clinic": frame(2), "shop": frame(3)}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filters")
    (folder / "run").mkdir()
    tables = {}
    for party, rows in PARTIES.items():
        rows.write_csv(folder / f"{party}.csv")
        bounds = {"age": (0.0, 100.0), "stay": (0.0, 1.0)}
        sections = FILTERS if party != "shop" else ""
        tables[party] = [LocalTable("people", folder / f"{party}.csv", bounds, (500, 2000), sections=sections)]
    with ForkedDeployment(folder / "run", tables, budget=(1e6, 1e-6)) as running:
        yield running


def job(where):
    inputs = [
        {"party": party, "table": "people", "columns": ["stay"]} | ({"where": where[party]} if party in where else {})
        for party in PARTIES
    ]
    target = {"epsilon": 500.0, "delta": 1e-6}
    return Job.model_validate({"analysis": "secure-sum", "inputs": inputs, "privacy": target})


def test_a_sum_is_over_the_rows_that_pass_and_only_their_owner_reads_how_many(deployment):
    view = Analyst(deployment).run(job({"bank": "adults", "clinic": "nobody"}))
    assert view.state == "DONE", view.reason
    bank = PARTIES["bank"].filter(pl.col("age") >= 18)
    expected = bank["stay"].sum() + PARTIES["shop"]["stay"].sum()
    assert json.loads(view.result_json)["sum"][0] == pytest.approx(expected, abs=5)
    n_out = N_ROWS - bank.height
    assert deployment.report("bank", view.job_id)["filtered_rows"] == n_out
    assert deployment.report("bank", view.job_id)["rows"] == bank.height
    assert deployment.report("clinic", view.job_id)["rows"] == 0
    shown = run_command("party", "report", view.job_id, "--config", str(deployment.config_path("bank"))).stdout
    assert f"rows that the job's filter left out: {n_out}" in shown
    shown = Analyst(deployment).show(view.job_id)
    told = shown.plan_json + shown.result_json + shown.job_json
    for secret in (n_out, bank.height, N_ROWS):
        assert re.findall(rf"(?<![\w.-]){secret}(?![\w.-])", told) == []
    assert "age is at least 18" in told


def test_analysts_see_the_filters_and_other_ones_are_refused(deployment):
    listed = run_command("tables", "--client", str(deployment.client_config)).stdout
    assert "where = 'adults' if age is at least 18" in listed
    for where, words in (
        ({"shop": "adults"}, "has no filter 'adults'"),
        ({"bank": "children"}, "has no filter 'children'; it has adults, nobody"),
    ):
        view = Analyst(deployment).run(job(where))
        assert view.state == "FAILED"
        assert words in view.reason
