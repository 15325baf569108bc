"""A batch of very many devices that real services close: what its answers cost when they come, and what opening costs.

    python -m bench.sums.closed_batch --devices 1000000
    python -m bench.sums.closed_batch --devices 20000 --batches 2

The batch is opened by a coordinator and parties in processes of their own, over TLS. Then the coordinator is stopped,
and its store is filled here: some processes make the devices' answers, each with a certificate and a key of its own,
and this one does what the coordinator does with each answer, but for the connection that it would come over. The
coordinator is started again, finds the batch full, and closes it: from there on the services do what they do in use.
Processor seconds and peak memory are told for each process; the seconds of the devices are told apart. The same devices
answer each further batch, with the same certificates, and parties are the same processes.
"""

import argparse
import asyncio
import json
import multiprocessing
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

from bench.machine import describe_machine, peak_resident_bytes, processor_s
from bench.sums.batch_runs import BLOCK, FAR, HUB, PARTIES, checked, device_of, named, question
from coordinator.stores.batches import TABLES, BatchesStore, GivenAnswer
from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME, LocalDeployment
from questions.shares import AskedBatch
from service.database.sqlite import SqliteDatabase
from service.identity import Identity, Role
from service.pki import KeyPair, issue_all
from service.tls import Credentials, load_credentials
from service.trust.statements import StatementCheck
from transport.batch_codec import OfferedQuestion, decode_answer, encode_answer
from transport.calls.channel import open_channel
from transport.happenings import Failed, Opened, Result
from transport.question_client import QuestionClient, ask

PROTOTYPE = "prototype"
BLOCKS_WAITING = 4
"""So many blocks of answers of each maker may wait to be taken in."""

Block = list[tuple[str, bytes]]


def credentials_of(authority: KeyPair, names: Sequence[str]) -> Iterator[Credentials]:
    """Yield new credentials of devices."""
    now = FAR.now(FAR.tzinfo)
    for (role, name), pair in issue_all(authority, [(Role.DEVICE, name) for name in names], days=1, now=now).items():
        identity = Identity("local", role, name)
        yield Credentials(identity, authority.certificate_pem, pair.certificate_pem, pair.key_pem, FAR)


def kept_credentials(file: Path, authority: KeyPair, names: Sequence[str]) -> list[Credentials]:
    """Return credentials of devices, those that the file has from an earlier batch."""
    if not file.exists():
        file.write_bytes(pickle.dumps([(one.certificate_pem, one.key_pem) for one in credentials_of(authority, names)]))
    pairs = zip(names, pickle.loads(file.read_bytes()), strict=True)
    identities = {name: Identity("local", Role.DEVICE, name) for name in names}
    return [Credentials(identities[name], authority.certificate_pem, *pair, FAR) for name, pair in pairs]


def make_answers(
    folder: Path, authority: KeyPair, batch: OfferedQuestion, numbers: range, blocks: "Queue[Block | dict[str, float]]"
) -> None:
    """Do what devices do to answer, in a process of its own; at the end tell the processor seconds that it took."""
    spent = {"certificates": 0.0, "devices": 0.0}
    asked = AskedBatch.from_json(batch.text)
    with ExitStack() as stack:
        (own,) = credentials_of(authority, [PROTOTYPE])
        own_folder = folder / f"device-{batch.number}-{numbers.start}"
        prototype = device_of(stack, own_folder, own, asked.question.n_elements)
        prototype.admit(asked, batch.keys)
        for start in range(numbers.start, numbers.stop, BLOCK):
            names = [f"d{number:09}" for number in range(start, min(start + BLOCK, numbers.stop))]
            before = time.process_time()
            credentials = kept_credentials(folder / f"credentials-{start}", authority, names)
            between = time.process_time()
            devices = [named(prototype, own.identity.name, own) for own in credentials]
            block = [(one.name, one.make(asked, batch.keys)) for one in devices]
            spent["certificates"] += between - before
            spent["devices"] += time.process_time() - between
            blocks.put(block)
    blocks.put(spent)


def take_answers(
    folder: Path, authority: KeyPair, batch: OfferedQuestion, n_devices: int, n_makers: int
) -> tuple[dict[str, float], float]:
    """Fill the store as the coordinator does; return the makers' processor seconds by kind, and the coordinator's."""
    context, asked = multiprocessing.get_context("spawn"), AskedBatch.from_json(batch.text)
    blocks: Queue[Block | dict[str, float]] = context.Queue(BLOCKS_WAITING * n_makers)
    bounds = [n_devices * i // n_makers for i in range(n_makers + 1)]
    makers = [
        context.Process(target=make_answers, args=(folder, authority, batch, range(start, stop), blocks))
        for start, stop in pairwise(bounds)
    ]
    (own,) = credentials_of(authority, [PROTOTYPE])
    hub, store = StatementCheck(own), BatchesStore(SqliteDatabase(folder / "batches.sqlite", TABLES))
    devices: dict[str, float] = {}
    coordinator_s, n_ended = 0.0, 0
    for maker in makers:
        maker.start()
    try:
        while n_ended < n_makers:
            block = blocks.get()
            if isinstance(block, dict):
                n_ended += 1
                devices = {kind: devices.get(kind, 0.0) + seconds for kind, seconds in block.items()}
                continue
            before = time.process_time()
            given = []
            for name, body in block:
                answer = decode_answer(body)
                checked(hub, asked, name, answer)
                given.append(GivenAnswer(batch.number, name, encode_answer(answer)))
            store.take(given)
            coordinator_s += time.process_time() - before
    finally:
        store.close()
        for maker in makers:
            maker.join(0 if n_ended < n_makers else None)
            maker.kill()
    return devices, coordinator_s


class Closing:
    """One batch of a deployment."""

    def __init__(self, deployment: LocalDeployment, n_devices: int, length: int, n_makers: int) -> None:
        self._deployment = deployment
        self._coordinator = Identity.from_uri(HUB)
        self._n_devices, self._length, self._n_makers = n_devices, length, n_makers

    def _channel(self, name: str) -> Any:
        folder = self._deployment.folder
        paths = {"certificate": folder / f"{name}.pem", "key": folder / f"{name}.key"}
        own = load_credentials(authority=folder / "ca.pem", **paths)
        return open_channel(self._deployment.addresses[COORDINATOR_NAME], self._coordinator, own)

    async def open(self) -> tuple[bytes, OfferedQuestion]:
        """Ask the question; return its identifier, and what a device is shown."""
        text = question(self._length, self._n_devices).canonical_json()
        async with self._channel(ANALYST_NAME) as channel, self._channel(PROTOTYPE) as of_device:
            async for happening in ask(COORDINATOR_NAME, channel, "batch", text):
                assert isinstance(happening, Opened), happening
                offered = await QuestionClient(COORDINATOR_NAME, of_device, "batch").fetch(0)
                assert offered is not None
                return happening.question_id, offered
        raise AssertionError("the coordinator does not open the batch")

    async def close(self, batch_id: bytes) -> dict[str, Any]:
        """Wait for the result."""
        async with self._channel(ANALYST_NAME) as channel:
            async for happening in ask(COORDINATOR_NAME, channel, question_id=batch_id):
                assert not isinstance(happening, Failed), happening
                if isinstance(happening, Result):
                    result: dict[str, Any] = json.loads(happening.result_json)
                    return result
        raise AssertionError("the coordinator ends without a result")

    def run(self) -> dict[str, Any]:
        """Return what all of one batch took."""
        deployment = self._deployment
        batch_id, batch = asyncio.run(self.open())
        deployment.send_signal(COORDINATOR_NAME, signal.SIGTERM)
        deployment.processes[COORDINATOR_NAME].wait()
        began = time.monotonic()
        made, intake_s = take_answers(deployment.folder, deployment.authority, batch, self._n_devices, self._n_makers)
        filled = time.monotonic()
        pids = {name: deployment.processes[name].pid for name in PARTIES}
        before = {name: processor_s(pid) for name, pid in pids.items()}
        deployment.start(COORDINATOR_NAME)
        pids[COORDINATOR_NAME], before[COORDINATOR_NAME] = deployment.processes[COORDINATOR_NAME].pid, 0.0
        deployment.wait_until_ready(COORDINATOR_NAME)
        result = asyncio.run(self.close(batch_id))
        spent = {name: processor_s(pid) - before[name] for name, pid in pids.items()}
        spent["coordinator, while answers come"] = intake_s
        worst = max(abs(value - self._n_devices) for value in result["sum"])
        return {
            "devices": self._n_devices,
            "in_the_sum": result["devices"],
            "elements": self._length,
            "filling_s": filled - began,
            "closing_s": time.monotonic() - filled,
            "processor_s": spent,
            "processor_s_of_all_services": sum(spent.values()),
            "processor_s_of_devices": made,
            "peak_resident_mb": {name: peak_resident_bytes(pid) / 1e6 for name, pid in pids.items()},
            "worst_error_in_standard_errors": worst / result["standard_errors"][0],
        }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--elements", type=int, default=1_000, help="of each vector")
    parser.add_argument("--batches", type=int, default=1, help="that the same devices answer, one after the other")
    parser.add_argument("--makers", type=int, default=2, help="processes that make the devices' answers")
    parser.add_argument("--threads", type=int, default=1, help="of each party")
    options = parser.parse_args(arguments)
    rules = {"batches": {"smallest_cohort": 2, "threads": options.threads}}
    with (
        tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder,
        LocalDeployment(
            Path(folder),
            dict.fromkeys(PARTIES, ()),
            members=[(Role.DEVICE, PROTOTYPE)],
            policy=dict.fromkeys(PARTIES, rules),
        ) as deployment,
    ):
        closing = Closing(deployment, options.devices, options.elements, options.makers)
        runs = [closing.run() for _ in range(options.batches)]
    report = {"bench": "closed_batch", "runs": runs, "machine": describe_machine()}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
