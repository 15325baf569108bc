"""A PCA job of parties that only dial out, beside the same job of parties that are dialled directly.

    python -m bench.relay.jobs --rows 10000 --columns 100 --parties 3 --repeats 10

Two federations on loopback take turns, job by job, so that both meet the same load of the machine: in one all parties
have addresses, in the other they have none, and a relay runs as a process of its own. Prints JSON: medians of the
seconds from a job's acceptance to its result, and means of the processor seconds of a party, of the coordinator and of
the relay per job, with their ratios; bytes that left the parties' sockets, and the relay's largest resident set.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bench.datasets.tables import synthetic_tables
from bench.jobs.federation import running_federation
from bench.jobs.gram import Blocks
from bench.machine import describe_machine
from demo.local_deployment import COORDINATOR_NAME

RELAY = "relay"


async def measure(rows: int, columns: int, parties: int, repeats: int) -> dict[str, Any]:
    """Run a warm-up job in each federation, then `repeats` jobs in each, in turns."""
    stack = AsyncExitStack()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moiety-bench-")))
    blocks = Blocks.of(synthetic_tables(folder, rows=rows, columns=columns, parties=parties), epsilon=1.0)
    files, job = {table.schema.party: [file] for file, table in blocks.tables}, blocks.plan.job
    async with stack:
        ways = {
            "direct": await stack.enter_async_context(running_federation(files)),
            "relayed": await stack.enter_async_context(
                running_federation(files, dial_out=tuple(files), relays=(RELAY,))
            ),
        }
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        wire: dict[str, float] = {}
        for federation in ways.values():
            await federation.run(job)
        before = {way: federation.processor_s() for way, federation in ways.items()}
        for _ in range(repeats):
            for way, federation in ways.items():
                run = await federation.run(job)
                seconds[way].append(run.seconds)
                wire[way] = sum(run.wire_bytes.values())
        used = {
            way: {name: (now - before[way][name]) / repeats for name, now in federation.processor_s().items()}
            for way, federation in ways.items()
        }
        relay_mib = ways["relayed"].peak_resident_bytes()[RELAY] / 2**20
    found: dict[str, Any] = {
        way: {
            "seconds": statistics.median(seconds[way]),
            "party_processor_s": statistics.mean(used[way][name] for name in files),
            "coordinator_processor_s": used[way][COORDINATOR_NAME],
            "sent_bytes": wire[way],
        }
        for way in ways
    }
    ratio = {name: found["relayed"][name] / found["direct"][name] for name in ("seconds", "party_processor_s")}
    relay_s = used["relayed"][RELAY]
    # What parties send by their own sockets beside a relay counts twice there: to the entry, and to the relay.
    forwarded = found["direct"]["sent_bytes"]
    relay = {
        "processor_s": relay_s,
        "processor_s_per_gb": relay_s / forwarded * 1e9,
        "peak_resident_mib": relay_mib,
    }
    return {"machine": describe_machine(), "rows": rows, "columns": columns, **found, "ratio": ratio, "relay": relay}


def main() -> None:
    """Run the measurement and print it."""
    parser = argparse.ArgumentParser(description="A job by a relay beside the same job directly.")
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    found = asyncio.run(measure(given.rows, given.columns, given.parties, given.repeats))
    json.dump(found, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
