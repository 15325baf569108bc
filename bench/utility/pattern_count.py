"""Pattern counts of a million users: processor seconds, memory, and how the error grows with the rows.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m bench.utility.pattern_count --format json

Three parties with eight categories each. `reports`: randomized response of all parties and the coordinator's estimate,
one after the other in this process. `mpc`: three compute parties and the coordinator of a job in this process, every
message and all shares, one after the other. The slope is that of the logarithm of the root mean square error of
randomized response against that of the rows, fitted over tables of 2^10 .. 2^17 rows.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.pattern_count import protocol as pattern_count
from analyses.pattern_count.reports import PatternReports
from bench.baselines.counts import reported_counts
from bench.datasets.order import trusted_order
from bench.machine import describe_machine, peak_resident_bytes
from bench.utility.moment_runs import run_in_process
from dp.mechanism.bits import BIAS_UNIT, RandomizedBits
from entropy import InsecureTestEntropy, SystemEntropy

PARTIES = ("one", "two", "three")
SLOPE_BIAS = BIAS_UNIT * (1 << 18)
"""1/8: each bit is true with probability 5/8."""


def categories_of(rows: int, n_categories: int, seed: int, n_parties: int = len(PARTIES)) -> list[np.ndarray]:
    """Return skewed categories of parties."""
    rng = np.random.default_rng(seed)
    return [np.minimum(rng.geometric(0.4, rows) - 1, n_categories - 1) for _ in range(n_parties)]


def plan_of(
    categories: Sequence[np.ndarray], n_categories: int, method: str, epsilon: float, delta: float = 1e-7
) -> Any:
    """Return the plan of a job on these categories, and the tables."""
    column = (ColumnSchema(name="category", lower=0, upper=n_categories - 1),)
    rows = (1, len(categories[0]))
    schemas = [BlockSchema(party=party, columns=column, rows=rows) for party in PARTIES]
    job = Job.model_validate(
        {
            "analysis": "pattern-count",
            "inputs": [{"party": party, "table": "users"} for party in PARTIES],
            **trusted_order(schemas),
            "privacy": {"epsilon": epsilon, "delta": delta},
            "parameters": {"method": method, "max_rows": len(categories[0])},
        }
    )
    tables = [Table(s, c.astype(np.float64)[:, None]) for s, c in zip(schemas, categories, strict=True)]
    return pattern_count.plan(job, schemas), tables


def error_slope(repeats: int, powers: Sequence[int] = range(10, 18)) -> tuple[float, list[dict[str, float]]]:
    """Return the slope of ln(error) against ln(rows), and the points it is fitted to. Reproducible."""
    points = [{"rows": 1 << power, "error": error_of_reports(3, 1 << power, repeats)} for power in powers]
    return fitted([point["rows"] for point in points], [point["error"] for point in points]), points


def error_of_reports(
    n_parties: int,
    rows: int,
    repeats: int,
    *,
    bias: Fraction = SLOPE_BIAS,
    reported: int | None = None,
    n_categories: int = 4,
) -> float:
    """Return the root mean square error of the counts by randomized response. Reproducible.

    Args:
        n_parties: v.
        rows: of the table.
        repeats: number of tables.
        bias: of a bit.
        reported: number of the rows in the sample that parties report on; all by default.
        n_categories: of each party.
    """
    shape = (n_categories,) * n_parties
    squares = []
    for repeat in range(repeats):
        categories = categories_of(rows, n_categories, seed=repeat, n_parties=n_parties)
        reports = PatternReports(shape, rows, reported or rows, RandomizedBits(bias))
        entropy = InsecureTestEntropy(f"slope {n_parties} {rows} {reported} {repeat}")
        found = reported_counts(categories, reports, entropy).counts
        exact = np.bincount(np.ravel_multi_index(categories, shape), minlength=n_categories**n_parties).reshape(shape)
        squares.append(np.mean((found - exact) ** 2))
    return float(np.sqrt(np.mean(squares)))


def fitted(sizes: Sequence[float], errors: Sequence[float]) -> float:
    """Return the exponent of sizes in errors: the slope of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def measure(method: str, rows: int, n_categories: int, epsilon: float) -> dict[str, Any]:
    """Return processor seconds, memory and error of one method."""
    categories = categories_of(rows, n_categories, seed=0)
    plan, tables = plan_of(categories, n_categories, method, epsilon)
    exact = pattern_count.reference(tables, plan)
    before = peak_resident_bytes("self")
    started_s = time.process_time()
    if method == "mpc":
        run = run_in_process(plan, tables)
        found, sent = np.array(run.result["counts"]), run.spent.sent_bytes
    else:
        found, sent = reported_counts(categories, plan.reports, SystemEntropy()).counts, None
    seconds = time.process_time() - started_s
    return {
        "method": method,
        "seconds": seconds,
        "sent_bytes": sent,
        "peak_resident_bytes": peak_resident_bytes("self"),
        "peak_resident_bytes_before": before,
        "root_mean_square_error": float(np.sqrt(np.mean((found - exact) ** 2))),
    }


def as_text(report: dict[str, Any]) -> str:
    """Return the table that people read."""
    lines = [f"{report['rows']} rows, 3 parties, {report['categories']} categories each, epsilon {report['epsilon']:g}"]
    for row in report["methods"]:
        memory = row["peak_resident_bytes"] / 1e6
        lines.append(
            f"{row['method']:<20} {row['seconds']:8.2f} s {memory:8.0f} MB   error {row['root_mean_square_error']:.4g}"
        )
    if report["slope"] is not None:
        lines.append(f"error grows like rows^{report['slope']:.3f}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--categories", type=int, default=8)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--repeats", type=int, default=10, help="tables per point of the slope")
    parser.add_argument("--no-slope", action="store_true")
    parser.add_argument("--methods", nargs="+", default=["randomized-response", "mpc"])
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    methods = [measure(m, options.rows, options.categories, options.epsilon) for m in options.methods]
    slope, points = (None, []) if options.no_slope else error_slope(options.repeats)
    report = {
        "bench": "pattern-count",
        "rows": options.rows,
        "categories": options.categories,
        "epsilon": options.epsilon,
        "methods": methods,
        "slope": slope,
        "points": points,
        "machine": describe_machine(),
    }
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
