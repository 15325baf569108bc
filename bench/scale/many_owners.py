"""Clustering by many owners: what more local clusters gain, and what they take.

    python -m bench.scale.many_owners --owners 16 --data letter --local 2 4 6

One table of the benchmark of clustering, its columns dealt in turn; epsilon in the coordinator's view, five clusters.
Prints for each number of local clusters the median loss of some jobs in this process and their processor seconds, as
JSON; "rule" is what a job chooses, and what is measured where no number is given.
"""

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np

from analyses.clustering import protocol as clustering
from bench.analyses.clustering import K, loss, non_private_centres, plan_of
from bench.datasets.bundled import is_available
from bench.datasets.clustering_tables import BUNDLED, home_credit
from bench.utility.moment_runs import run_in_process


def measure(name: str, n_owners: int, epsilon: float, local: list[int], runs: int) -> dict[str, Any]:
    """Return the losses."""
    table = home_credit() if name == "home credit" else BUNDLED[name]()
    tables = table.split(n_owners)
    rule = plan_of(tables, epsilon).k_local
    rows = clustering.scaled_rows(tables, plan_of(tables, 100.0, k_local=rule))
    found: dict[str, Any] = {"rule": rule, "non_private": loss(rows, non_private_centres(rows, K, 2), 2)}
    for k_local in local or [rule]:
        plan = plan_of(tables, epsilon, k_local=k_local)
        began_s = time.process_time()
        centres = [np.array(run_in_process(plan, tables).result["centres"]) for _ in range(runs)]
        losses = [loss(rows, clustering.in_scaled_units(one, plan), 2) for one in centres]
        seconds = (time.process_time() - began_s) / runs
        found[f"k' = {k_local}"] = {"loss": statistics.median(losses), "processor_s": round(seconds, 1)}
    return {"data": name, "owners": n_owners, "epsilon": epsilon, "runs": runs, **found}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = "home credit" if is_available("home_credit") else "letter"
    parser.add_argument("--data", choices=[*BUNDLED, "home credit"], default=default)
    parser.add_argument("--owners", type=int, default=8)
    parser.add_argument("--local", type=int, nargs="+", default=[])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(json.dumps(measure(options.data, options.owners, options.epsilon, options.local, options.runs), indent=1))


if __name__ == "__main__":
    main()
