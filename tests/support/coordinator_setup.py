"""A real coordinator in the test's process, analysts with real certificates, and parties that do as a test says."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from certificates import Issue, authority_in, tls_in
from deadlines import GENEROUS_S
from wire.v1.aggregation_pb2 import Chunk
from wire.v1.party_pb2 import (
    CancelReply,
    PartyEvent,
    PartyEvents,
    Proposal,
    ProposalReply,
    ReserveEvent,
    ReserveRequest,
)
from wire.v1.party_pb2_grpc import PartyServicer, add_PartyServicer_to_server

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema
from coordinator import proposal
from coordinator.config import CoordinatorConfig
from coordinator.evidence import Evidence
from coordinator.server import CoordinatorProcess
from service.authorization import Permissions
from service.identity import Identity, Role
from service.server import Server
from transport.calls.channel import open_channel
from transport.calls.chunks import chunks_of_text, gather_request
from transport.calls.coordinator_client import CoordinatorClient, JobView
from transport.calls.party_client import PartyClient

FEDERATION = "hospitals"
PARTIES = ("north", "south", "west")
COORDINATOR = Identity(FEDERATION, Role.COORDINATOR, "hub")


def job_for_all(**changes: Any) -> Job:
    fields = {
        "analysis": "pca",
        "inputs": [{"party": party, "table": "visits"} for party in PARTIES],
        "privacy": {"epsilon": 10.0, "delta": 1e-6},
        "parameters": {"components": 2, "max_rows": 1000},
        "deadline_s": 120.0,
    }
    return Job.model_validate({**fields, **changes})


def progress(stage: str, percent: int) -> PartyEvent:
    event = PartyEvent()
    event.progress.stage, event.progress.percent = stage, percent
    return event


def failed(stage: str, reason: str, culprit: str = "") -> PartyEvent:
    event = PartyEvent()
    event.failed.stage, event.failed.reason, event.failed.culprit = stage, reason, culprit
    return event


def finished() -> PartyEvent:
    event = PartyEvent()
    event.finished.SetInParent()
    return event


def reserved() -> ReserveEvent:
    event = ReserveEvent()
    event.reserved.SetInParent()
    return event


def waiting(text: str) -> ReserveEvent:
    event = ReserveEvent()
    event.waiting.text = text
    return event


def refused(reason: str) -> ReserveEvent:
    event = ReserveEvent()
    event.refused.reason = reason
    return event


async def wait_forever() -> None:
    await asyncio.Event().wait()


# What takes long for one party only: a deadline that all have may be missed by anybody where the machine is slow.


def reach_briefly(monkeypatch: pytest.MonkeyPatch, absent: str) -> None:
    """Let the coordinator wait shortly for a party that is not there, and as long as it takes for the others."""
    reach = proposal.wait_until_reachable

    async def reach_each(channel: Any, *, peer: str, deadline_s: float, **more: Any) -> None:
        await reach(channel, peer=peer, deadline_s=1.0 if peer == absent else GENEROUS_S, **more)

    monkeypatch.setattr(proposal, "wait_until_reachable", reach_each)


def propose_briefly(monkeypatch: pytest.MonkeyPatch, silent: str) -> None:
    """Let the coordinator wait shortly for the answer of one party to its proposal."""
    propose = PartyClient.propose

    async def propose_each(self: PartyClient, *args: Any, timeout_s: float, **kwargs: Any) -> Any:
        return await propose(self, *args, timeout_s=1.0 if self.name == silent else GENEROUS_S, **kwargs)

    monkeypatch.setattr(PartyClient, "propose", propose_each)


def miss_at_once(monkeypatch: pytest.MonkeyPatch, *silent: str, when: Callable[[], bool] = lambda: True) -> None:
    """Let the coordinator miss parties that have told of one stage, as if a deadline had passed since."""
    silent_since = Evidence.silent_since

    def all_silent(self: Evidence, before_s: float) -> list[str]:
        missed = {name for name in silent if self._parties[name].stage and not self._parties[name].has_ended}
        return sorted({*silent_since(self, before_s), *(missed if when() else ())})

    monkeypatch.setattr(Evidence, "silent_since", all_silent)


def accepts(name: str, n_columns: int = 2) -> ProposalReply:
    columns = tuple(ColumnSchema(name=f"x{i}", lower=0.0, upper=1.0) for i in range(n_columns))
    schema = BlockSchema(party=name, columns=columns, has_ids=True, rows=(10, 1000))
    return ProposalReply(accepted=True, schema_json=schema.canonical_json())


@dataclass
class ScriptedParty(PartyServicer):  # type: ignore[misc]
    """A party of the wire protocol that follows a test's script instead of computing.

    Attributes:
        name: of the party.
        answer: to a proposal.
        reservation: events of a reservation; by default it is reserved at once.
        script: events of a run; an exception breaks the stream.
        cancelled: reasons with which the coordinator ended jobs.
        holds: jobs whose reservation the coordinator still listens to.
        gives_up: lets go of reservations.
        listing: what it tells of its tables.
    """

    name: str
    answer: Callable[[], Awaitable[ProposalReply]] | None = None
    script: Callable[[], AsyncIterator[PartyEvent]] | None = None
    reservation: Callable[[], AsyncIterator[ReserveEvent]] | None = None
    cancelled: list[str] = field(default_factory=list)
    proposed: list[str] = field(default_factory=list)
    analysts: list[str] = field(default_factory=list)
    told_end: asyncio.Event = field(default_factory=asyncio.Event)
    holds: set[str] = field(default_factory=set)
    gives_up: asyncio.Event = field(default_factory=asyncio.Event)
    listing: str = ""

    def add_to(self, server: Any) -> None:
        add_PartyServicer_to_server(self, server)

    async def Propose(self, request_iterator: Any, context: Any) -> ProposalReply:
        request = await gather_request(request_iterator, Proposal)
        self.proposed.append(request.job_id)
        self.analysts.append(request.analyst)
        return accepts(self.name) if self.answer is None else await self.answer()

    async def Reserve(self, request_iterator: Any, context: Any) -> AsyncIterator[ReserveEvent]:
        request = await gather_request(request_iterator, ReserveRequest)
        event = None
        if self.reservation is None:
            event = reserved()
            yield event
        else:
            async for event in self.reservation():
                yield event
        if event is not None and event.WhichOneof("event") == "reserved":
            self.holds.add(request.job_id)
            try:
                await self.gives_up.wait()
            finally:
                self.holds.remove(request.job_id)

    async def Run(self, request: Any, context: Any) -> AsyncIterator[PartyEvents]:
        if self.script is None:
            while True:  # alive until the job ends
                yield PartyEvents(events=[progress("multiply", 25)])
                await asyncio.sleep(0.2)
        async for event in self.script():
            yield PartyEvents(events=[event])

    async def Describe(self, request: Any, context: Any) -> AsyncIterator[Chunk]:
        self.analysts.append(request.analyst)
        for chunk in chunks_of_text(self.listing):
            yield chunk

    async def Cancel(self, request: Any, context: Any) -> CancelReply:
        self.cancelled.append(request.reason)
        self.told_end.set()
        return CancelReply()


@dataclass
class CoordinatorSetup:
    """A coordinator, its roster, and the certificates of a federation."""

    folder: Path
    parties: dict[str, ScriptedParty]
    process: CoordinatorProcess
    address: str
    config: CoordinatorConfig
    issue: Issue
    servers: dict[str, Server]

    @asynccontextmanager
    async def client(self, name: str = "ada", role: Role = Role.ANALYST) -> AsyncIterator[CoordinatorClient]:
        async with open_channel(self.address, COORDINATOR, self.issue(role, name)) as channel:
            yield CoordinatorClient("hub", channel)

    async def run(self, job: Job, key: str = "key") -> JobView:
        """Submit a job as ada and wait for its end."""
        async with self.client() as client:
            job_id = await client.submit(job.canonical_json(), key)
            return await self.end_of(client, job_id)

    async def end_of(self, client: CoordinatorClient, job_id: str) -> JobView:
        async with asyncio.timeout(GENEROUS_S):
            async for _ in client.watch(job_id):
                pass
        return await client.show(job_id)

    async def until_running(self, job_id: str, member: str = "") -> None:
        """Wait until a job of ada runs and a party has told of it: the one that is named, or any."""
        async with self.client() as client, asyncio.timeout(GENEROUS_S):
            async for event in client.watch(job_id):
                if event.state == "RUNNING" and event.member and member in ("", event.member):
                    return


@asynccontextmanager
async def running_coordinator(
    folder: Path, *, absent: Sequence[str] = (), more: Sequence[str] = (), max_running_jobs: int = 2, **settings: Any
) -> AsyncIterator[CoordinatorSetup]:
    """Run a coordinator with the roster PARTIES and `more`; those in `absent` do not listen.

    Analysts ada and grace may submit. `settings` are further fields of its configuration.
    """
    issue_to = authority_in(folder, FEDERATION)
    parties = {name: ScriptedParty(name) for name in (*PARTIES, *more)}
    methods = ("Propose", "Reserve", "Run", "Cancel", "Describe")
    permissions = Permissions(FEDERATION, {f"/moiety.v1.Party/{m}": frozenset({Role.COORDINATOR}) for m in methods})
    async with AsyncExitStack() as stack:
        servers, roster = {}, []
        for name, party in parties.items():
            server = Server(issue_to(Role.PARTY, name), permissions, [party.add_to])
            port = await server.start("127.0.0.1:0")
            if name in absent:
                await server.stop(0)
            else:
                stack.push_async_callback(server.stop, 0)
            servers[name] = server
            roster.append({"name": name, "address": f"127.0.0.1:{port}"})
        credentials = issue_to(Role.COORDINATOR, "hub")
        config = CoordinatorConfig.model_validate(
            {
                "name": "hub",
                "federation": FEDERATION,
                "listen": "127.0.0.1:0",
                "store": folder / "jobs.sqlite",
                "max_running_jobs": max_running_jobs,
                **settings,
                "tls": tls_in(folder, Role.COORDINATOR, "hub"),
                "parties": roster,
                "analysts": {"allowed": ["ada", "grace"]},
            }
        )
        process = CoordinatorProcess(config, credentials)
        address = await process.start()
        setup = CoordinatorSetup(folder, parties, process, address, config, issue_to, servers)
        stack.push_async_callback(process.stop)
        yield setup
