"""Seconds of PCA jobs of services that are far apart: relays between them deliver everything later.

    python -m bench.jobs.far_apart [--shapes 100x5,10000x100] [--round-trips-ms 0,50,100] [--repeats 3]
        [--relayed] [--format text|json]

Three parties and a coordinator are separate processes with mutual TLS; a relay stands between each two of them
(`bench.jobs.delaying_relay`). The analyst is beside the coordinator. The first job opens the connections and reads the
tables; it is shown apart. Seconds run from the answer to the submission until the result is there, links are those of
the longest chain of messages, one-way, all with the coordinator included. The relays limit no bandwidth. Beside them
stands what `moiety job plan` predicts (`analyses.job.distance`), which leaves out computing.

With `--relayed` each shape and distance is measured once more, with all parties behind one relay of the federation, a
process that is as far from everybody. Links are an upper bound there: what arrives at the relay counts for all that
leaves it afterwards.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from analyses.job.distance import distance_of
from analyst.connection import ClientConfig, connect
from bench.datasets.tables import synthetic_tables
from bench.jobs.delaying_relay import DelayingRelays
from bench.jobs.federation import Federation
from bench.jobs.gram import Blocks
from bench.machine import ONE_THREAD, describe_machine
from demo.local_deployment import LocalDeployment

N_PARTIES = 3
EPSILON = 4.0
NO_LIMIT_MBIT = 1e9
RELAY = "relay"


@dataclass
class FarDeployment(LocalDeployment):
    """Its services reach one another through relays, which stand before the first of them starts."""

    delays: DelayingRelays = field(kw_only=True)

    def write_files(self) -> None:
        """Write certificates and configurations, the latter with the addresses of relays."""
        super().write_files()
        self.delays.put_between(self)


async def measure(
    n_rows: int, n_columns: int, round_trip_ms: float, repeats: int, *, is_relayed: bool = False
) -> dict[str, Any]:
    """Return seconds and links of the first job, and medians of those after it."""
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        (run := Path(folder, "run")).mkdir()
        made = synthetic_tables(Path(folder), rows=n_rows, columns=n_columns, parties=N_PARTIES)
        plan = Blocks.of(made, epsilon=EPSILON).plan
        job, distance = plan.job, distance_of(plan)
        assert distance is not None
        tables = {table.schema.party: [file] for file, table in made}
        seconds, links = [], []
        hidden: dict[str, Any] = {"dial_out": tuple(tables), "relays": (RELAY,)} if is_relayed else {}
        with (
            DelayingRelays(round_trip_ms / 2000) as relays,
            FarDeployment(run, tables, environment=ONE_THREAD, delays=relays, **hidden) as deployment,
        ):
            async with connect(ClientConfig.load(deployment.client_config)) as client:
                federation = Federation(deployment, client)
                for _ in range(1 + repeats):
                    before = relays.chain.depth
                    seconds.append((await federation.run(job)).seconds)
                    links.append(relays.chain.depth - before)
    return {
        "rows": n_rows,
        "columns": n_columns,
        "round_trip_ms": round_trip_ms,
        "is_relayed": is_relayed,
        "first_s": round(seconds[0], 2),
        "first_links": links[0],
        "seconds": round(median(seconds[1:]), 2),
        "links": round(median(links[1:])),
        "predicted_s": round(distance.seconds((1 + is_relayed) * round_trip_ms, NO_LIMIT_MBIT), 2),
        "predicted_links": distance.flights + distance.coordinator_flights,
    }


def as_table(reports: Sequence[dict[str, Any]]) -> str:
    """Return the reports as a table of Markdown."""
    lines = [
        "| rows x columns | round trip | first job s | later jobs s | predicted s | links of a later job | predicted |"
    ]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for r in reports:
        shape = f"{r['rows']} x {r['columns']}" + (", by a relay" if r["is_relayed"] else "")
        lines.append(
            f"| {shape} | {r['round_trip_ms']:g} ms | {r['first_s']:.2f} | {r['seconds']:.2f} | {r['predicted_s']:.2f} "
            f"| {r['links']} | {r['predicted_links']} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="100x5,10000x100")
    parser.add_argument("--round-trips-ms", default="0,50,100")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--relayed", action="store_true")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    options = parser.parse_args(arguments)
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes.split(",")]
    round_trips = [float(ms) for ms in options.round_trips_ms.split(",")]
    reports = [
        asyncio.run(measure(rows, columns, ms, options.repeats, is_relayed=is_relayed))
        for rows, columns in shapes
        for ms in round_trips
        for is_relayed in ([False, True] if options.relayed else [False])
    ]
    if options.format == "json":
        sys.stdout.write(json.dumps({"jobs": reports, "machine": describe_machine()}, indent=1) + "\n")
    else:
        sys.stdout.write(as_table(reports))


if __name__ == "__main__":
    main()
