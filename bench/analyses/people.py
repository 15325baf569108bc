"""People over tables of different people: whole jobs of `joint-count` by bins, beside the sketches of [VertClust23].

    OMP_NUM_THREADS=1 python -m bench.analyses.people --runs 5 --redrawn 500

Two owners have half of their people in common; a third party computes. Prints JSON, by the people of an owner: root
mean square errors of union and intersection, those stated, and how often 95 % intervals hold; of jobs that all members
run in this process the processor time of all and the megabytes that a party sends. `redrawn` repeats hashing and noise
alone, drawn by their laws. Sketches have the same epsilon, against the coordinator alone, who must not know the key.
"""

import argparse
import json
import math
from typing import Any

import numpy as np

from analyses.clustering.estimators.sketch_estimate import likely_cardinality, likely_meeting
from analyses.job.job import Job
from analyses.job.matching import MatchingSchema
from analyses.job.row_ids import digests_of_ids
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.joint_sums.bin_estimate import people
from analyses.joint_sums.protocol import ANALYSIS
from bench.utility.moment_runs import DELTA, run_in_process
from dp.mechanism.cardinality import calibrate_sketch
from entropy import InsecureTestEntropy, KeyStream

OWNERS = ("bank", "shop")
SKETCHES = 4096
MOST_SKETCHED = 200_000
"""With more people sketches take minutes."""


def tables_of(n: int) -> list[Table]:
    """Return a table of people of each owner; half of them are the other's too."""
    matching, columns = MatchingSchema(recipe=((),)), (ColumnSchema(name="is", lower=0.0, upper=1.0),)
    found = []
    for at, owner in enumerate(OWNERS):
        ids = digests_of_ids([[f"person {number}" for number in range(at * n // 2, at * n // 2 + n)]])
        schema = BlockSchema(party=owner, columns=columns, rows=(1, n), matching=matching)
        found.append(Table(schema, np.zeros((n, 1)), ids=ids))
    return found


def planned(tables: list[Table], epsilon: float, view: str) -> Any:
    """Return the plan of a job over these tables."""
    fields = {
        "analysis": "joint-count",
        "inputs": [{"party": owner, "table": "people"} for owner in OWNERS],
        "compute": [*OWNERS, "helper"],
        "privacy": {"epsilon": epsilon, "delta": DELTA, "view": view},
        "parameters": {"bins": "auto"},
    }
    schemas = [*(table.schema for table in tables), BlockSchema(party="helper")]
    return ANALYSIS.plan(Job.model_validate(fields), schemas)


def redrawn(plan: Any, n: int, runs: int) -> list[list[float]]:
    """Return union, intersection and their errors, hashing and noise drawn anew."""
    rng, found = np.random.default_rng(1), []
    for run in range(runs):
        bins, occupied = rng.integers(0, plan.n_bins, n + n // 2), np.zeros((2, plan.n_bins), dtype=np.int64)
        for at in range(2):
            occupied[at, bins[at * n // 2 : at * n // 2 + n]] = 1
        counts = np.bincount(2 * (1 - occupied[0]) + 1 - occupied[1], minlength=4)
        noise = sum(plan.noise.draw(InsecureTestEntropy(f"people {run} {party}")) for party in range(plan.n_parties))
        both = people(
            (counts + noise).reshape(2, 2).astype(np.float64), plan.n_bins, plan.noise.standard_deviation("coordinator")
        )
        last = both[-1]
        found.append([last.union, last.common, last.union_error, last.common_error])
    return found


def sketched(n: int, epsilon: float, runs: int) -> list[list[float]]:
    """Return union and intersection by sketches: of two clusters, those who are an owner's people, and all others."""
    sketch, found, everybody = calibrate_sketch(2, SKETCHES, 2, 1, epsilon, DELTA), [], np.arange(n + n // 2)
    for run in range(runs):
        levels = []
        for at in range(2):
            of_owner = (everybody < at * n // 2) | (everybody >= at * n // 2 + n)
            users, phantoms = (KeyStream(f"{what} {run}".encode().ljust(32)) for what in ("users", "phantoms"))
            own = sketch.draw(InsecureTestEntropy(f"sketch {run} {at}"))
            levels.append(sketch.publish(of_owner.astype(np.int64), at, users, phantoms, own))
        sizes = likely_cardinality(levels[0], sketch.floor), likely_cardinality(levels[1], sketch.floor)
        meeting = likely_meeting(levels[0], levels[1], sizes, sketch.floor)[0, 0] - sketch.phantoms_of_meeting
        union = sizes[0][0] + sizes[1][0] - 2 * sketch.phantoms_of_cluster - meeting
        found.append([float(union), float(meeting)])
    return found


def errors(found: list[list[float]], n: int) -> dict[str, Any]:
    """Return root mean square errors, those stated where there are some, and how often intervals hold."""
    off = np.array(found)[:, :2] - [n + n // 2, n // 2]
    scores: dict[str, Any] = {"runs": len(found)}
    scores |= {name: _short(math.sqrt(np.mean(off[:, at] ** 2))) for at, name in enumerate(("union", "common"))}
    if len(found[0]) > 2:
        stated = np.array(found)[:, 2:]
        scores["stated"] = [_short(one) for one in stated.mean(axis=0)]
        scores["hold"] = np.mean(np.abs(off) < 1.96 * stated, axis=0).round(3).tolist()
    return scores


def measure(n: int, epsilon: float, runs: int, n_redrawn: int) -> dict[str, Any]:
    """Return what was measured for so many people of each owner."""
    tables = tables_of(n)
    plan, weaker = planned(tables, epsilon, "coalition"), planned(tables, epsilon, "coordinator")
    jobs = [run_in_process(plan, tables) for _ in range(runs)]
    last = [one.result["people"][-1] for one in jobs]
    names = ("union", "common", "union_standard_error", "common_standard_error")
    sent = jobs[0].spent.sent_bytes
    return {
        "people": n,
        "bins": plan.n_bins,
        "epsilon": epsilon,
        "jobs": errors([[one[name] for name in names] for one in last], n),
        "processor_s": _short(float(np.median([one.spent.seconds for one in jobs]))),
        "sent_mb": None if sent is None else _short(sent / 1e6),
        "redrawn, coalition": errors(redrawn(plan, n, n_redrawn), n),
        "redrawn, coordinator": errors(redrawn(weaker, n, n_redrawn), n),
        **({f"{SKETCHES} sketches, coordinator": errors(sketched(n, epsilon, runs), n)} if n <= MOST_SKETCHED else {}),
    }


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--redrawn", type=int, default=500)
    options = parser.parse_args()
    found = [measure(n, options.epsilon, options.runs, options.redrawn) for n in options.people]
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
