"""What `moiety job plan --time` forecasts of a job's memory and processor time, beside what services take of it.

    python -m bench.jobs.work [--size 100x5 --size 10000x100 ...] [--analysis pca]

Three parties with random numbers. A first job of six columns loads what services load once. Memory is the largest
resident set of the next job, less what was resident before it; processor time the median of the jobs after that, for
which tables are read already. Ratios are forecast / measured, of the party that took most and of the coordinator.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from analyses.job.distance import Work
from analyses.job.job import Job, JobInput, PrivacyTarget
from analyses.registry import analysis_of
from bench.datasets.order import trusted_order
from bench.datasets.tables import Tables, synthetic_tables
from bench.jobs.federation import running_federation
from bench.machine import describe_machine

COORDINATOR, DEADLINE_S = "coordinator", 900.0
SIZES = ("100x5", "10000x100", "10000x1000", "2110x3703")
OWN: dict[str, dict[str, Any]] = {
    "pca": {"components": 5},
    "least-squares": {"label": "party-1.x0"},
    "second-moments": {},
}


def job_of(tables: Tables, analysis: str) -> Job:
    """Return the job that is measured over these tables."""
    return Job(
        analysis=analysis,
        inputs=tuple(JobInput(party=table.schema.party, table=file.name) for file, table in tables),
        **trusted_order(table.schema for _, table in tables),
        deadline_s=DEADLINE_S,
        anyway=True,  # what is measured is time
        privacy=PrivacyTarget(epsilon=4.0, delta=1e-6),
        parameters={"max_rows": 1 << (tables[0][1].n_rows - 1).bit_length(), **OWN[analysis]},
    )


def forecast(job: Job, tables: Tables) -> Work:
    """Return what the plan says, with this machine measured."""
    plan = analysis_of(job).plan(job, [table.schema for _, table in tables])
    with threadpool_limits(1):
        found = analysis_of(job).work(plan, measured=True)
    assert found is not None, "the analysis says it"
    return found


async def measure(small: Tables, tables: Tables, analysis: str, repeats: int) -> dict[str, Any]:
    """Run the jobs; return forecast, what was measured, and their ratios."""
    files = {table.schema.party: [file, other[0]] for (file, table), other in zip(tables, small, strict=True)}
    job, seconds = job_of(tables, analysis), list[dict[str, float]]()
    async with running_federation(files) as federation:
        await federation.run(job_of(small, analysis))
        resting = {name: held["all"] for name, held in federation.resident_bytes().items()}
        federation.forget_peaks()
        await federation.run(job)
        peak = {name: most - resting[name] for name, most in federation.peak_resident_bytes().items()}
        for _ in range(repeats):
            before = federation.processor_s()
            await federation.run(job)
            seconds.append({name: s - before[name] for name, s in federation.processor_s().items()})
    parties = [name for name in peak if name != COORDINATOR]
    measured = {
        "party_bytes": max(peak[name] for name in parties),
        "coordinator_bytes": peak[COORDINATOR],
        "party_s": max(statistics.median(one[name] for one in seconds) for name in parties),
        "coordinator_s": statistics.median(one[COORDINATOR] for one in seconds),
    }
    said = forecast(job, tables).as_dict()
    ratios = {name: said[name] / n for name, n in measured.items() if said[name] is not None and n > 0}
    return {"forecast": said, "measured": measured, "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="append", help="ROWSxCOLUMNS; may be given several times")
    parser.add_argument("--analysis", choices=OWN, default="pca")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    jobs = []
    for size in options.size or SIZES:
        rows, columns = map(int, size.split("x"))
        with tempfile.TemporaryDirectory(prefix="moiety-bench-") as name:
            folders = Path(name) / "small", Path(name) / "large"
            for folder in folders:
                folder.mkdir()
            few = synthetic_tables(folders[0], rows=300, columns=6, parties=3)
            small = [(replace(file, name="small"), table) for file, table in few]
            tables = synthetic_tables(folders[1], rows=rows, columns=columns, parties=3)
            found = asyncio.run(measure(small, tables, options.analysis, options.repeats))
        jobs.append({"rows": rows, "columns": columns, **found})
    report = {"bench": "work", "analysis": options.analysis, "jobs": jobs, "machine": describe_machine()}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
