"""X^T X of a joint table with and without proofs of all rows, in one run: processor time and bytes of a party.

python -m bench.protocols.proven_rows [--shape 10000x100 ...] [--gamma 0] [--repeats 5]

All members run in one process and one thread. What the coordinator makes of the opened matrix is left out: it is the
same in both modes. Prints JSON.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from analyses.job.job import Job
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids
from analyses.registry import analysis_of
from analyses.run_locally import local_network, run_plan
from analyses.second_moments.noisy_gram import open_noisy_gram
from bench.machine import describe_machine
from bench.protocols.local_gram import shape
from mpc.protocol.session import COORDINATOR

OWNERS = ("bank", "hospital", "telco")
MODES = ("semi-honest", "malicious")


def tables_of(n_rows: int, n_columns: int) -> dict[str, Table]:
    """Return three tables of uniform columns, n_columns together."""
    rng = np.random.default_rng(1)
    tables = {}
    for owner, columns in zip(OWNERS, np.array_split(np.arange(n_columns), len(OWNERS)), strict=True):
        named = tuple(ColumnSchema(name=f"x{i}", lower=0.0, upper=1.0) for i in columns)
        schema = BlockSchema(party=owner, columns=named, rows=(n_rows, n_rows))
        tables[owner] = Table(schema, rng.uniform(size=(n_rows, len(columns))), digest_of_ids([]))
    return tables


def plan_of(tables: dict[str, Table], mode: str, gamma: int) -> Plan:
    """Return the plan of a low-rank job of epsilon 1."""
    job = Job.model_validate(
        {
            "analysis": "low-rank",
            "inputs": [{"party": owner, "table": "people"} for owner in OWNERS],
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
            "parameters": {"rank": 2} | ({"gamma": gamma} if gamma else {}),
            "order": "trusted",
            "security": mode,
            "anyway": True,
        }
    )
    return analysis_of(job).plan(job, [table.schema for table in tables.values()])


def run(plan: Plan, tables: dict[str, Table]) -> tuple[float, int]:
    """Run a job; return the processor seconds of all members and the bytes of the busiest party."""
    network = local_network(plan)
    start = time.process_time()
    ended = asyncio.run(
        run_plan(plan, tables, network, parts={COORDINATOR: lambda session: open_noisy_gram(session, plan)})
    )
    seconds = time.process_time() - start
    if ended.failures:
        raise ended.failures[0]
    return seconds, max(network.sent_bytes.values())


def measure(n_rows: int, n_columns: int, gamma: int, repeats: int) -> dict[str, Any]:
    """Measure one shape in both modes, in turn; the least processor time of each counts."""
    tables = tables_of(n_rows, n_columns)
    plans = {mode: plan_of(tables, mode, gamma) for mode in MODES}
    seconds: dict[str, list[float]] = {mode: [] for mode in MODES}
    n_bytes = {}
    for repetition in range(repeats + 1):  # the first one compiles and fills caches
        for mode, plan in plans.items():
            taken, n_bytes[mode] = run(plan, tables)
            if repetition:
                seconds[mode].append(taken)
    least = {mode: min(taken) for mode, taken in seconds.items()}
    cells = n_rows * n_columns * len(OWNERS)
    return {
        "rows": n_rows,
        "columns": n_columns,
        "primes": {mode: plan.n_primes for mode, plan in plans.items()},
        "processor_ns_per_cell_and_party": {mode: 1e9 * taken / cells for mode, taken in least.items()},
        "bytes_of_a_party": n_bytes,
        "times_processor": least["malicious"] / least["semi-honest"],
        "times_bytes": n_bytes["malicious"] / n_bytes["semi-honest"],
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=shape, nargs="+", default=[(10_000, 100)])
    parser.add_argument("--gamma", type=int, default=0, help="units per 1; 0 for those that a plan chooses")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(argv)
    measured = [measure(rows, columns, options.gamma, options.repeats) for rows, columns in options.shape]
    print(json.dumps({"bench": "proven_rows", "machine": describe_machine(), "proven_rows": measured}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
