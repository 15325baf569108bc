"""Low-rank approximation of real tables: what the private subspace loses of the norm of the table."""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from analyses.job.schema import Table
from analyses.low_rank import protocol as low_rank
from analyses.pca.protocol import leading_components
from analyses.pca.reference import captured_variance
from analyses.rows.row_plan import clipped_rows
from bench.analyses import additive_error
from bench.analyses.table import Row
from bench.baselines.components import central_components
from bench.datasets.vertical_tables import earnings, housing
from bench.utility.moment_runs import (
    DELTA,
    METHODS,
    QUICK_ROWS,
    example_over_services,
    plan_of,
    run_in_process,
    spent_by,
    tables_of_example,
    typical,
)
from demo.data_sets.kdd import write_kdd_parties
from demo.job import example_job

METRIC = "norm lost, less is better"
EPSILONS = (0.5, 1.0, 2.0, 4.0)


def lost(moment: np.ndarray, components: np.ndarray) -> float:
    """Return `low_rank.residual` from X^T X alone, which is quicker for a long table."""
    return float(np.sqrt(max(0.0, 1.0 - captured_variance(moment, components))))


def compared(
    dataset: str, read: Callable[[bool], tuple[Sequence[Table], Mapping[str, Any]]], runs: int, quick: bool
) -> Iterator[Row]:
    """Yield the rows of one table; `read` returns it and the parameters of its jobs."""
    rng = np.random.default_rng(20260106)
    tables, parameters = read(quick)
    runs = 1 if quick else runs
    plan = plan_of(low_rank, "low-rank", tables, parameters, 1.0)
    joint, k = clipped_rows(tables, plan), plan.params.rank
    moment, longest = joint.T @ joint, plan.row_norm**2
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        plans = {n: plan_of(low_rank, "low-rank", tables, {**parameters, **m}, epsilon) for n, m in METHODS.items()}
        found = {n: [run_in_process(plan, tables) for _ in range(runs)] for n, plan in plans.items()}
        ours = {
            n: statistics.median(lost(moment, np.array(run.result["components"])) for run in of_way)
            for n, of_way in found.items()
        }
        spent = {n: typical([run.spent for run in of_way]) for n, of_way in found.items()}
        central = [central_components(moment / longest, k, epsilon=epsilon, delta=DELTA, rng=rng) for _ in range(runs)]
        yield Row(
            analysis="low-rank",
            dataset=f"{dataset}, rank {k}",
            epsilon=epsilon,
            metric=METRIC,
            private=ours["gaussian"],
            mpc=ours["mpc"],
            central=statistics.median(lost(moment, components) for components in central),
            non_private=lost(moment, leading_components(moment, k)[1]),
            private_spent=spent["gaussian"],
            mpc_spent=spent["mpc"],
            others={"a sketch of signs": ours["signs"]},
            note=f"medians of {runs}",
        )


def over_services(quick: bool) -> Iterator[Row]:
    """Yield the example over three services, both methods."""
    methods = ("sketch", "mpc")
    changes = [{"privacy.epsilon": 1.0, "privacy.view": "coordinator", "parameters.method": m} for m in methods]
    data, runs = example_over_services("low-rank", changes, QUICK_ROWS if quick else None)
    job = example_job("low-rank", changes[1])
    tables = tables_of_example(data, job)
    plan = low_rank.plan(job, [t.schema for t in tables])
    joint = clipped_rows(tables, plan)
    moment = joint.T @ joint
    private, mpc = [lost(moment, np.array(run.result["components"])) for run in runs]
    rng, k, longest = np.random.default_rng(20260107), plan.params.rank, plan.row_norm**2
    central = central_components(moment / longest, k, epsilon=1.0, delta=job.privacy.delta, rng=rng)
    yield Row(
        analysis="low-rank",
        dataset=f"KDD Cup 99, rank {k}: examples/low-rank.toml",
        epsilon=1.0,
        metric=METRIC,
        private=private,
        mpc=mpc,
        central=lost(moment, central),
        non_private=lost(moment, leading_components(moment, k)[1]),
        private_spent=spent_by(runs[0]),
        mpc_spent=spent_by(runs[1]),
        note="one run each over three services",
    )


def _kdd(quick: bool) -> tuple[Sequence[Table], Mapping[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        data = write_kdd_parties(Path(folder), rows=QUICK_ROWS if quick else None)
    parameters = example_job("low-rank").parameters
    return data.in_memory(), {key: parameters[key] for key in ("rank", "max_rows", "row_norm", "norm_bounds")}


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    return {
        "KDD Cup 99": partial(compared, "KDD Cup 99", _kdd, 3),
        "California housing": partial(
            compared, "California housing", lambda quick: (housing(), {"rank": 2, "max_rows": 30_000}), 10
        ),
        "CPS earnings": partial(
            compared, "CPS earnings", lambda quick: (earnings(), {"rank": 3, "max_rows": 100_000}), 10
        ),
        "additive error": additive_error.of_low_rank,
        "over services": over_services,
    }
