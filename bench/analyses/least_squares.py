"""Least squares on real tables: share of the label's variation explained by the private line."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from analyses.job.schema import Table
from analyses.least_squares import protocol as least_squares
from analyses.second_moments.released import exact_moments
from bench.analyses import additive_error
from bench.analyses.table import Row
from bench.baselines.components import central_moment
from bench.datasets.vertical_tables import EARNINGS_LABEL, HOUSING_LABEL, earnings, housing
from bench.utility.moment_runs import (
    METHODS,
    QUICK_ROWS,
    LocalRun,
    example_over_services,
    plan_of,
    run_in_process,
    spent_by,
    tables_of_example,
    typical,
)
from demo.job import example_job

METRIC = "R^2, more is better"
EPSILONS = (0.5, 1.0, 2.0, 4.0)


def explained(plan: Any, tables: Sequence[Table], line: least_squares.Line | None) -> float:
    """Return the R^2 of a line; 0, that of the mean, where there is no answer."""
    if line is None:
        return 0.0
    blocks = []
    for table in tables:
        bounds = np.array([(c.lower, c.upper) for c in table.schema.columns])
        blocks.append(np.clip(table.values, bounds[:, 0], bounds[:, 1]))
    joint = np.hstack(blocks)
    is_label = np.array(plan.column_names) == plan.params.label
    label = joint[:, is_label][:, 0]
    return float(1 - np.mean((label - line.predict(joint[:, ~is_label])) ** 2) / np.var(label))


def score(run: LocalRun, plan: Any, tables: Sequence[Table]) -> float:
    """Return the R^2 of what a job found."""
    if run.result["coefficients"] is None:
        return 0.0
    line = least_squares.Line(np.array(run.result["coefficients"]), run.result["intercept"])
    return explained(plan, tables, line)


def central(plan: Any, tables: Sequence[Table], epsilon: float, rng: np.random.Generator) -> float:
    longest = plan.total_squared_norm * plan.unit**2
    moments = exact_moments(tables, plan) / longest
    noisy, level = central_moment(moments, epsilon=epsilon, delta=plan.job.privacy.delta, rng=rng)
    solution = least_squares.solve_moments(noisy * longest, level * longest, plan)
    return explained(plan, tables, least_squares.in_units_of_columns(solution, plan))


def compared(
    dataset: str, read: Callable[[], Sequence[Table]], parameters: Mapping[str, Any], quick: bool
) -> Iterator[Row]:
    """Yield the rows of one table."""
    rng, tables = np.random.default_rng(20260104), read()
    runs = 1 if quick else 10
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        plans = {
            n: plan_of(least_squares, "least-squares", tables, {**parameters, **m}, epsilon) for n, m in METHODS.items()
        }
        found = {n: [run_in_process(plan, tables) for _ in range(runs)] for n, plan in plans.items()}
        medians = {n: statistics.median(score(r, plans[n], tables) for r in of_way) for n, of_way in found.items()}
        spent = {n: typical([r.spent for r in of_way]) for n, of_way in found.items()}
        baseline = [central(plans["mpc"], tables, epsilon, rng) for _ in range(runs)]
        yield Row(
            analysis="least-squares",
            dataset=dataset,
            epsilon=epsilon,
            metric=METRIC,
            private=medians["gaussian"],
            mpc=medians["mpc"],
            central=statistics.median(baseline),
            non_private=explained(plans["mpc"], tables, least_squares.reference(tables, plans["mpc"])),
            private_spent=spent["gaussian"],
            mpc_spent=spent["mpc"],
            others={"a sketch of signs": medians["signs"]},
            note=f"medians of {runs}, no answer counts as 0",
        )


def over_services(quick: bool) -> Iterator[Row]:
    """Yield the example over three services at each epsilon."""
    rng = np.random.default_rng(20260105)
    epsilons = EPSILONS[1:2] if quick else EPSILONS
    changes = [{"privacy.epsilon": epsilon, "privacy.view": "coordinator"} for epsilon in epsilons]
    data, runs = example_over_services("least-squares", changes, QUICK_ROWS if quick else None)
    for epsilon, change, run in zip(epsilons, changes, runs, strict=True):
        job = example_job("least-squares", change)
        tables = tables_of_example(data, job)
        schemas = [t.schema for t in tables]
        plan = least_squares.plan(job, schemas)
        sketch = least_squares.plan(example_job("least-squares", {**change, "parameters.method": "sketch"}), schemas)
        sketched = [run_in_process(sketch, tables) for _ in range(1 if quick else 3)]
        ours = LocalRun(run.result, spent_by(run))
        yield Row(
            analysis="least-squares",
            dataset="KDD Cup 99, examples/least-squares.toml",
            epsilon=epsilon,
            metric=METRIC,
            private=statistics.median(score(r, sketch, tables) for r in sketched),
            mpc=score(ours, plan, tables),
            central=statistics.median([central(plan, tables, epsilon, rng) for _ in range(3)]),
            non_private=explained(plan, tables, least_squares.reference(tables, plan)),
            private_spent=typical([r.spent for r in sketched]),
            mpc_spent=ours.spent,
            note="MPC: one run over three services; the sketch: three in one process, no answer counts as 0",
        )


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    return {
        "California housing": partial(
            compared, "California housing", housing, {"label": HOUSING_LABEL, "max_rows": 30_000}
        ),
        "CPS earnings": partial(compared, "CPS earnings", earnings, {"label": EARNINGS_LABEL, "max_rows": 100_000}),
        "additive error": additive_error.of_least_squares,
        "over services": over_services,
    }
