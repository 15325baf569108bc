"""Jobs for the table of truth: in one process, and over services."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from analyses.job.job import Job
from analyses.job.schema import Table
from analyses.run_locally import local_network, run_plan
from bench.analyses.table import Spent
from bench.datasets.order import trusted_order
from bench.jobs.federation import JobRun, running_federation
from demo.data_sets.kdd import KddParties, write_kdd_parties
from demo.job import example_job
from mpc.protocol.session import COORDINATOR

DELTA = 1e-6
METHODS: Mapping[str, Mapping[str, Any]] = {
    "mpc": {},
    "gaussian": {"method": "sketch"},
    "signs": {"method": "sketch", "sketch_entries": "signs"},
}
QUICK_ROWS = 2000
"""Rows of a table where `--quick` asks for something small."""


@dataclass(frozen=True)
class LocalRun:
    """A job that all members ran in this process.

    Attributes:
        result: as the analysis returns it.
        spent: what it took.
    """

    result: dict[str, Any] = field(repr=False)
    spent: Spent


def plan_of(
    module: ModuleType, analysis: str, tables: Sequence[Table], parameters: Mapping[str, Any], epsilon: float
) -> Any:
    """Return the plan of a job whose epsilon holds against the coordinator: the adjacency of central privacy."""
    job = Job.model_validate(
        {
            "analysis": analysis,
            "inputs": [{"party": t.schema.party, "table": "table"} for t in tables],
            **trusted_order(t.schema for t in tables),
            "privacy": {"epsilon": epsilon, "delta": DELTA, "view": "coordinator"},
            "parameters": dict(parameters),
        }
    )
    return module.plan(job, [t.schema for t in tables])


def run_in_process(plan: Any, tables: Sequence[Table]) -> LocalRun:
    """Run the real parts of all members over an in-process network; members without a table only compute.

    Raises:
        ProtocolError: what a member failed with.
    """
    by_party = {t.schema.party: t for t in tables}
    network = local_network(plan)
    network.transcript = _Forgetful()
    started_s = time.process_time()
    run = asyncio.run(run_plan(plan, by_party, network))
    seconds = time.process_time() - started_s
    if run.failures:
        raise run.failures[0]
    sent = max(size for number, size in network.sent_bytes.items() if number != COORDINATOR)
    return LocalRun(run.result, Spent(seconds, sent))


class _Forgetful(list[Any]):
    """A transcript that keeps nothing: that of a long table would be the largest thing in memory."""

    def append(self, message: object) -> None:
        del message


def typical(spent: Sequence[Spent]) -> Spent:
    """Return the medians of several runs."""
    sent = [s.sent_bytes for s in spent if s.sent_bytes is not None]
    return Spent(statistics.median(s.seconds for s in spent), int(statistics.median(sent)) if sent else None)


def spent_by(run: JobRun) -> Spent:
    """Return what a job over services took."""
    return Spent(run.seconds, max(run.sent_bytes.values()))


def example_over_services(
    name: str, changes: Sequence[Mapping[str, Any]], rows: int | None = None
) -> tuple[KddParties, list[JobRun]]:
    """Run an example, changed in several ways, over three services.

    Args:
        name: of the example.
        changes: of each run, as `demo.job.example_job` takes them.
        rows: of the demo's tables; all where absent.

    Returns:
        The tables, and a run for each change.
    """

    async def run(folder: Path) -> tuple[KddParties, list[JobRun]]:
        data = write_kdd_parties(folder, rows=rows)
        async with running_federation({party: [table] for party, table in data.tables.items()}) as federation:
            await federation.run(example_job(name, changes[0]))  # the first job is slower
            return data, [await federation.run(example_job(name, change)) for change in changes]

    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        return asyncio.run(run(Path(folder)))


def tables_of_example(data: KddParties, job: Job) -> list[Table]:
    """Return what each party of an example brings to it, in the order of the job."""
    return data.in_memory({i.party: list(i.columns or data.tables[i.party].usual_bounds) for i in job.inputs})
