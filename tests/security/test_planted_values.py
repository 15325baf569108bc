"""Values that an analysis cannot take as they stand change nothing that anybody but their owner sees, over services.

Every analysis runs twice, on tables that differ in a few values: those of the second are beyond all bounds, infinite,
no category, no label, no count, no whole weight, in no bin. All that the coordinator and the analyst see before the
commit must be the same, and the sizes of what is opened afterwards too.
"""

import csv
from dataclasses import dataclass

import numpy as np
import pytest
import pytest_asyncio
from watched_services import watched_services

from analyses.clustering.estimators.fm_sketch import UNIT_AGAINST_COORDINATOR
from analyses.job.job import Job
from analyses.matrix_factorization.own_ratings import REPEATED, UNKNOWN_ITEM, UNKNOWN_USER
from analyses.registry import ANALYSES
from demo.local_deployment import LocalRatings, LocalTable
from dp.cost.views import EVENT_UNIT, PERSON_AT_PARTY_UNIT, RATING_UNIT, ROW_UNIT

pytestmark = pytest.mark.real_time  # services with real sockets

pytestmark = pytest.mark.real_time  # real services

PARTIES = ("bank", "hospital", "telco")
N_ROWS = 60
ROWS = (20, 100)
BOUNDS = {"x0": (-1.0, 3.0), "x1": (-1.0, 3.0), "code": (0.0, 3.0), "label": (0.0, 1.0), "weight": (0.0, 4.0)}
ON_REQUEST = ("code", "label", "weight")
PLANTED = {
    "x0": ["inf", "-inf", "1e300", "-99", "7"],
    "x1": ["3.5", "1e999", "-1.5", "inf", "99"],
    "code": ["9", "-4", "1.5", "inf", "-0.5"],
    "label": ["0.3", "7", "-2", "inf", "0.5"],
    "weight": ["2.5", "-1", "1e9", "inf", "0.25"],
}
UNITS = {"events": EVENT_UNIT, "sketches": UNIT_AGAINST_COORDINATOR, "rows": ROW_UNIT}
OF_RATINGS = {"users": PERSON_AT_PARTY_UNIT, "items": RATING_UNIT}
"""Budgets of the tables of ratings."""
OPTIONS = {"accept_no_protection_against_parties": True, "sketches": 64}
STEPS = {"label": "telco.label", "method": "gradient", "iterations": 3, "sampling_rate": 0.5, "weight_norm": 2.0}
FEW = {"k": 2, "k_local": 2}


@dataclass(frozen=True)
class Case:
    """A job; its columns at every party, but for those that only the telco brings besides."""

    analysis: str
    parameters: dict
    columns: tuple[str, ...] = ()
    of_telco: tuple[str, ...] = ()
    budget: str = "records"
    view: str = "coalition"
    epsilon: float = 100.0

    def job(self, kind):
        """The job on the tables of a kind, `clean` or `planted`."""
        table = f"{kind}-{self.budget}"
        columns = () if self.budget in OF_RATINGS else self.columns or ("x0", "x1")
        more = {"telco": self.of_telco}
        return Job.model_validate(
            {
                "analysis": self.analysis,
                "inputs": [{"party": p, "table": table, "columns": [*columns, *more.get(p, ())]} for p in PARTIES],
                "colluding": 1,
                "deadline_s": 60.0,
                "privacy": {"epsilon": self.epsilon, "delta": 1e-6, "view": self.view},
                "parameters": self.parameters,
            }
        )


CODE = {"columns": ("code",)}
ROWS_OF_X0 = {"columns": ("x0",), "budget": "rows"}
WITH_LABEL = {"of_telco": ("label",)}
SKETCHED = {"counting": "fm-sketch", "counting_options": OPTIONS}
PROGRAM = [
    *(f"{p} = column({p}.code)" for p in PARTIES),
    "d = minimum(bank, hospital)",
    "e = mul(d, telco)",
    "open total = sum(e)",
]
CASES = {
    "pca": Case("pca", {"components": 2, "gamma": 256}),
    "second-moments": Case("second-moments", {"gamma": 256}),
    "low-rank, mpc": Case("low-rank", {"rank": 1, "gamma": 256}),
    "low-rank, sketch": Case("low-rank", {"rank": 1, "gamma": 256, "method": "sketch", "sketch_rows": 8}),
    "least-squares, mpc": Case("least-squares", {"label": "telco.label", "gamma": 256}, **WITH_LABEL),
    "least-squares, sketch": Case(
        "least-squares", {"label": "telco.label", "gamma": 256, "method": "sketch", "sketch_rows": 32}, **WITH_LABEL
    ),
    "logistic-regression, moments": Case("logistic-regression", {"label": "telco.label"}, **WITH_LABEL),
    "logistic-regression, order 1": Case("logistic-regression", STEPS, **WITH_LABEL),
    "logistic-regression, order 3": Case("logistic-regression", {**STEPS, "order": 3}, **WITH_LABEL),
    "clustering, mpc": Case("clustering", FEW),
    "clustering, lloyd": Case("clustering", {**FEW, "local_method": "lloyd"}),
    "clustering, ldp": Case("clustering", {**FEW, "counting": "ldp"}),
    "clustering, pattern": Case("clustering", {**FEW, "counting": "pattern"}),
    "clustering, independent": Case("clustering", {**FEW, "counting": "independent"}),
    "clustering, fm-sketch": Case("clustering", {**FEW, **SKETCHED}, budget="sketches", view="coordinator"),
    "cross-table": Case("cross-table", {}, **CODE),
    "circuit": Case("circuit", {"program": PROGRAM}, **CODE),
    "joint-count": Case("joint-count", {}),
    "joint-mean": Case("joint-mean", {}),
    "joint-sum": Case("joint-sum", {}),
    "pattern-count, mpc": Case("pattern-count", {}, **CODE),
    "pattern-count, randomized-response": Case("pattern-count", {"method": "randomized-response"}, **CODE),
    "pattern-count, subsampled": Case("pattern-count", {"method": "subsampled", "share": 0.5}, **CODE),
    "moments, mpc": Case("moments", {"order": 3}, **CODE),
    "moments, laplace": Case("moments", {"method": "laplace", "order": 1}, **CODE),
    "moments, sketch": Case("moments", {"method": "sketch", "order": 2, "sketch_rows": 64}, **CODE),
    "moments, threshold": Case("moments", {"method": "threshold", "order": 2, "threshold": 6}, budget="events", **CODE),
    "distribution": Case("distribution", {"buckets": 16, "smoothing": 1}, epsilon=8.0, **ROWS_OF_X0),
    "distribution, tree": Case("distribution", {"buckets": 16, "method": "tree"}, epsilon=8.0, **ROWS_OF_X0),
    "distribution, grid": Case("distribution", {"method": "grid", "cells": [4, 4]}, epsilon=8.0, budget="rows"),
    "distribution, masked": Case("distribution", {"buckets": 16, "method": "masked"}, **ROWS_OF_X0),
    "matrix-factorization, horizontal": Case("matrix-factorization", {"rank": 1, "rounds": 1}, budget="users"),
    "matrix-factorization, vertical": Case(
        "matrix-factorization", {"setting": "vertical", "rank": 1, "rounds": 1}, budget="items"
    ),
    "matrix-factorization, sgd": Case("matrix-factorization", {"form": "sgd", "rank": 1, "steps": 2}, budget="users"),
    "matrix-factorization, sgd, vertical": Case(
        "matrix-factorization", {"form": "sgd", "setting": "vertical", "rank": 1, "steps": 2}, budget="items"
    ),
    "secure-sum": Case("secure-sum", {"max_rows": 100, "units": 16}),
    "secure-mean": Case("secure-mean", {"max_rows": 100, "units": 16}),
    "secure-mean, weighted": Case("secure-mean", {"max_rows": 100, "units": 16, "weight": 1}, columns=("x0", "weight")),
    "secure-histogram": Case("secure-histogram", {"max_rows": 100, "edges": [-1.0, 0.0, 1.0, 3.0]}, columns=("x0",)),
}
MAPPED = {
    "logistic-regression": {"telco": {"label": 5}},
    "pattern-count": {party: {"code": 5} for party in PARTIES},
    "cross-table": {party: {"code": 5} for party in PARTIES},
    "moments": {party: {"code": 2} for party in PARTIES},  # the others are clipped, as counts that are too large
    "secure-mean, weighted": {party: {"weight": 2} for party in PARTIES},
    **{
        f"matrix-factorization, {way}": {party: {UNKNOWN_ITEM: 2, UNKNOWN_USER: 0, REPEATED: 1} for party in PARTIES}
        for way in ("horizontal", "sgd")
    },
    **{
        f"matrix-factorization, {way}": {party: {UNKNOWN_ITEM: 2, UNKNOWN_USER: 1, REPEATED: 1} for party in PARTIES}
        for way in ("vertical", "sgd, vertical")
    },
}


SIZED_BY_CHANCE = {
    "moments, threshold",  # what is released again after the commit: the slots that noisy sums show to be large
    "logistic-regression, order 3",  # between parties: a random batch
}


OF_ROWS_ALONE = {"joint-count"}  # it looks at no column


def counted(report):
    """How many values a report counts."""
    return sum(report["clipped_values"].values()) + sum(report["mapped_values"].values())


def write(path, kind):
    """A table of the same values at every call, but for those that are planted in rows 10 to 14."""
    rng = np.random.default_rng(len(path.name))
    columns = {
        "x0": rng.uniform(-1, 3, N_ROWS).round(3),
        "x1": rng.uniform(-1, 3, N_ROWS).round(3),
        "code": rng.integers(0, 4, N_ROWS),
        "label": rng.integers(0, 2, N_ROWS),
        "weight": rng.integers(0, 5, N_ROWS),
    }
    rows = [[f"row-{i}", *values] for i, values in enumerate(zip(*(c.tolist() for c in columns.values()), strict=True))]
    if kind == "planted":
        for place, bad in enumerate(zip(*PLANTED.values(), strict=True), start=10):
            rows[place][1:] = bad
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *columns])
        writer.writerows(rows)
    return path


def write_ratings(path, kind):
    """Ratings of 20 users, three items each, but for rows 10 to 14 of the planted table."""
    rng = np.random.default_rng(3)
    rows = [[user, item, rng.integers(1, 6)] for user in range(20) for item in rng.choice(8, 3, replace=False)]
    if kind == "planted":
        # One beyond the bounds, two of unknown items, one a second time, one by somebody of another name.
        rows[10:15] = [[3, 0, -99], [3, 8, 2], [4, "lunch", 5], rows[9], ["Ann", 1, 4]]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "item", "stars"])
        writer.writerows(rows)
    return path


def with_units(config):
    """Give the tables of other units than records a budget of theirs, and admit sketches, which one owner undoes."""
    limits = config.policy.limits.model_copy(update={"withstand_coalition": 0})
    tables = []
    for table in config.tables:
        unit = UNITS.get(table.name.partition("-")[2])
        first = table.first_budget if unit is None else table.first_budget.model_copy(update={"unit": unit})
        tables.append(table.model_copy(update={"first_budget": first}))
    policy = config.policy.model_copy(update={"limits": limits})
    return config.model_copy(update={"tables": tuple(tables), "policy": policy})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    tables = {}
    for party in PARTIES:
        paths = {kind: write(folder / f"{party}-{kind:_<8}.csv", kind) for kind in ("clean", "planted")}
        tables[party] = [
            LocalTable(f"{kind}-{budget}", path, BOUNDS, ROWS, "id", ON_REQUEST)
            for kind, path in paths.items()
            for budget in ("records", *UNITS)
        ]
        ratings = {kind: write_ratings(folder / f"{party}-{kind:_<8}-ratings.csv", kind) for kind in paths}
        declared = LocalRatings("user", "item", "stars", items=8, users=30, ratings_per_user=3)
        tables[party] += [
            LocalTable(f"{kind}-{budget}", path, {"stars": (1.0, 5.0)}, ROWS, unit=unit, ratings=declared)
            for kind, path in ratings.items()
            for budget, unit in OF_RATINGS.items()
        ]
    with pytest.MonkeyPatch.context() as patch:
        async with watched_services(folder / "run", tables, patch, change=with_units) as running:
            yield running


def test_every_analysis_is_among_the_cases():
    assert {case.analysis for case in CASES.values()} == set(ANALYSES)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", CASES)
async def test_planted_values_change_nothing_that_is_seen_and_their_owner_hears_of_them(services, name):
    case = CASES[name]
    clean, planted = [await services.run(case.job(kind)) for kind in ("clean", "planted")]
    assert (clean.view.state, planted.view.state) == ("DONE", "DONE"), planted.view.reason
    assert planted.before_the_commit() == clean.before_the_commit()
    assert planted.view.plan_json.replace('"planted-', '"clean-') == clean.view.plan_json
    if name not in SIZED_BY_CHANCE:
        assert (planted.received, planted.total_bytes) == (clean.received, clean.total_bytes)
    mapped = {}
    for party in PARTIES:
        of_clean, of_planted = [services.deployment.report(party, seen.view.job_id) for seen in (clean, planted)]
        assert counted(of_clean) == 0
        assert (counted(of_planted) > 0) == (name not in OF_ROWS_ALONE)
        mapped[party] = of_planted["mapped_values"]
        if name not in SIZED_BY_CHANCE:
            assert of_planted["traffic"] == of_clean["traffic"]  # what a watcher of the network sees
    expected = MAPPED.get(name, MAPPED.get(case.analysis, {}))
    assert {party: counts for party, counts in mapped.items() if any(counts.values())} == expected
