"""Moments of real counts: the relative error."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.power_moments import protocol as moments
from bench.analyses import additive_error
from bench.analyses.table import Row
from bench.baselines.counts import central_release
from bench.datasets.bundled import read
from bench.utility.moment_runs import (
    QUICK_ROWS,
    example_over_services,
    plan_of,
    run_in_process,
    spent_by,
    tables_of_example,
    typical,
)
from demo.job import example_job
from entropy import SystemEntropy

METRIC = "relative error (median), less is better"
EPSILONS = (0.5, 1.0, 2.0, 4.0)
RUNS = 9
ROWS = (1000, 16_384)
MAX_ACCOUNTS = 31
"""More accounts of one kind than nearly anybody has: a round number, not one of the data."""

ACCOUNTS = {"bank": "num_active_debit_accounts", "lender": "num_mort_accounts", "shop": "num_open_cc_accounts"}
LOCAL: Mapping[int, Mapping[str, Any]] = {1: {"method": "laplace"}, 2: {"method": "sketch", "sketch_rows": 64}}


def borrowers() -> list[Table]:
    """Return Lending Club as three institutions that each know how many accounts a borrower has with them."""
    frame = read("lending_club")
    tables = []
    for party, column in ACCOUNTS.items():
        counts = ColumnSchema(name=column, lower=0, upper=MAX_ACCOUNTS)
        schema = BlockSchema(party=party, columns=(counts,), rows=ROWS)
        tables.append(Table(schema, frame[column].to_numpy().astype(np.float64)[:, None]))
    return tables


def in_process(order: int, quick: bool) -> Iterator[Row]:
    """Yield the rows of one power."""
    tables = borrowers()
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        parameters: dict[str, Any] = {"max_rows": ROWS[1], "order": order}
        ways: dict[str, Mapping[str, Any]] = {"mpc": {}, "threshold": {"method": "threshold", "threshold": 24}}
        if order in LOCAL:
            ways["local"] = LOCAL[order]
        plans = {n: plan_of(moments, "moments", tables, {**parameters, **way}, epsilon) for n, way in ways.items()}
        exact = moments.reference(tables, plans["mpc"])
        runs = {n: [run_in_process(p, tables) for _ in range(1 if quick else RUNS)] for n, p in plans.items()}
        error = {n: _error([run.result["moment"] for run in of_way], exact) for n, of_way in runs.items()}
        spent = {n: typical([run.spent for run in of_way]) for n, of_way in runs.items()}
        power = sum(plans["mpc"].largest) ** order
        values = np.array([int(exact)])
        central = [
            float(central_release(values, l1=power, epsilon=epsilon, entropy=SystemEntropy())[0]) for _ in range(RUNS)
        ]
        yield Row(
            analysis="moments",
            dataset=f"Lending Club, order {order}",
            epsilon=epsilon,
            metric=METRIC,
            private=error.get("local"),
            mpc=error["mpc"],
            central=_error(central, exact),
            non_private=0.0,
            private_spent=spent.get("local"),
            mpc_spent=spent["mpc"],
            others={"`threshold`, which protects single events only,": error["threshold"]},
            note=f"coordinator's view; medians of {RUNS}"
            + ("" if order in LOCAL else "; the paper has no other form for records"),
        )


def _error(found: Sequence[float], exact: float) -> float:
    return float(np.median(np.abs(np.array(found) / exact - 1)))


def over_services(quick: bool) -> Iterator[Row]:
    """Yield the example over three services, both methods."""
    methods = ("sketch", "mpc")
    changes = [{"parameters.method": method, "privacy.view": "coordinator"} for method in methods]
    data, runs = example_over_services("moments", changes, QUICK_ROWS if quick else None)
    job = example_job("moments", changes[1])
    tables = tables_of_example(data, job)
    plan = moments.plan(job, [t.schema for t in tables])
    exact = moments.reference(tables, plan)
    private, mpc = [_error([run.result["moment"]], exact) for run in runs]
    power, values = sum(plan.largest) ** job.parameters["order"], np.array([int(exact)])
    central = [
        float(central_release(values, l1=power, epsilon=job.privacy.epsilon, entropy=SystemEntropy())[0])
        for _ in range(RUNS)
    ]
    yield Row(
        analysis="moments",
        dataset="KDD Cup 99, examples/moments.toml",
        epsilon=job.privacy.epsilon,
        metric=METRIC,
        private=private,
        mpc=mpc,
        central=_error(central, exact),
        non_private=0.0,
        private_spent=spent_by(runs[0]),
        mpc_spent=spent_by(runs[1]),
        note="coordinator's view; one run each over three services",
    )


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    return {
        **{f"order {order}": partial(in_process, order) for order in (1, 2, 3)},
        "additive error": additive_error.of_moments,
        "over services": over_services,
    }
