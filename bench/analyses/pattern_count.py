"""Pattern counts of real categories: how far a count is off."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from analyses.job.job import JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.pattern_count import protocol as pattern_count
from bench.analyses.table import Row, Spent
from bench.baselines.counts import central_release
from bench.datasets.bundled import read
from bench.machine import ONE_THREAD
from bench.utility import pattern_count as reports
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

METRIC = "error of a count in rows (root mean square), less is better"
EPSILONS = (0.5, 1.0, 2.0, 4.0)
MEMORY = "peak resident memory in GB"
LARGE = "pattern-count, a million users"
SLOPE = "pattern-count, how the error grows"
OF_EPSILON, OF_SHARE = "exponent of 1/epsilon in the error, {} parties", "exponent of the sample in the error"
PARTIES = (2, 3, 4)
ROWS = (1000, 40_000)
SHARE = 0.1
RUNS = 5


def people() -> list[Table]:
    """Return Adult as three parties: education 1..16, sex, income class; bounds as the source publishes them."""
    frame = read("adult_train")
    columns = {
        "school": ("education_num", frame["education_num"].to_list(), 1, 16),
        "registry": ("sex", [int(v == "Male") for v in frame["sex"]], 0, 1),
        "revenue": ("income", [int(v == ">50K") for v in frame["income"]], 0, 1),
    }
    tables = []
    for party, (name, codes, lower, upper) in columns.items():
        column = ColumnSchema(name=name, lower=lower, upper=upper)
        schema = BlockSchema(party=party, columns=(column,), rows=ROWS)
        tables.append(Table(schema, np.array(codes, dtype=np.float64)[:, None]))
    return tables


def in_process(quick: bool) -> Iterator[Row]:
    """Yield the rows of Adult."""
    tables = people()
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        ways: dict[str, Mapping[str, Any]] = {
            "mpc": {},
            "randomized-response": {"method": "randomized-response"},
            "subsampled": {"method": "subsampled", "share": SHARE},
        }
        parameters = {"max_rows": ROWS[1]}
        plans = {}
        for n, way in ways.items():
            with suppress(JobError):  # refused where noise would exceed the table
                plans[n] = plan_of(pattern_count, "pattern-count", tables, {**parameters, **way}, epsilon)
        exact = pattern_count.reference(tables, plans["mpc"])
        runs = {n: [run_in_process(plan, tables) for _ in range(1 if quick else RUNS)] for n, plan in plans.items()}
        error = {n: _error([np.array(run.result["counts"]) for run in of_way], exact) for n, of_way in runs.items()}
        spent = {n: typical([run.spent for run in of_way]) for n, of_way in runs.items()}
        central = [central_release(exact, l1=1, epsilon=epsilon, entropy=SystemEntropy()) for _ in range(RUNS)]
        yield Row(
            analysis="pattern-count",
            dataset=f"Adult (train), {exact.size} patterns",
            epsilon=epsilon,
            metric=METRIC,
            private=error.get("randomized-response"),
            mpc=error["mpc"],
            central=_error(central, exact),
            non_private=0.0,
            private_spent=spent.get("randomized-response"),
            mpc_spent=spent["mpc"],
            others={f"a {SHARE:.0%} sample": error["subsampled"]} if "subsampled" in error else {},
            note=f"coordinator's view; mean count {exact.mean():.0f}; {RUNS} runs"
            + "".join(f"; {n} refused: more noise than rows" for n in ways if n not in plans),
        )


def _error(counts: Sequence[np.ndarray], exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean([(found - exact) ** 2 for found in counts])))


def over_services(quick: bool) -> Iterator[Row]:
    """Yield the example over three services, both methods."""
    methods = ("randomized-response", "mpc")
    changes = [{"parameters.method": method, "privacy.view": "coordinator"} for method in methods]
    data, runs = example_over_services("pattern-count", changes, QUICK_ROWS if quick else None)
    job = example_job("pattern-count", changes[1])
    tables = tables_of_example(data, job)
    exact = pattern_count.reference(tables, pattern_count.plan(job, [t.schema for t in tables]))
    private, mpc = [_error([np.array(run.result["counts"])], exact) for run in runs]
    yield Row(
        analysis="pattern-count",
        dataset="KDD Cup 99, examples/pattern-count.toml",
        epsilon=job.privacy.epsilon,
        metric=METRIC,
        private=private,
        mpc=mpc,
        central=_error([central_release(exact, l1=1, epsilon=job.privacy.epsilon, entropy=SystemEntropy())], exact),
        non_private=0.0,
        private_spent=spent_by(runs[0]),
        mpc_spent=spent_by(runs[1]),
        note="coordinator's view; one run each over three services",
    )


def a_million_users(quick: bool) -> Iterator[Row]:
    """Yield time and memory of the largest counts, each method in a process of its own, and the slope of the error."""
    few = ("--rows", str(QUICK_ROWS), "--repeats", "2") if quick else ()
    for method in ("randomized-response", "mpc"):
        found = _program("--methods", method, *(("--no-slope",) if method == "mpc" else ()), *few)
        again = [_program("--methods", method, "--no-slope", *few) for _ in range(0 if quick else 2)]
        measured = sorted((run["methods"][0] for run in (found, *again)), key=_seconds)[len(again) // 2]
        spent = Spent(measured["seconds"], measured["sent_bytes"])
        memory = {MEMORY: measured["peak_resident_bytes"] / 1e9}
        yield Row(
            analysis=LARGE,
            dataset=f"{found['rows']:,} users, 3 parties of {found['categories']} categories",
            epsilon=found["epsilon"],
            metric=METRIC,
            private=measured["root_mean_square_error"] if method != "mpc" else None,
            mpc=measured["root_mean_square_error"] if method == "mpc" else None,
            non_private=0.0,
            private_spent=spent if method != "mpc" else None,
            mpc_spent=spent if method == "mpc" else None,
            others=memory,
            note=f"{method}; median of 3, each in a process of its own, all members one after another",
        )
        if method != "mpc":
            first, last = found["points"][0], found["points"][-1]
            yield Row(
                analysis=SLOPE,
                dataset=f"made-up rows, {first['rows']:,} to {last['rows']:,}",
                epsilon=None,
                metric="exponent of the rows in the error of a count",
                private=found["slope"],
                note=f"randomized response, the same bits; error {first['error']:.3g} to {last['error']:.3g} rows",
            )


def exponents(quick: bool) -> Iterator[Row]:
    """Yield how the error of randomized response grows as epsilon falls, and as fewer rows are reported on."""
    rows, repeats = (1 << 10, 1) if quick else (1 << 14, 10)
    biases = [reports.SLOPE_BIAS / (1 << power) for power in (2, 3, 4, 5)]
    for n in PARTIES:
        errors = [reports.error_of_reports(n, rows, repeats, bias=bias) for bias in biases]
        yield Row(
            analysis=SLOPE,
            dataset=f"made-up rows, {rows:,}",
            epsilon=None,
            metric=OF_EPSILON.format(n),
            private=reports.fitted([float(1 / bias) for bias in biases], errors),
            note=f"randomized response, epsilon of a party {float(8 * biases[-1]):.3g} to {float(8 * biases[0]):.3g}; "
            f"error {errors[0]:.3g} to {errors[-1]:.3g} rows",
        )
    shares = [1 / 16, 1 / 8, 1 / 4, 1 / 2]
    errors = [reports.error_of_reports(3, rows, repeats, reported=round(rows * share)) for share in shares]
    yield Row(
        analysis=SLOPE,
        dataset=f"made-up rows, {rows:,}",
        epsilon=None,
        metric=OF_SHARE,
        private=reports.fitted(shares, errors),
        note=f"a sample of a sixteenth to a half, the same bits; error {errors[0]:.3g} to {errors[-1]:.3g} rows",
    )


def _seconds(measured: dict[str, Any]) -> float:
    return float(measured["seconds"])


def _program(*arguments: str) -> dict[str, Any]:
    """Run `bench.utility.pattern_count` in a process of its own, whose memory is then nobody else's."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.utility.pattern_count", *arguments, "--format", "json"],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, **ONE_THREAD},
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    return {
        "Adult": in_process,
        "a million users": a_million_users,
        "exponents": exponents,
        "over services": over_services,
    }
