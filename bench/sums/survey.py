"""Surveys of devices: how fast a coordinator takes responses, how much memory they need, how fast a job's slots are.

    python -m bench.sums.survey                  rates over real gRPC; memory for 1e6 and 1e7 responses; slots of a job
    python -m bench.sums.survey --quick          smaller, to see that it runs
    python -m bench.sums.survey --only rates     one part: rates, memory or slots

The coordinator is `moiety coordinator serve`; each device has a certificate and a TLS connection of its own, or a new
connection for each response. What is counted is the coordinator's own processor time, on which other programs have no
influence, and beside it the time that passed. Every response is on disk when its call returns.

Memory is the peak of a process that opens a store with so many responses, closes the survey and estimates, once by a
wave, whose counts suffice, and once by a tree, whose estimate needs to know whose each response is.
"""

import argparse
import asyncio
import datetime
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.run_locally import run_locally
from analyst.connection import ClientConfig, open_coordinator
from bench.machine import describe_machine, processor_s
from coordinator.questions.surveys import Surveys
from coordinator.stores.surveys import TABLES, SurveyStore
from demo.local_deployment import COORDINATOR_NAME, LocalDeployment
from entropy import SystemEntropy
from questions.responses import AskedQuestion, SurveyQuestion
from service.database.sqlite import SqliteDatabase
from service.identity import Identity, Role
from service.tls import Credentials, load_credentials
from transport.calls.channel import open_channel
from transport.happenings import Opened, Result
from transport.question_client import QuestionClient, ask

PATIENCE_S = 300.0
PARTS = ("rates", "memory", "slots")
HUB = Identity("local", Role.COORDINATOR, COORDINATOR_NAME)


def question_of(**changes: Any) -> SurveyQuestion:
    """Return the question that is asked; it does not end by itself."""
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    fields = {"record": "wage", "range": (0.0, 1.0), "buckets": 256, "epsilon": 1.0, "until": until, "smoothing": 1}
    return SurveyQuestion.model_validate({**fields, **changes})


# Rates


def rates(n_devices: int, n_kept: int, n_fresh: int) -> dict[str, Any]:
    """Measure responses per second and core, to `n_kept` questions on kept connections, to `n_fresh` on new ones."""
    names = [f"device-{i:03}" for i in range(n_devices)]
    nobody = {names[0]: SystemEntropy().read(32).hex()}  # a coordinator has parties, or members of sums
    with (
        tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder,
        LocalDeployment(
            Path(folder), {}, members=[(Role.DEVICE, name) for name in names], sum_members=nobody
        ) as deployment,
    ):
        return asyncio.run(_rates(deployment, names, n_kept, n_fresh))


async def _rates(deployment: LocalDeployment, names: Sequence[str], n_kept: int, n_fresh: int) -> dict[str, Any]:
    address, folder = deployment.addresses[COORDINATOR_NAME], deployment.folder
    pid = deployment.processes[COORDINATOR_NAME].pid

    def credentials(name: str) -> Credentials:
        return load_credentials(
            authority=folder / "ca.pem", certificate=folder / f"{name}.pem", key=folder / f"{name}.key"
        )

    own = {name: credentials(name) for name in names}
    ids = [await _opened(deployment) for _ in range(n_kept + n_fresh)]
    body = bytes(2)
    async with AsyncExitStack() as stack:
        clients = [
            QuestionClient(
                "hub", await stack.enter_async_context(open_channel(address, HUB, own[name])), "survey", PATIENCE_S
            )
            for name in names
        ]
        for client in clients:  # the connection stands before the clock starts
            await client.fetch(0)

        async def answer_all(client: QuestionClient) -> None:
            for question_id in ids[:n_kept]:
                await client.answer(question_id, body)

        kept = await _timed(pid, [answer_all(client) for client in clients], len(names) * n_kept)

    async def answer_anew(name: str) -> None:
        for question_id in ids[n_kept:]:
            async with open_channel(address, HUB, own[name]) as channel:
                await QuestionClient("hub", channel, "survey", PATIENCE_S).answer(question_id, body)

    fresh = await _timed(pid, [answer_anew(name) for name in names], len(names) * n_fresh)
    return {"kept": kept, "fresh": fresh}


async def _opened(deployment: LocalDeployment) -> bytes:
    config = ClientConfig.load(deployment.client_config)
    async with open_coordinator(config) as (name, channel):
        async for happening in ask(name, channel, "survey", question_of().canonical_json()):
            if isinstance(happening, Opened):
                return happening.question_id
    raise RuntimeError("the survey was not opened")


async def _timed(pid: int, work: list[Any], n: int) -> dict[str, Any]:
    before_s, started_s = processor_s(pid), time.perf_counter()
    await asyncio.gather(*work)
    used_s, passed_s = processor_s(pid) - before_s, time.perf_counter() - started_s
    return {
        "responses": n,
        "per_processor_second": n / used_s,
        "per_second": n / passed_s,
        "coordinator_processor_s": used_s,
        "passed_s": passed_s,
    }


# Memory


def memory(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Measure the peak of a process that goes on with a survey of so many responses and ends it, for two methods."""
    return [_memory_of(n, method) for method in ("wave", "tree") for n in sizes]


def _memory_of(n: int, method: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        path = Path(folder) / "surveys.sqlite"
        store = SurveyStore(SqliteDatabase(path, TABLES))
        question = question_of(method=method)
        asked = AskedQuestion(question=question, asker=HUB.uri, session=SystemEntropy().read(16).hex())
        number = store.add(asked.question_id, "analyst", asked.canonical_json()).number
        store.close()
        n_outputs = question.inquiry.n_outputs if method == "wave" else 2
        rng = np.random.default_rng(7)

        def rows() -> Iterator[tuple[int, str, int]]:
            for start in range(0, n, 1 << 16):
                block = rng.integers(0, n_outputs, min(1 << 16, n - start)).tolist()
                yield from ((number, f"device-{start + i:08}", response) for i, response in enumerate(block))

        database = sqlite3.connect(path)
        with database:
            database.executemany("INSERT INTO responses VALUES (?, ?, ?)", rows())
        database.close()
        n_bytes = path.stat().st_size
        command = [sys.executable, "-m", "bench.sums.survey", "--estimate", str(path)]
        output = subprocess.run(command, check=True, capture_output=True).stdout
        found: dict[str, Any] = json.loads(output.splitlines()[-1])  # after the lines of the log
        return {"method": method, "responses": n, "disk_bytes_each": n_bytes / n, **found}


def estimate(path: Path) -> dict[str, Any]:
    """Go on with the one survey of a store as a coordinator that starts, end it, and say what that took."""
    store = SurveyStore(SqliteDatabase(path, TABLES))
    (stored,) = store.unended()

    async def end() -> str:
        surveys = Surveys(store, HUB.uri, SystemEntropy(), clock=lambda: 1e11)
        await surveys.start()
        last = [happening async for happening in surveys.follow("analyst", stored.question_id)][-1]
        await surveys.stop()
        assert isinstance(last, Result), last
        return last.result_json

    start_bytes = _peak_bytes()
    result = json.loads(asyncio.run(end()))
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "start_bytes": start_bytes,
        "peak_bytes": _peak_bytes(),
        "processor_s": used.ru_utime + used.ru_stime,
        "counted": result["responses"],
    }


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Slots


def slots(n: int) -> dict[str, Any]:
    """Measure a job of three parties in one process, n slots each: all that parties and coordinator compute."""
    names = ("a", "b", "c")
    column = ColumnSchema(name="wage", lower=0.0, upper=1.0)
    rng = np.random.default_rng(7)
    schema = {name: BlockSchema(party=name, columns=(column,), rows=(1, n)) for name in names}
    tables = {name: Table(schema[name], rng.beta(5, 2, (n, 1))) for name in names}
    job = Job.model_validate(
        {
            "analysis": "distribution",
            "inputs": [{"party": name, "table": "people"} for name in names],
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
            "parameters": {"buckets": 256, "smoothing": 1},
        }
    )

    def run() -> tuple[float, float]:
        before_s, started_s = time.process_time(), time.perf_counter()
        asyncio.run(run_locally(job, tables))
        return time.process_time() - before_s, time.perf_counter() - started_s

    run()  # compiles the kernels
    used_s, passed_s = min(run() for _ in range(3))
    n_slots = len(names) * n
    return {
        "slots": n_slots,
        "per_processor_second": n_slots / used_s,
        "per_second": n_slots / passed_s,
        "processor_s": used_s,
    }


def measure(parts: Sequence[str], *, quick: bool) -> dict[str, Any]:
    """Run the parts."""
    found: dict[str, Any] = {}
    if "rates" in parts:
        found["rates"] = rates(8, 4, 2) if quick else rates(60, 50, 10)
    if "memory" in parts:
        found["memory"] = memory((1_000, 10_000) if quick else (1_000_000, 10_000_000))
    if "slots" in parts:
        found["slots"] = slots(1 << 12) if quick else slots(1 << 21)
    return found


def _lines(found: dict[str, Any]) -> Iterator[str]:
    for name, rate in found.get("rates", {}).items():
        yield (
            f"{name} connection: {rate['per_processor_second']:.0f} responses per processor second of the coordinator, "
            f"{rate['per_second']:.0f} per second"
        )
    for row in found.get("memory", ()):
        yield (
            f"{row['responses']:,} responses by {row['method']}: peak {row['peak_bytes'] / 1e6:.0f} MB, of which "
            f"{row['start_bytes'] / 1e6:.0f} MB before they were looked at; {row['processor_s']:.1f} s of processor "
            f"time; {row['disk_bytes_each']:.0f} bytes each on disk"
        )
    if "slots" in found:
        yield f"job: {found['slots']['per_processor_second']:,.0f} slots per processor second, all members together"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--estimate", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.estimate is not None:
        sys.stdout.write(json.dumps(estimate(options.estimate)))
        return
    found = measure(PARTS if options.only is None else (options.only,), quick=options.quick)
    if options.format == "json":
        sys.stdout.write(json.dumps({"machine": describe_machine(), **found}, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(found)) + "\n")


if __name__ == "__main__":
    main()
