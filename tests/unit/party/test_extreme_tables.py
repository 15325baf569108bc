"""No legal table, however small or monotonous, fails a job or shows in what parties tell of it.

That a job fails after the commit is an answer too, and no noise covers it.
"""

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
import rating_jobs
from job_builders import PARTIES
from ledgers import budget
from party_federation import Federation

from analyses.clustering.estimators.fm_sketch import UNIT_AGAINST_COORDINATOR
from analyses.job.job import Job
from analyses.job.matching import MatchingSchema
from analyses.job.row_ids import digests_of_ids
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids
from analyses.registry import ANALYSES
from dp.cost.views import EVENT_UNIT, PERSON_AT_PARTY_UNIT, RATING_UNIT, ROW_UNIT, UNIT
from party.events import FinishedEvent, ProgressEvent
from party.policy import Policy, Rules

BOUNDS = {"x0": (-1.0, 3.0), "x1": (-1.0, 3.0), "code": (0.0, 3.0), "label": (0.0, 1.0)}
ROWS = (1, 100)
ANY = Policy(automatic=Rules(max_epsilon_per_job=1e6), limits=Rules(withstand_coalition=0))
OPTIONS = {"accept_no_protection_against_parties": True, "sketches": 64}
STEPS = {"label": "telco.label", "method": "gradient", "iterations": 2, "sampling_rate": 0.5, "weight_norm": 2.0}
MATCHING = MatchingSchema(recipe=(("trim",),))
FEW = {"k": 1, "k_local": 3}
X, CODE, LABEL, RATED = ("x0", "x1"), ("code",), ("label",), ()
PROGRAM = [
    *(f"{p} = column({p}.code)" for p in ("bank", "hospital", "telco")),
    "d = minimum(bank, hospital)",
    "e = less(d, telco)",
    "f = mul(d, e)",
    "open total = sum(f)",
    "open n = sum(e)",
]
JOBS = {
    "pca": (X, {"components": 2, "gamma": 256}),
    "second-moments": (X, {"gamma": 256}),
    "low-rank": (X, {"rank": 1, "gamma": 256}),
    "low-rank sketch": (X, {"rank": 1, "gamma": 256, "method": "sketch", "sketch_rows": 8}),
    "least-squares": (LABEL, {"label": "telco.label", "gamma": 256}),
    "least-squares sketch": (LABEL, {"label": "telco.label", "gamma": 256, "method": "sketch", "sketch_rows": 32}),
    "logistic-regression": (LABEL, {"label": "telco.label"}),
    "logistic-regression gradients": (LABEL, STEPS),
    "logistic-regression cubic": (LABEL, {**STEPS, "order": 3}),
    "clustering": (X, FEW),
    "clustering lloyd": (X, {**FEW, "local_method": "lloyd"}),
    "clustering median": (X, {**FEW, "p": 1}),
    "clustering ldp": (X, {**FEW, "counting": "ldp"}),
    "clustering pattern": (X, {**FEW, "counting": "pattern"}),
    "clustering independent": (X, {**FEW, "counting": "independent"}),
    "clustering sketches": (X, {**FEW, "counting": "fm-sketch", "counting_options": OPTIONS}),
    "cross-table": (CODE, {}),
    "circuit": (CODE, {"program": PROGRAM}),
    "joint-count": (X, {}),
    "joint-count bins": (X, {"bins": "auto"}),
    "joint-mean": (X, {}),
    "joint-sum": (X, {}),
    "pattern-count": (CODE, {}),
    "pattern-count reports": (CODE, {"method": "randomized-response"}),
    "pattern-count sample": (CODE, {"method": "subsampled", "share": 0.5}),
    "moments": (CODE, {"order": 3}),
    "moments laplace": (CODE, {"method": "laplace", "order": 1}),
    "moments sketch": (CODE, {"method": "sketch", "order": 2, "sketch_rows": 64}),
    "moments threshold": (CODE, {"method": "threshold", "order": 2, "threshold": 6}),
    "distribution": (("x0",), {"buckets": 16, "smoothing": 1}),
    "distribution tree": (("x0",), {"buckets": 16, "method": "tree"}),
    "distribution masked": (("x0",), {"buckets": 16, "method": "masked"}),
    "matrix-factorization": (RATED, {"rank": 1, "rounds": 1}),
    "matrix-factorization vertical": (RATED, {"setting": "vertical", "rank": 1, "rounds": 1}),
    "secure-sum": (X, {"max_rows": 100, "units": 16}),
    "secure-mean": (X, {"max_rows": 100, "units": 16}),
    "secure-mean weighted": (X, {"max_rows": 100, "units": 16, "weight": 1}),
    "secure-histogram": (("x0",), {"max_rows": 100, "edges": [-1.0, 0.0, 1.0, 3.0]}),
}
UNITS = {
    "moments threshold": EVENT_UNIT,
    "clustering sketches": UNIT_AGAINST_COORDINATOR,
    "matrix-factorization": PERSON_AT_PARTY_UNIT,
    "matrix-factorization vertical": RATING_UNIT,
    **dict.fromkeys(("distribution", "distribution tree", "distribution masked"), ROW_UNIT),
}
EPSILONS = {"distribution": 8.0, "distribution tree": 8.0}
"""Where 50 is more than a response may have."""

BEYOND = float(np.finfo(np.float64).max)
TABLES = {
    "many rows": lambda rng, shape: rng.uniform(-1, 3, (60, shape)),
    "one row": lambda rng, shape: rng.uniform(-1, 3, (1, shape)),
    "two rows, one beyond all bounds": lambda rng, shape: np.array([[BEYOND] * shape, [-BEYOND] * shape]),
    "the least value only": lambda rng, shape: np.full((100, shape), -1.0),
    "the largest value only": lambda rng, shape: np.full((100, shape), 3.0),
    "nothing but zeros": lambda rng, shape: np.zeros((37, shape)),
}


def table_of_ratings(party, make):
    """Users of one to three ratings each; the values, which may lie far outside the bounds, are those of one column."""
    values = make(np.random.default_rng(len(party)), 1)[:, 0]
    places = np.arange(len(values))
    table = rating_jobs.table_of(party, rating_jobs.rows_of(places // 3, places % 4, values), n_items=4, users=40)
    return replace(table, schema=table.schema.model_copy(update={"rows": ROWS}))


def table_of(party, columns, make, name):
    if columns == RATED:
        return table_of_ratings(party, make)
    weights = {"x1": (0.0, 4.0)} if name == "secure-mean weighted" else {}
    shown = tuple(ColumnSchema(name=c, lower=low, upper=up) for c in columns for low, up in [{**BOUNDS, **weights}[c]])
    values = make(np.random.default_rng(len(party)), len(columns))
    if name == "joint-count bins":
        ids = digests_of_ids([[f"{party if at % 2 else ''}{at}" for at in range(len(values))]])
        return Table(BlockSchema(party=party, columns=shown, rows=ROWS, matching=MATCHING), values, ids=ids)
    schema = BlockSchema(party=party, columns=shown, has_ids=True, rows=ROWS)
    return Table(schema, values, digest_of_ids(map(str, range(len(values)))))


async def told_of(name, make, folder):
    """What parties tell of a job, and the stages in which the coordinator hears of them, in order for each."""
    columns, parameters = JOBS[name]
    at = {p: columns if p == "telco" or columns != LABEL else X for p in PARTIES}
    if name.startswith("logistic"):
        at["telco"] = ("x0", "label")
    job = Job.model_validate(
        {
            "analysis": name.split()[0],
            "inputs": [{"party": p, "table": "people", "columns": at[p]} for p in PARTIES],
            "privacy": {
                "epsilon": EPSILONS.get(name, 50.0),
                "delta": 1e-6,
                "view": "coordinator" if name == "clustering sketches" else "coalition",
            },
            "parameters": parameters,
        }
    )
    tables = {p: table_of(p, at[p], make, name) for p in PARTIES}
    federation = Federation(tables, folder, policy=ANY, with_budget=False, deadline_s=60.0)
    for ledger in federation.ledgers.values():
        ledger.set_budget("people", budget(100.0, delta=1e-5, unit=UNITS.get(name, UNIT)), "test")
    events, result = await federation.run(job)
    assert not isinstance(result, Exception), result
    assert all(of_party[-1] == FinishedEvent() for of_party in events.values())
    told = {p: [(e.stage, e.percent) for e in all_ if isinstance(e, ProgressEvent)] for p, all_ in events.items()}
    told = {p: [one for one, _ in groupby(all_)] for p, all_ in told.items()}  # repeated only where a while has passed
    return told, sorted(stage for stage, receiver in federation.sent if receiver == 0)


def test_every_analysis_is_among_the_jobs():
    assert {name.split()[0] for name in JOBS} == set(ANALYSES)


@pytest.mark.parametrize("name", JOBS)
async def test_every_legal_table_gives_an_answer_and_the_same_is_told_of_it(tmp_path, name):
    seen = {}
    for kind, make in TABLES.items():
        (tmp_path / kind).mkdir()
        seen[kind] = await told_of(name, make, tmp_path / kind)
    for kind, told in seen.items():
        assert told == seen["many rows"], kind
