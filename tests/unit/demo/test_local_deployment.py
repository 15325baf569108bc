import pytest

from demo.local_deployment import LocalDeployment, LocalTable, largest_delta
from party.config import load_party_config


@pytest.mark.parametrize(("rows", "delta"), [(1000, 1e-6), (500_000, 1e-6), (1_000_000, 5e-7), (10_000_000, 5e-8)])
def test_a_table_of_many_rows_has_a_delta_that_its_owner_may_state(tmp_path, rows, delta):
    path = tmp_path / "rows.parquet"
    table = LocalTable("rows", path, {"x": (0.0, 1.0)}, (rows, rows))
    folder = tmp_path / "run"
    folder.mkdir()
    deployment = LocalDeployment(folder, {"bank": [table], "hospital": [], "telco": []})
    deployment.write_files()
    (read,) = load_party_config(folder / "bank.toml", {}).tables
    assert read.first_budget.delta == pytest.approx(delta)
    assert read.first_budget.delta < 1 / rows
    assert largest_delta(rows) < 1 / rows
