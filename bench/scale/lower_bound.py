"""Pattern counts beside the lower bound of [VertPrim23], appendix F: sqrt(m) for information-theoretic protocols.

    python -m bench.scale.lower_bound --measured 1000 10000 100000

For m rows of three parties with two categories each, at epsilon 1 and delta 1e-8 against a coalition of one party: what
the plan of a job states as the standard error of a count, by `mpc` and by randomized response, and, for the numbers of
rows that are named, the root mean square error of a job whose members run in this process. Prints JSON.
"""

import argparse
import json

import numpy as np

from analyses.pattern_count import protocol as pattern_count
from bench.utility.moment_runs import run_in_process
from bench.utility.pattern_count import PARTIES, categories_of, plan_of

ROWS = tuple(10**power for power in range(3, 8))
EPSILON, DELTA, N_CATEGORIES = 1.0, 1e-8, 2


def stated_error(rows: int, method: str) -> float:
    """Return the standard error of a count that a job's plan states: public, so no rows are needed."""
    plan, _ = plan_of([np.zeros(rows, dtype=np.int8)] * len(PARTIES), N_CATEGORIES, method, EPSILON, DELTA)
    (count,) = pattern_count.ANALYSIS.forecast(plan).quantities
    return float(count.standard_error)


def measured_error(rows: int) -> float:
    """Return the root mean square error of all counts of one job."""
    plan, tables = plan_of(categories_of(rows, N_CATEGORIES, seed=0), N_CATEGORIES, "mpc", EPSILON, DELTA)
    off = np.array(run_in_process(plan, tables).result["counts"]) - pattern_count.reference(tables, plan)
    return float(np.sqrt(np.mean(off**2)))


def main() -> None:
    """Print the table as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=int, nargs="*", default=[], help="numbers of rows of jobs that are run")
    options = parser.parse_args()
    rows = [
        {
            "rows": m,
            "square_root": m**0.5,
            "mpc": stated_error(m, "mpc"),
            "randomized_response": stated_error(m, "randomized-response"),
            "mpc_measured": measured_error(m) if m in options.measured else None,
        }
        for m in ROWS
    ]
    print(json.dumps({"epsilon": EPSILON, "delta": DELTA, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
