"""A real coordinator and members of masked sums over gRPC, in the test's process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from certificates import Issue, authority_in, tls_in
from deadlines import GENEROUS_S, skipped_deadlines

from analyses.sums.records import DeclaredRecord, Record
from analyses.sums.secure_sum import SumParams
from coordinator.config import CoordinatorConfig
from coordinator.server import CoordinatorProcess
from coordinator.sums import rounds
from device.budget import DeviceBudget
from device.device import Device
from device.journal import SqliteSumJournal
from device.records import KeptRecord
from dp.cost.views import MEMBER_UNIT
from entropy import InsecureTestEntropy, SystemEntropy
from ledger.budget import Budget
from mpc.secagg.member import SumMember
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.keys import IdentityKey
from mpc.transcript import RoundId
from service.identity import Identity, Role
from transport.aggregation import RoundStep
from transport.aggregation_client import AggregationClient
from transport.calls.channel import open_channel
from transport.happenings import Failed, Happening, Opened, Result, StageReport
from transport.question_client import ask
from transport.sum_codec import Invitation, RefusedInvitationError

FEDERATION = "walkers"
DECLARED = DeclaredRecord(length=3, largest_weight=10)
AMPLE = Budget(MEMBER_UNIT, "2026", 100.0, 1e-6)
COORDINATOR = Identity(FEDERATION, Role.COORDINATOR, "hub")


def identity_key(name: str) -> IdentityKey:
    return IdentityKey(InsecureTestEntropy(f"identity of {name}"))


@dataclass(frozen=True)
class WatchedDevice(Device):
    """A device that notes which rounds it has left, so that nobody need wait for it."""

    left: set[tuple[str, RoundId]] = field(default_factory=set)

    async def answer(self, invitation: Invitation) -> bool:
        try:
            return await super().answer(invitation)
        finally:
            self.left.add((self.name, invitation.round_id))


@dataclass
class SumFederation:
    """A coordinator and what is needed to be one of its members or its analyst.

    Attributes:
        silent: members that answer no round: they were not started, or hang. A stage of `SKIPPED_S` does not wait for
            them.
        left: member and round that it refused or left.
    """

    folder: Path
    names: tuple[str, ...]
    issue: Issue
    config: CoordinatorConfig
    process: CoordinatorProcess
    address: str
    stack: AsyncExitStack
    records: dict[str, Record] = field(default_factory=dict)
    declared: DeclaredRecord = DECLARED
    tasks: dict[str, asyncio.Task] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    left: set[tuple[str, RoundId]] = field(default_factory=set)

    @property
    def policy(self) -> MemberPolicy:
        return MemberPolicy(pinned={name: identity_key(name).public_bytes for name in self.names})

    def channel(self, role: Role, name: str):
        return open_channel(self.address, COORDINATOR, self.issue(role, name))

    async def client(self, name: str, role: Role = Role.DEVICE, patience_s: float = GENEROUS_S) -> AggregationClient:
        channel = self.channel(role, name)
        self.stack.push_async_callback(channel.close)
        client = AggregationClient("hub", channel, patience_s, self.policy)
        fetch = client.fetch

        async def watched(*args):
            try:
                return await fetch(*args)
            except RefusedInvitationError as error:
                self.left.add((name, error.round_id))
                raise

        client.fetch = watched
        return client

    async def device(self, name: str, **changes) -> Device:
        journal = SqliteSumJournal(self.folder / f"{name}.sqlite")
        self.stack.callback(journal.close)
        (self.folder / name).mkdir(exist_ok=True)
        budget = DeviceBudget.open(
            self.folder / name, name, "installation-1", "hub", changes.pop("budget", AMPLE), "test"
        )
        self.stack.callback(budget.close)
        fields = {
            "name": name,
            "client": await self.client(name),
            "identity": identity_key(name),
            "policy": self.policy,
            "journal": journal,
            "records": {"steps": KeptRecord(self.declared, lambda: self.records[name])},
            "entropy": SystemEntropy(),
            "budget": budget,
            "exact_sums": True,
        }
        return WatchedDevice(**{**fields, **changes}, left=self.left)

    async def start_all(self, without=()) -> None:
        self.silent |= set(without)
        for name in self.names:
            if name not in without:
                self.start(await self.device(name))

    def start(self, device: Device) -> None:
        self.silent.discard(device.name)
        self.tasks[device.name] = asyncio.create_task(device.run())

    def waits_for_the_silent_only(self) -> bool:
        """Whether a round runs, and all of them wait for nobody but those who will not answer any more."""
        waits = [
            {(name, hosted.config.round_id) for name in map(hosted.config.name_of, hosted._coordinator.waiting_for())}
            for hosted in self.process._sums.rounds._rounds.values()
            if not hosted.is_over
        ]
        return bool(waits) and all(
            name in self.silent or (name, round_id) in self.left for wait in waits for name, round_id in wait
        )

    async def kill(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.gather(self.tasks[name], return_exceptions=True)

    async def listen(self, **params) -> list[Happening]:
        """All that an analyst hears of a sum, its result or failure last."""
        async with self.channel(Role.ANALYST, "ada") as channel, asyncio.timeout(GENEROUS_S):
            text = question(**params).canonical_json()
            heard = [happening async for happening in ask("hub", channel, "sum", text)]
        assert isinstance(heard[0], Opened)
        return heard[1:]

    async def ask(self, on_report=lambda report: None, analyst="ada", **params) -> tuple[Happening, list[StageReport]]:
        """The result of a sum as an analyst hears it, and how its stages went."""
        reports = []
        async with self.channel(Role.ANALYST, analyst) as channel, asyncio.timeout(GENEROUS_S):
            async for happening in ask("hub", channel, "sum", question(**params).canonical_json()):
                if isinstance(happening, Opened):
                    continue
                if not isinstance(happening, StageReport):
                    return happening, reports
                reports.append(happening)
                got = on_report(happening)
                if got is not None:
                    await got
        raise AssertionError("the stream ended without an end")


def question(**changes) -> SumParams:
    fields = {
        "analysis": "secure-sum",
        "record": "steps",
        "length": 3,
        "largest": 1000,
        "stage_s": GENEROUS_S,
        "grace_s": GENEROUS_S,
        "attempts": 1,
    }
    return SumParams.model_validate({**fields, **changes})


def answer_of(happening: Happening) -> dict:
    assert isinstance(happening, Result), happening
    return json.loads(happening.result_json)


def reason_of(happening: Happening) -> str:
    assert isinstance(happening, Failed), happening
    return happening.reason


def coordinator_config(folder: Path, names, listen="127.0.0.1:0", parties=()) -> CoordinatorConfig:
    return CoordinatorConfig.model_validate(
        {
            "name": "hub",
            "federation": FEDERATION,
            "listen": listen,
            "store": folder / "jobs.sqlite",
            "tls": tls_in(folder, Role.COORDINATOR, "hub"),
            "parties": [{"name": "nobody", "address": "127.0.0.1:1"}],
            "analysts": {"allowed": ["ada"]},
            "sum_members": [
                {
                    "name": name,
                    "identity": identity_key(name).public_bytes.hex(),
                    **({"role": "party"} if name in parties else {}),
                }
                for name in names
            ],
        }
    )


@asynccontextmanager
async def sum_federation(folder: Path, n_members: int = 5, parties=()) -> AsyncIterator[SumFederation]:
    """Run a coordinator that knows members walker-1 .., devices but for `parties`; no member runs yet."""
    issue_to = authority_in(folder, FEDERATION)
    names = tuple(f"walker-{i}" for i in range(1, n_members + 1))
    credentials = issue_to(Role.COORDINATOR, "hub")
    config = coordinator_config(folder, names, parties=parties)
    process = CoordinatorProcess(config, credentials)
    address = await process.start()
    async with AsyncExitStack() as stack:
        federation = SumFederation(folder, names, issue_to, config, process, address, stack)
        rng = np.random.default_rng(7)
        federation.records = {
            name: Record(rng.integers(-900, 900, 3).astype(float), weight=i) for i, name in enumerate(names)
        }
        try:
            with skipped_deadlines(rounds, lambda _: federation.waits_for_the_silent_only()):
                yield federation
        finally:
            for task in federation.tasks.values():
                task.cancel()
            await asyncio.gather(*federation.tasks.values(), return_exceptions=True)
            await federation.process.stop()


def exact_sum(federation: SumFederation, names) -> list[int]:
    return sum(federation.records[name].values for name in names).astype(int).tolist()


async def begin(federation: SumFederation, name="walker-1", **params) -> tuple[asyncio.Task, Device, Invitation]:
    """A sum in progress, and one device with the invitation to it."""
    asking = asyncio.create_task(federation.ask(**params))
    device = await federation.device(name)
    invitation = await device.client.fetch(RoundStep.INVITATION)
    assert isinstance(invitation, Invitation)
    return asking, device, invitation


def member_of(device: Device, invitation: Invitation, number=1) -> SumMember:
    """The part of a round that a device plays, to be played by hand."""
    return SumMember(
        device._answered(invitation).config,
        number,
        identity=device.identity,
        policy=device.policy,
        journal=device.journal,
        public_input=invitation.public_input,
        entropy=device.entropy,
    )
