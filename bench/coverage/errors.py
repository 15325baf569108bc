"""Whether forecasts of the analyses without regressions hold, and intervals of moments: by jobs in this process."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from analyses.clustering import protocol as clustering
from analyses.distribution import protocol as distribution
from analyses.job.forecast import NORMAL_95
from analyses.job.job import JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.joint_sums import protocol as joint_sums
from analyses.low_rank import protocol as low_rank
from analyses.pattern_count import protocol as pattern_count
from analyses.pca import protocol as pca
from analyses.power_moments import protocol as moments
from analyses.sums import protocol as sums
from bench.analyses.clustering import plan_of as plan_of_clusters
from bench.analyses.rivals import tables
from bench.coverage.ranges import SLACK, Ranges
from bench.coverage.record import Coverage
from bench.datasets import clustering_tables
from bench.distribution.samples import BETA, LOANS, SAMPLES, TAXI, WAGES, Floats
from bench.utility.moment_runs import plan_of, run_in_process

EPSILONS = (1.0, 4.0, 8.0)
MOST_ROWS = 2000
N_PARTIES = 3

Read = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Of a result or of the truth, numbers by the name of the quantity that is about them: one, or many alike."""


def _first(parties: Sequence[Table], most: int = MOST_ROWS) -> list[Table]:
    """Return the tables' first rows, so many of them at most."""
    return [Table(t.schema.model_copy(update={"rows": (1, len(t.values[:most]))}), t.values[:most]) for t in parties]


def _measured(
    analysis: str,
    table: str,
    module: ModuleType,
    plan: Any,
    parties: Sequence[Table],
    read: Read,
    truth: Mapping[str, Any],
    runs: int,
    is_of_population: bool = False,
) -> Ranges:
    """Run a job so often, and compare each number's error with the forecast of the quantity that it belongs to.

    Where the forecast is no range, its noise has one law for all numbers that it is about: they count as one.
    A forecast about the population that rows come from is compared over tables that are drawn from the rows.
    """
    rng = np.random.default_rng(7)
    found = []
    for _ in range(runs):
        drawn = [Table(t.schema, rng.choice(t.values, t.n_rows)) for t in parties] if is_of_population else parties
        found.append(read(run_in_process(plan, drawn).result))
    three = []
    for one in module.ANALYSIS.own_forecast(plan).quantities:
        if one.name not in truth:
            continue
        exact = _floats(truth[one.name])
        axis = 0 if one.best_half_width < one.half_width else None
        error = np.atleast_1d(np.sqrt(np.nanmean([(_floats(r[one.name]) - exact) ** 2 for r in found], axis=axis)))
        three += [(each, one.best_half_width / NORMAL_95, one.half_width / NORMAL_95) for each in error.tolist()]
    epsilon = float(plan.job.privacy.epsilon)
    if not three:
        return Ranges(analysis, table, epsilon, 0, 0)
    error, best, bad = np.array(three).T
    inside = int(np.count_nonzero((error >= best / SLACK) & (error <= bad * SLACK)))
    seen = best > 0
    over = error[seen] / best[seen]
    quantiles = map(float, np.quantile(over, [0, 0.5, 1]))
    return Ranges(analysis, table, epsilon, len(three), inside, *quantiles, float(np.median(bad[seen] / best[seen])))


def _floats(numbers: Any) -> Floats:
    """Return numbers as a list of them; one that a result does not state is not a number."""
    return np.ravel(np.array(numbers, dtype=np.float64))


def forecasts(runs: int) -> Iterator[Ranges]:
    """Yield the ranges of all analyses that `bench.coverage.ranges` leaves out."""
    for epsilon in EPSILONS:
        yield from _moments(epsilon, runs)
        yield from _patterns(epsilon, runs)
        yield from _sums(epsilon, runs)
        yield from _joint(epsilon, runs)
        yield from _low_rank(epsilon, runs)
        yield from _distributions(epsilon, runs)
        yield from _clusters(epsilon, runs)


METHODS = (("mpc", 2, {}), ("laplace", 1, {}), ("sketch", 2, {}), ("threshold", 2, {"threshold": 20}))


def _plan_of_moments(name: str, method: str, epsilon: float) -> tuple[Any, list[Table]]:
    parties = _first(tables.spread_counts()[name])
    order, more = {one: (order, more) for one, order, more in METHODS}[method]
    parameters = {"order": order, "method": method, "max_rows": parties[0].n_rows, **more}
    return plan_of(moments, "moments", parties, parameters, epsilon), parties


def _moments(epsilon: float, runs: int) -> Iterator[Ranges]:
    for name in tables.spread_counts():
        for method, _, _ in METHODS:
            plan, parties = _plan_of_moments(name, method, epsilon)
            truth = {"moment": moments.reference(parties, plan)}
            yield _measured(
                f"moments, {method}", name, moments, plan, parties, lambda r: {"moment": r["moment"]}, truth, runs
            )


def moments_by_reports(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of the standard errors that moments by other methods than `mpc` state."""
    for name in tables.spread_counts():
        for method in ("laplace", "sketch", "threshold"):
            for epsilon in EPSILONS:
                plan, parties = _plan_of_moments(name, method, epsilon)
                exact, held, known = moments.reference(parties, plan), [], []
                for _ in range(runs):
                    found = run_in_process(plan, parties).result
                    error = found["standard_error"]
                    known.append(error is not None)
                    held.append(error is not None and abs(found["moment"] - exact) <= NORMAL_95 * error)
                yield Coverage.of(f"moments, {method}", name, epsilon, runs, np.array(held), np.array(known))


def _patterns(epsilon: float, runs: int) -> Iterator[Ranges]:
    for name, whole in tables.patterns().items():
        for method in ("mpc", "randomized-response"):
            parties = _first(whole)
            parameters = {"method": method, "max_rows": parties[0].n_rows}
            plan = plan_of(pattern_count, "pattern-count", parties, parameters, epsilon)
            codes = [(t.values[:, 0] - t.schema.columns[0].lower).astype(np.int64) for t in parties]
            shape = [int(t.schema.columns[0].upper - t.schema.columns[0].lower) + 1 for t in parties]
            exact = np.zeros(shape)
            np.add.at(exact, tuple(codes), 1)
            yield _measured(
                f"pattern counts, {method}",
                name,
                pattern_count,
                plan,
                parties,
                lambda r: {"count of any pattern": r["counts"]},
                {"count of any pattern": exact},
                runs,
            )


def _sums(epsilon: float, runs: int) -> Iterator[Ranges]:
    for column in tables.binned():
        parties = column.of_parties(N_PARTIES)
        values = np.concatenate([t.values[:, 0] for t in parties])
        rows = {"max_rows": max(t.n_rows for t in parties), "unit": "row"}
        for kind, more, name, truth in (
            ("sum", {}, "sum of value", values.sum()),
            ("mean", {}, "mean of value", values.mean()),
            ("histogram", {"edges": list(column.edges)}, "count of any bin", np.histogram(values, column.edges)[0]),
        ):
            plan = plan_of(sums, f"secure-{kind}", parties, rows | more, epsilon)
            key = "counts" if kind == "histogram" else kind
            yield _measured(
                f"secure-{kind}",
                column.name,
                sums,
                plan,
                parties,
                lambda r, n=name, k=key: {n: r[k]},  # type: ignore[misc]
                {name: truth},
                runs,
            )


def _joint(epsilon: float, runs: int) -> Iterator[Ranges]:
    for name, (whole, _) in tables.rows().items():
        if name == "digits":
            continue
        parties = _first(whole)
        plan: Any = plan_of(joint_sums, "joint-mean", parties, {}, epsilon)
        exact = joint_sums.reference(parties, plan)

        def read(result: Mapping[str, Any], names: Any = plan.names) -> dict[str, Any]:
            found = {"number of rows": result["n_rows"]}
            found |= {f"sum of {one}": each for one, each in zip(names, result["sum"], strict=True)}
            means = result["mean"]
            return found | {f"mean of {one}": each for one, each in zip(names, means, strict=True)}

        yield _measured("joint-mean", name, joint_sums, plan, parties, read, read(exact), runs)


def _low_rank(epsilon: float, runs: int) -> Iterator[Ranges]:
    for name, (whole, _) in tables.rows().items():
        for method in ("mpc", "sketch"):
            parties = _first(whole)
            plan: Any = plan_of(low_rank, "low-rank", parties, {"rank": 2, "method": method}, epsilon)
            rows = pca.clipped_rows(parties, plan)
            exact = float(np.linalg.eigvalsh(rows.T @ rows)[-1])
            (quantity,) = low_rank.ANALYSIS.own_forecast(plan).quantities
            if exact < (quantity.seen_from or 0.0):
                yield Ranges(f"low-rank, {method}", name, epsilon, 0, 0)
                continue
            yield _measured(
                f"low-rank, {method}",
                name,
                low_rank,
                plan,
                parties,
                lambda r, n=quantity.name: {n: r["eigenvalues"][0]},  # type: ignore[misc]
                {quantity.name: exact},
                runs,
            )


def _distributions(epsilon: float, runs: int) -> Iterator[Ranges]:
    for name in (BETA, TAXI, WAGES, LOANS):
        values = SAMPLES[name].draw(0)[:6000]
        for method in ("masked", "wave"):
            column = (ColumnSchema(name="value", lower=0.0, upper=1.0),)
            parts = [values[i::N_PARTIES, None] for i in range(N_PARTIES)]
            parties = [
                Table(BlockSchema(party=f"party-{i}", columns=column, rows=(1, len(part))), part)
                for i, part in enumerate(parts, start=1)
            ]
            parameters: dict[str, Any] = {"method": method, "buckets": 64}
            plan: Any = plan_of(distribution, "distribution", parties, parameters, epsilon)
            truth = _truth(values, plan.params.quantiles) if method == "masked" else {"closed_mean": values.mean()}
            yield _measured(
                f"distribution, {method}",
                name,
                distribution,
                plan,
                parties,
                _numbers_of_distribution,
                truth,
                runs,
                is_of_population=method == "wave",
            )


def _truth(values: Floats, levels: Sequence[float]) -> dict[str, Any]:
    places = np.minimum((values * 64).astype(np.int64), 63)
    p = np.bincount(places, minlength=64) / len(values)
    edges, up_to = np.linspace(0, 1, 65), np.append(0, np.cumsum(p))
    return {
        "mean": float(p @ (edges[:-1] + 1 / 128)),
        **{f"quantile {level:g}": float(np.interp(level, up_to, edges)) for level in levels},
        "share of a bucket": p,
    }


def _numbers_of_distribution(result: Mapping[str, Any]) -> dict[str, Any]:
    if result["closed_mean"] is not None:
        return {"closed_mean": result["closed_mean"]}
    found = {f"quantile {level:g}": value for level, value in result["quantiles"]}
    return found | {"mean": result["mean"], "share of a bucket": result["probabilities"]}


def _clusters(epsilon: float, runs: int) -> Iterator[Ranges]:
    for make in (clustering_tables.mixed_gaussian, clustering_tables.taxi):
        table = make()
        parties = table.first(MOST_ROWS).split(2)
        try:
            plan = plan_of_clusters(parties, epsilon)
        except JobError:
            yield Ranges("clustering, mpc", table.name, epsilon, 0, 0)
            continue
        yield _measured(
            "clustering, mpc",
            table.name,
            clustering,
            plan,
            parties,
            lambda r: {"sum of all weights": sum(r["weights"])},
            {"sum of all weights": float(parties[0].n_rows)},
            max(2, runs // 2),
        )
