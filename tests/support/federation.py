"""Real services for tests: tables on disk, processes on loopback, an analyst who submits jobs."""

import asyncio
import csv
import json
import sqlite3
import uuid
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME, LocalDeployment, LocalTable
from service.identity import Identity, Role
from service.tls import load_credentials
from transport.calls.channel import open_channel
from transport.calls.coordinator_client import CoordinatorClient, JobView

BOUNDS = (-1.0, 3.0)
ROWS = (2, 1000)


def write_table(path: Path, values: np.ndarray, ids=None, rows=ROWS) -> LocalTable:
    """Write a CSV with columns id, x0, x1 ... whose bounds are BOUNDS; `rows` are declared."""
    ids = [f"row-{i}" for i in range(len(values))] if ids is None else ids
    names = [f"x{i}" for i in range(values.shape[1])]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *names])
        writer.writerows([i, *row] for i, row in zip(ids, values.tolist(), strict=True))
    return LocalTable("people", path, dict.fromkeys(names, BOUNDS), rows, id_column="id")


def jobs_paid(deployment: LocalDeployment, parties: Collection[str]) -> dict[str, int]:
    """Return how many jobs each party's ledger has charged."""
    counts = {}
    for party in parties:
        with closing(sqlite3.connect(deployment.data_dir(party) / "ledger.sqlite")) as db:
            texts = [text for (text,) in db.execute("SELECT text FROM entries")]
        counts[party] = sum(json.loads(text)["kind"] == "committed" for text in texts)
    return counts


def schema_of(party: str, n_columns: int, rows=ROWS) -> BlockSchema:
    columns = tuple(ColumnSchema(name=f"x{i}", lower=BOUNDS[0], upper=BOUNDS[1]) for i in range(n_columns))
    return BlockSchema(party=party, columns=columns, has_ids=True, rows=rows)


def memory_table(party: str, values: np.ndarray, rows=ROWS) -> Table:
    return Table(schema_of(party, values.shape[1], rows), values)


def pca_job(parties, **changes) -> Job:
    fields = {
        "analysis": "pca",
        "inputs": [{"party": p, "table": "people"} for p in parties],
        "privacy": {"epsilon": 50.0, "delta": 1e-6},
        "parameters": {"components": 2, "gamma": 1024, "max_rows": 1_000_000},
    }
    return Job.model_validate({**fields, **changes})


class Analyst:
    """Submits jobs to a deployment with a certificate of its own; every call opens a fresh connection."""

    def __init__(self, deployment: LocalDeployment, *, role=Role.ANALYST, name=ANALYST_NAME) -> None:
        self.deployment = deployment
        self.role = role
        self.name = name

    async def _with_client(self, use):
        folder = self.deployment.folder
        own = load_credentials(
            authority=folder / "ca.pem", certificate=folder / f"{self.name}.pem", key=folder / f"{self.name}.key"
        )
        coordinator = Identity(self.deployment.federation, Role.COORDINATOR, COORDINATOR_NAME)
        async with open_channel(self.deployment.addresses[COORDINATOR_NAME], coordinator, own) as channel:
            return await use(CoordinatorClient(COORDINATOR_NAME, channel))

    def submit(self, job: Job) -> str:
        return asyncio.run(self._with_client(lambda c: c.submit(job.canonical_json(), uuid.uuid4().hex)))

    def cancel(self, job_id: str) -> JobView:
        return asyncio.run(self._with_client(lambda c: c.cancel(job_id)))

    def show(self, job_id: str) -> JobView:
        return asyncio.run(self._with_client(lambda c: c.show(job_id)))

    def wait(self, job_id: str, on_event=lambda event: None, timeout_s=300.0) -> JobView:
        """Watch a job to its end."""

        async def watch(client):
            async with asyncio.timeout(timeout_s):
                async for event in client.watch(job_id):
                    on_event(event)
            return await client.show(job_id)

        return asyncio.run(self._with_client(watch))

    def run(self, job: Job, **options) -> JobView:
        return self.wait(self.submit(job), **options)


def result_of(view: JobView) -> dict:
    assert view.state == "DONE", f"{view.state}: {view.reason}"
    return json.loads(view.result_json)


def all_text(deployment: LocalDeployment) -> str:
    """Everything that the services logged."""
    return "".join(deployment.log_path(name).read_text() for name in deployment.processes)


def random_values(shape: tuple[int, int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(*BOUNDS, shape).round(6)


def tables_of(values: Mapping[str, np.ndarray], folder: Path, rows=ROWS) -> dict[str, list[LocalTable]]:
    return {name: [write_table(folder / f"{name}.csv", block, rows=rows)] for name, block in values.items()}
