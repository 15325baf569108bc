"""Jobs on a whole federation: separate processes, mutual TLS on loopback; how long they take and what they cost."""

import asyncio
import json
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

from analyses.job.job import Job
from analyst.connection import ClientConfig, connect
from bench.machine import ONE_THREAD, has_compiler, peak_resident_bytes, processor_s, resident_bytes, threads_s
from bench.wire import bytes_by_socket, sent_between
from demo.local_deployment import LocalDeployment, LocalTable
from transport.calls.coordinator_client import CoordinatorClient

REPORT_WAIT_S = 10.0


class JobFailedError(RuntimeError):
    """A job of a measurement failed; the text says why."""


@dataclass(frozen=True)
class JobRun:
    """One job that was done.

    Attributes:
        seconds: from the answer to the submission until the result is here.
        sent_bytes: party to the payload that it sent, of all stages, by its own report.
        wire_bytes: party to the bytes that left its sockets meanwhile; owners that share a process share them. NaN
            where the system does not let us count.
        events: seconds since the submission was answered, member, stage and percent of each event, in order.
        result: as the analysis returned it.
    """

    seconds: float
    sent_bytes: dict[str, int]
    wire_bytes: dict[str, float]
    events: list[tuple[float, str, str, int]] = field(repr=False)
    result: dict[str, Any] = field(repr=False)


class Federation:
    """Runs jobs on a deployment; made by `running_federation`."""

    def __init__(self, deployment: LocalDeployment, client: CoordinatorClient) -> None:
        self._deployment = deployment
        self._client = client

    async def run(self, job: Job) -> JobRun:
        """Submit a job, wait for its result.

        Raises:
            JobFailedError: it was not done.
        """
        wire_before = self._bytes_by_socket(job.members)
        job_id = await self._client.submit(job.canonical_json(), secrets.token_hex(16))
        accepted_s = time.perf_counter()
        accepted_at_s = time.time()
        watched = self._client.watch(job_id)
        events = [(event.at_s - accepted_at_s, event.member, event.stage, event.percent) async for event in watched]
        view = await self._client.show(job_id)
        seconds = time.perf_counter() - accepted_s
        if view.state != "DONE":
            raise JobFailedError(f"job {job_id} is {view.state} in stage {view.stage}: {view.reason}")
        sent = {name: await self._sent_bytes(name, job_id) for name in job.members}
        wire_after = self._bytes_by_socket(job.members)
        is_counted = wire_before.keys() == wire_after.keys() == set(job.members)
        wire = {n: sent_between(wire_before[n], wire_after[n]) if is_counted else nan for n in job.members}
        return JobRun(seconds, sent, wire, events, json.loads(view.result_json))

    def processor_s(self) -> dict[str, float]:
        """Return the processor seconds of each service since it started."""
        return {name: processor_s(process.pid) for name, process in self._deployment.processes.items()}

    def threads_s(self) -> dict[str, dict[str, float]]:
        """Return the processor seconds of each service's threads, see `bench.machine.threads_s`."""
        return {name: threads_s(process.pid) for name, process in self._deployment.processes.items()}

    def peak_resident_bytes(self) -> dict[str, int]:
        """Return the largest resident set of each service since it started."""
        return {name: peak_resident_bytes(process.pid) for name, process in self._deployment.processes.items()}

    def forget_peaks(self) -> None:
        """Let `peak_resident_bytes` begin anew: with what each service has in memory now."""
        for process in self._deployment.processes.values():
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")

    def resident_bytes(self) -> dict[str, dict[str, int]]:
        """Return what each service has in memory now, by kind, see `bench.machine.resident_bytes`."""
        return {name: resident_bytes(process.pid) for name, process in self._deployment.processes.items()}

    def have_compiler(self) -> bool:
        """Return whether a service has loaded a compiler for its kernels, see `bench.machine.has_compiler`."""
        return any(has_compiler(process.pid) for process in self._deployment.processes.values())

    def _bytes_by_socket(self, names: Sequence[str]) -> dict[str, dict[str, int]]:
        pids = {name: self._deployment.processes[name].pid for name in names}
        try:
            counted = {pid: bytes_by_socket(pid) for pid in set(pids.values())}
        except PermissionError:
            return {}
        return {name: counted[pid] for name, pid in pids.items()}

    async def _sent_bytes(self, party: str, job_id: str) -> int:
        """Read a party's report, which it writes when the coordinator may have the result already."""
        path = self._deployment.data_dir(party) / "reports" / f"{job_id}.json"
        deadline_s = time.monotonic() + REPORT_WAIT_S
        while not path.exists():
            if time.monotonic() > deadline_s:
                log = self._deployment.log_path(party).read_text()[-1000:]
                raise JobFailedError(f"{party} wrote no report of job {job_id}; its log ends with\n{log}")
            await asyncio.sleep(0.01)
        return sum(stage["sent_bytes"] for stage in json.loads(path.read_text())["traffic"].values())


@asynccontextmanager
async def running_federation(
    tables: Mapping[str, Sequence[LocalTable]], *, dial_out: Collection[str] = (), relays: Sequence[str] = ()
) -> AsyncIterator[Federation]:
    """Start a coordinator and one party per entry, and yield a way to run jobs on them.

    Args:
        tables: party to its tables.
        dial_out: parties that only dial out.
        relays: names of relays of their own, by which these are reached.
    """
    with (
        tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder,
        LocalDeployment(Path(folder), tables, environment=ONE_THREAD, dial_out=dial_out, relays=relays) as deployment,
    ):
        async with connect(ClientConfig.load(deployment.client_config)) as client:
            yield Federation(deployment, client)
