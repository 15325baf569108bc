"""A Gram job whose rows the parties' own processes multiply, workers as processes, or workers in Dask clusters.

    python -m bench.jobs.engines --rows 1000000
    python -m bench.jobs.engines --engines threads,processes --workers 2

Three parties have Parquet files of random numbers with ids, as in `bench.jobs.growth`. For each engine a federation of
its own is started, whose parties' services, workers, schedulers and coordinator are processes, mutual TLS on loopback,
one BLAS thread each. A small job comes first, so that all have started; then the job that is measured. Reported by kind
of process, of the party that has most: processor seconds during the job, and the largest resident memory since the
start. All engines share the cores of one machine, so their wall times say how much work there is, and not how much
faster many machines would be.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analyses.job.job import Job
from analyst.connection import ClientConfig, connect
from bench.jobs.dask_clusters import DaskCluster
from bench.jobs.federation import Federation
from bench.jobs.growth import DEADLINE_S, job_of, tables_in
from bench.machine import ONE_THREAD, describe_machine, peak_resident_bytes, processor_s
from demo.local_deployment import LocalDeployment, LocalTable
from demo.loopback import tls_files
from service.identity import Role

ENGINES = ("threads", "processes", "dask")

Pids = dict[str, dict[str, list[int]]]
"""Party to kind of process to process ids."""


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and that live."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(folder.name))
    return found


def engine_of(kind: str, folder: Path, party: str, n_workers: int, cluster: DaskCluster | None) -> dict[str, Any]:
    """Return the section `[engine]` of a party; no certificate where there are no workers."""
    if kind == "threads":
        return {"kind": kind}
    files = tls_files(party) | {"certificate": f"worker-{party}.pem", "key": f"worker-{party}.key"}
    tls = {field: str(folder / name) for field, name in files.items()}
    if cluster is None:
        return {"kind": kind, "workers": n_workers, "tls": tls}
    return cluster.section(workers=n_workers, tls=tls)


@contextlib.contextmanager
def deployed(
    kind: str, folder: Path, tables: dict[str, list[LocalTable]], n_workers: int
) -> Iterator[tuple[LocalDeployment, dict[str, DaskCluster]]]:
    """Yield running services, and the clusters of parties that have one."""
    services = folder / "services"
    services.mkdir()
    with contextlib.ExitStack() as stack:
        clusters = {}
        if kind == "dask":
            clusters = {p: stack.enter_context(DaskCluster(folder / f"cluster-{p}", p, n_workers)) for p in tables}
        policy = {p: {"engine": engine_of(kind, services, p, n_workers, clusters.get(p))} for p in tables}
        members = [(Role.WORKER, party) for party in tables]
        deployment = LocalDeployment(services, tables, environment=ONE_THREAD, policy=policy, members=members)
        yield stack.enter_context(deployment), clusters


def pids_of(deployment: LocalDeployment, clusters: dict[str, DaskCluster], kind: str) -> Pids:
    """Return all processes of the parties."""
    found: Pids = {}
    for party, process in ((p, deployment.processes[p]) for p in deployment.tables):
        found[party] = {"party": [process.pid]}
        if kind == "processes":
            found[party]["worker"] = children_of(process.pid)
        if party in clusters:
            scheduler, *workers = clusters[party].processes
            found[party] |= {"scheduler": [scheduler.pid], "worker": [worker.pid for worker in workers]}
    return found


async def measured(kind: str, folder: Path, n_rows: int, small: Job, job: Job, options: Any) -> dict[str, Any]:
    """Run the small job, then the other one."""
    tables = tables_in(folder, n_rows, options.columns, has_ids=True)
    with deployed(kind, folder, tables, options.workers) as (deployment, clusters):
        async with connect(ClientConfig.load(deployment.client_config)) as client:
            federation = Federation(deployment, client)
            await federation.run(small)
            pids = pids_of(deployment, clusters, kind)
            coordinator = deployment.processes["coordinator"].pid
            every = {pid for kinds in pids.values() for found in kinds.values() for pid in found} | {coordinator}
            before = {pid: processor_s(pid) for pid in every}
            run = await federation.run(job)
            used = {pid: processor_s(pid) - before[pid] for pid in every}
        peak = {pid: peak_resident_bytes(pid) for pid in every}
    kinds = {name for found in pids.values() for name in found}
    of_parties = [sum(used[pid] for found in pids[party].values() for pid in found) for party in pids]
    return {
        "engine": kind,
        "seconds": round(run.seconds, 2),
        "party_processor_s": round(max(of_parties), 2),
        "ns_per_cell": round(1e9 * max(of_parties) / (n_rows * options.columns), 2),
        "processor_s": {
            name: [round(used[pid], 2) for pid in max((pids[p].get(name, []) for p in pids), key=_most(used))]
            for name in sorted(kinds)
        },
        "peak_resident_mb": {
            name: round(max(peak[pid] for p in pids for pid in pids[p].get(name, [])) / 1e6, 1)
            for name in sorted(kinds)
        },
        "coordinator_processor_s": round(used[coordinator], 2),
        "sent_mb": round(max(run.sent_bytes.values()) / 1e6, 1),
    }


def _most(used: dict[int, float]) -> Any:
    return lambda pids: sum(used[pid] for pid in pids)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100, help="of the joint table")
    parser.add_argument("--workers", type=int, default=2, help="of each party")
    parser.add_argument("--engines", default=",".join(ENGINES), help="with commas between")
    parser.add_argument("--format", choices=("json",), default="json")
    options = parser.parse_args()
    found = []
    for kind in options.engines.split(","):
        with tempfile.TemporaryDirectory(prefix="moiety-bench-") as name:
            parties = [f"party-{number}" for number in (1, 2, 3)]
            job = job_of("pca", parties, options.rows)
            inputs = tuple(one.model_copy(update={"columns": ("x0",)}) for one in job.inputs)
            few = {"inputs": inputs, "parameters": job.parameters | {"components": 2}}
            small = job.model_copy(update=few)
            found.append(asyncio.run(measured(kind, Path(name), options.rows, small, job, options)))
            sys.stderr.write(json.dumps(found[-1]) + "\n")
    shape = {name: getattr(options, name) for name in ("rows", "columns", "workers")}
    report = {"bench": "engines", **shape, "deadline_s": DEADLINE_S, "engines": found, "machine": describe_machine()}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
