"""Clustering by many owners: what more local clusters gain, and what they take.

    python -m bench.scale.many_owners --owners 16 --data letter --local 2 4 6

One table of the benchmark of clustering, its columns dealt in turn; epsilon in the coordinator's view, five clusters.
Prints for each number of local clusters the median loss of some jobs in this process and their processor seconds, as
JSON; "rule" is what a job chooses, and what is measured where no number is given. With --open nothing is computed under
shares: owners release centres as in a job, and their exact counts get normal noise of a job's deviation, which takes a
tenth of the time.
"""

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np

from analyses.clustering import protocol as clustering
from analyses.clustering.estimators.cells import Cells
from analyses.clustering.estimators.grid_weights import weights_of_pairs
from analyses.clustering.estimators.mpc import MpcEstimator
from analyses.clustering.grid import cluster_grid
from analyses.clustering.plan import ClusteringPlan
from analyses.clustering.weighted_clustering import Choices, Floats
from analyses.job.schema import Table
from bench.analyses.clustering import K, loss, non_private_centres, plan_of
from bench.datasets.bundled import is_available
from bench.datasets.clustering_tables import BUNDLED, home_credit
from bench.utility.moment_runs import run_in_process
from entropy import SystemEntropy


def centres_in_the_open(plan: ClusteringPlan, tables: list[Table]) -> Floats:
    """Return centres in the columns' units, from counts that are known here."""
    entropy, rng, counting = SystemEntropy(), np.random.default_rng(), plan.counting
    assert isinstance(counting, MpcEstimator)
    choices, centres, members = Choices(entropy), [], []
    for table, local in zip(tables, plan.local, strict=True):
        quantised, _ = local.quantise(table.values)
        centres.append(local.release(quantised, local.mechanism.draw(entropy), choices))
        members.append(local.memberships(quantised, centres[-1]))
    exact = Cells(np.stack(members, axis=1), np.ones(tables[0].n_rows), plan.k_local).pairs()
    noisy = {pair: counts + counting.cell_deviation * rng.normal(size=counts.shape) for pair, counts in exact.items()}
    if counting.is_by_classes:
        cells = counting.cells_of(noisy)
    else:
        n_rows = statistics.fmean(float(counts.sum()) for counts in noisy.values())
        cells = Cells.of_grid(weights_of_pairs(noisy, counting.grid.shape, n_rows))
    return clustering.in_column_units(cluster_grid(centres, cells, plan, choices).centres, plan)


def measure(name: str, n_owners: int, epsilon: float, local: list[int], runs: int, *, is_open: bool) -> dict[str, Any]:
    """Return the losses."""
    table = home_credit() if name == "home credit" else BUNDLED[name]()
    tables = table.split(n_owners)
    rule = plan_of(tables, epsilon).k_local
    rows = clustering.scaled_rows(tables, plan_of(tables, 100.0, k_local=rule))
    found: dict[str, Any] = {"rule": rule, "non_private": loss(rows, non_private_centres(rows, K, 2), 2)}
    for k_local in local or [rule]:
        plan = plan_of(tables, epsilon, k_local=k_local)
        began_s = time.process_time()
        once = centres_in_the_open if is_open else _of_a_job
        centres = [once(plan, tables) for _ in range(runs)]
        losses = [loss(rows, clustering.in_scaled_units(one, plan), 2) for one in centres]
        seconds = (time.process_time() - began_s) / runs
        found[f"k' = {k_local}"] = {"loss": statistics.median(losses), "processor_s": round(seconds, 1)}
    return {"data": name, "owners": n_owners, "epsilon": epsilon, "runs": runs, **found}


def _of_a_job(plan: ClusteringPlan, tables: list[Table]) -> Floats:
    return np.array(run_in_process(plan, tables).result["centres"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = "home credit" if is_available("home_credit") else "letter"
    parser.add_argument("--data", choices=[*BUNDLED, "home credit"], default=default)
    parser.add_argument("--owners", type=int, default=8)
    parser.add_argument("--local", type=int, nargs="+", default=[])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--open", action="store_true")
    o = parser.parse_args()
    print(json.dumps(measure(o.data, o.owners, o.epsilon, o.local, o.runs, is_open=o.open), indent=1))


if __name__ == "__main__":
    main()
