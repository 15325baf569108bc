"""Many small jobs over services: in a row and at once, of two analysts; time, processor, memory and fairness, as JSON.

    python -m bench.jobs.many [--jobs 500] [--at-once 16] [--rounds 4] [--running 2]

A coordinator and three parties run as processes on this machine. First one analyst submits `--jobs` small jobs, each
when the one before is done. What each service keeps is read after a tenth of them and at the end: resident memory, open
descriptors, threads. Then `--at-once` jobs are submitted together, half of them by each of two analysts, of whom the
first submits all of hers before the other comes; `--rounds` times. A job's time runs from its submission to its result.

Fairness: the mean place, among all that are done, of the jobs of the analyst who came second. Where analysts take
turns it is near that of the first; where the queue is one line it is half of `--at-once` behind.
"""

import argparse
import asyncio
import json
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from analyses.job.job import Job, JobInput, PrivacyTarget
from analyst.connection import ClientConfig, connect
from bench.datasets.order import trusted_order
from bench.datasets.tables import synthetic_tables
from bench.jobs.federation import JobFailedError
from bench.machine import ONE_THREAD, describe_machine, processor_s
from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME, LocalDeployment
from demo.loopback import tls_files, toml
from service.identity import Role
from transport.calls.coordinator_client import CoordinatorClient

SECOND = "second"
ROWS, COLUMNS, PARTIES = 100, 6, 3
SETTLE_S = 2.0
"""A moment after the last job, for connections and reports that end after the result."""


def kept_by(pid: int) -> dict[str, float]:
    """Return what a process holds: resident MB, open descriptors, threads."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    n_open = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resident_mb = int(fields["VmRSS"].split()[0]) / 1000
    return {"resident_mb": round(resident_mb, 1), "descriptors": n_open, "threads": int(fields["Threads"])}


async def timed(client: CoordinatorClient, job: Job) -> float:
    """Run one job; return the seconds from its submission to its result.

    Raises:
        JobFailedError: it was not done.
    """
    began_s = time.perf_counter()
    job_id = await client.submit(job.canonical_json(), secrets.token_hex(16))
    async for _ in client.watch(job_id):
        pass
    view = await client.show(job_id)
    if view.state != "DONE":
        raise JobFailedError(f"job {job_id} is {view.state}: {view.reason}")
    return time.perf_counter() - began_s


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return median and 99th percentile, and their ratio."""
    p50, p99 = statistics.median(seconds), statistics.quantiles(seconds, n=100, method="inclusive")[98]
    return {"p50_s": round(p50, 3), "p99_s": round(p99, 3), "ratio": round(p99 / p50, 2)}


async def in_a_row(client: CoordinatorClient, job: Job, n_jobs: int, deployment: LocalDeployment) -> dict[str, Any]:
    """Run jobs one after the other."""
    pids = {name: process.pid for name, process in deployment.processes.items()}
    await timed(client, job)  # reads the tables
    used_before = {name: processor_s(pid) for name, pid in pids.items()}
    seconds, kept = [], {}
    for number in range(1, n_jobs + 1):
        seconds.append(await timed(client, job))
        if number in (n_jobs // 10, n_jobs):
            await asyncio.sleep(SETTLE_S)
            kept[number] = {name: kept_by(pid) for name, pid in pids.items()}
    used = {name: processor_s(pid) - used_before[name] for name, pid in pids.items()}
    return {
        "jobs": n_jobs,
        "wall_s": round(sum(seconds), 1),
        "processor_ms_per_job": {name: round(1000 * s / n_jobs, 1) for name, s in used.items()},
        **spread(seconds),
        "last_tenth": spread(seconds[-max(2, n_jobs // 10) :]),
        "kept_after_jobs": kept,
    }


async def at_once(clients: Mapping[str, CoordinatorClient], job: Job, n_jobs: int, n_rounds: int) -> dict[str, Any]:
    """Let two analysts submit jobs together, the first one all of hers before the other."""
    seconds: dict[str, list[float]] = {name: [] for name in clients}
    places: dict[str, list[int]] = {name: [] for name in clients}
    n_done = 0

    async def one(name: str) -> None:
        nonlocal n_done
        seconds[name].append(await timed(clients[name], job))
        n_done += 1
        places[name].append(n_done)

    for _ in range(n_rounds):
        n_done = 0
        await asyncio.gather(*(one(name) for name in clients for _ in range(n_jobs // len(clients))))
    return {
        "jobs": n_jobs,
        "rounds": n_rounds,
        **spread([s for values in seconds.values() for s in values]),
        "mean_place": {name: statistics.mean(values) for name, values in places.items()},
        "each": {name: spread(values) for name, values in seconds.items()},
    }


async def measured(n_jobs: int, n_at_once: int, n_rounds: int, n_running: int) -> dict[str, Any]:
    """Start the services, run everything, and return the report."""
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as scratch:
        folder = Path(scratch)
        (folder / "run").mkdir()
        made = synthetic_tables(folder, rows=ROWS, columns=COLUMNS, parties=PARTIES)
        tables = {table.schema.party: [file] for file, table in made}
        job = Job(
            analysis="pca",
            inputs=tuple(JobInput(party=table.schema.party, table=file.name) for file, table in made),
            **trusted_order(table.schema for _, table in made),
            deadline_s=120.0,
            privacy=PrivacyTarget(epsilon=0.5, delta=1e-9),
            parameters={"components": 2, "center": False},
        )
        settings = {
            "MOIETY_COORDINATOR__ANALYSTS__ALLOWED": json.dumps([ANALYST_NAME, SECOND]),
            "MOIETY_COORDINATOR__MAX_RUNNING_JOBS": str(n_running),
        }
        policy = {"policy.automatic": {"max_epsilon_per_job": 1.0, "analysts": [ANALYST_NAME, SECOND]}}
        deployment = LocalDeployment(
            folder / "run",
            tables,
            environment=ONE_THREAD | settings,
            budget=(1e6, 1e-3),
            policy=dict.fromkeys(tables, policy),
            members=[(Role.ANALYST, SECOND)],
        )
        async with AsyncExitStack() as stack:
            stack.enter_context(deployment)
            clients = {}
            for name in (ANALYST_NAME, SECOND):
                address = deployment.addresses[COORDINATOR_NAME]
                sections = {"coordinator": {"name": COORDINATOR_NAME, "address": address}, "tls": tls_files(name)}
                path = deployment.folder / f"client-{name}.toml"
                path.write_text(toml({"federation": deployment.federation}, sections))
                clients[name] = await stack.enter_async_context(connect(ClientConfig.load(path)))
            row = await in_a_row(clients[ANALYST_NAME], job, n_jobs, deployment)
            together = await at_once(clients, job, n_at_once, n_rounds)
            after = {name: kept_by(process.pid) for name, process in deployment.processes.items()}
    return {
        "bench": "many",
        "max_running_jobs": n_running,
        "in_a_row": row,
        "at_once": together,
        "kept_at_the_end": after,
        "machine": describe_machine(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=500, help="in a row; at least 20")
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--running", type=int, default=2, help="max_running_jobs of the coordinator")
    options = parser.parse_args(arguments)
    report = asyncio.run(measured(options.jobs, options.at_once, options.rounds, options.running))
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
