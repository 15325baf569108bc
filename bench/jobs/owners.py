"""A noisy Gram matrix of many owners' single columns, computed by three or five parties that hold no data.

    python -m bench.jobs.owners --owners 100 --compute 3 --rows 10000

A coordinator and the compute parties are processes of their own; the owners share `--hosts` processes, each with its
own certificate, address, ledger and connections. Mutual TLS on loopback, one BLAS thread each. The time runs from the
answer to the submission until the result has arrived, as in `bench.jobs.gram`. The first job also reads the tables and
makes some nine connections per owner.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analyses.job.job import Job, JobInput, PrivacyTarget
from analyses.job.schema import BlockSchema
from analyses.pca.protocol import plan
from analyst.connection import ClientConfig, connect
from bench.datasets.order import trusted_order
from bench.datasets.tables import Tables, synthetic_tables
from bench.jobs.federation import Federation
from bench.jobs.gram import DELTA, GAMMA, Blocks, check_result
from bench.machine import ONE_THREAD, describe_machine
from demo.local_deployment import LocalDeployment


@dataclass
class HostedOwners(LocalDeployment):
    """A deployment in which owners share processes.

    Attributes:
        hosts: names of the owners in each process.
    """

    hosts: Sequence[Sequence[str]] = ()

    def start(self, name: str) -> None:
        """Start the service, and with the first owner of a process all others in it."""
        host = next((names for names in self.hosts if name in names), None)
        if host is None:
            super().start(name)
        elif name == host[0]:
            self.launch(name, "bench.jobs.owner_host", *(str(self.config_path(owner)) for owner in host))
            self.processes.update(dict.fromkeys(host, self.processes[name]))


def job_of(tables: Tables, compute: Sequence[str]) -> Job:
    """Return a PCA job of all owners' columns, computed by others."""
    rows = tables[0][1].n_rows
    return Job(
        analysis="pca",
        inputs=tuple(JobInput(party=table.schema.party, table=file.name) for file, table in tables),
        **trusted_order(table.schema for _, table in tables),
        compute=tuple(compute),
        deadline_s=60.0,
        privacy=PrivacyTarget(epsilon=1.0, delta=DELTA),
        parameters={"components": 5, "center": False, "gamma": GAMMA, "max_rows": 1 << (rows - 1).bit_length()},
    )


def blocks_of(tables: Tables, job: Job) -> Blocks:
    """Plan as all participants do, and quantise as the owners do, to check the result."""
    schemas = [BlockSchema(party=name) for name in job.compute] + [table.schema for _, table in tables]
    planned = plan(job, schemas)
    owners = zip(planned.owners, tables, strict=True)
    return Blocks(tables, planned, [planned.quantiser_of(o).quantise(table.values)[0] for o, (_, table) in owners])


async def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Start everything, run a first job and then `repeats` more, check each result."""
    tables = synthetic_tables(folder, rows=options.rows, columns=options.owners, parties=options.owners)
    compute = [f"compute-{number}" for number in range(1, options.compute + 1)]
    owners = [table.schema.party for _, table in tables]
    job = job_of(tables, compute)
    blocks = blocks_of(tables, job)
    exact_gram = blocks.exact_gram()
    services = folder / "services"
    services.mkdir()
    files = {name: [] for name in compute} | {table.schema.party: [file] for file, table in tables}
    hosts = [list(names) for names in np.array_split(owners, options.hosts)]
    with HostedOwners(services, files, environment=ONE_THREAD, hosts=hosts) as deployment:
        async with connect(ClientConfig.load(deployment.client_config)) as client:
            federation = Federation(deployment, client)
            runs = [await federation.run(job) for _ in range(1 + options.repeats)]
        resident = federation.peak_resident_bytes()
    first, *others = runs
    return {
        "seconds": statistics.median(run.seconds for run in others),
        "all_seconds": [run.seconds for run in others],
        "first_job_s": first.seconds,
        "compute_sent_bytes": max(max(run.sent_bytes[name] for name in compute) for run in others),
        "owner_sent_bytes": max(max(run.sent_bytes[name] for name in owners) for run in others),
        "compute_peak_resident_bytes": max(resident[name] for name in compute),
        "host_peak_resident_bytes": max(resident[name] for name in owners),
        "coordinator_peak_resident_bytes": resident["coordinator"],
        "largest_eigenvalue_error_in_noise_units": max(check_result(run.result, blocks, exact_gram) for run in runs),
    }


def as_text(report: dict[str, Any]) -> str:
    """Return the lines that people read."""
    sent = {who: report[f"{who}_sent_bytes"] / 1e6 for who in ("owner", "compute")}
    resident = {who: report[f"{who}_peak_resident_bytes"] / 1e6 for who in ("compute", "host", "coordinator")}
    head = f"{report['owners']} owners of one column of {report['rows']} rows, {report['compute']} compute parties"
    return f"""\
{head}, median of {len(report["all_seconds"])}:
  {report["seconds"]:.2f} s; first job {report["first_job_s"]:.2f} s
  sent: {sent["owner"]:.2f} MB by an owner, {sent["compute"]:.2f} MB by a compute party
  resident at most: compute party {resident["compute"]:.0f} MB, {report["owners"] // report["hosts"]} owners together \
{resident["host"]:.0f} MB, coordinator {resident["coordinator"]:.0f} MB"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--owners", type=int, default=100)
    parser.add_argument("--compute", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--hosts", type=int, default=2, help="processes that the owners share")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        measured = asyncio.run(measure(Path(folder), options))
    shape = {name: getattr(options, name) for name in ("owners", "compute", "rows", "hosts")}
    report = {"bench": "owners", **shape, **measured, "machine": describe_machine()}
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
