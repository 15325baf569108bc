"""A job for each analysis of the registry, on tables that suit all of them, and another plan of it to be lied with."""

from dataclasses import dataclass, field

import numpy as np
from rating_jobs import rows_of
from rating_jobs import table_of as table_of_ratings

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids

OWNERS = ("bank", "hospital", "telco")
HELPERS = ("one", "two", "three")
"""Compute parties without tables, where an analysis admits such."""

N_ROWS = 300
ROWS = (100, 400)
BOUNDS = {"x0": (-1.0, 3.0), "x1": (-1.0, 3.0), "code": (0.0, 3.0), "label": (0.0, 1.0)}
SIMPLE = ("x0", "x1")
LABELLED = ("x0", "label")

N_RATED, MOST_USERS, PER_USER = 12, 60, 6
"""Items at every owner, users that it may have, ratings of a user: in tables of ratings."""


def values_of(owner):
    """Return the columns x0, x1, code and label of an owner: the owners' codes and labels depend on each other."""
    common, own = np.random.default_rng(1), np.random.default_rng(OWNERS.index(owner) + 2)
    x = own.uniform(-1, 3, (N_ROWS, 2)).round(6)
    code = (common.integers(0, 4, N_ROWS) + (own.random(N_ROWS) < 0.2)) % 4
    return np.column_stack([x, code, code > 1]).astype(np.float64)


def table_of(owner, names):
    """Return a table with some of these columns."""
    columns = tuple(ColumnSchema(name=name, lower=BOUNDS[name][0], upper=BOUNDS[name][1]) for name in names)
    schema = BlockSchema(party=owner, columns=columns, has_ids=True, rows=ROWS)
    values = values_of(owner)[:, [list(BOUNDS).index(name) for name in names]]
    return Table(schema, values, digest_of_ids(f"row-{i}" for i in range(N_ROWS)))


def ratings_of(owner):
    """Return users, items and ratings of an owner, N_ROWS of each: 50 users rate half of the items."""
    rng = np.random.default_rng(OWNERS.index(owner) + 7)
    users = np.repeat(np.arange(N_ROWS // PER_USER), PER_USER)
    items = np.concatenate([rng.choice(N_RATED, PER_USER, replace=False) for _ in range(N_ROWS // PER_USER)])
    return users, items, rng.uniform(*BOUNDS["x0"], N_ROWS).round(6)


@dataclass(frozen=True)
class Variant:
    """A way to run an analysis.

    Attributes:
        analysis: its name in the registry.
        parameters: of the job.
        others: parameters that make another plan, whose messages have the same shapes where that is possible.
        columns: of every owner.
        label_columns: of the telco, where it brings others.
        has_helpers: whether parties without tables compute.
        privacy: changes of the privacy target.
        epsilon_factor: by which the epsilons of tests are multiplied for an analysis that takes smaller ones only.
        table: of every owner; one with another name has a budget of another unit.
        has_ratings: whether the tables hold ratings, which have no columns.
    """

    analysis: str
    parameters: dict
    others: dict
    columns: tuple[str, ...] = SIMPLE
    label_columns: tuple[str, ...] | None = None
    has_helpers: bool = True
    privacy: dict = field(default_factory=dict)
    epsilon_factor: float = 1.0
    table: str = "people"
    has_ratings: bool = False

    def columns_of(self, owner):
        if self.has_ratings:
            return ()
        return self.label_columns if owner == "telco" and self.label_columns else self.columns

    @property
    def members(self):
        return (*HELPERS, *OWNERS) if self.has_helpers else OWNERS

    def job(self, **changes):
        """Return the job; it has a privacy target unless `privacy` is None."""
        fields = {
            "analysis": self.analysis,
            "inputs": [{"party": o, "table": self.table, "columns": self.columns_of(o)} for o in OWNERS],
            "compute": HELPERS if self.has_helpers else (),
            "privacy": self.privacy_of(40.0),
            "parameters": self.parameters,
        }
        return Job.model_validate({**fields, **changes})

    def privacy_of(self, epsilon):
        """Return the privacy target of a job with an epsilon of the tests."""
        return {"epsilon": epsilon * self.epsilon_factor, "delta": 1e-6, **self.privacy}

    def job_of_epsilon(self, epsilon):
        return self.job(privacy=self.privacy_of(epsilon))

    def other_job(self):
        """Return the job with other parameters."""
        return self.job(parameters={**self.parameters, **self.others})

    def tables(self):
        if self.has_ratings:
            declared = {"n_items": N_RATED, "users": MOST_USERS, "per_user": PER_USER, "bounds": BOUNDS["x0"]}
            return {o: table_of_ratings(o, rows_of(*ratings_of(o)), **declared) for o in OWNERS}
        return {owner: table_of(owner, self.columns_of(owner)) for owner in OWNERS}


ROWS_AND_SCALE = {"max_rows": 500, "gamma": 4096}
GRID = {"k": 3, "k_local": 3, "max_rows": 500}
SUM = {"max_rows": 500, "units": 1000, "names": list(SIMPLE)}
SKETCH = {"method": "sketch", "sketch_entries": "signs", "sketch_rows": 64}
LOGISTIC = {"label": "telco.label", "max_rows": 500}
STEPS = {"method": "gradient", "iterations": 3, "sampling_rate": 0.5, "weight_norm": 4.0}


PROGRAM = [
    "a = column(bank.code)",
    "b = column(hospital.code)",
    "d = column(telco.code)",
    "product = mul(a, b)",
    "more = less(product, d)",
    "paid = mul(more, d)",
    "open n_more = sum(more)",
    "open paid = sum(paid)",
]
ALTERED = [line.replace("less(", "less_equal(") for line in PROGRAM]


class Jobs(dict[str, Variant]):
    """Jobs by their name; a missing one is asked for by name."""

    def __missing__(self, name: str) -> Variant:
        raise AssertionError(f"registry_jobs.VARIANTS in tests/support has no job of {name}")


VARIANTS = Jobs(
    {
        "pca": Variant("pca", {**ROWS_AND_SCALE, "components": 1}, {"components": 2}),
        "second-moments": Variant("second-moments", ROWS_AND_SCALE, {"gamma": 2048}),
        "low-rank": Variant("low-rank", {**ROWS_AND_SCALE, "rank": 1}, {"rank": 2}),
        "low-rank by sketch": Variant("low-rank", {**ROWS_AND_SCALE, **SKETCH, "rank": 1}, {"rank": 2}),
        "least-squares": Variant("least-squares", {**ROWS_AND_SCALE, "label": "bank.x0"}, {"label": "bank.x1"}),
        "logistic-regression": Variant(
            "logistic-regression", LOGISTIC, {"gamma": 4096}, columns=SIMPLE, label_columns=LABELLED
        ),
        "logistic-regression by gradients": Variant(
            "logistic-regression", {**LOGISTIC, **STEPS}, {"learning_rate": 0.25}, label_columns=LABELLED
        ),
        "circuit": Variant("circuit", {"program": PROGRAM}, {"program": ALTERED}, columns=("code",)),
        "clustering": Variant("clustering", GRID, {"k": 2}),
        "clustering by reports": Variant("clustering", {**GRID, "counting": "ldp"}, {"k": 2}),
        "cross-table": Variant("cross-table", {"max_rows": 500}, {"max_rows": 501}, columns=("code",)),
        "pattern-count": Variant("pattern-count", {"max_rows": 500}, {"max_rows": 501}, columns=("code",)),
        "pattern-count by reports": Variant(
            "pattern-count",
            {"max_rows": 500, "method": "randomized-response"},
            {"method": "subsampled", "share": 0.5},
            columns=("code",),
        ),
        "joint-count": Variant("joint-count", {"max_rows": 500}, {"max_rows": 501}),
        "joint-mean": Variant("joint-mean", {"max_rows": 500}, {"max_rows": 501}),
        "joint-sum": Variant("joint-sum", {"max_rows": 500}, {"max_rows": 501}),
        "moments": Variant("moments", {"max_rows": 500}, {"max_rows": 501}, columns=("code",)),
        "moments, laplace": Variant(
            "moments", {"max_rows": 500, "method": "laplace", "order": 1}, {"largest": {"bank": 2}}, columns=("code",)
        ),
        "moments, sketch": Variant(
            "moments", {"max_rows": 500, "method": "sketch", "sketch_rows": 64}, {"sketch_rows": 32}, columns=("code",)
        ),
        "moments, threshold": Variant(
            "moments", {"max_rows": 500, "method": "threshold", "threshold": 4}, {"threshold": 5}, columns=("code",)
        ),
        "distribution": Variant(
            "distribution",
            {"buckets": 16, "smoothing": 3, "range": [-1.0, 3.0]},
            {"smoothing": 1},
            columns=("x0",),
            has_helpers=False,
            epsilon_factor=1 / 256,
            table="rows",
        ),
        "distribution, sign": Variant(
            "distribution",
            {"buckets": 16, "method": "sign", "range": [-1.0, 3.0]},
            {"buckets": 32},
            columns=("x0",),
            has_helpers=False,
            epsilon_factor=1 / 256,
            table="rows",
        ),
        "distribution, grid": Variant(
            "distribution",
            {"method": "grid", "cells": [4, 3], "rectangles": [[-1.0, 1.0, 0.0, 3.0]]},
            {"cells": [3, 4]},
            has_helpers=False,
            epsilon_factor=1 / 256,
            table="rows",
        ),
        "distribution, masked": Variant(
            "distribution",
            {"buckets": 16, "method": "masked", "range": [-1.0, 3.0]},
            {"queries": [[0.0, 1.0]]},
            columns=("x0",),
            has_helpers=False,
            table="rows",
        ),
        "matrix-factorization": Variant(
            "matrix-factorization",
            {"rank": 1, "rounds": 1},
            {"centre": 0.5},
            has_helpers=False,
            table="users",
            has_ratings=True,
        ),
        "matrix-factorization, vertical": Variant(
            "matrix-factorization",
            {"setting": "vertical", "rank": 1, "rounds": 1},
            {"centre": 0.5},
            has_helpers=False,
            table="items",
            has_ratings=True,
        ),
        "matrix-factorization, sgd": Variant(
            "matrix-factorization",
            {"form": "sgd", "rank": 1, "steps": 2},
            {"learning_rate": 0.25},
            has_helpers=False,
            table="users",
            has_ratings=True,
        ),
        "matrix-factorization, sgd, vertical": Variant(
            "matrix-factorization",
            {"form": "sgd", "setting": "vertical", "rank": 1, "steps": 2, "final_steps": 1},
            {"learning_rate": 0.25},
            has_helpers=False,
            table="items",
            has_ratings=True,
        ),
        "matrix-factorization, sgd, vertical, party": Variant(
            "matrix-factorization",
            {"form": "sgd", "setting": "vertical", "noise": "party", "rank": 1, "steps": 2, "local_steps": 2},
            {"learning_rate": 0.25},
            has_helpers=False,
            table="items",
            has_ratings=True,
        ),
        "secure-sum": Variant("secure-sum", SUM, {"units": 999}, has_helpers=False),
        "secure-mean": Variant("secure-mean", SUM, {"units": 999}, has_helpers=False),
        "secure-histogram": Variant(
            "secure-histogram",
            {"max_rows": 500, "edges": [0.0, 1.0, 2.0], "names": ["x0"]},
            {"edges": [0.0, 1.0, 2.5]},
            columns=("x0",),
            has_helpers=False,
        ),
    }
)
"""The first of an analysis, named like it, is its usual way."""

OTHER_WAYS = {
    "clustering, independent": Variant("clustering", {**GRID, "counting": "independent"}, {}),
    "clustering, pattern": Variant("clustering", {**GRID, "counting": "pattern"}, {}),
    "clustering, sketches": Variant(
        "clustering",
        {
            **GRID,
            "counting": "fm-sketch",
            "counting_options": {"accept_no_protection_against_parties": True, "sketches": 64},
        },
        {},
        privacy={"view": "coordinator"},
    ),
    "clustering, Lloyd": Variant("clustering", {**GRID, "local_method": "lloyd"}, {}),
    "pattern-count, subsampled": Variant(
        "pattern-count", {"max_rows": 500, "method": "subsampled", "share": 0.5}, {}, columns=("code",)
    ),
}
"""Ways to count that no job of `VARIANTS` takes."""
