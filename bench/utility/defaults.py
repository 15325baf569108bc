"""Defaults beside hand-chosen settings: how far the best of a grid is ahead, on all bundled tables.

    python -m bench.utility.defaults --only pca least-squares --epsilons 1 --runs 7

A score is that of a job against the coordinator at delta 1e-5 (clustering: a little below one over the rows).
Hand-chosen settings may use what nobody is to know without a look at the rows; what they are ahead is the price of not
looking. Medians of the runs. Where the noise allows it the runs of all settings share their random bits, and the
standard error is that of the mean difference of pairs.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from analyses.clustering import protocol as clustering
from analyses.clustering.weighted_clustering import loss
from analyses.job.job import JobError
from analyses.pattern_count import protocol as pattern_count
from analyses.power_moments import protocol as moments
from bench.analyses.clustering import Comparison, plan_of
from bench.analyses.moments import ROWS as MOMENT_ROWS
from bench.analyses.moments import borrowers
from bench.analyses.pattern_count import ROWS as PEOPLE_ROWS
from bench.analyses.pattern_count import people
from bench.datasets.clustering_tables import BUNDLED
from bench.machine import describe_machine
from bench.utility import factor_jobs
from bench.utility.default_grams import Study, studies
from bench.utility.moment_runs import plan_of as plan_in_process
from bench.utility.moment_runs import run_in_process

EPSILONS = (0.5, 1.0, 4.0)
DRAWS = 30
"""Of a single number's noise, of which one score is the root mean square."""

ANALYSES = (
    "pca",
    "low-rank",
    "least-squares",
    "logistic-regression",
    "clustering",
    "matrix-factorization",
    "moments",
    "pattern-count",
)


def clusterings(rows: int | None) -> Iterator[Study]:
    """Yield the studies of clustering, three owners: squared distances as multiples of those without privacy."""
    for name, make in BUNDLED.items():
        comparison = Comparison(make().first(rows or 20_000), 3, 1)

        def scores(
            epsilon: float, parameters: Mapping[str, Any], seeds: Sequence[int], at: Comparison = comparison
        ) -> list[float]:
            plan, found = plan_of(at.tables, epsilon, **parameters), []
            for _ in seeds:
                centres = np.array(run_in_process(plan, at.tables).result["centres"])
                scaled = clustering.in_scaled_units(centres, at._scale)
                found.append(loss(at._rows, scaled, 2) / at.non_private.loss)
            return found

        settings: dict[str, dict[str, Any]] = {f"k_local {k}": {"k_local": k} for k in (4, 6, 8, 12)}
        settings |= {"lloyd": {"local_method": "lloyd"}}
        settings |= {f"counting_share {share:g}": {"counting_share": share} for share in (0.25, 0.75)}
        yield Study("clustering", name, "squared distance, less", settings, scores)


def factors() -> Iterator[Study]:
    """Yield the studies of matrix factorization: the squared error of ratings that were left out."""
    for setting in ("horizontal", "vertical"):

        def scores(
            epsilon: float, parameters: Mapping[str, Any], seeds: Sequence[int], setting: str = setting
        ) -> list[float]:
            given = {"setting": setting, **parameters}
            return [factor_jobs.run("insteval", given, epsilon, seed)["mse"] for seed in seeds]

        settings: dict[str, dict[str, Any]] = {
            "rank 0": {"rank": 0},
            "rank 2, 2 rounds": {"rank": 2, "rounds": 2},
            "rank 4": {"rank": 4},
            "rank 4, 2 rounds": {"rank": 4, "rounds": 2},
            "sgd": {"form": "sgd"},
        }
        yield Study("matrix-factorization", f"InstEval, {setting}", "squared error, less", settings, scores)


def counts() -> Iterator[Study]:
    """Yield the studies of moments and of pattern counts: errors."""
    accounts, residents = borrowers(), people()
    exact_moment = {
        order: moments.reference(
            accounts, plan_in_process(moments, "moments", accounts, {"max_rows": MOMENT_ROWS[1], "order": order}, 1.0)
        )
        for order in (1, 2, 3)
    }
    for order, methods in ((1, ("laplace", "threshold")), (2, ("sketch", "threshold")), (3, ("threshold",))):

        def off(epsilon: float, parameters: Mapping[str, Any], seeds: Sequence[int], order: int = order) -> list[float]:
            given = {"max_rows": MOMENT_ROWS[1], "order": order, **parameters}
            plan = plan_in_process(moments, "moments", accounts, given, epsilon)
            found = [[run_in_process(plan, accounts).result["moment"] for _ in range(DRAWS)] for _ in seeds]
            return [float(np.sqrt(np.mean((np.array(one) / exact_moment[order] - 1) ** 2))) for one in found]

        ways: dict[str, dict[str, Any]] = {m: {"method": m} for m in methods if m != "threshold"}
        yield Study("moments", f"Lending Club, order {order}", "relative error, less", ways, off)

    def rmse(epsilon: float, parameters: Mapping[str, Any], seeds: Sequence[int]) -> list[float]:
        given = {"max_rows": PEOPLE_ROWS[1], **parameters}
        plan = plan_in_process(pattern_count, "pattern-count", residents, given, epsilon)
        exact = pattern_count.reference(residents, plan)
        found = [np.array(run_in_process(plan, residents).result["counts"]) for _ in seeds]
        return [float(np.sqrt(np.mean((one.reshape(-1) - exact.reshape(-1)) ** 2))) for one in found]

    others = {"randomized-response": {"method": "randomized-response"}}
    yield Study("pattern-count", "Adult", "rows, less", others, rmse)


def all_studies(wanted: Sequence[str], rows: int | None) -> Iterator[Study]:
    """Yield the studies of some analyses; tables of others are not read where that can be avoided."""
    if set(wanted) & set(ANALYSES[:4]):
        yield from (study for study in studies(rows) if study.analysis in wanted)
    if "clustering" in wanted:
        yield from clusterings(rows)
    if "matrix-factorization" in wanted:
        yield from factors()
    if {"moments", "pattern-count"} & set(wanted):
        yield from (study for study in counts() if study.analysis in wanted)


def compare(study: Study, epsilon: float, runs: int) -> dict[str, Any]:
    """Return the medians of the default and of the best setting, and by what share the best is ahead.

    Settings that are refused at this epsilon are named.
    """
    less, seeds = study.metric.endswith("less"), range(runs)
    own = study.scores(epsilon, {}, seeds)
    found, refused = {"default": own}, []
    for name, parameters in study.settings.items():
        try:
            found[name] = study.scores(epsilon, parameters, seeds)
        except JobError:
            refused.append(name)
    medians = {name: statistics.median(scores) for name, scores in found.items()}
    best = (min if less else max)(medians, key=lambda name: medians[name])
    size = abs(medians[best])
    differences = [(a - b) / size * (1 if less else -1) for a, b in zip(own, found[best], strict=True)]
    error = statistics.stdev(differences) / math.sqrt(runs) if runs > 1 and best != "default" else 0.0
    ahead = (medians["default"] / medians[best] - 1) if less else (1 - medians["default"] / medians[best])
    return {
        "analysis": study.analysis,
        "table": study.table,
        "metric": study.metric,
        "epsilon": epsilon,
        "default": medians["default"],
        "best": medians[best],
        "best_setting": best,
        "ahead": ahead,
        "standard_error": error,
        "refused": refused,
        "medians": medians,
    }


def as_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table in Markdown."""
    lines = ["| analysis | table | epsilon | default | best by hand | which | ahead |", "| --- |" * 1 + " --- |" * 6]
    for r in rows:
        ahead = f"{r['ahead']:.1%} ± {r['standard_error']:.1%}" if r["best_setting"] != "default" else ""
        numbers = f"{r['epsilon']:g} | {r['default']:.4g} | {r['best']:.4g}"
        lines.append(f"| {r['analysis']} | {r['table']} ({r['metric']}) | {numbers} | {r['best_setting']} | {ahead} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=ANALYSES, default=list(ANALYSES))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--rows", type=int, help="most rows of the large tables; all where absent")
    parser.add_argument("--format", choices=("text", "json"), default="json")
    options = parser.parse_args(arguments)
    rows = [
        compare(study, epsilon, options.runs)
        for study in all_studies(options.only, options.rows)
        for epsilon in options.epsilons
    ]
    report = {"bench": "defaults", "runs": options.runs, "rows": rows, "machine": describe_machine()}
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(rows)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
