"""What the privacy of a PCA costs in variance captured, on the demo's real data."""

from pathlib import Path

import pytest

from analyses.job.job import Job
from bench.datasets.tables import kdd_tables
from bench.utility.pca_utility import EXAMPLE, measure


@pytest.mark.slow
def test_at_epsilon_1_the_components_capture_within_1_percent_of_central_dp_and_more_than_local_noise(tmp_path: Path):
    tables = [table for _, table in kdd_tables(tmp_path)]
    report = measure(Job.from_toml(EXAMPLE.read_text()), tables, delta=1e-5, epsilons=[1.0], runs=10, seed=0)
    (row,) = report["epsilons"]
    assert row["ours"] > 0.99 * row["central"]
    assert row["ours"] > 0.9 * report["exact"]
    assert row["local_noise"] < 0.5 * row["ours"]
