"""Tables with kinds and gaps over real services: what is encoded, what is refused, and who is told of it."""

import json
from collections import Counter
from itertools import product

import numpy as np
import polars as pl
import pytest
from commands import moiety as run_command
from federation import Analyst, all_text
from forked_services import ForkedDeployment

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, Table
from analyses.registry import analysis_of
from analyst.client import result_of as result_of_view
from cli.terminal.result import lines_of
from demo.local_deployment import LocalTable
from party.config import load_party_config
from party.tables.table import describe_table

N_ROWS = 300
ROWS = (100, 1000)

KINDS = {
    "bank": """
[tables.columns]
region = { kind = "category", values = ["north", "south", "west"], others = "other" }
income = { kind = "number", bounds = [0, 100], missing = "column", gaps = ["n/a"] }
""",
    "clinic": """
[tables.columns]
smoker = { kind = "yes/no", missing = { value = "no" } }
seen = { kind = "date", bounds = [2020-01-01, 2020-12-31] }
""",
    "shop": """
[tables.columns]
loyal = { kind = "ordinal", values = ["never", "sometimes", "always"], missing = "column" }
""",
}


def frames(seed=5):
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "south", "west", "abroad"], N_ROWS)
    income = np.where(region == "north", 70.0, 30.0) + rng.normal(0, 5, N_ROWS)
    smoker = rng.random(N_ROWS) < 0.4
    days = rng.integers(0, 365, N_ROWS)
    loyal = np.array(["never", "sometimes", "always"])[np.clip(income // 33, 0, 2).astype(int)]
    ids = [f"row-{i}" for i in range(N_ROWS)]
    gap = rng.random((3, N_ROWS)) < 0.1
    seen = pl.Series(days).cast(pl.Int32) + 18262  # days from 1970 to 2020
    return {
        "bank": pl.DataFrame(
            {"id": ids, "region": region, "income": np.where(gap[0], "n/a", np.char.mod("%.3f", income))}
        ),
        "clinic": pl.DataFrame(
            {"id": ids, "smoker": [None if g else bool(s) for s, g in zip(smoker, gap[1], strict=True)], "seen": seen}
        ).with_columns(pl.col("seen").cast(pl.Date)),
        "shop": pl.DataFrame({"id": ids, "loyal": [None if g else str(v) for v, g in zip(loyal, gap[2], strict=True)]}),
    }


def write(folder, tables):
    for party, frame in tables.items():
        frame.write_parquet(folder / f"{party}.parquet") if party == "clinic" else frame.write_csv(
            folder / f"{party}.csv"
        )


def local_tables(folder):
    return {
        party: [
            LocalTable(
                "people",
                folder / (f"{party}.parquet" if party == "clinic" else f"{party}.csv"),
                {},
                ROWS,
                id_column="id",
                sections=sections,
            )
        ]
        for party, sections in KINDS.items()
    }


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    write(folder, frames())
    (folder / "run").mkdir()
    with ForkedDeployment(folder / "run", local_tables(folder), budget=(1e6, 1e-6)) as running:
        yield running


def job(analysis, columns=None, **parameters):
    inputs = [{"party": party, "table": "people", "columns": (columns or {}).get(party, [])} for party in KINDS]
    target = {"epsilon": 5000.0, "delta": 1e-6}
    return Job.model_validate({"analysis": analysis, "inputs": inputs, "privacy": target, "parameters": parameters})


def by_hand():
    """The encoded columns of the pooled table, written down without the encoder."""
    bank, clinic, shop = frames().values()
    region, income = bank["region"].to_list(), bank["income"].to_list()
    loyal = shop["loyal"].to_list()
    places = {"never": 0, "sometimes": 1, "always": 2}
    return {
        "bank": {
            **{f"region={name}": [float(one == name) for one in region] for name in ("north", "south", "west")},
            "region=other": [float(one == "abroad") for one in region],
            "income": [0.0 if one == "n/a" else float(one) for one in income],
            "income=missing": [float(one == "n/a") for one in income],
        },
        "clinic": {
            "smoker": [float(bool(one)) for one in clinic["smoker"].to_list()],
            "seen": [float(one.toordinal() - 737425) for one in clinic["seen"].to_list()],  # 2020-01-01
        },
        "shop": {
            "loyal": [float(places.get(one, 0)) for one in loyal],
            "loyal=missing": [float(one is None) for one in loyal],
        },
    }


def pooled(deployment, job):
    """The analysis's own reference on tables that were encoded by hand."""
    schemas, tables, values = [], [], by_hand()
    for brought in job.inputs:
        schema = describe_table(load_party_config(deployment.config_path(brought.party)), brought)
        columns = [values[brought.party][column.name] for column in schema.columns]
        schemas.append(schema)
        tables.append(Table(BlockSchema(party=schema.party, columns=schema.columns, rows=ROWS), np.array(columns).T))
    analysis = analysis_of(job)
    return analysis.reference(tables, analysis.plan(job, schemas))


def result_of(view):
    assert view.state == "DONE", view.reason
    return json.loads(view.result_json)


def test_principal_components_of_kinds_and_gaps_are_those_of_the_table_encoded_by_hand(deployment):
    asked = job("pca", components=2, center=True)
    found = result_of(Analyst(deployment).run(asked))
    assert found["columns"] == [f"{party}.{name}" for party, columns in by_hand().items() for name in columns]
    columns = np.array([column for block in by_hand().values() for column in block.values()])
    assert np.allclose(found["mean"], columns.mean(axis=1), atol=0.02 * np.ptp(columns, axis=1).max() / 5)
    exact = np.linalg.eigh(pooled(deployment, asked))[1][:, :-3:-1].T
    noisy = np.array(found["components"])
    assert np.abs(np.sum(exact * noisy, axis=1)) == pytest.approx([1, 1], abs=0.01)


def test_patterns_of_categories_are_counted_under_their_names_and_the_same_column_serves_a_regression(deployment):
    owners = {"bank": ["region"], "clinic": ["smoker"]}
    asked = Job.model_validate(
        {
            "analysis": "pattern-count",
            "inputs": [{"party": party, "table": "people", "columns": columns} for party, columns in owners.items()],
            "compute": list(KINDS),
            "privacy": {"epsilon": 100.0, "delta": 1e-6},
        }
    )
    view = Analyst(deployment).run(asked)
    table = result_of_view(view).to_polars()
    bank, clinic, _ = frames().values()
    regions = [one if one != "abroad" else "other" for one in bank["region"].to_list()]
    exact = Counter(zip(regions, (int(bool(one)) for one in clinic["smoker"].to_list()), strict=True))
    found = {(region, smoker): round(count) for region, smoker, count, _ in table.rows()}
    assert found == {pattern: exact[pattern] for pattern in product(("north", "south", "west", "other"), (0, 1))}
    assert "north" in "\n".join(lines_of(view))
    label = {"bank": ["region=north", "income"], "clinic": ["smoker"]}
    assert result_of(Analyst(deployment).run(job("least-squares", label, label="bank.income")))["coefficients"]


def test_least_squares_on_encoded_columns_agree_with_the_pooled_table(deployment):
    asked = job("least-squares", {"bank": ["region=north", "income"], "clinic": ["smoker"]}, label="bank.income")
    found, exact = result_of(Analyst(deployment).run(asked)), pooled(deployment, asked)
    names = found["features"]
    assert "bank.income=missing" in names
    assert "bank.region=north" in names
    assert "bank.region=south" not in names
    assert np.allclose(found["coefficients"], exact.coefficients, atol=0.05 * 100)
    assert abs(found["intercept"] - exact.intercept) < 5


def test_a_label_of_yes_and_no_serves_logistic_regression(deployment):
    asked = job("logistic-regression", {"clinic": ["smoker", "seen"]}, label="clinic.smoker", method="moments")
    found = result_of(Analyst(deployment).run(asked))
    assert "bank.region=other" in found["columns"]


def test_the_owner_reads_how_many_values_were_gaps_or_not_in_a_list(deployment):
    view = Analyst(deployment).run(job("pca", components=1))
    assert view.state == "DONE"
    report = deployment.report("bank", view.job_id)
    bank = frames()["bank"]
    assert report["gaps"] == {"income": bank["income"].to_list().count("n/a")}
    assert report["others"] == {"region": bank["region"].to_list().count("abroad")}
    assert report["clipped_rows"] == 0
    shown = run_command("party", "report", view.job_id, "--config", str(deployment.config_path("bank")))
    assert "values not of the declared kind" in shown.stdout


def test_what_is_refused_fails_the_job_without_a_word_why_and_nothing_is_spent(tmp_path):
    tables = frames()
    loyal = tables["shop"]["loyal"].to_list()
    loyal[41] = "secret-word"
    tables["shop"] = tables["shop"].with_columns(loyal=pl.Series(loyal))
    write(tmp_path, tables)
    (tmp_path / "run").mkdir()
    with ForkedDeployment(tmp_path / "run", local_tables(tmp_path)) as running:
        view = Analyst(running).run(job("pca", components=1))
        assert view.state == "FAILED"
        assert "table 'people' of party 'shop' cannot be used" in view.reason
        assert "loyal" not in view.reason
        logs = all_text(running)
        assert "is not of the kind that its section declares" in logs
        assert "secret-word" not in logs
        config = str(running.config_path("shop"))
        spent = json.loads(run_command("budget", "show", "--config", config, "--format", "json").stdout)
        assert spent["budgets"][0]["spent_epsilon"] == 0
        told = run_command("doctor", "--config", config).stdout
        assert "line 43, loyal: 'secret-word'" in told  # the heading is line 1
