"""No job succeeds, fails or looks different by the number of rows of a table: declarations decide."""

from dataclasses import replace

import numpy as np
import pytest
from job_builders import PARTIES, make_job, make_schema
from rating_jobs import rows_of
from rating_jobs import table_of as table_of_ratings

from analyses.job.declared_rows import JointRowsParams, declared_rows, parameters_of
from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids
from analyses.registry import ANALYSES
from analyses.run_locally import run_locally
from entropy import InsecureTestEntropy
from mpc.protocol.session import COORDINATOR

LEAST, MOST = 6, 64
SKETCHES = {"accept_no_protection_against_parties": True, "sketches": 64}
OWN_ROWS = ("distribution", "matrix-factorization", "secure-sum", "secure-mean", "secure-histogram")
"""Analyses of parties' own rows: sums clip totals to their `max_rows`, and need no declaration; a distribution and a
factorization have no such parameter, as they are sized by what is declared."""

SUMMED = ("d = less(bank, hospital)", "e = mul(d, telco)", "open total = sum(e)")
JOBS = [
    ("pca", {"components": 2}),
    ("second-moments", {}),
    ("low-rank", {"rank": 2}),
    ("low-rank", {"rank": 2, "method": "sketch"}),
    ("least-squares", {"label": "bank.x0"}),
    ("logistic-regression", {"label": "telco.x0"}),
    ("logistic-regression", {"label": "telco.x0", "method": "gradient", "iterations": 3}),
    ("pattern-count", {}),
    ("pattern-count", {"method": "randomized-response"}),
    ("pattern-count", {"method": "subsampled", "share": 0.5}),
    ("moments", {}),
    ("moments", {"method": "laplace", "order": 1}),
    ("moments", {"method": "sketch", "sketch_rows": 64}),
    ("clustering", {"k": 3, "k_local": 2}),
    ("clustering", {"k": 3, "k_local": 2, "counting": "independent"}),
    ("clustering", {"k": 3, "k_local": 2, "counting": "ldp"}),
    ("clustering", {"k": 3, "k_local": 2, "counting": "pattern"}),
    ("clustering", {"k": 3, "k_local": 2, "counting": "fm-sketch", "counting_options": SKETCHES}),
    ("distribution", {"buckets": 16, "smoothing": 1}),
    ("distribution", {"buckets": 16, "method": "bins", "bins": 16}),
    ("distribution", {"buckets": 16, "method": "tree"}),
    ("distribution", {"buckets": 16, "method": "masked"}),
    ("matrix-factorization", {"rank": 1, "rounds": 1}),
    ("matrix-factorization", {"setting": "vertical", "rank": 1, "rounds": 1}),
    ("secure-sum", {"max_rows": 20, "units": 64}),
    ("secure-mean", {"max_rows": 20, "units": 64}),
    ("secure-histogram", {"max_rows": 20, "edges": [0, 0.5, 1]}),
    ("cross-table", {}),
    ("circuit", {"program": [*(f"{p} = column({p}.x0)" for p in PARTIES), *SUMMED]}),
    ("joint-count", {}),
    ("joint-mean", {}),
    ("joint-sum", {}),
]


def schemas_with(*declared):
    return [make_schema(p, rows=rows) for p, rows in zip(PARTIES, declared, strict=True)]


def table(party, n_rows):
    column = ColumnSchema(name="x0", lower=0, upper=1)
    schema = BlockSchema(party=party, columns=(column,), has_ids=True, rows=(LEAST, MOST))
    values = np.random.default_rng(n_rows).integers(0, 2, (n_rows, 1)).astype(float)
    return Table(schema, values, digest_of_ids(map(str, range(n_rows))))


def ratings_table(party, n_rows):
    """As many ratings by as many users, each of whom rates one item."""
    rows = rows_of(np.arange(n_rows), np.arange(n_rows) % 4, np.full(n_rows, 1.0))
    found = table_of_ratings(party, rows, n_items=4, users=MOST, per_user=1)
    return replace(found, schema=found.schema.model_copy(update={"rows": (LEAST, MOST)}))


async def traffic(analysis, parameters, n_rows):
    """What the coordinator can see of a job: who tells it what, of which size, and how everybody's part ended."""
    of_a_response = analysis == "distribution" and parameters.get("method") != "masked"
    privacy = {"epsilon": 8.0 if of_a_response else 500.0, "delta": 1e-5, "view": "coordinator"}
    inputs = [{"party": p, "table": "people"} for p in PARTIES]
    job = Job.model_validate(
        {"analysis": analysis, "inputs": inputs, "privacy": privacy, "parameters": parameters, "deadline_s": 30}
    )
    table_of = ratings_table if analysis == "matrix-factorization" else table
    tables = {p: table_of(p, n_rows) for p in PARTIES}
    run = await run_locally(job, tables, entropy_of=lambda m: InsecureTestEntropy(f"{n_rows} {m}"))
    seen = [(m.sender, m.stage, m.array.shape) for m in run.network.transcript if m.receiver == COORDINATOR]
    told = dict.fromkeys((who, stage) for who, stage, _, _ in run.network.progress_log if who != COORDINATOR)
    stages = {party: [stage for who, stage in told if who == party] for party in range(1, len(PARTIES) + 1)}
    return run.plan.digest(), sorted(seen), stages, {n: type(end).__name__ for n, end in run.ends.items()}


def test_every_analysis_is_tried_here():
    assert {analysis for analysis, _ in JOBS} == set(ANALYSES)


@pytest.mark.parametrize(("analysis", "parameters"), JOBS)
async def test_tables_of_few_and_of_many_rows_look_the_same_to_the_coordinator(analysis, parameters):
    least, most = [await traffic(analysis, parameters, n) for n in (LEAST + 1, MOST)]
    assert least == most
    assert least[3] == {COORDINATOR: "dict", 1: "LocalReport", 2: "LocalReport", 3: "LocalReport"}


@pytest.mark.parametrize(("analysis", "parameters"), [job for job in JOBS if job[0] not in OWN_ROWS])
async def test_a_job_for_fewer_rows_than_are_declared_is_refused_whatever_the_tables_hold(analysis, parameters):
    said = set()
    for n_rows in (LEAST, MOST - 1, MOST):
        with pytest.raises(JobError) as raised:
            await traffic(analysis, {**parameters, "max_rows": MOST - 1}, n_rows)
        said.add(str(raised.value))
    text = (
        "parameters.max_rows: 63 is smaller than 64, the largest number of rows that table 'people' of party "
        "'bank' declares"
    )
    assert said == {text}


async def test_more_clusters_than_the_least_rows_declared_are_refused_whatever_the_tables_hold():
    said = set()
    for n_rows in (LEAST, LEAST + 1, MOST):
        with pytest.raises(JobError) as raised:
            await traffic("clustering", {"k": LEAST + 1}, n_rows)
        said.add(str(raised.value))
    assert said == {
        (
            "parameters.k: 7 clusters are more than 6, the smallest number of rows that table 'people' of party "
            "'bank' declares"
        )
    }


def test_the_tightest_declarations_count_and_their_owners_are_named():
    found = declared_rows(make_job(), schemas_with((5, 80), (10, 90), (1, 70)))
    assert (found.least, found.least_of) == (10, "table 'people' of party 'hospital'")
    assert (found.most, found.most_of) == (70, "table 'people' of party 'telco'")


def test_a_job_that_says_nothing_of_rows_is_ready_for_the_most_that_are_declared():
    schemas = schemas_with((5, 80), (10, 90), (1, 70))
    assert parameters_of(make_job(parameters={}), schemas, JointRowsParams).max_rows == 70
    assert parameters_of(make_job(parameters={"max_rows": 75}), schemas, JointRowsParams).max_rows == 75
    with pytest.raises(JobError, match=r"max_rows: 69 is smaller than 70, .* party 'telco' declares"):
        parameters_of(make_job(parameters={"max_rows": 69}), schemas, JointRowsParams)


def test_a_table_of_which_no_rows_are_declared_is_named():
    with pytest.raises(
        JobError,
        match=r"inputs: table 'people' of party 'hospital' does not declare its smallest and largest number of rows .* "
        r"pca needs",
    ):
        declared_rows(make_job(), schemas_with((5, 80), None, (1, 70)))


def test_declarations_that_no_rows_can_keep_are_refused_and_both_tables_named():
    text = r"'people' of party 'telco' declares at least 71 rows and .* party 'bank' declares at most 70"
    with pytest.raises(JobError, match=text):
        declared_rows(make_job(), schemas_with((5, 70), (5, 70), (71, 90)))


def test_a_table_outside_its_declaration_cannot_be_made_and_the_text_has_no_number():
    for n_rows in (LEAST - 1, MOST + 1):
        with pytest.raises(
            ValueError, match="the number of rows in the table of bank is outside the range that it declares"
        ):
            table("bank", n_rows)


def test_a_declaration_whose_least_is_above_its_most_is_refused():
    with pytest.raises(ValueError, match="rows: the smallest number, 9, is larger than the largest, 8"):
        make_schema("bank", rows=(9, 8))
