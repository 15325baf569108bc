"""`moiety demo clustering` as a user runs it: one command, real services."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow  # starts a federation
def test_the_demo_finds_clusters_nearly_as_good_as_those_of_the_grid_without_privacy(tmp_path):
    command = [sys.executable, "-m", "cli.main", "demo", "clustering", "--rows", "8000", "--epsilon", "8"]
    done = subprocess.run(
        [*command, "--format", "json"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert (outcome["n_rows"], outcome["n_columns"], outcome["k"], outcome["counting"]) == (8000, 18, 5, "mpc")
    assert outcome["loss"]["moiety"] < 1.25 * outcome["loss"]["grid"]
    assert outcome["privacy"]["views"]["coordinator"]["epsilon"] < 8
    assert all(n > 0 for n in outcome["bytes_sent"].values())
