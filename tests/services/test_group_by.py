"""Groups by several columns of one owner over real services: SELECTs, their jobs and answers, beside polars."""

import asyncio

import numpy as np
import polars as pl
import pytest
from federation import Analyst
from forked_services import ForkedDeployment

from analyst.catalogue import Catalogue
from analyst.client import result_of
from analyst.connection import ClientConfig
from analyst.sql import job_of_sql, with_computing
from cli.tables import tables_of_all
from demo.local_deployment import LocalTable

N_ROWS = 400
LARGE, EXACT = 5000.0, 1e-3
"""Epsilon with which counts are exact, and how far sums of numbers then are from those of the rows, in their ranges."""

KINDS = {
    "clinic": """
[tables.columns]
region = { kind = "category", values = ["north", "south", "west"], others = "other" }
ill = { kind = "yes/no" }
stage = { kind = "integer", bounds = [0, 2] }
""",
    "bank": """
[tables.columns]
owns = { kind = "yes/no" }
charges = { kind = "number", bounds = [0, 500] }
""",
    "shop": """
[tables.columns]
visits = { kind = "integer", bounds = [0, 6] }
plan = { kind = "category", values = ["basic", "full"] }
""",
}
BY = {"region": "clinic.region", "ill": "clinic.ill", "stage": "clinic.stage", "plan": "shop.plan", "owns": "bank.owns"}


def rows_of(seed=3):
    """One frame of all owners, whose numbers depend on the groups."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "south", "west", "other"], N_ROWS, p=[0.4, 0.3, 0.2, 0.1])
    ill, stage = rng.random(N_ROWS) < 0.4, rng.integers(0, 3, N_ROWS)
    north = region == "north"
    return pl.DataFrame(
        {
            "id": [f"row-{at}" for at in range(N_ROWS)],
            "region": region,
            "ill": ill,
            "stage": stage,
            "owns": rng.random(N_ROWS) < 0.3 + 0.4 * ill,
            "charges": np.round(200 + 90 * ill * north - 60 * north + rng.uniform(-50, 50, N_ROWS), 2),
            "visits": np.clip(rng.poisson(1 + stage + 2 * north), 0, 6),
            "plan": np.where(rng.random(N_ROWS) < 0.3 + 0.3 * north, "full", "basic"),
        }
    )


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder, rows = tmp_path_factory.mktemp("federation"), rows_of()
    (folder / "run").mkdir()
    tables = {}
    for party, sections in KINDS.items():
        path = folder / f"{party}.csv"
        names = [line.partition(" ")[0] for line in sections.split("\n")[2:-1]]
        rows.select("id", *names).write_csv(path)
        tables[party] = [LocalTable("people", path, {}, (100, 1000), id_column="id", sections=sections)]
    with ForkedDeployment(folder / "run", tables, budget=(1e6, 1e-3)) as running:
        yield running


def asked(deployment, text):
    """Return the job that a SELECT becomes, and the answer of the question that it names; both by the services."""
    config = ClientConfig.load(deployment.client_config)
    catalogue = Catalogue.of(asyncio.run(tables_of_all(config)))
    meant = with_computing(job_of_sql(text, catalogue, epsilon=LARGE, delta=1e-6), list(KINDS))
    view = Analyst(deployment).run(meant.job)
    assert view.state == "DONE", view.reason
    given = {name: value.split(",") if name == "columns" else value for name, value in meant.given.items()}
    found = result_of(view)
    return meant.job, found.answer(meant.question, **given).to_polars() if meant.question else found


def grouped(frame, keys, *more):
    """Return rows by group as text, in one order, of columns called as an answer calls them or as the rows are."""
    shown = [
        (pl.col(key).cast(pl.Int8) if frame.schema[key] == pl.Boolean else pl.col(key)).cast(pl.String) for key in keys
    ]
    names = {"no": "0", "yes": "1"}
    frame = frame.select(*(one.replace(names) for one in shown), *more).rename(
        {key: key.split(".")[-1] for key in keys}
    )
    return frame.sort(frame.columns[: len(keys)])


THREE = "FROM clinic JOIN bank USING (id) JOIN shop USING (id)"
TWO = "FROM clinic JOIN bank USING (id)"


def by_rows(keys, *what):
    return grouped(rows_of().group_by(keys).agg(*what), keys, *(one.meta.output_name() for one in what))


@pytest.mark.parametrize("keys", [("region", "ill"), ("stage", "ill", "plan"), ("region", "ill", "stage", "owns")])
def test_counts_by_columns_of_which_two_are_one_owners(deployment, keys):
    job, found = asked(deployment, f"SELECT {', '.join(keys)}, count(*) {THREE} GROUP BY {', '.join(keys)}")
    assert job.analysis == "cross-table"
    found = grouped(found, [BY[key] for key in keys], pl.col("count").round().cast(pl.Int64))
    exact = by_rows(keys, pl.len().cast(pl.Int64).alias("count"))
    assert found.filter(pl.col("count") > 0).equals(exact)
    assert found["count"].sum() == N_ROWS


def test_a_whole_table_of_counts_has_a_level_for_each_column(deployment):
    keys = ("region", "ill", "owns")
    _, found = asked(deployment, f"SELECT region, ill, owns, count(*) {TWO} GROUP BY region, ill, owns")
    assert found.fields["columns"] == [BY[key] for key in keys]
    counts = np.rint(found.counts_).astype(int)
    exact = by_rows(keys, pl.len().alias("count"))
    labels = [found.fields["labels"]["clinic.region"], ["0", "1"], ["0", "1"]]
    assert counts.shape == (4, 2, 2)
    for *values, count in exact.rows():
        assert counts[tuple(of.index(value) for of, value in zip(labels, values, strict=True))] == count


@pytest.mark.parametrize(("keys", "n_names"), [(("region", "ill"), 2), (("region", "ill", "owns"), 3)])
def test_means_and_sums_by_columns_of_which_two_are_one_owners(deployment, keys, n_names):
    """By two of one owner of any number, from one release of second moments; by a third of another of counted ones."""
    value = "charges" if n_names == 2 else "visits"
    job, found = asked(
        deployment, f"SELECT {', '.join(keys)}, avg({value}), sum({value}) {THREE} GROUP BY {', '.join(keys)}"
    )
    assert job.analysis == ("second-moments" if n_names == 2 else "cross-table")
    numbers = [pl.col("mean"), pl.col("sum"), pl.col("rows")]
    found = grouped(found, [BY[key] for key in keys], *numbers)
    mean, total = pl.col(value).mean().alias("mean"), pl.col(value).sum().alias("sum")
    exact = by_rows(keys, mean, total, pl.len().alias("rows"))
    kept = found.join(exact, on=list(keys), suffix="_of_rows")
    assert len(kept) == len(exact) >= 8
    widest = 500 if value == "charges" else 6
    for name, width in (("rows", N_ROWS), ("sum", N_ROWS * widest)):
        assert (kept[name] - kept[f"{name}_of_rows"]).abs().max() < EXACT * width
    large = kept.filter(pl.col("rows_of_rows") >= 20)
    assert (large["mean"] - large["mean_of_rows"]).abs().max() < 0.02 * widest
    assert len(large) >= 4


def test_a_median_by_columns_of_which_two_are_the_owners_of_the_number(deployment):
    keys = ("ill", "plan")
    job, found = asked(deployment, f"SELECT ill, plan, median(stage) {THREE} GROUP BY ill, plan")
    assert job.analysis == "cross-table"
    found = grouped(found, [BY[key] for key in keys], "quantile", "rows")
    exact = by_rows(keys, pl.col("stage").median().alias("median"), pl.len().alias("rows"))
    assert found["rows"].round().cast(pl.UInt32).to_list() == exact["rows"].to_list()
    assert (found["quantile"] - 0.5 - exact["median"]).abs().max() <= 1  # even within a bin of length 1


def test_a_release_tells_which_groups_of_two_columns_of_an_owner_go_with_another(deployment):
    """Chi^2 of a table whose lines are combinations is scipy's."""
    from scipy.stats import chi2_contingency

    job = job_of_sql(
        f"SELECT region, ill, avg(charges) {TWO} GROUP BY region, ill",
        Catalogue.of(asyncio.run(tables_of_all(ClientConfig.load(deployment.client_config)))),
        epsilon=LARGE,
        delta=1e-6,
    ).job
    clinic, bank = job.inputs
    bank = bank.model_copy(update={"columns": ("charges", "owns")})
    whole = job.model_copy(update={"inputs": (clinic, bank), "compute": tuple(KINDS)})
    release = result_of(Analyst(deployment).run(whole))
    table = release.answer("crosstab", down="clinic.region*clinic.ill", across="bank.owns")
    exact = rows_of().group_by("region", "ill", "owns").len()
    counts = exact.pivot("owns", index=["region", "ill"], values="len").fill_null(0).drop("region", "ill").to_numpy()
    assert table.to_dict()["chi_squared"] == pytest.approx(chi2_contingency(counts, correction=False)[0], rel=0.05)
    assert table.to_polars().columns[:3] == ["clinic.region", "clinic.ill", "bank.owns"]
