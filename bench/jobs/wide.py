"""Principal components of a wide table by the services, with centring and intervals: seconds, processor time, memory.

    python -m bench.jobs.wide --rows 2110 --columns 3703

Three parties with random numbers; the sizes are those of CiteSeer. Each job runs once in new services, so it reads the
tables, too. What a service holds at rest is stated beside its largest resident set.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from analyses.job.job import Job, JobInput, PrivacyTarget
from bench.datasets.order import trusted_order
from bench.datasets.tables import Tables, synthetic_tables
from bench.jobs.federation import running_federation
from bench.machine import describe_machine

COORDINATOR, DEADLINE_S = "coordinator", 900.0


async def measure(tables: Tables) -> dict[str, Any]:
    """Run the job; return what it took of the party that took most, and of the coordinator."""
    job = Job(
        analysis="pca",
        inputs=tuple(JobInput(party=table.schema.party, table=file.name) for file, table in tables),
        **trusted_order(table.schema for _, table in tables),
        deadline_s=DEADLINE_S,
        anyway=True,  # what is measured is time
        privacy=PrivacyTarget(epsilon=4.0, delta=1e-6),
        parameters={"components": 5, "max_rows": 1 << (tables[0][1].n_rows - 1).bit_length()},
    )
    async with running_federation({table.schema.party: [file] for file, table in tables}) as federation:
        used, resting = federation.processor_s(), federation.peak_resident_bytes()
        run = await federation.run(job)
        taken = {name: s - used[name] for name, s in federation.processor_s().items()}
        peak = federation.peak_resident_bytes()
    parties = [name for name in taken if name != COORDINATOR]
    return {
        "seconds": run.seconds,
        "party_processor_s": max(taken[name] for name in parties),
        "coordinator_processor_s": taken[COORDINATOR],
        "party_peak_bytes": max(peak[name] for name in parties),
        "party_resting_bytes": max(resting[name] for name in parties),
        "coordinator_peak_bytes": peak[COORDINATOR],
        "coordinator_resting_bytes": resting[COORDINATOR],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2110)
    parser.add_argument("--columns", type=int, default=3703)
    parser.add_argument("--format", choices=("json",), default="json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as name:
        tables = synthetic_tables(Path(name), rows=options.rows, columns=options.columns, parties=3)
        found = asyncio.run(measure(tables))
    report = {"bench": "wide", "rows": options.rows, "columns": options.columns, **found, "machine": describe_machine()}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
