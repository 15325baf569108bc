"""A program of an analyst's own beside the registered analysis that computes the same, on the same services.

    python -m bench.circuits.job --rows 100 --columns 5

The program multiplies each two columns and opens the sums of the products, which `second-moments` releases, too. The
two take turns, so that both meet the same load of the machine; seconds and processor seconds are as in
`bench.jobs.gram`, processor seconds those of the busiest party.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analyses.job.job import Job, JobInput, PrivacyTarget
from bench.datasets.order import trusted_order
from bench.datasets.tables import Tables, synthetic_tables
from bench.jobs.federation import running_federation
from bench.machine import describe_machine
from demo.local_deployment import largest_delta

DELTA = 1e-6
GOAL = 1.5


def program_of(tables: Tables) -> list[str]:
    """Return the lines: all columns, the products of each two, and their sums."""
    columns = [f"{table.schema.party}.{column.name}" for _, table in tables for column in table.schema.columns]
    lines = [f"x{i} = column({column})" for i, column in enumerate(columns)]
    pairs = [(i, j) for i in range(len(columns)) for j in range(i, len(columns))]
    lines += [f"p{i}_{j} = mul(x{i}, x{j})" for i, j in pairs]
    return [*lines, *(f"open s{i}_{j} = sum(p{i}_{j})" for i, j in pairs)]


def job_of(tables: Tables, analysis: str, parameters: dict[str, Any]) -> Job:
    """Return a job about all columns."""
    rows = tables[0][1].n_rows
    return Job(
        analysis=analysis,
        inputs=tuple(JobInput(party=table.schema.party, table=file.name) for file, table in tables),
        **trusted_order(table.schema for _, table in tables),
        deadline_s=300.0,
        anyway=True,  # what is measured is time: of few rows nothing may be seen in the noise
        privacy=PrivacyTarget(epsilon=1.0, delta=min(DELTA, largest_delta(rows))),
        parameters={"max_rows": 1 << (rows - 1).bit_length(), **parameters},
    )


async def measure(tables: Tables, repeats: int) -> dict[str, Any]:
    """Run both in turns, after one of each that reads the tables."""
    jobs = {
        "circuit": job_of(tables, "circuit", {"program": program_of(tables)}),
        "second-moments": job_of(tables, "second-moments", {}),
    }
    files = {table.schema.party: [file] for file, table in tables}
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    used: dict[str, list[float]] = {name: [] for name in jobs}
    sent: dict[str, int] = {}
    async with running_federation(files) as federation:
        for number in range(1 + repeats):
            for name, job in jobs.items():
                before_s = federation.processor_s()
                run = await federation.run(job)
                sent[name] = max(run.sent_bytes.values())
                if number:
                    after_s = federation.processor_s()
                    used[name].append(max(after_s[party] - before_s[party] for party in files))
                    seconds[name].append(run.seconds)
    report: dict[str, Any] = {
        name: {
            "seconds": statistics.median(seconds[name]),
            "processor_s": statistics.mean(used[name]),
            "sent_bytes": sent[name],
        }
        for name in jobs
    }
    for what in ("seconds", "processor_s"):
        report[f"{what}_to_registered"] = report["circuit"][what] / report["second-moments"][what]
    return report | {"goal": GOAL}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--columns", type=int, default=5)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        tables = synthetic_tables(Path(folder), rows=options.rows, columns=options.columns, parties=options.parties)
        report = asyncio.run(measure(tables, options.repeats))
    about = {"bench": "circuit-job", "rows": options.rows, "columns": options.columns, "parties": options.parties}
    sys.stdout.write(json.dumps({**about, **report, "machine": describe_machine()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
