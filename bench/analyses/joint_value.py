"""Every power, quantiles and entropy of a joint value from one release of counts, beside one job of moments per power.

    python -m bench.analyses.joint_value --runs 3

Lending Club as three institutions that know 0 to 31 accounts each; the coordinator's view. Prints JSON: for each
statistic the exact value, the median relative error of counts of sums, and that of a `moments` job which spends as much
on this power alone.
"""

import argparse
import json
import statistics
from typing import Any

import numpy as np

from analyses.pattern_count import protocol as pattern_count
from analyses.pattern_count.sum_answers import distribution
from analyses.power_moments import protocol as moments
from bench.analyses.moments import ROWS, borrowers
from bench.utility.moment_runs import plan_of, run_in_process

POWERS = (0.5, 1.0, 1.5, 2.0, 3.0)
QUANTILES = (0.5, 0.9, 0.99)


def measure(epsilon: float, runs: int) -> dict[str, Any]:
    """Return exact values and relative errors."""
    tables = borrowers()
    plan = plan_of(pattern_count, "pattern-count", tables, {"max_rows": ROWS[1], "counted": "sums"}, epsilon)
    exact_counts = pattern_count.reference(tables, plan)
    found = [run_in_process(plan, tables) for _ in range(runs)]
    answers = [distribution(one.result, POWERS, QUANTILES).table for one in found]
    without_noise = {**found[0].result, "counts": exact_counts.tolist(), "standard_errors": [0.0] * len(exact_counts)}
    exact = distribution(without_noise, POWERS, QUANTILES).table
    rows = {}
    for at, (name, value) in enumerate(zip(exact["of"], exact["value"], strict=True)):
        errors = [abs(one["value"][at] / value - 1) for one in answers]
        rows[name] = {"exact": round(value, 4), "counts of sums": _short(statistics.median(errors))}
    for order in (1, 2, 3):
        one = plan_of(moments, "moments", tables, {"max_rows": ROWS[1], "order": order}, epsilon)
        truth = moments.reference(tables, one)
        errors = [abs(run_in_process(one, tables).result["moment"] / truth - 1) for _ in range(runs)]
        rows[f"sum of x^{order}"]["moments"] = _short(statistics.median(errors))
    spent = found[0].spent
    return {
        "epsilon": epsilon,
        "runs": runs,
        "rows": len(tables[0].values),
        "sums": len(exact_counts),
        "error_of_a_count": round(float(np.max(found[0].result["standard_errors"])), 2),
        "job": str(spent),
        "statistics": rows,
    }


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(json.dumps(measure(options.epsilon, options.runs), indent=1))


if __name__ == "__main__":
    main()
