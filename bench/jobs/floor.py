"""A party's processor time per cell of the joint table in a Gram job, beside the least that it could take.

    python -m bench.jobs.floor [--rows 100000] [--columns 100] [--repeats 3] [--format text|json]

The floor of a cell, one thread: its part in the local product of shares, one word of an AES-256 key stream, and one
copy of a word in and one out. The job is that of `bench.jobs.gram` over three parties, with everything that a service
does: reading frames, TLS, checks, quantising, dealing. Both are measured in one run; their ratio is what counts.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

from bench.datasets.tables import synthetic_tables
from bench.jobs.cell_floor import floor_ns, passes_ns
from bench.jobs.gram import Blocks, measure
from bench.machine import describe_machine

N_PARTIES = 3


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3, help="jobs after the first one")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as name:
        tables = synthetic_tables(Path(name), rows=options.rows, columns=options.columns, parties=N_PARTIES)
        blocks = Blocks.of(tables, epsilon=1.0)
        job = asyncio.run(measure(blocks, repeats=options.repeats, peer_repeats=0))
    parts = floor_ns(options.columns, blocks.plan.n_primes, options.repeats)
    job_ns = 1e9 * job["processor_s"]["party"] / (options.rows * options.columns)
    floor = sum(parts.values())
    report: dict[str, Any] = {
        "bench": "floor",
        "rows": options.rows,
        "columns": options.columns,
        "parties": N_PARTIES,
        "floor_ns_per_cell": parts | {"all": floor},
        "job_ns_per_cell": job_ns,
        "ratio": job_ns / floor,
        "passes_ns_per_cell": passes_ns(blocks.plan),
        "threads_ns_per_cell": {
            kind: 1e9 * s / (options.rows * options.columns) for kind, s in job["threads_s"].items()
        },
        "machine": describe_machine(),
    }
    if options.format == "json":
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
        return
    shown = ", ".join(f"{part} {ns:.2f}" for part, ns in parts.items())
    sys.stdout.write(f"floor of a cell: {floor:.2f} ns ({shown})\n")
    sys.stdout.write(f"a party's job:   {job_ns:.2f} ns, {report['ratio']:.1f} times the floor\n")


if __name__ == "__main__":
    main()
