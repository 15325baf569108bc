"""`moiety demo logistic-regression`: real services learn from one release, one command."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_demo_beats_local_noise_and_states_both_views_and_the_ledgers_charge(tmp_path):
    command = [sys.executable, "-m", "cli.main", "demo", "logistic-regression", "--rows", "6000"]
    run = subprocess.run(
        [*command, "--epsilon", "2", "--format", "json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    outcome = json.loads(run.stdout)
    assert (outcome["n_rows"], len(outcome["weights"])) == (6000, 52)
    found = outcome["accuracy"]
    assert found["moiety"] > 0.95 > 0.92 > found["local_noise"]
    assert found["exact"] > found["more_frequent_label"]
    views = outcome["privacy"]["views"]
    assert views["coordinator"]["epsilon"] < views["coalition"]["epsilon"] <= 2
    assert views["coalition"]["adjacency"] == "replace_one"
    assert "OPENING" in run.stderr
