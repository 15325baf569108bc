"""`moiety demo pattern-count` and `moiety demo moments`: real services, one command."""

import json
import subprocess
import sys

import numpy as np
import pytest


def demo(folder, *arguments):
    command = [sys.executable, "-m", "cli.main", "demo", *arguments, "--rows", "2000"]
    run = subprocess.run(
        [*command, "--format", "json"], cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.slow
def test_pattern_counts_are_close_to_the_exact_ones_and_far_closer_than_reports(tmp_path):
    outcome = demo(tmp_path, "pattern-count", "--epsilon", "2")
    found, exact = np.array(outcome["counts"]), np.array(outcome["exact"])
    assert len(outcome["patterns"]) == 12
    assert exact.sum() == outcome["n_rows"] == 2000
    assert np.abs(found - exact).max() < 6 * outcome["standard_errors"][0]
    assert outcome["error"]["randomized_response"] > 5 * outcome["error"]["moiety"]
    views = outcome["privacy"]["views"]
    assert views["coordinator"]["epsilon"] < views["coalition"]["epsilon"] <= 2


@pytest.mark.slow
def test_a_moment_is_close_to_the_exact_one_and_owners_learn_what_was_clipped(tmp_path):
    outcome = demo(tmp_path, "moments", "--order", "3")
    found = outcome["moment"]
    assert abs(found["moiety"] - found["exact"]) < 5 * outcome["standard_error"]
    assert outcome["order"] == 3
    assert outcome["clipped_values"]["monitor"] > 0 == outcome["clipped_values"]["carrier"]


@pytest.mark.slow
def test_a_secret_sample_is_reported_over_services_too(tmp_path):
    outcome = demo(tmp_path, "pattern-count", "--method", "subsampled", "--share", "0.1", "--epsilon", "20")
    z = (np.array(outcome["counts"]) - outcome["exact"]) / outcome["standard_errors"]
    assert np.abs(z).max() < 6
    views = outcome["privacy"]["views"]
    assert views["coordinator"]["epsilon"] < views["coalition"]["epsilon"] <= 20
