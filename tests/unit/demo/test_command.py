"""`moiety demo data`: tables for a deployment of one's own."""

import json

import polars as pl
import pytest
from typer.testing import CliRunner

from cli.main import app


def told(*arguments):
    return CliRunner().invoke(app, ["demo", "data", *arguments])


@pytest.mark.parametrize(
    ("options", "parties", "column"),
    [
        ((), {"carrier", "host", "monitor"}, "connection_id"),
        (("--table", "evaluations"), {"east", "north", "west"}, "lecturer"),
        (("--table", "lectures"), {"chemistry", "mathematics", "physics"}, "lecturer"),
    ],
)
def test_the_tables_of_an_example_are_written_one_per_party(tmp_path, options, parties, column):
    said = told("--out", str(tmp_path), "--rows", "1000", "--format", "json", *options)
    assert said.exit_code == 0, said.output
    written = json.loads(said.stdout)["tables"]
    assert set(written) == parties
    assert all(column in pl.read_parquet(path).columns for path in written.values())


def test_a_table_that_no_example_asks_for_is_refused_with_those_that_there_are(tmp_path):
    said = told("--out", str(tmp_path), "--table", "films")
    assert said.exit_code == 2
    assert "connections" in said.output
    assert "evaluations" in said.output
    assert list(tmp_path.iterdir()) == []
