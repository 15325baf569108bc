"""`moiety demo matrix-factorization` as a user runs it: one command, real services, some of the ratings."""

import json
import subprocess
import sys

import pytest
from matplotlib.image import imread

pytestmark = pytest.mark.slow  # starts a federation, of which the tests of other demos are the quick ones


def test_the_demo_shows_errors_over_epsilon_beside_parties_alone_no_noise_and_the_papers_form(tmp_path):
    command = [sys.executable, "-m", "cli.main", "demo", "matrix-factorization", "--rows", "4000", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["n_ratings"] + outcome["n_held_out"] == 4000
    assert list(outcome["job_ids"]) == ["8", "4", "1"]
    assert len(set(outcome["job_ids"].values())) == 3
    for errors in outcome["errors"].values():
        assert list(errors) == list(outcome["job_ids"])
        assert all(0.5 < error < 8 for error in errors.values())
    own, without = outcome["errors"]["at each party"], outcome["without_noise"]
    assert without["no noise"] < 1.1 * min(own.values())
    assert without["all ratings in one place"] < 1.05 * without["each party alone"]
    assert outcome["errors"]["paper's form"]["1"] > own["1"]
    assert outcome["privacy"]["views"]["coalition"]["epsilon"] <= 4
    assert imread(tmp_path / "demo-results" / "matrix-factorization.png").shape[0] > 500
    kept = json.loads((tmp_path / "demo-results" / "matrix-factorization.json").read_text())
    assert kept == outcome
