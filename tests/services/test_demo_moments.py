"""`moiety demo low-rank` and `least-squares` as a user runs them: one command, real services."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # each starts a federation


def demo(*arguments, cwd):
    command = [sys.executable, "-m", "cli.main", "demo", *arguments, "--rows", "4000", "--format", "json"]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_low_rank_loses_hardly_more_than_the_exact_approximation(tmp_path):
    outcome = demo("low-rank", "--epsilon", "20", cwd=tmp_path)
    assert (outcome["n_rows"], outcome["n_columns"], outcome["rank"], outcome["method"]) == (4000, 118, 5, "mpc")
    lost = outcome["residual"]
    assert lost["exact"] < lost["moiety"] < 1.05 * lost["exact"]
    assert outcome["privacy"]["views"]["coordinator"]["epsilon"] < 20
    assert all(n > 0 for n in outcome["bytes_sent"].values())


def test_least_squares_explains_the_label_from_columns_of_three_parties(tmp_path):
    outcome = demo("least-squares", "--epsilon", "20", cwd=tmp_path)
    assert outcome["label"] == "monitor.count"
    assert len(outcome["coefficients"]) == 37
    explained = outcome["r_squared"]
    assert 0.5 < explained["moiety"] < explained["exact"]


def test_the_form_of_the_paper_says_when_its_noise_leaves_no_answer(tmp_path):
    outcome = demo("least-squares", "--epsilon", "1", "--method", "sketch", cwd=tmp_path)
    assert outcome["coefficients"] is None
    assert outcome["note"].startswith(("too few rows", "singular"))
