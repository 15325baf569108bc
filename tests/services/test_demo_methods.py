"""Demos of methods that need more than another word in the job, over services: one command each."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # each starts a federation


@pytest.mark.parametrize(
    ("name", "method", "unit"),
    [
        ("moments", "threshold", "event"),
        ("clustering", "fm-sketch", "record of the joint table, against the coordinator alone"),
        ("matrix-factorization", "sgd-vertical", "rating of an item by a user"),
        ("distribution", "masked", "row of one party's table"),
    ],
)
def test_the_tables_budgets_are_of_the_unit_that_the_method_protects(tmp_path, name, method, unit):
    command = [sys.executable, "-m", "cli.main", "demo", name, "--method", method, "--rows", "4000", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["privacy"]["unit"] == unit
    assert all(score["no_privacy"] is not None for score in outcome["scores"][:1])
    assert (tmp_path / outcome["files"]["plot"]).read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / outcome["files"]["numbers"]).read_text())["demo"] == outcome
