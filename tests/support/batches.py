"""Batches over real services in the test's process: three parties, a coordinator, devices, an analyst."""

import asyncio
import datetime
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType

import numpy as np
from certificates import Issue, authority_in, tls_in
from deadlines import GENEROUS_S, until

from analyses.sums.records import DeclaredRecord, Record
from coordinator.config import CoordinatorConfig
from coordinator.server import CoordinatorProcess
from demo.ports import free_ports
from device.budget import DeviceBudget
from device.questions.batch import BatchDevice
from device.questions.batch_policy import BatchPolicy
from device.records import KeptRecord
from device.response_store import ResponseStore
from dp.cost.views import MEMBER_UNIT
from entropy import SystemEntropy
from ledger.budget import Budget
from mpc.secagg.secret.keys import RoundKey
from mpc.secagg.secret.party_shares import SealingTerms, ShareSum, open_share
from party.batches.collecting import Collection
from party.config import PartyConfig
from party.server import running_party
from questions.shares import AskedBatch, BatchQuestion
from service.identity import Identity, Role
from service.tls import Credentials
from service.trust.statements import StatementCheck, sign
from transport.batch_codec import OfferedQuestion, PartyKey, decode_answer, part_of
from transport.calls.channel import open_channel
from transport.happenings import Failed, Opened, Result
from transport.question_client import QuestionClient, ask

FEDERATION = "walkers"
PARTIES = ("bank", "clinic", "shop")
HUB = Identity(FEDERATION, Role.COORDINATOR, "hub")
DECLARED = DeclaredRecord(length=3, largest_weight=10)
AMPLE = Budget(MEMBER_UNIT, "2026", 100.0, 1e-6)
FAR = datetime.datetime.combine(
    datetime.datetime.now(datetime.UTC).date(), datetime.time(), datetime.UTC
) + datetime.timedelta(days=30)
"""A whole day, so that all processes of a test ask the same question."""


def batch_question(**changes) -> BatchQuestion:
    """A sum of three entries for the parties of the tests; fields of the sum stand beside those of the batch."""
    fields = {
        "parties": PARTIES,
        "colluding": 2,
        "smallest_cohort": 2,
        "largest_cohort": 4,
        "until": FAR,
        "analysis": "secure-sum",
        "record": "steps",
        "length": 3,
        "largest": 1000,
        **changes,
    }
    own = {name: fields.pop(name) for name in list(fields) if name in BatchQuestion.model_fields}
    return BatchQuestion.from_tree({"sum": fields, **own})


def asked_batch(session="00" * 16, asker=HUB.uri, **changes) -> AskedBatch:
    return AskedBatch(question=batch_question(**changes), asker=asker, session=session)


def kept(*values: float, weight=1, declared=DECLARED) -> KeptRecord:
    return KeptRecord(declared, lambda: Record(np.array(values, dtype=np.float64), weight))


def batch_policy(**changes) -> BatchPolicy:
    fields = {
        "coordinator": HUB.uri,
        "parties": frozenset(PARTIES),
        "colluding": 1,
        "smallest_cohort": 2,
        "largest_elements": 1000,
        "exact_sums": True,
        "largest_epsilon": None,
    }
    return BatchPolicy(**{**fields, **changes})


def batch_device(stack, folder: Path, credentials: Credentials, **changes) -> BatchDevice:
    """The device of a certificate, as it starts in a folder; the stack closes what it opens."""
    folder.mkdir(exist_ok=True)
    name = credentials.identity.name
    budget = DeviceBudget.open(folder, name, "installation-1", "hub", changes.pop("budget", AMPLE), "test")
    stack.callback(budget.close)
    store = ResponseStore(folder / "batches.sqlite")
    stack.callback(store.close)
    fields = {
        "name": name,
        "client": None,
        "credentials": credentials,
        "policy": batch_policy(),
        "store": store,
        "records": {"steps": kept(1.0, 2.0, 3.0)},
        "budget": budget,
        "entropy": SystemEntropy(),
        "data_dir": folder,
    }
    return BatchDevice(**{**fields, **changes})


@dataclass(frozen=True, kw_only=True)
class LyingDevice(BatchDevice):
    """A device that shares, and tries to prove, other integers than those of its record."""

    integers: tuple[int, ...]

    def _proven(self, terms, question, integers, publics):
        return super()._proven(terms, question, np.array(self.integers, dtype=np.int64), publics)


def lying(device: BatchDevice, *integers: int) -> LyingDevice:
    return LyingDevice(**{field.name: getattr(device, field.name) for field in fields(device)}, integers=integers)


def offered(asked, issue, keys) -> OfferedQuestion:
    """Return a batch with a key of each party, for which its party vouches."""
    found = []
    for party, key in zip(PARTIES, keys, strict=True):
        signed = sign(issue(Role.PARTY, party), asked.key_statement(party, key.public_bytes))
        found.append(PartyKey(key.public_bytes, signed))
    return OfferedQuestion(1, asked.canonical_json(), tuple(found))


class AnsweredBatch:
    """Parties with keys, and the answers of some devices (1, 2, 3), (10, 20, 30), ...

    Args:
        liars: device to the integers that it shares in their place, whatever they are.
    """

    def __init__(self, folder, stack, n_devices=3, liars=MappingProxyType({}), **changes):
        self.issue = issue = authority_in(folder, "walkers")
        self.asked = asked_batch(**{"largest_cohort": 4, **changes})
        self.keys = {party: RoundKey(SystemEntropy().read(32)) for party in PARTIES}
        self.offered = offered(self.asked, issue, self.keys.values())
        self.answers = {}
        for number in range(n_devices):
            name = f"d{number}"
            records = {"steps": kept(*(10.0**number * x for x in (1, 2, 3)))}
            device = batch_device(stack, folder / name, issue(Role.DEVICE, name), records=records)
            if name in liars:
                device = lying(device, *liars[name])
            self.answers[name] = decode_answer(device.answer_once(self.asked, self.offered.keys))
        self.check = StatementCheck(issue(Role.PARTY, "bank"))

    def parts(self, party):
        position = PARTIES.index(party)
        return [part_of(name, answer, position, len(PARTIES)) for name, answer in self.answers.items()]

    def collection(self, party, **options):
        return Collection(self.asked, party, self.keys[party], self.check, **options)


class BatchProposal:
    """An analyst who asks, and what it has heard."""

    def __init__(self, federation, question=None, *, batch_id=b"", analyst="ada"):
        self.happenings = []
        self._federation, self._question, self._id, self._analyst = federation, question, batch_id, analyst
        self.task = asyncio.create_task(self._run())

    async def _run(self):
        text = "" if self._question is None else self._question.canonical_json()
        channel = self._federation.channel(Role.ANALYST, self._analyst)
        async with channel, asyncio.timeout(GENEROUS_S):
            async for happening in ask("hub", channel, "batch", text, self._id):
                self.happenings.append(happening)

    async def opened(self) -> bytes:
        await until(lambda: self.happenings or self.task.done())
        if self.task.done():
            await self.task
        assert isinstance(self.happenings[0], Opened)
        return self.happenings[0].question_id

    async def result(self) -> dict:
        await self.task
        assert isinstance(self.happenings[-1], Result), self.happenings[-1]
        return json.loads(self.happenings[-1].result_json)

    async def reason(self) -> str:
        await self.task
        assert isinstance(self.happenings[-1], Failed), self.happenings[-1]
        return self.happenings[-1].reason


@dataclass
class BatchFederation:
    """What runs.

    Attributes:
        running: parties, by name; what ends each.
        names: of all parties.
    """

    folder: Path
    issue: Issue
    addresses: dict[str, str]
    process: CoordinatorProcess
    stack: AsyncExitStack
    rules: object
    running: dict[str, AsyncExitStack] = field(default_factory=dict)
    parties: dict = field(default_factory=dict)
    names: tuple[str, ...] = PARTIES

    def channel(self, role: Role, name: str):
        return open_channel(self.addresses["hub"], HUB, self.issue(role, name))

    async def start_party(self, name: str) -> None:
        self.running[name] = AsyncExitStack()
        config = party_config(self.folder, name, self.addresses, self.rules, self.names)
        self.parties[name] = await self.running[name].enter_async_context(running_party(config))

    async def stop_party(self, name: str) -> None:
        await self.running.pop(name).aclose()

    async def restart_hub(self) -> None:
        await self.process.stop()
        self.process = CoordinatorProcess(self.process.config, self.issue(Role.COORDINATOR, "hub"))
        await self.process.start()

    def device(self, name: str, *values: float, weight=1, **changes) -> BatchDevice:
        """A device with a record; of each name one at a time."""
        credentials = self.issue(Role.DEVICE, name)
        channel = open_channel(self.addresses["hub"], HUB, credentials)
        self.stack.push_async_callback(channel.close)
        policy = batch_policy(parties=frozenset(self.names), may_miss=(self.rules or {}).get("may_miss", 0))
        fields = {"client": QuestionClient("hub", channel, "batch", GENEROUS_S), "policy": policy}
        if values:
            fields["records"] = {"steps": kept(*values, weight=weight)}
        return batch_device(self.stack, self.folder / f"device-{name}", credentials, **{**fields, **changes})

    async def answered_by(self, *devices: BatchDevice) -> OfferedQuestion:
        """Let devices answer the batch that is open; return it."""
        for device in devices:
            offered = await fetched(device)
            assert await device.answer(offered)
        return offered


async def fetched(device: BatchDevice) -> OfferedQuestion:
    found = None
    while found is None:
        found = await device.client.fetch(0)
    return found


async def answer_to(offered: OfferedQuestion, device: BatchDevice) -> bytes:
    """The answer of a device to a question, which it keeps and does not send."""
    return await asyncio.to_thread(device.answer_once, AskedBatch.from_json(offered.text), offered.keys)


def party_config(folder: Path, name: str, addresses, rules, names=PARTIES) -> PartyConfig:
    return PartyConfig.model_validate(
        {
            "name": name,
            "federation": FEDERATION,
            "listen": addresses[name],
            "data_dir": folder / name,
            "tls": tls_in(folder, Role.PARTY, name),
            "coordinator": {"name": "hub", "address": addresses["hub"]},
            "peers": {other: addresses[other] for other in names if other != name},
            "ledger": {"may_begin": True},
            "batches": None if rules is None else dict(rules),
        }
    )


@asynccontextmanager
async def batch_federation(
    folder: Path, rules=MappingProxyType({"smallest_cohort": 2, "exact_sums": True}), without=(), parties=PARTIES
) -> AsyncIterator[BatchFederation]:
    """Run a coordinator and its parties, but for those `without` whom it goes; no device runs yet."""
    issue = authority_in(folder, FEDERATION)
    names = ("hub", *parties)
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
    credentials = issue(Role.COORDINATOR, "hub")
    for name in parties:
        issue(Role.PARTY, name)
    config = CoordinatorConfig.model_validate(
        {
            "name": "hub",
            "federation": FEDERATION,
            "listen": addresses["hub"],
            "store": folder / "jobs.sqlite",
            "tls": tls_in(folder, Role.COORDINATOR, "hub"),
            "parties": [{"name": name, "address": addresses[name]} for name in parties],
            "analysts": {"allowed": ["ada", "bob"]},
        }
    )
    process = CoordinatorProcess(config, credentials)
    await process.start()
    async with AsyncExitStack() as stack:
        federation = BatchFederation(folder, issue, addresses, process, stack, rules, names=parties)
        try:
            for name in parties:
                if name not in without:
                    await federation.start_party(name)
            yield federation
        finally:
            for name in list(federation.running):
                await federation.stop_party(name)
            await federation.process.stop()


def opened_vector(asked, keys, body):
    """The vector in an answer, as all parties together would open it."""
    vector, question = decode_answer(body).vector, asked.question
    terms, total = SealingTerms(asked.digest, "ann", PARTIES), question.group.zeros(question.n_elements)
    for place, key in enumerate(keys):
        of_party = ShareSum(question.group, question.n_elements, place, 3)
        share = open_share(terms, place, key, vector.ephemeral_public, vector.sealed[place])
        of_party.check(share)
        of_party.add([share])
        question.group.accumulate(total, of_party.total)
    return question.group.decode(total).tolist()
