"""Demos of methods that need more than another word in the job, over services: one command each.

`test_demo` starts the demo's services as a user does, `test_tutorials` and the notebooks too; here they are forked.
"""

import json

import pytest
from forked_services import ForkedDeployment
from typer.testing import CliRunner

import demo.job
from cli.main import app

pytestmark = pytest.mark.slow  # a federation each


@pytest.mark.parametrize(
    ("name", "method", "unit"),
    [
        ("moments", "threshold", "event"),
        ("clustering", "fm-sketch", "record of the joint table, against the coordinator alone"),
        ("matrix-factorization", "sgd-vertical", "rating of an item by a user"),
        ("distribution", "masked", "row of one party's table"),
    ],
)
def test_the_tables_budgets_are_of_the_unit_that_the_method_protects(tmp_path, monkeypatch, name, method, unit):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo.job, "LocalDeployment", ForkedDeployment)
    done = CliRunner().invoke(app, ["demo", name, "--method", method, "--rows", "4000", "--format", "json"])
    assert done.exit_code == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["privacy"]["unit"] == unit
    assert all(score["no_privacy"] is not None for score in outcome["scores"][:1])
    assert (tmp_path / outcome["files"]["plot"]).read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / outcome["files"]["numbers"]).read_text())["demo"] == outcome
