"""A coordinator killed again and again at random moments of small jobs: what is lost, what is paid twice, as JSON.

    python -m bench.jobs.crashes [--kills 100] [--postgres] [--seed 1]

A coordinator and three parties run as processes on this machine. An analyst submits two jobs at a time. After a random
time, up to that of two undisturbed jobs, the coordinator is killed by SIGKILL and started again,
with the same store; a submission that was not answered is repeated with its key. Once both jobs have ended, the next
two come. With `--postgres` the store is a database, and the coordinator that is started stands by until the lease has
lapsed.

At the end the store and the parties' ledgers are compared:

* `done`: jobs with a result.
* `failed_unpaid`: that failed and that no party has paid for, by reason: those that were being proposed.
* `lost`: that failed though a party has paid for them. None is expected.
* `paid_twice`: (party, job) that stands in a ledger more than once as paid. None is expected.
* `submitted_twice`: submissions that became two jobs. None is expected.
* `at`: how many kills met a job in which state.
"""

import argparse
import asyncio
import json
import random
import secrets
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from analyses.job.job import Job, JobInput, PrivacyTarget
from analyst.connection import ClientConfig, connect
from bench.datasets.order import trusted_order
from bench.datasets.tables import synthetic_tables
from bench.machine import ONE_THREAD, describe_machine
from demo.local_deployment import COORDINATOR_NAME, LocalDeployment
from demo.throwaway_postgres import throwaway_cluster
from service.errors import ServiceError
from transport.calls.coordinator_client import JobSummary

ROWS, COLUMNS, PARTIES = 100, 6, 3
AT_ONCE = 2
LEASE_S = 2.0
DEADLINE_S = 120.0
PAUSE_S = 0.1


class Analyst:
    """Submits jobs and waits for their ends, whatever happens to the coordinator meanwhile."""

    def __init__(self, client: Path) -> None:
        self._config = ClientConfig.load(client)

    async def submit(self, job: Job) -> str:
        """Submit a job until it is taken, always with the same key; return its identifier."""
        key = secrets.token_hex(16)
        while True:
            with suppress(ServiceError):
                async with connect(self._config) as client:
                    return await client.submit(job.canonical_json(), key)
            await asyncio.sleep(PAUSE_S)

    async def end_of(self, job_id: str) -> JobSummary:
        """Wait until a job has ended, and return it."""
        while True:
            with suppress(ServiceError):
                async with connect(self._config) as client:
                    view = await client.show(job_id)
                    if view.has_ended:
                        return view
            await asyncio.sleep(PAUSE_S)

    async def all_jobs(self) -> list[JobSummary]:
        """Return all jobs, newest first."""
        async with connect(self._config) as client:
            return await client.jobs()


def payments(deployment: LocalDeployment) -> Iterator[tuple[str, str]]:
    """Yield (party, job) of each entry of a ledger that says that a job was paid."""
    for party in deployment.tables:
        with closing(sqlite3.connect(deployment.data_dir(party) / "ledger.sqlite")) as db:
            for (text,) in db.execute("SELECT text FROM entries").fetchall():
                entry = json.loads(text)
                if entry["kind"] == "committed":
                    yield party, entry["job_id"]


async def killed(deployment: LocalDeployment, job: Job, n_kills: int, chance: random.Random) -> dict[str, Any]:
    """Run jobs under a coordinator that is killed so many times; return the counts."""
    analyst = Analyst(deployment.client_config)
    began_s, submitted = time.perf_counter(), []

    async def one() -> JobSummary:
        submitted.append(job_id := await analyst.submit(job))
        return await analyst.end_of(job_id)

    await asyncio.gather(*(one() for _ in range(AT_ONCE)))  # reads the tables
    undisturbed_s = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(AT_ONCE)))
    span_s = time.perf_counter() - undisturbed_s
    at: Counter[str] = Counter()
    for _ in range(n_kills):
        running = [asyncio.create_task(one()) for _ in range(AT_ONCE)]
        await asyncio.sleep(chance.uniform(0.0, span_s))
        deployment.send_signal(COORDINATOR_NAME, signal.SIGKILL)
        before = {
            job_id: state for job_id, state in stored_states(deployment).items() if job_id in submitted[-AT_ONCE:]
        }
        at.update(before.values())
        deployment.start(COORDINATOR_NAME)
        await asyncio.gather(*running)
    jobs = {view.job_id: view for view in await analyst.all_jobs()}
    paid = Counter(payments(deployment))
    paid_jobs = {job_id for _, job_id in paid}
    failed = {job_id: view for job_id, view in jobs.items() if view.state != "DONE"}
    return {
        "kills": n_kills,
        "wall_s": round(time.perf_counter() - began_s, 1),
        "jobs": len(jobs),
        "done": len(jobs) - len(failed),
        "failed_unpaid": dict(Counter(view.reason for job_id, view in failed.items() if job_id not in paid_jobs)),
        "lost": {job_id: view.reason for job_id, view in failed.items() if job_id in paid_jobs},
        "paid_twice": sorted(f"{party} {job_id}" for (party, job_id), n in paid.items() if n > 1),
        "submitted_twice": len(jobs) - len(submitted),
        "at": dict(at),
    }


def stored_states(deployment: LocalDeployment) -> dict[str, str]:
    """Return job to state as the store has them; the coordinator must not run."""
    statement = "SELECT job_id, state FROM {}"
    if url := deployment.environment.get("MOIETY_COORDINATOR__STORE"):
        import psycopg

        with psycopg.connect(url) as database:
            return dict(database.execute(statement.format("coordinator_jobs")).fetchall())
    with closing(sqlite3.connect(deployment.folder / "jobs.sqlite")) as db:
        return dict(db.execute(statement.format("jobs")).fetchall())


def measured(n_kills: int, *, postgres: bool, seed: int) -> dict[str, Any]:
    """Start the services, kill the coordinator, and return the report."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moiety-bench-")))
        (folder / "run").mkdir()
        settings = dict(ONE_THREAD)
        if postgres:
            url = stack.enter_context(throwaway_cluster())
            settings |= {
                "MOIETY_COORDINATOR__STORE": url,
                "MOIETY_COORDINATOR__SURVEY_STORE": str(folder / "run" / "surveys.sqlite"),
                "MOIETY_COORDINATOR__LEASE_S": str(LEASE_S),
            }
        made = synthetic_tables(folder, rows=ROWS, columns=COLUMNS, parties=PARTIES)
        job = Job(
            analysis="pca",
            inputs=tuple(JobInput(party=table.schema.party, table=file.name) for file, table in made),
            **trusted_order(table.schema for _, table in made),
            deadline_s=DEADLINE_S,
            privacy=PrivacyTarget(epsilon=0.5, delta=1e-9),
            parameters={"components": 2, "center": False},
        )
        tables = {table.schema.party: [file] for file, table in made}
        deployment = stack.enter_context(
            LocalDeployment(folder / "run", tables, environment=settings, budget=(1e6, 1e-3))
        )
        counts = asyncio.run(killed(deployment, job, n_kills, random.Random(seed)))
    store = f"PostgreSQL, lease {LEASE_S:g} s" if postgres else "SQLite"
    return {"bench": "crashes", "store": store, "seed": seed, **counts, "machine": describe_machine()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--postgres", action="store_true", help="keep jobs in a PostgreSQL of this run's own")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    options = parser.parse_args(arguments)
    report = measured(options.kills, postgres=options.postgres, seed=options.seed)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
