"""Small jobs of every analysis, and how far their results are off beside what was forecast."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rating_jobs import BOUNDS as RATING_BOUNDS
from rating_jobs import N_ITEMS, rows_of
from rating_jobs import table_of as table_of_ratings

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids
from analyses.registry import analysis_of
from analyses.run_locally import run_locally
from entropy import InsecureTestEntropy

PARTIES = ("bank", "hospital", "telco")


def tables_of(values, bounds=(0.0, 1.0), label=None):
    """Return a table of each party: its columns, all of the same bounds; the last party's label besides."""
    found = {}
    for party, own in zip(PARTIES, values, strict=False):
        names = [f"x{i}" for i in range(own.shape[1])]
        columns = [ColumnSchema(name=name, lower=bounds[0], upper=bounds[1]) for name in names]
        if label is not None and party == PARTIES[-1]:
            columns.append(ColumnSchema(name="label", lower=0, upper=1))
            own = np.column_stack([own, label])
        schema = BlockSchema(party=party, columns=tuple(columns), has_ids=True, rows=(50, len(own)))
        found[party] = Table(schema, own.astype(np.float64), digest_of_ids(f"row-{i}" for i in range(len(own))))
    return found


def job_of(analysis, epsilon, parties=PARTIES, compute=(), **parameters):
    return Job.model_validate(
        {
            "analysis": analysis,
            "inputs": [{"party": party, "table": "people"} for party in parties],
            "compute": compute,
            "privacy": {"epsilon": epsilon, "delta": 1e-6},
            "parameters": parameters,
        }
    )


@dataclass(frozen=True)
class Case:
    """A job whose errors are compared with their forecast.

    Attributes:
        job: what is asked for.
        tables: of the run of a number; the same each time unless chance is part of the forecast.
        read: of a result, the numbers whose errors are forecast, in the order of the quantities.
        truth: of a plan and the tables, what these numbers are without noise; None: their mean over all runs.
        stated: of a result, the standard errors that it states itself; None where it states none.
        runs: so many suffice for a quick look.
        first: place of the first of them among the quantities of the forecast, of which a single one is about all.
    """

    job: Job
    tables: Callable[[int], Any]
    read: Callable[[Any], Any]
    truth: Callable[[Any, Any], Any] | None = None
    stated: Callable[[Any], Any] | None = None
    runs: int = 4
    first: int = 0


def observed(case, runs):
    """Run a case so often. Return errors over forecast standard errors, and over stated ones, shape (runs, numbers)."""
    found, truths, stated = [], [], []
    for number in range(runs):
        tables = case.tables(number)
        run = asyncio.run(
            run_locally(case.job, tables, entropy_of=lambda m, n=number: InsecureTestEntropy(f"forecast {n} {m}"))
        )
        found.append(np.ravel(case.read(run.result)))
        if case.truth is not None:
            truths.append(np.ravel(case.truth(run.plan, list(tables.values()))))
        if case.stated is not None:
            stated.append(np.ravel(case.stated(run.result)))
    quantities = analysis_of(case.job).forecast(run.plan).quantities
    expected = np.array([one.standard_error for one in quantities])
    if len(expected) > 1:
        expected = expected[case.first : case.first + len(found[0])]
    errors = np.array(found) - (np.mean(found, axis=0) if case.truth is None else np.array(truths))
    if case.truth is None:
        errors *= np.sqrt(runs / (runs - 1))
    return errors / expected, errors / np.array(stated) if stated else None


_RNG = np.random.default_rng(33)
_EVEN = [_RNG.random((400, 3)) for _ in PARTIES]
_SUMMED = [_RNG.random((60, 10)) for _ in PARTIES]
_MIXED = _RNG.random((600, 4)) * np.array([1.0, 0.75, 0.5, 0.25])
_ROTATION = np.linalg.qr(_RNG.normal(size=(4, 4)))[0]
_CORRELATED = np.clip(0.5 + (_MIXED - _MIXED.mean(axis=0)) @ _ROTATION.T, 0, 1)
_CODES = [_RNG.integers(0, 4, (400, 1)) for _ in PARTIES]
_COUNTS = [np.full((300, 1), 5.0) for _ in PARTIES]
_HELPERS = ("one", "two", "three")


def _always(tables):
    return lambda number: tables


def _reference(name):
    def truth(plan, tables):
        return analysis_of(plan.job).reference(tables, plan)[name]

    return truth


def _moments(order):
    return lambda plan, tables: 300 * 15.0**order


def _rows(plan, tables):
    from analyses.rows.row_plan import clipped_rows

    return clipped_rows(tables, plan)


def _eigenvalues(plan, tables):
    rows = _rows(plan, tables)
    return np.linalg.eigvalsh(rows.T @ rows)[::-1][:1]


def _variances(plan, tables):
    return np.linalg.eigvalsh(np.cov(_rows(plan, tables).T, bias=True))[::-1][:2]


def _patterns(plan, tables):
    counts = np.zeros((4, 4, 4))
    np.add.at(counts, tuple(table.values[:, 0].astype(int) for table in tables), 1)
    return counts


_WEIGHTS = np.array([0.6, -0.4, 0.0, 0.3, -0.2, 0.5])


def _labelled(number):
    rng = np.random.default_rng(number)
    x = [rng.random((4000, 2)) for _ in PARTIES]
    odds = (np.hstack(x) - 0.5) @ _WEIGHTS
    return tables_of(x, label=rng.random(4000) < 1 / (1 + np.exp(-odds)))


def _rated(of_users=0.0, of_items=0.0, users=400, per_user=4):
    """Return ratings of each party's own items; offsets have these deviations, and 0.9 is what remains."""
    rng = np.random.default_rng(5)
    moved, found = rng.normal(0, of_users, users) if of_users else np.zeros(users), {}
    for party in PARTIES:
        about = rng.normal(0, of_items, N_ITEMS) if of_items else np.zeros(N_ITEMS)
        whose = np.repeat(np.arange(users), per_user)
        items = np.concatenate([rng.choice(N_ITEMS, per_user, replace=False) for _ in range(users)])
        values = np.clip(moved[whose] + about[items] + rng.normal(0, 0.9, len(items)), *RATING_BOUNDS).round(3)
        found[party] = table_of_ratings(party, rows_of(whose, items, values), users=users, per_user=per_user)
    return found


CASES = {
    "secure-sum": Case(
        job_of("secure-sum", 1.0, max_rows=60),
        _always(tables_of(_SUMMED)),
        lambda r: r["sum"],
        lambda plan, tables: np.sum([t.values for t in tables], axis=(0, 1)),
        lambda r: r["standard_errors"],
    ),
    "secure-mean": Case(
        job_of("secure-mean", 8.0, max_rows=60),
        _always(tables_of(_SUMMED)),
        lambda r: r["mean"],
        lambda plan, tables: np.mean([t.values for t in tables], axis=(0, 1)),
        runs=8,
    ),
    "secure-histogram": Case(
        job_of("secure-histogram", 1.0, max_rows=60, edges=np.linspace(0, 1, 41).tolist()),
        _always(tables_of([own[:, :1] for own in _SUMMED])),
        lambda r: r["counts"],
        _reference("counts"),
        lambda r: r["standard_errors"],
        runs=2,
    ),
    "pattern-count": Case(
        job_of("pattern-count", 1.0),
        _always(tables_of(_CODES, (0, 3))),
        lambda r: r["counts"],
        _patterns,
        lambda r: r["standard_errors"],
        runs=1,
    ),
    "pattern-count by reports": Case(
        job_of("pattern-count", 20.0, method="randomized-response", max_rows=500),
        _always(tables_of(_CODES, (0, 3))),
        lambda r: r["counts"],
        _patterns,
        lambda r: r["standard_errors"],
        runs=1,
    ),
    "moments": Case(
        job_of("moments", 1.0, order=2),
        _always(tables_of(_COUNTS, (0, 10))),
        lambda r: r["moment"],
        _moments(2),
        lambda r: r["standard_error"],
        runs=30,
    ),
    "moments, laplace": Case(
        job_of("moments", 1.0, method="laplace", order=1),
        _always(tables_of(_COUNTS, (0, 10))),
        lambda r: r["moment"],
        _moments(1),
        lambda r: r["standard_error"],
        runs=30,
    ),
    "moments, sketch": Case(
        job_of("moments", 4.0, method="sketch", sketch_rows=256),
        _always(tables_of(_COUNTS, (0, 10))),
        lambda r: r["moment"],
        _moments(2),
        lambda r: r["standard_error"],
        runs=30,
    ),
    "pca": Case(
        job_of("pca", 4.0, PARTIES[:2], _HELPERS, components=2, origin="middle"),
        _always(tables_of([_CORRELATED[:, :2], _CORRELATED[:, 2:]])),
        lambda r: r["explained_variance"],
        _variances,
        runs=15,
    ),
    "second-moments": Case(
        job_of("second-moments", 20.0),
        _always(tables_of(_SUMMED)),
        lambda r: r["mean"],
        lambda plan, tables: np.concatenate([t.values.mean(axis=0) for t in tables]),
        lambda r: r["mean_standard_errors"],
        runs=6,
    ),
    "low-rank": Case(
        job_of("low-rank", 4.0, PARTIES[:2], _HELPERS, rank=1),
        _always(tables_of([_CORRELATED[:, :2], _CORRELATED[:, 2:]])),
        lambda r: r["eigenvalues"][:1],
        _eigenvalues,
        runs=25,
    ),
    "least-squares": Case(
        job_of("least-squares", 20.0, label="telco.x2"),
        _always(tables_of(_EVEN)),
        lambda r: r["coefficients"],
        lambda plan, tables: analysis_of(plan.job).reference(tables, plan).coefficients,
        runs=6,
    ),
    "logistic-regression": Case(
        job_of("logistic-regression", 8.0, label="telco.label"),
        _labelled,
        lambda r: r["weights"],
        lambda plan, tables: _WEIGHTS,
        lambda r: r["standard_errors"],
        runs=6,
    ),
    "distribution, masked": Case(
        job_of("distribution", 1.0, method="masked", buckets=64),
        _always(tables_of([own[:, :1] for own in _EVEN])),
        lambda r: [r["mean"], *[value for _, value in r["quantiles"]]],
        None,
        lambda r: np.diff([r["intervals"]["mean"], *r["intervals"]["quantiles"]]) / (2 * 1.96),
        runs=20,
    ),
    "distribution": Case(
        job_of("distribution", 2.0, buckets=32, smoothing=1),
        _always(tables_of([own[:, :1] for own in _EVEN])),
        lambda r: r["closed_mean"],
        lambda plan, tables: np.mean([t.values for t in tables]),
        lambda r: r["closed_mean_error"],
        runs=25,
    ),
    "clustering": Case(
        job_of("clustering", 4.0, PARTIES[:2], _HELPERS, k=2, k_local=3),
        _always(tables_of([_CORRELATED[:, :2], _CORRELATED[:, 2:]])),
        lambda r: sum(r["weights"]),
        lambda plan, tables: 600,
        runs=40,
        first=1,
    ),
    "matrix-factorization": Case(
        job_of("matrix-factorization", 4.0, rank=0),
        _always(_rated()),
        lambda r: np.array(r["offsets"]) / r["units"],
        None,
        runs=6,
    ),
    "matrix-factorization, vertical": Case(
        job_of("matrix-factorization", 8.0, rank=0, setting="vertical"),
        _always(_rated(0.39, 0.45, users=300, per_user=10)),
        lambda r: np.array(r["offsets"]) / r["units"],
        None,
        runs=4,
    ),
}
"""By the name of the variant."""
