"""Many jobs in a row of parties that are all behind one relay, and what the services keep of them.

    python -m bench.relay.many --parties 9 --jobs 100

Prints JSON: the resident MiB of the relay, of the coordinator and of the party with most, after the first job, halfway
and at the end. A job that fails ends the measurement.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from bench.datasets.tables import synthetic_tables
from bench.jobs.federation import Federation, running_federation
from bench.jobs.gram import Blocks
from bench.machine import describe_machine
from demo.local_deployment import COORDINATOR_NAME

RELAY = "relay"


def resident_mib(federation: Federation) -> dict[str, float]:
    """Return the resident MiB of the relay, of the coordinator and of the party with most."""
    now = {name: kinds["all"] / 2**20 for name, kinds in federation.resident_bytes().items()}
    relay, coordinator = now.pop(RELAY), now.pop(COORDINATOR_NAME)
    return {"relay": relay, "coordinator": coordinator, "party": max(now.values())}


async def measure(parties: int, jobs: int) -> list[dict[str, float]]:
    """Run the jobs; return the memory after the first one, halfway and at the end."""
    found = []
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        tables = synthetic_tables(Path(folder), rows=300, columns=2 * parties, parties=parties)
        files = {table.schema.party: [file] for file, table in tables}
        job = Blocks.of(tables, epsilon=1.0).plan.job
        async with running_federation(files, dial_out=tuple(files), relays=(RELAY,)) as federation:
            for number in range(jobs):
                await federation.run(job)
                if number in (0, jobs // 2, jobs - 1):
                    found.append({"jobs": number + 1, **resident_mib(federation)})
    return found


def main() -> None:
    """Run the measurement and print it."""
    parser = argparse.ArgumentParser(description="Many jobs in a row by a relay.")
    parser.add_argument("--parties", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=100)
    given = parser.parse_args()
    found = asyncio.run(measure(given.parties, given.jobs))
    json.dump({"machine": describe_machine(), "resident_mib": found}, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
