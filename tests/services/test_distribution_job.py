"""A distribution as a job over real services: separate processes, mutual TLS, by responses and by a masked sum."""

import json
import signal
from dataclasses import replace

import numpy as np
import pytest
from federation import BOUNDS, Analyst, all_text, random_values, result_of, tables_of
from forked_services import ForkedDeployment
from typer.testing import CliRunner

from analyses.distribution.estimates.metrics import wasserstein
from analyses.job.job import Job
from cli.main import app
from dp.cost.views import ROW_UNIT

PARTIES = ("bank", "clinic", "hospital", "telco")
ROWS = 317
N_OUTSIDE = 5
VALUES = {name: random_values((ROWS, 3), seed) for seed, name in enumerate(PARTIES)}
for _values in VALUES.values():
    _values[:, 1] = BOUNDS[0] + (_values[:, 1] - BOUNDS[0]) ** 2 / 4  # most of them near the lower end
    _values[:, 0] = np.clip(_values[:, 0], *BOUNDS)
    _values[:N_OUTSIDE, 0] = BOUNDS[1] + 50.0
EPSILON = 4.0
BUDGET = (100.0, 1e-6)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    tables = {name: [replace(t, unit=ROW_UNIT) for t in found] for name, found in tables_of(VALUES, folder).items()}
    with ForkedDeployment(folder / "run", tables, budget=BUDGET) as running:
        yield running


@pytest.fixture(scope="module")
def analyst(deployment):
    return Analyst(deployment)


def job_of(method, epsilon=EPSILON, **changes):
    fields = {
        "analysis": "distribution",
        "inputs": [{"party": p, "table": "people", "columns": ["x0"]} for p in PARTIES],
        "colluding": 1,
        "deadline_s": 240.0,
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "parameters": {"buckets": 16, "method": method, "smoothing": 3, "range": list(BOUNDS)},
    }
    return Job.model_validate({**fields, **changes})


def share_of(names):
    values = np.concatenate([np.clip(VALUES[name][:, 0], *BOUNDS) for name in names])
    return np.histogram(values, np.linspace(*BOUNDS, 17))[0] / len(values)


def spent(deployment, party):
    command = ["budget", "show", "--format", "json", "--config", str(deployment.config_path(party))]
    return json.loads(CliRunner().invoke(app, command).stdout)["budgets"][0]["spent_epsilon"]


@pytest.mark.parametrize(("method", "error"), [pytest.param("wave", 0.1, marks=pytest.mark.slow), ("masked", 0.01)])
def test_rows_of_four_parties_come_to_their_distribution_and_every_owner_is_charged(analyst, deployment, method, error):
    before = {party: spent(deployment, party) for party in PARTIES}
    view = analyst.run(job_of(method))
    result = result_of(view)
    assert wasserstein(np.array(result["probabilities"]), share_of(PARTIES)) < error
    assert result["privacy"]["unit"] == ROW_UNIT
    for party in PARTIES:
        report = deployment.report(party, view.job_id)
        assert report["clipped_values"] == {"x0": N_OUTSIDE}  # which nobody else hears
        assert report["privacy"]["views"] == result["privacy"]["views"]
        assert 0 < spent(deployment, party) - before[party] <= EPSILON + 1e-6
    assert "clipped_values" not in view.result_json


BOTH = ["x0", "x1"]
RECTANGLES = [[-1.0, 1.0, 1.0, 3.0], [-0.5, 2.2, 0.0, 1.5]]
"""The first has whole cells of those of `grid_job`, the second cuts some."""


def grid_job(columns=None, **parameters):
    """A job about two numbers; `columns` are those of a party that differ."""
    inputs = [{"party": p, "table": "people", "columns": (columns or {}).get(p, BOTH)} for p in PARTIES]
    asked = {"method": "grid", "cells": [4, 4], "rectangles": RECTANGLES, **parameters}
    return job_of("grid", inputs=inputs, parameters=asked)


def test_two_numbers_of_rows_of_four_parties_come_to_shares_of_cells_and_rectangles(analyst, deployment):
    """At epsilon 4 and 1,268 rows a share of a cell has a standard error of .012, without the slots that are empty."""
    before = {party: spent(deployment, party) for party in PARTIES}
    view = analyst.run(grid_job())
    result = result_of(view)
    values = np.concatenate([np.clip(VALUES[name], *BOUNDS) for name in PARTIES])
    edges = np.linspace(*BOUNDS, 5)
    exact = np.histogram2d(*values[:, :2].T, bins=(edges, edges))[0] / len(values)
    cells = np.array(result["grid"]["cells"])
    assert np.abs(cells[..., 0] - exact).max() < 0.08
    assert np.mean((cells[..., 1] <= exact) & (exact <= cells[..., 2])) > 0.6
    for *ends, share, error, lower, upper in result["grid"]["rectangles"]:
        a, b, c, d = ends
        inside = (a <= values[:, 0]) & (values[:, 0] < b) & (c <= values[:, 1]) & (values[:, 1] < d)
        assert lower <= share <= upper
        assert abs(share - inside.mean()) < 5 * error
    for party in PARTIES:
        report = deployment.report(party, view.job_id)
        assert report["clipped_values"] == {"x0": N_OUTSIDE, "x1": 0}
        assert 0 < spent(deployment, party) - before[party] <= EPSILON + 1e-6


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (grid_job({"clinic": ["x0"]}), "inputs: clinic must bring exactly 2 columns; name them in `columns`"),
        (grid_job({"bank": ["x0"], "clinic": ["x1"]}), "inputs: bank must bring exactly 2 columns"),
        (grid_job({"clinic": ["x1", "x0"]}), "inputs: clinic names x1 and x0, bank the same in another order"),
        (grid_job({name: ["x0", "x1", "x2"] for name in PARTIES}), "inputs: bank must bring exactly 2 columns"),
        (grid_job(cells=[64, 64]), "parameters.cells: 64 x 64 cells are not 2 to 1024"),
        (grid_job(second=[3.0, 3.0]), "parameters.second: the lower end must be below the upper one"),
        (grid_job(rectangles=[[-1.0, 4.0, 0.0, 1.0]]), "parameters.rectangles: -1 to 4 is no range within -1 to 3"),
        (job_of("grid"), "inputs: bank must bring exactly 2 columns"),
    ],
    ids=["one column", "a column each", "another order", "three", "cells", "no range", "rectangle", "nobody has two"],
)
def test_a_job_about_two_numbers_that_cannot_be_met_fails_before_anything_is_spent(analyst, deployment, job, words):
    before = {party: spent(deployment, party) for party in PARTIES}
    view = analyst.run(job)
    assert (view.state, words in view.reason) == ("FAILED", True), view.reason
    assert {party: spent(deployment, party) for party in PARTIES} == before


def test_a_party_that_is_lost_in_the_masked_sum_is_missed_and_the_others_are_counted(analyst, deployment):
    struck = []

    def strike(event):
        if (event.member, event.stage) == ("coordinator", "advertise keys") and not struck:  # it has heard all
            deployment.send_signal("clinic", signal.SIGKILL)
            struck.append(event.stage)

    try:
        result = result_of(analyst.run(job_of("masked"), on_event=strike))
    finally:
        deployment.start("clinic")
        deployment.wait_until_ready("clinic")
    assert struck
    survivors = set(result["survivors"])
    assert set(PARTIES) - survivors <= {"clinic"}
    assert wasserstein(np.array(result["probabilities"]), share_of(result["survivors"])) < 0.01


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": {"range": [5.0, 5.0]}}, "parameters.range: the lower end must be below the upper one"),
        ({"privacy": {"epsilon": 2.0**-11, "delta": 1e-6}}, "the epsilon of a response must be in 2^-10..16"),
        ({"privacy": {"epsilon": 17.0, "delta": 1e-6}}, "the epsilon of a response must be in 2^-10..16"),
    ],
)
def test_a_job_that_cannot_be_met_fails_and_says_which_field(analyst, deployment, changes, words):
    before = {party: spent(deployment, party) for party in PARTIES}
    view = analyst.run(job_of("wave", **changes))
    assert view.state == "FAILED"
    assert words in view.reason
    assert {party: spent(deployment, party) for party in PARTIES} == before


def test_nothing_that_the_services_log_shows_a_count_or_a_value(deployment, analyst):
    result_of(analyst.run(job_of("wave")))
    words = [word for line in all_text(deployment).splitlines() for word in line.replace(",", " ").split()]
    assert not {str(ROWS), str(BOUNDS[1] + 50.0)} & set(words)
