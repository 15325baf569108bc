"""A federation at full load for a long time, whose services are killed and started again: what is lost, what grows.

    python -m bench.jobs.soak --seconds 3600

A coordinator and three parties as processes, mutual TLS on loopback, get jobs of all kinds: moments, patterns, sums,
principal components, low rank, least squares, rows matched openly and in secret, parties that may deviate. Some jobs
always wait. Meanwhile, at random times, a service is killed by SIGKILL and started again a moment later: `party-2` and
`party-3` all the time, the coordinator in the second half only, `party-1` never, so that what failures of others leave
behind can be seen in one process that has lived through all of them.

Reported are jobs by kind and by how they ended, kills, and of each service its own memory, open files and threads, with
the bytes of its folder, at the start (after one job of each kind), in the middle and at the end. `party-1` grows by
`own_kb_per_job` and `files_per_job`, slopes over all samples of the second half. Afterwards the services are ended, the
chain of each ledger is verified, and it is compared with the results:

* `lost`: jobs that the coordinator has accepted and does not know, or that do not end;
* `not_paid`: results that a party's ledger has no charge of;
* `paid_twice`: jobs that a ledger charges more than once;
* `still_held`: reservations that nobody released;
* `paid_without_result`: what a failure after the commitment costs, as promised: at most the jobs that a kill hit.

The first four must be zero; where one is not, the exit code is 1.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from analyses.job.job import Job
from analyst.connection import ClientConfig, connect
from bench.jobs.growth import ANALYSES, job_of, tables_in
from bench.machine import ONE_THREAD, describe_machine, resident_bytes
from demo.local_deployment import COORDINATOR_NAME, LocalDeployment, LocalTable
from ledger.entry import Committed, Released, Reserved
from ledger.ledger import open_ledger
from party.config import load_party_config
from service.errors import ServiceError, UnreachableError
from transport.calls.coordinator_client import CoordinatorClient

N_ROWS, N_COLUMNS = 2000, 30
BUDGET = (1e6, 1e-6)
MATCHED, OPEN_JOBS = "matched", 6
SAMPLE_S, RETRY_S, LONGEST_AWAY_S = 5.0, 0.5, 3.0
DEADLINE_S = 60.0
END_S = 600.0
"""So long jobs may take to end once no more are submitted."""

MATCHING = '\n[tables.matching]\ncolumns = ["id"]\nreveal = true\n'
VARIANTS: dict[str, dict[str, Any]] = {
    "pca, matched openly": {"matching": {"kind": "revealed"}},
    "pca, matched in secret": {"matching": {"kind": "secret"}},
    "pca, strict": {"security": "malicious"},
}


def jobs_of_all_kinds(parties: list[str]) -> dict[str, Job]:
    """Return a job of each kind."""
    changes = {"anyway": True, "deadline_s": DEADLINE_S}
    plain = {name: job_of(name, parties, N_ROWS).model_copy(update=changes) for name in ANALYSES}
    of_pca = plain["pca"].model_dump(by_alias=True, exclude_unset=True, mode="json")
    for name, extra in VARIANTS.items():
        table = {"table": MATCHED} if "matching" in extra else {}
        inputs = [{**one, **table} for one in of_pca["inputs"]]
        plain[name] = Job.model_validate({**of_pca, **changes, **extra, "inputs": inputs})
    return plain


def with_matching(tables: dict[str, list[LocalTable]]) -> dict[str, list[LocalTable]]:
    """Add to each party's table the same file with rows that are matched."""
    return {
        party: [one, dataclasses.replace(one, name=MATCHED, id_column=None, sections=MATCHING)]
        for party, (one,) in tables.items()
    }


class Soak:
    """Loads, kills and watches one deployment."""

    def __init__(self, deployment: LocalDeployment, seconds: float, kill_s: float) -> None:
        self._deployment, self._seconds, self._kill_s = deployment, seconds, kill_s
        self._jobs = jobs_of_all_kinds(list(deployment.tables))
        self._chance = random.Random(135)
        self._began_s = time.monotonic()
        self.ended: dict[str, tuple[str, str, str]] = {}
        """Job to its kind, its state and the reason."""
        self.lost: dict[str, str] = {}
        self.refused: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self.samples: list[dict[str, Any]] = []

    def _is_on(self, part: float = 1.0) -> bool:
        return time.monotonic() - self._began_s < part * self._seconds

    async def run(self) -> None:
        """Run one job of each kind, then load and kill until the time is over, then wait for what is left."""
        async with connect(ClientConfig.load(self._deployment.client_config)) as client:
            for kind in self._jobs:
                await self._one(client, kind)
            self._began_s = time.monotonic()
            await asyncio.gather(*(self._load(client) for _ in range(OPEN_JOBS)), self._kill(), self._watch())

    async def _load(self, client: CoordinatorClient) -> None:
        while self._is_on():
            await self._one(client, self._chance.choice(list(self._jobs)))

    async def _one(self, client: CoordinatorClient, kind: str) -> None:
        """Submit a job, with one key until the coordinator answers, and follow it to its end."""
        key, job_id = secrets.token_hex(16), None
        while job_id is None:
            try:
                job_id = await client.submit(self._jobs[kind].canonical_json(), key)
            except UnreachableError:
                await asyncio.sleep(RETRY_S)
            except ServiceError as error:
                self.refused[f"{kind}: {type(error).__name__}: {error}"] += 1
                await asyncio.sleep(RETRY_S)
                return
        give_up_s = time.monotonic() + END_S
        while time.monotonic() < give_up_s:
            try:
                async for _ in client.watch(job_id):
                    pass
                view = await client.show(job_id)
            except UnreachableError:
                await asyncio.sleep(RETRY_S)
                continue
            except ServiceError as error:
                self.lost[job_id] = f"{kind}: {error}"
                return
            if view.state in ("DONE", "FAILED", "CANCELLED"):
                is_whole = view.state != "DONE" or bool(view.result_json)
                self.ended[job_id] = (kind, view.state if is_whole else "DONE WITHOUT RESULT", view.reason)
                return
        self.lost[job_id] = f"{kind}: it does not end"

    async def _kill(self) -> None:
        parties = list(self._deployment.tables)[1:]
        while self._is_on():
            await asyncio.sleep(self._chance.uniform(0.5, 1.5) * self._kill_s)
            if not self._is_on():
                return
            name = self._chance.choice(parties if self._is_on(0.5) else [*parties, COORDINATOR_NAME])
            self._deployment.send_signal(name, signal.SIGKILL)
            self.kills[name] += 1
            await asyncio.sleep(self._chance.uniform(0.0, LONGEST_AWAY_S))
            self._deployment.start(name)
            await asyncio.to_thread(self._deployment.wait_until_ready, name)

    async def _watch(self) -> None:
        while self._is_on():
            self.samples.append(await asyncio.to_thread(self.sample))
            await asyncio.sleep(SAMPLE_S)

    def sample(self) -> dict[str, Any]:
        """Return what each service has now."""
        found: dict[str, Any] = {"at_s": round(time.monotonic() - self._began_s, 1), "jobs": len(self.ended)}
        for name, process in self._deployment.processes.items():
            with contextlib.suppress(OSError):  # it was killed just now
                folder = f"/proc/{process.pid}"
                found[name] = {
                    "own_mb": round(resident_bytes(process.pid)["anonymous"] / 1e6, 1),
                    "open_files": len(os.listdir(f"{folder}/fd")),
                    "threads": len(os.listdir(f"{folder}/task")),
                    "folder_mb": round(bytes_under(self._deployment.folder, name) / 1e6, 2),
                }
        return found


def bytes_under(folder: Path, name: str) -> int:
    """Return the bytes of what a service keeps, logs left out."""
    kept = folder.glob("jobs.sqlite*") if name == COORDINATOR_NAME else (folder / name).rglob("*")
    total = 0
    for path in kept:
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def charges_of(deployment: LocalDeployment, party: str) -> tuple[Counter[str], set[str]]:
    """Return how often a party's ledger charges each job, and the jobs that it holds something for.

    Raises:
        LedgerError: its chain is not whole.
    """
    config = load_party_config(deployment.config_path(party))
    ledger = open_ledger(party, path=config.ledger_path, url=None, counter=config.counter_path, holder="soak")
    try:
        ledger.verify()
        events = [entry.what for entry in ledger.history()]
    finally:
        ledger.close()

    def jobs(kind: Any) -> Iterator[str]:
        return (event.job_id for event in events if isinstance(event, kind))

    committed = Counter(jobs(Committed))
    return committed, set(jobs(Reserved)) - set(committed) - set(jobs(Released))


def judged(soak: Soak, deployment: LocalDeployment) -> dict[str, Any]:
    """Compare the ledgers with the results."""
    done = {job_id for job_id, (_, state, _) in soak.ended.items() if state == "DONE"}
    faults: dict[str, Any] = {"lost": len(soak.lost), "not_paid": 0, "paid_twice": 0, "still_held": 0}
    without_result = 0
    for party in deployment.tables:
        charged, held = charges_of(deployment, party)
        faults["not_paid"] += len(done - set(charged))
        faults["paid_twice"] += sum(times > 1 for times in charged.values())
        faults["still_held"] += len(held)
        without_result = max(without_result, len(set(charged) - done))
    faults["lost"] += sum(state == "DONE WITHOUT RESULT" for _, state, _ in soak.ended.values())
    return {**faults, "paid_without_result": without_result}


def slopes(samples: list[dict[str, Any]], name: str) -> dict[str, float]:
    """Return what a service grows by for each job, over the second half."""
    half = [one for one in samples[len(samples) // 2 :] if name in one]
    jobs = np.array([one["jobs"] for one in half], dtype=float)
    if len(half) < 3 or np.ptp(jobs) == 0:
        return {}

    def slope(what: str) -> float:
        return float(np.polyfit(jobs, [one[name][what] for one in half], 1)[0])

    return {"own_kb_per_job": round(1000 * slope("own_mb"), 2), "files_per_job": round(slope("open_files"), 4)}


def measure(seconds: float, kill_s: float) -> dict[str, Any]:
    """Run it all."""
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as name:
        folder = Path(name) / "federation"
        folder.mkdir()
        tables = with_matching(tables_in(Path(name), N_ROWS, N_COLUMNS, has_ids=True))
        rules = {"policy.automatic": {"max_epsilon_per_job": BUDGET[0], "matching": ["revealed", "secret"]}}
        with LocalDeployment(
            folder, tables, environment=ONE_THREAD, budget=BUDGET, policy=dict.fromkeys(tables, rules)
        ) as deployment:
            soak = Soak(deployment, seconds, kill_s)
            asyncio.run(soak.run())
            last = soak.sample()
        found = judged(soak, deployment)
    spared = next(iter(tables))
    samples = [*soak.samples, last]
    states = Counter(f"{kind}: {state}" for kind, state, _ in soak.ended.values())
    reasons = Counter(reason[:200] for _, state, reason in soak.ended.values() if state != "DONE")
    return {
        "bench": "soak",
        "seconds": seconds,
        "jobs": len(soak.ended),
        "done": sum(state == "DONE" for _, state, _ in soak.ended.values()),
        **found,
        "kills": dict(soak.kills),
        "of_never_killed": slopes(samples, spared),
        "start": samples[0],
        "middle": samples[len(samples) // 2],
        "end": last,
        "ends": dict(sorted(states.items())),
        "reasons": dict(reasons.most_common(20)),
        "refused": dict(soak.refused.most_common(20)),
        "lost_jobs": soak.lost,
        "machine": describe_machine(),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--kill-s", type=float, default=20.0, help="between two kills, in the mean")
    parser.add_argument("--format", choices=("json",), default="json")
    options = parser.parse_args()
    report = measure(options.seconds, options.kill_s)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    sys.exit(any(report[fault] for fault in ("lost", "not_paid", "paid_twice", "still_held")))


if __name__ == "__main__":
    main()
