"""Logistic regression on Adult and NSL-KDD: moments, one gradient, the paper's three sums, DP-SGD, local noise.

Ours is the released distribution itself without the shares: the plan of the job, each party's quantiser, the batches,
the exact sums of integers and one draw of each party's noise per step. A job opens exactly such integers (the tests of
the analysis show it). Time and bytes are those of one job per data set and form over three services: they do not
depend on epsilon.

Nobody's parameters were tuned for a row: `moments` is the default and has none, the others take 200 steps of rate 0.05
and Adam with rate 0.1. Rows of steps show the sums of gradients (`GRADIENT`) beside.
"""

import asyncio
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from analyses.job.schema import Table
from analyses.logistic_regression.descent import Descent, on_lattice
from analyses.logistic_regression.gradient_plan import GradientPlan
from analyses.logistic_regression.moments_plan import LabelledMomentsPlan
from analyses.logistic_regression.plan import plan
from analyses.logistic_regression.protocol import scaled_rows
from bench.analyses.table import Row, Spent
from bench.baselines.logistic import accuracy, dp_sgd_weights, exact_weights, local_noise_table
from bench.datasets.labelled_tables import LabelledTables, adult, nsl_kdd
from bench.utility.logistic_jobs import LEARNING, WEIGHT_NORM, run_over_services
from bench.utility.logistic_moments import exact_gram, own_scores, released_moment_weights
from bench.utility.moment_runs import spent_by
from bench.utility.slr import BATCH, ORDERS, step_seconds
from entropy import Entropy, KeyStream, SystemEntropy

EPSILONS = (0.5, 1.0, 2.0, 4.0)
STEPS: dict[str, Any] = {"sampling_rate": 0.05, "iterations": 200}
FULL: dict[str, Any] = {"sampling_rate": 1.0, "iterations": 30, "learning_rate": 0.5}
RUNS = 3
LOCAL = "local noise (the paper's baseline)"
GRADIENT = "`method = gradient`, batches"
STEPS_AT_ONCE = 32
QUICK_STEPS: dict[str, Any] = {"sampling_rate": 0.05, "iterations": 20}
METRIC = "test accuracy, more is better"
STEP = "logistic regression, one step"
COALITION = "logistic regression, against a coalition"
SERVICES = "logistic regression, over services"


def _key(seed: int) -> bytes:
    return seed.to_bytes(32, "big")


def released_weights(tables: Sequence[Table], chosen: GradientPlan, seed: int) -> np.ndarray:
    """Return the weights that a job of this plan ends with, in units of scaled rows; the batches follow the seed."""
    gradient, entropy, blocks = chosen.gradient, SystemEntropy(), []
    for owner, table in zip(chosen.owners, tables, strict=True):
        names = [c.name for c in table.schema.columns]
        features = [names.index(c.name) for c in chosen.features_of(owner).columns]
        blocks.append(chosen.quantiser_of(owner).quantise(table.values[:, features])[0])
    blocks.append(np.full((len(blocks[0]), 1), chosen.constant))
    x, y = np.hstack(blocks).astype(np.float64), scaled_rows(tables, chosen)[1]
    largest = chosen.sampling.most_sampled(len(x), -40) * chosen.params.gamma * gradient.largest_factor
    assert largest < 2**53, "float64 would round the sums"
    descent = Descent(x.shape[1], chosen.params.optimiser, chosen.params.learning_rate, chosen.params.weight_norm)
    batches = chosen.sampling.samples(KeyStream(_key(seed)), len(x))
    for batch, noise in zip(batches, _noises(chosen, entropy), strict=False):
        lattice = on_lattice(descent.weights, chosen.params.weight_gamma, gradient.squared_weight_bound)
        rows, labels = x[batch], y[batch]
        factors: Sequence[Any] = gradient.factors(rows @ lattice, labels)  # whole numbers, exact in float64
        sums = rows.T @ np.stack(factors, axis=1)
        sums += noise.reshape(sums.shape)
        descent.follow(gradient.gradient_of(sums) / chosen.expected_batch)
    return descent.weights


def _noises(chosen: GradientPlan, entropy: Entropy) -> Iterator[np.ndarray]:
    """Yield the noise of all parties in each step, drawn for many steps at once: no entry depends on another."""
    one = chosen.mechanism.step
    many = replace(one, length=one.length * STEPS_AT_ONCE)
    while True:
        yield from np.sum([many.draw(entropy) for _ in range(chosen.n_parties)], axis=0).reshape(-1, one.length)


@cache
def _data(name: str) -> LabelledTables:
    return {"adult": adult, "nsl-kdd": nsl_kdd}[name]()


def accuracy_of_jobs(data: LabelledTables, runs: int, **parameters: Any) -> tuple[float, GradientPlan]:
    job = data.job(**{"method": "gradient", **STEPS, **LEARNING, "weight_norm": WEIGHT_NORM, **parameters})
    chosen = plan(job, [t.schema for t in data.training])
    assert isinstance(chosen, GradientPlan)
    x, y = scaled_rows(data.testing, chosen)
    found = [accuracy(x @ released_weights(data.training, chosen, seed), y) for seed in range(runs)]
    return statistics.mean(found), chosen


def accuracy_by_moments(data: LabelledTables, epsilon: float, runs: int) -> float:
    chosen = plan(data.job(epsilon=epsilon), [t.schema for t in data.training])
    assert isinstance(chosen, LabelledMomentsPlan)
    exact, labels = exact_gram(data, chosen), scaled_rows(data.testing, chosen)[1]
    found = [own_scores(data, chosen, *released_moment_weights(chosen, exact)) for _ in range(runs)]
    return statistics.mean(accuracy(scores, labels) for scores in found)


def _row(data: LabelledTables, epsilon: float, runs: int) -> Row:
    one, chosen = accuracy_of_jobs(data, runs, epsilon=epsilon)
    three, _ = accuracy_of_jobs(data, runs, epsilon=epsilon, release="three-sums")
    (x, y), (testing, labels) = scaled_rows(data.training, chosen), scaled_rows(data.testing, chosen)
    rng = np.random.default_rng(0)
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5, "rng": rng}
    central = [accuracy(testing @ dp_sgd_weights(x, y, **budget, **STEPS, **LEARNING), labels) for _ in range(runs)]
    noisy_x, noisy_y = local_noise_table(x, y, **budget)
    local = accuracy(testing @ exact_weights(noisy_x, (noisy_y > 0.5).astype(float)), labels)
    coalition = chosen.privacy_report()["views"]["coalition"]["epsilon"]
    return Row(
        analysis="logistic regression",
        dataset=f"{data.name} ({len(x):,} and {len(testing):,} rows, {x.shape[1]} weights)",
        epsilon=epsilon,
        metric=METRIC,
        private=three,
        mpc=accuracy_by_moments(data, epsilon, runs),
        central=statistics.mean(central),
        non_private=accuracy(testing @ exact_weights(x, y), labels),
        others={GRADIENT: one, LOCAL: local, "always the same label": float(max(labels.mean(), 1 - labels.mean()))},
        note=f"coordinator's view (a coalition's, of gradients: {coalition:.3g}); MPC by moments, the default; "
        f"means of {runs}",
    )


def _row_of_coalition(data: LabelledTables, epsilon: float, runs: int) -> Row:
    found, chosen = accuracy_of_jobs(data, runs, epsilon=epsilon, view="coalition", **FULL)
    coordinator = chosen.privacy_report()["views"]["coordinator"]["epsilon"]
    return Row(
        analysis=COALITION,
        dataset=data.name,
        epsilon=epsilon,
        metric=METRIC,
        mpc=found,
        note=f"coalition's view (coordinator: {coordinator:.3g}); 30 steps about all rows: batches would hide nothing",
    )


def _accuracy_of_services(data: LabelledTables, **parameters: Any) -> tuple[float, Spent]:
    """Run a job over services; return its accuracy and what it took."""
    parameters = {"epsilon": 4.0, "delta": 1e-6, **parameters}
    run = asyncio.run(run_over_services(data, parameters))
    chosen = plan(data.job(**parameters), [t.schema for t in data.training])
    scores = own_scores(data, chosen, np.array(run.result["weights"]), run.result["intercept"])
    return accuracy(scores, scaled_rows(data.testing, chosen)[1]), spent_by(run)


def over_services(data: LabelledTables, quick: bool) -> Row:
    """Return one job of each form over three services."""
    steps = QUICK_STEPS if quick else STEPS
    gradient = {"method": "gradient", **LEARNING, "weight_norm": WEIGHT_NORM, **steps}
    three, three_spent = _accuracy_of_services(data, release="three-sums", **gradient)
    one, one_spent = _accuracy_of_services(data, **gradient)
    default, default_spent = _accuracy_of_services(data)
    return Row(
        analysis=SERVICES,
        dataset=data.name,
        epsilon=4.0,
        metric=METRIC,
        private=three,
        mpc=default,
        private_spent=three_spent,
        mpc_spent=default_spent,
        others={GRADIENT: one, "seconds of it": one_spent.seconds},
        note=f"one job each over three services; MPC by moments, the default; steps: {steps['iterations']}; "
        "coordinator's view, delta 1e-6",
    )


def _of(name: str, quick: bool) -> Iterator[Row]:
    """Yield the rows of one data set."""
    data = _data(name)
    services = over_services(data, quick)
    yield services
    for epsilon in (4.0,) if quick else EPSILONS:
        row = _row(data, epsilon, 1 if quick else RUNS)
        yield replace(
            row,
            private_spent=services.private_spent,
            mpc_spent=services.mpc_spent,
            note=f"{row.note}; time and bytes of the jobs over three services",
        )
    yield _row_of_coalition(data, 4.0, 1 if quick else RUNS)


def _step(quick: bool) -> Iterator[Row]:
    """Yield how long one step takes."""
    for name, order in ORDERS.items():
        seconds = step_seconds(_data("adult"), 1 if quick else RUNS, steps=40 if quick else 400, **order)
        yield Row(
            analysis=STEP,
            dataset=f"Adult, about {BATCH} records in a batch, {name}",
            epsilon=None,
            metric="milliseconds of a step over three services",
            mpc=1e3 * statistics.median(seconds),
            others={"least": 1e3 * min(seconds), "most": 1e3 * max(seconds)},
            note=f"medians of {len(seconds)} jobs",
        )


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    return {"Adult": partial(_of, "adult"), "NSL-KDD": partial(_of, "nsl-kdd"), "one step": _step}
