"""Whole batches, to be timed: in one process with any number of simulated devices, and over real services.

Used by `bench.sums.one_shot`. All is the code of the services; what a simulated run leaves out is the network alone.
"""

import asyncio
import datetime
import hashlib
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from analyses.sums.records import DeclaredRecord, Record
from bench.machine import processor_s
from coordinator.stores.batches import TABLES, BatchesStore, GivenAnswer
from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME, LocalDeployment
from device.budget import DeviceBudget
from device.questions.batch import BatchDevice
from device.questions.batch_policy import BatchPolicy
from device.records import KeptRecord
from device.response_store import ResponseStore
from dp.cost.views import MEMBER_UNIT
from entropy import SystemEntropy
from ledger.budget import Budget
from mpc.secagg.secret.keys import RoundKey
from mpc.secagg.secret.party_shares import SealingTerms, answer_digest
from party.batches.collecting import Collection
from questions.shares import AskedBatch, BatchQuestion
from questions.shares_answer import answer_of, open_sum
from service.database.sqlite import SqliteDatabase
from service.identity import Identity, PeerCertificate, Role
from service.pki import KeyPair, create_authority, issue
from service.tls import Credentials, load_credentials
from service.trust.statements import StatementCheck, sign
from transport.batch_codec import OfferedQuestion, PartyKey, decode_answer, part_of
from transport.calls.channel import open_channel
from transport.happenings import Failed, Opened, Result
from transport.question_client import QuestionClient

PARTIES = ("bank", "clinic", "shop")
HUB = "spiffe://local/coordinator/coordinator"
BLOCK = 256
ADMITTED = 500
"""So many devices of a simulated batch look at the question before they answer."""
LARGEST = 100
FAR = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
BUDGET = Budget(MEMBER_UNIT, "bench", 100.0, 1e-9)

R = TypeVar("R")


def question(length: int, n_devices: int) -> BatchQuestion:
    """Return a noisy sum of vectors of integers, for three parties."""
    asked = {
        "analysis": "secure-sum",
        "record": "steps",
        "length": length,
        "largest": LARGEST,
        "privacy": {"epsilon": 1.0, "delta": 1e-9},
    }
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    own = {"parties": PARTIES, "colluding": 1, "smallest_cohort": 2, "largest_cohort": n_devices, "until": until}
    return BatchQuestion.from_tree({"sum": asked, **own})


class Timed:
    """Adds up the processor time of kinds of work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def run(self, what: str, work: Callable[[], R]) -> R:
        """Do some work, and count its time."""
        before = time.process_time()
        found = work()
        self.seconds[what] = self.seconds.get(what, 0.0) + time.process_time() - before
        return found


class Certified:
    """An authority of this run, and the credentials that it gives out; making those is not timed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._now = datetime.datetime.now(datetime.UTC)
        self.authority: KeyPair = create_authority("local", days=2, now=self._now)
        (folder / "ca.pem").write_bytes(self.authority.certificate_pem)

    def __call__(self, role: Role, name: str) -> Credentials:
        """Return new credentials."""
        pair = issue(self.authority, role, name, days=1, now=self._now)
        identity = Identity("local", role, name)
        end = self._now + datetime.timedelta(days=1)
        return Credentials(identity, self.authority.certificate_pem, pair.certificate_pem, pair.key_pem, end)


def device_of(stack: ExitStack, folder: Path, credentials: Credentials, length: int, client: Any = None) -> BatchDevice:
    """Return a device that answers, with a record of ones."""
    folder.mkdir()
    budget = DeviceBudget.open(folder, credentials.identity.name, "bench", "coordinator", BUDGET, "bench")
    stack.callback(budget.close)
    store = ResponseStore(folder / "batches.sqlite")
    stack.callback(store.close)
    record = Record(np.ones(length))
    return BatchDevice(
        name=credentials.identity.name,
        client=client,
        credentials=credentials,
        policy=BatchPolicy(HUB, frozenset(PARTIES), 1, 2, 1 << 24, exact_sums=False, largest_epsilon=None),
        store=store,
        records={"steps": KeptRecord(DeclaredRecord(length), lambda: record)},
        budget=budget,
        entropy=SystemEntropy(),
    )


def simulated(n_devices: int, length: int) -> dict[str, Any]:
    """Return the processor seconds of a whole batch in one process, by who would spend them.

    All devices answer, and the coordinator and the parties take in all answers. What a device does before it answers
    (it looks at the question, its cost and the parties' certificates) is done and timed for the first `ADMITTED` only.
    Its ledger and store, which wait for its disk, are left out; `real` has them.
    """
    timed = Timed()
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        certified = Certified(folder)
        asked = AskedBatch(question=question(length, n_devices), asker=HUB, session="00" * 16)
        store = BatchesStore(SqliteDatabase(folder / "batches.sqlite", TABLES))
        stack.callback(store.close)
        hub = StatementCheck(certified(Role.COORDINATOR, "coordinator"))
        keys, collections, offered = {}, {}, []
        for party in PARTIES:
            credentials = certified(Role.PARTY, party)
            key = keys[party] = RoundKey(SystemEntropy().read(32))
            offered.append(vouched(asked, key, credentials))
            collections[party] = Collection(asked, party, key, StatementCheck(credentials))
        batch = OfferedQuestion(1, asked.canonical_json(), tuple(offered))
        store.add(asked.question_id, "ada", batch.text, b"", n_devices)
        prototype = device_of(stack, folder / "device", certified(Role.DEVICE, "prototype"), length)
        for start in range(0, n_devices, BLOCK):
            given, parts = [], {party: [] for party in PARTIES}
            for number in range(start, min(start + BLOCK, n_devices)):
                device = f"d{number:09}"
                credentials = certified(Role.DEVICE, device)
                own = named(prototype, device, credentials)
                if number < ADMITTED:
                    timed.run("devices, before", lambda own=own: own.admit(asked, batch.keys))
                body = timed.run("devices", lambda own=own: own.make(asked, batch.keys))
                timed.run("coordinator", lambda body=body, own=own: checked(hub, asked, own.name, decode_answer(body)))
                given.append(GivenAnswer(1, device, body))
                for place, party in enumerate(PARTIES):
                    part = timed.run(
                        "coordinator", lambda b=body, d=device, p=place: part_of(d, decode_answer(b), p, 3)
                    )
                    parts[party].append(part)
            timed.run("coordinator", lambda given=given: store.take(given))
            for party in PARTIES:
                timed.run(party, lambda party=party, block=parts[party]: collections[party].take(block))
        shares = [timed.run(party, lambda party=party: _share(asked.question, collections[party])) for party in PARTIES]
        result = timed.run(
            "coordinator",
            lambda: answer_of(asked.question, open_sum(asked.question, shares), n_devices, []),
        )
    deviation = result["standard_errors"][0]
    worst = max(abs(value - n_devices) for value in result["sum"]) / deviation
    rates = {who: seconds / n_devices for who, seconds in timed.seconds.items()}
    rates["devices, before"] = timed.seconds["devices, before"] / min(ADMITTED, n_devices)
    return {
        "devices": n_devices,
        "elements": length,
        "processor_s": timed.seconds,
        "microseconds_per_device": {who: 1e6 * rate for who, rate in rates.items()},
        "processor_s_of_1e6": {who: 1e6 * rate for who, rate in rates.items()},
        "worst_error_in_standard_errors": worst,
    }


def vouched(asked: AskedBatch, key: RoundKey, credentials: Credentials) -> PartyKey:
    """Return the key of a party, for which it vouches."""
    statement = asked.key_statement(credentials.identity.name, key.public_bytes)
    return PartyKey(key.public_bytes, sign(credentials, statement))


def named(prototype: BatchDevice, name: str, credentials: Credentials) -> BatchDevice:
    """Return a device as another one under a name of its own."""
    return replace(prototype, name=name, credentials=credentials)


def checked(hub: StatementCheck, asked: AskedBatch, name: str, answer: Any) -> None:
    """Check an answer as the coordinator does; the connection that it comes over shows its certificate."""
    part = part_of(name, answer, 0, len(asked.question.parties))
    terms = SealingTerms(asked.digest, name, asked.question.parties)
    statement = answer_digest(terms, part.ephemeral_public, part.seal_digests)
    fingerprint = hashlib.sha256(answer.signed.certificate).digest()  # of the connection that there would be
    caller = PeerCertificate(Identity("local", Role.DEVICE, name), 1, FAR, fingerprint, FAR)
    assert hub.signer_of_call(answer.signed, statement, caller).name == name


def _share(asked: BatchQuestion, collection: Collection) -> bytes:
    assert collection.shown().openable.all()
    noise, total = asked.noise, collection.sum.total
    assert noise is not None
    asked.group.accumulate(total, asked.group.encode(noise.draw(SystemEntropy(), ())))
    return asked.group.pack(total)


async def _real(folder: Path, n_devices: int, length: int) -> dict[str, Any]:
    names = [f"d{number:05}" for number in range(n_devices)]
    rules = {"batches": {"smallest_cohort": 2}}
    with (
        LocalDeployment(
            folder,
            dict.fromkeys(PARTIES, ()),
            members=[(Role.DEVICE, name) for name in names],
            policy=dict.fromkeys(PARTIES, rules),
        ) as deployment,
        ExitStack() as stack,
    ):

        def own(name: str) -> Credentials:
            paths = {"certificate": folder / f"{name}.pem", "key": folder / f"{name}.key"}
            return load_credentials(authority=folder / "ca.pem", **paths)

        coordinator, address = Identity.from_uri(HUB), deployment.addresses[COORDINATOR_NAME]
        pids = {name: deployment.processes[name].pid for name in (COORDINATOR_NAME, *PARTIES)}
        before = {name: processor_s(pid) for name, pid in pids.items()}
        opened, ended = asyncio.Event(), asyncio.Event()

        async def ask() -> None:
            async with open_channel(address, coordinator, own(ANALYST_NAME)) as channel:
                text = question(length, n_devices).canonical_json()
                async for happening in ask(COORDINATOR_NAME, channel, "batch", text):
                    if isinstance(happening, Opened):
                        opened.set()
                    assert not isinstance(happening, Failed), happening
                    if isinstance(happening, Result):
                        ended.set()

        asking = asyncio.create_task(ask())
        await opened.wait()
        own_s = time.process_time()
        for name in names:  # each connects, fetches, answers and leaves
            async with open_channel(address, coordinator, own(name)) as channel:
                client = QuestionClient(COORDINATOR_NAME, channel, "batch")
                device = device_of(stack, folder / f"data-{name}", own(name), length, client)
                offered = await client.fetch(0)
                assert offered is not None
                assert await device.answer(offered)
        own_s = time.process_time() - own_s
        await ended.wait()
        await asking
        spent = {name: processor_s(pid) - before[name] for name, pid in pids.items()}
    return {
        "devices": n_devices,
        "elements": length,
        "processor_s": spent,
        "milliseconds_per_device": {
            **{name: 1000 * seconds / n_devices for name, seconds in spent.items()},
            "device, its files and its connection": 1000 * own_s / n_devices,
        },
    }


def real(n_devices: int, length: int) -> dict[str, Any]:
    """Return the processor time of a batch over real services on loopback: a new connection for each device."""
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        return asyncio.run(_real(Path(folder), n_devices, length))
