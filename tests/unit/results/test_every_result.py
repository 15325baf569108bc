"""Every result of every analysis can be printed, framed, drawn and exported, however little was in the tables."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from analyst_results import done_view
from overlapping_tables import COUNTS, REALS, overlapping_tables, secret_job
from registry_jobs import VARIANTS
from virtual_time import run_in_virtual_time

from analyses.job.schema import digest_of_ids
from analyses.run_locally import run_locally
from analyst.client import result_of
from results.drawing.chart import PictureError
from results.drawing.svg import svg_of

MOST = 500
INFEASIBLE = 0.02
"""Factor of the epsilons of the registry's jobs, with which no answer can be seen in the noise."""

DEALT = [name for name, variant in VARIANTS.items() if not variant.has_ratings]
MATCHED = {
    "pca": (REALS, {"components": 2}),
    "second-moments": (REALS, {}),
    "low-rank": (REALS, {"rank": 1}),
    "least-squares": (REALS, {"label": "bank.y"}),
    "logistic-regression": (REALS, {"label": "bank.y"}),
    "pattern-count": (COUNTS, {}),
    "cross-table": (COUNTS, {}),
    "joint-count": (REALS, {}),
    "joint-mean": (REALS, {}),
    "joint-sum": (REALS, {}),
    "moments": (COUNTS, {"order": 2}),
}


def shortened(table, n_rows, constant=False):
    """A table with the first rows of another one, or with its first row as often."""
    values = np.repeat(table.values[:1], n_rows, axis=0) if constant else table.values[:n_rows]
    schema = table.schema.model_copy(update={"rows": (min(n_rows, 3), MOST)})
    return replace(table, schema=schema, values=values, ids_digest=digest_of_ids(f"row-{i}" for i in range(n_rows)))


@cache
def found(name, n_rows, *, constant=False, factor=1.0):
    """The result of a job of the registry on tables of some rows."""
    variant = VARIANTS[name]
    if variant.analysis == "clustering" and n_rows < variant.parameters["k"]:
        variant = replace(variant, parameters={**variant.parameters, "k": 1})
    tables = variant.tables()
    if not variant.has_ratings:
        tables = {owner: shortened(table, n_rows, constant) for owner, table in tables.items()}
    return run(variant.job(anyway=True, privacy=variant.privacy_of(40.0 * factor)), tables)


def run(job, tables):
    return result_of(done_view(job, run_in_virtual_time(run_locally(job, tables))))


def shown(result):
    """All that a person may see of a result, as text."""
    texts = [repr(result), "\n".join(result.lines), result._repr_html_(), json.dumps(result.to_dict(), allow_nan=False)]
    with suppress(PictureError):  # some have nothing to draw
        texts.append(svg_of(result.picture))
    frame = result.to_polars()
    assert result.to_pandas().shape == frame.shape
    return "\n".join([*texts, frame.write_csv()])


def check(result):
    text = shown(result)
    assert not re.search(r"\b(nan|NaN|inf|Infinity|None)\b", text), text


@pytest.mark.parametrize(
    ("name", "n_rows"),
    [(name, n) for name in DEALT for n in (0, 1, 60) if n or VARIANTS[name].analysis != "clustering"],
)  # a table of clusters has at least one row
def test_a_result_of_few_rows_can_be_seen(name, n_rows):
    check(found(name, n_rows))


@pytest.mark.parametrize("name", DEALT)
def test_a_result_of_constant_columns_can_be_seen(name):
    check(found(name, 60, constant=True))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_result_of_nothing_but_noise_can_be_seen(name):
    check(found(name, 60, factor=INFEASIBLE))


@pytest.mark.parametrize("kind", ["secret", "revealed"])
@pytest.mark.parametrize("name", MATCHED)
def test_a_result_of_rows_of_which_none_matches_can_be_seen(name, kind):
    columns, parameters = MATCHED[name]
    check(run(secret_job(name, parameters, matching={"kind": kind}), overlapping_tables(0, columns)))
