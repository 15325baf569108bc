"""`moiety demo matching`: three forms of tables, both kinds of matching, one command."""

import json
import subprocess
import sys
from contextlib import ExitStack

import polars as pl
import pytest

from demo.data_sets import customers
from demo.data_sets.customers import PARTIES, write_customers
from demo.throwaway_postgres import NoPostgresError


@pytest.mark.slow
def test_the_demo_finds_with_both_kinds_about_what_the_pooled_tables_say(tmp_path):
    command = [sys.executable, "-m", "cli.main", "demo", "matching", "--customers", "1500", "--epsilon", "50"]
    run = subprocess.run(
        [*command, "--format", "json"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert run.returncode == 0, run.stderr
    outcome = json.loads(run.stdout)
    assert (outcome["n_common"], outcome["n_customers"]) == (1000, dict.fromkeys(PARTIES, 1500))
    right, always = outcome["runs"]["revealed"]["scores"]
    assert right["no_privacy"] > always["no_privacy"] + 0.1
    for kind, matched in (("revealed", 1000), ("secret", None)):
        found = outcome["runs"][kind]
        assert found["scores"][0]["moiety"] > right["no_privacy"] - 0.05
        assert found["matched_rows"] == dict.fromkeys(PARTIES, matched)
        assert found["privacy"]["matching"]["kind"] == kind


def test_where_no_server_is_installed_the_shop_has_an_arrow_file_and_says_so(monkeypatch, tmp_path):
    def nothing(rules=""):
        raise NoPostgresError("there is no initdb")

    monkeypatch.setattr(customers, "throwaway_cluster", nothing)
    data = write_customers(ExitStack(), tmp_path, 300)
    assert data.sources["shop"].startswith("Arrow, as there is no PostgreSQL here (there is no initdb)")
    rows = pl.read_ipc(tmp_path / "shop.arrow")
    assert (rows.height, rows["number"].n_unique()) == (450, 300)
    assert data.n_common == 200
