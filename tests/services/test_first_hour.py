"""The way from `moiety new` to a regression over four messy tables of the reader's own, as the pages tell it.

What an owner edits stands in `ANSWERS`: lines of the draft, and what they become.
"""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from messy_tables import FILES, N_PEOPLE, as_pooled, write_tables
from reader import Reader

from analyses.job.schema import Table
from analyses.logistic_regression.link import fit
from analyses.logistic_regression.reference import exact_moments, scaled_rows
from analyses.logistic_regression.weights import weights_of
from analyses.registry import analysis_of
from analyses.second_moments.gram_plan import deviation_of
from analyst.question import job_of
from demo.ports import free_row_of_ports
from party.config import load_party_config
from party.tables.table import describe_table

EPSILON = 100.0
"""Four hundred people are few: at epsilon 1 all may be noise, which the first job says."""

N_DEVIATIONS = 10
"""Standard deviations of the noise that a weight may be off the pooled one. One weight of 1e12 is further off, even if
they are three tenths too small: 200 draws tell them to a twentieth, and weights bend a few percent with the noise."""

ALL_OWNERS = {
    "# rows = [LEAST, MOST]": "rows = [100, 1_000]",
    "# [tables.matching]": "[tables.matching]",
    '# normalise = ["trim", "nfkc", "lower"]': 'normalise = ["digits", "integer"]',
    '# duplicates = "refuse"    # or "first", "last", "mean", "sum", "max", "min"': 'duplicates = "refuse"',
    '# missing = "refuse"       # or "leave out"': 'missing = "refuse"',
}
NUMBER = '{ kind = "number", bounds = [LEAST, MOST], missing = "refuse" }'
INTEGER = '{ kind = "integer", bounds = [LEAST, MOST], missing = "refuse" }'
CATEGORY = '{ kind = "category", values = ["?", "?"], others = "other", missing = "column" }'
ANSWERS = {
    "bank": {
        "# decimal_comma = true": "decimal_comma = true",
        '# thousands = "."           # what stands between groups of three digits': 'thousands = "."',
        '# columns = ["?"]': 'columns = ["Kundennummer"]',
        f"# Einkommen = {NUMBER}": (
            'Einkommen = { kind = "number", bounds = [0, 100_000], missing = { value = 40_000 }, gaps = ["n/a"] }'
        ),
        '# "Kunde seit" = { kind = "date", bounds = [FIRST, LAST], format = "%Y-%m-%d" }': (
            '"Kunde seit" = { kind = "date", bounds = [2020-01-01, 2026-01-01], format = "%d.%m.%Y" }'
        ),
    },
    "clinic": {
        '# columns = ["?"]': 'columns = ["patient"]',
        f"# age = {INTEGER}": 'age = { kind = "integer", bounds = [0, 100], missing = { value = 50 } }',
        f"# ill = {CATEGORY}": 'ill = { kind = "yes/no" }',
    },
    "shop": {
        '# columns = ["?"]': 'columns = ["client"]',
        f"# orders = {NUMBER}": (
            'orders = { kind = "number", bounds = [0, 20], missing = { value = 5 }, gaps = ["-999"] }'
        ),
        f"# tariff = {CATEGORY}": 'tariff = { kind = "category", values = ["1", "2", "3"] }',
    },
    "registry": {
        '# columns = ["?"]': 'columns = ["Person"]',
        f"# Region = {CATEGORY}": (
            'Region = { kind = "category", values = ["Nord", "Süd", "West"], missing = "column" }'
        ),
    },
}
MORE = {"registry": "--encoding latin-1"}
SHARE = "about rows that bank, clinic, shop and registry share, matched in secret"
FIRST = """
analysis = "logistic-regression"
title = "Who is ill"
colluding = 1
deadline_s = 120.0

[[inputs]]
party = "bank"
table = "people"

[[inputs]]
party = "clinic"
table = "people"

[[inputs]]
party = "shop"
table = "people"

[[inputs]]
party = "registry"
table = "people"

[matching]
kind = "secret"

[privacy]
epsilon = 1.0
delta = 1e-6

[parameters]
label = "clinic.ill"
"""
LEFT_OUT = {
    "shop": 'columns = ["orders", "tariff=2", "tariff=3"]',
    "registry": 'columns = ["Region=Süd", "Region=West", "Region=missing"]',
}
"""One column of each category is what the others are compared with."""


def second() -> str:
    job = FIRST.replace("epsilon = 1.0", f"epsilon = {EPSILON}")
    for owner, columns in LEFT_OUT.items():
        job = job.replace(f'party = "{owner}"\ntable = "people"', f'party = "{owner}"\ntable = "people"\n{columns}')
    return job


@pytest.fixture
def reader(tmp_path, monkeypatch):
    reader = Reader(tmp_path, monkeypatch)
    try:
        yield reader
    finally:
        reader.leaves()


def replace_the_invented_table(reader, owner):
    """Draft a table of the owner's file, answer what the draft asks, and put it into party.toml."""
    folder = reader.folder / "acme" / owner
    (reader.folder / FILES[owner]).rename(folder / FILES[owner])
    with reader.monkeypatch.context() as there:
        there.chdir(folder)
        draft = reader.types(f"moiety table draft '{FILES[owner]}' --name people {MORE.get(owner, '')}")
    for asked, answered in (ALL_OWNERS | ANSWERS[owner]).items():
        assert draft.count(f"{asked}\n") == 1, asked
        draft = draft.replace(f"{asked}\n", f"{answered}\n")
    path = folder / "party.toml"
    head, _, _ = path.read_text().partition("[[tables]]")
    allowed = head.replace("max_epsilon_per_job = 1.0", f"max_epsilon_per_job = {EPSILON}")
    assert allowed != head
    path.write_text(allowed + draft)


def pooled(reader, job_file, *, order=None):
    """What somebody finds who holds all tables: weights, and how far the noise of this job moves each of them.

    With the shop's rows in another order, where one is given.
    """
    job = job_of(job_file)
    configs = {owner: load_party_config(reader.folder / "acme" / owner / "party.toml") for owner in FILES}
    schemas = [describe_table(configs[one.party], one) for one in job.inputs]
    tables = []
    for schema in schemas:
        values = np.column_stack([as_pooled()[f"{schema.party}.{column.name}"] for column in schema.columns])
        rows = values[order] if order is not None and schema.party == "shop" else values
        tables.append(Table(schema.model_copy(update={"matching": None}), rows))
    plan = analysis_of(job).plan(job, schemas)
    weights, _ = analysis_of(job).reference(tables, plan)
    exact = exact_moments(*scaled_rows(tables, plan))
    deviation = deviation_of(plan) / plan.row_norm**2
    draw = np.random.default_rng(8)
    moved = []
    for _ in range(200):
        upper = np.triu(draw.normal(0, deviation, exact.matrix.shape))
        noisy = replace(exact, matrix=exact.matrix + upper + upper.T - np.diag(np.diag(upper)) * (2 - 2**0.5))
        moved.append(weights_of(plan, fit(replace(noisy, deviation=deviation)))[0] - weights)
    return weights, np.sqrt(np.mean(np.square(moved), axis=0))


def test_the_first_hour_with_four_messy_tables(reader, tmp_path):
    write_tables(tmp_path)
    first = free_row_of_ports(1 + len(FILES))
    reader.types("moiety new acme --parties bank,clinic,shop,registry", "--first-port", str(first))
    for owner in FILES:
        replace_the_invented_table(reader, owner)
        budget = "--epsilon 200 --delta 1e-5 --period 2026 --reason 'first questions'"
        reader.types(f"moiety budget set people --config acme/{owner}/party.toml {budget}")
    for owner in FILES:
        reader.starts(f"moiety party serve --config acme/{owner}/party.toml")
    reader.starts("moiety coordinator serve --config acme/coordinator/coordinator.toml")
    reader.waits(first)
    for owner in FILES:
        found = reader.types(f"moiety doctor --config acme/{owner}/party.toml")
        assert " 0 failed" in found
        assert "415 rows, within the declared 100 to 1000" in " ".join(found.split())
        assert found.count("warning ") == 1  # the counter lies beside the ledger
        assert "budget of people: period '2026': 100% of epsilon 200 remains" in found
    reader.types("export MOIETY_CLIENT=acme/analyst/client.toml")
    listed = reader.types("moiety tables")
    assert listed.count("100 to 1000 rows, rows can be matched by 1 field (digits, integer), in secret only") == 4

    job = tmp_path / "ill.toml"
    for text in (FIRST, second()):
        job.write_text(text)
        planned = reader.types("moiety job plan ill.toml")
        assert SHARE in planned
        assert "weight of clinic.age: 95 % within" in planned
        assert "nobody learns which rows matched, nor how many" in planned
        assert SHARE in reader.types("moiety job submit ill.toml")
    enough, few = (one["job_id"] for one in json.loads(reader.types("moiety job list --format json")))

    shown = reader.types(f"moiety job show {few}")
    assert f"{SHARE}: about " in shown
    assert_nothing_is_ranked(shown, json.loads(reader.types(f"moiety job show {few} --format json"))["result"])

    shown, texts = shows(reader, enough)
    assert f"{SHARE}: about " in shown
    result = json.loads(reader.types(f"moiety job show {enough} --format json"))["result"]
    assert abs(result["n_rows"] - N_PEOPLE) < N_DEVIATIONS * result["n_rows_standard_error"] < N_PEOPLE / 10
    weights, errors = np.array(result["weights"]), np.array(result["standard_errors"])
    right, deviations = pooled(reader, job)
    assert (abs(weights - right) < N_DEVIATIONS * deviations).all()
    mixed, _ = pooled(reader, job, order=np.random.default_rng(1).permutation(N_PEOPLE))
    at = result["columns"].index("shop.orders")
    assert abs(weights - mixed)[at] > 2 * N_DEVIATIONS * deviations[at]  # a wrong match would show
    ranked, _, lost = shown.partition("not distinguishable from 0: ")
    assert "\nbank.Einkommen " in ranked
    assert "\nshop.orders " in ranked
    for column, weight, error in zip(result["columns"], weights, errors, strict=True):
        assert (f"\n{column} " in ranked) != (column in lost.partition("\n")[0].split(", "))
        assert abs(weight) > 1.96 * error or f"\n{column} " not in ranked
        assert column in texts or f"\n{column} " not in ranked
    assert "Traceback" not in reader.logs()


def assert_nothing_is_ranked(shown, result):
    """Weights without errors stand in the order of the columns, or none stands there at all."""
    places = [shown.find(f"\n{column} ") for column in result["columns"]]
    if "no regression of clinic.ill" in shown:  # the noise decides which of both
        assert set(places) == {-1}
        return
    assert "no errors are stated for these numbers: each of them may be noise" in shown
    assert -1 not in places
    assert all(one < other for one, other in pairwise(places))


def shows(reader, job_id):
    """Show a job as text and as a picture; return the text, and the texts of the picture."""
    shown = reader.types(f"moiety job show {job_id} --plot result.svg")
    return shown, [one.text or "" for one in ET.parse(reader.folder / "result.svg").iter() if one.tag.endswith("}text")]
