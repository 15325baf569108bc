"""Real services in the test's process: gRPC with certificates on loopback; all that the coordinator sees is noted."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analyses.job.job import Job
from coordinator import proposal, runner
from coordinator.config import CoordinatorConfig
from coordinator.server import CoordinatorProcess
from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME, LocalDeployment, LocalTable
from party.config import PartyConfig, load_party_config
from party.server import running_party
from service.identity import Identity, Role
from service.tls import load_credentials
from transport.calls.channel import open_channel
from transport.calls.coordinator_client import CoordinatorClient, JobView
from transport.calls.party_client import Failed, Finished, PartyClient
from transport.messages.session import GrpcSession

END_S = 300.0


@dataclass
class Seen:
    """What the coordinator and the analyst see of one job.

    Attributes:
        answers: of each party to its proposal and its reservation.
        events: of each party while the job runs, repeated ones once: those are told when a while has passed.
        received: of each party, stage, shape and type of the arrays that the coordinator took, in order.
        total_bytes: by stage, of all arrays that arrived at the coordinator.
        states: of the job, as the analyst hears of them, with their texts.
        view: what the analyst can ask for at the end.
    """

    answers: dict[str, list[Any]] = field(default_factory=dict)
    events: dict[str, list[Any]] = field(default_factory=dict)
    received: dict[str, list[tuple[str, tuple[int, ...], str]]] = field(default_factory=dict)
    total_bytes: dict[str, int] = field(default_factory=dict)
    states: list[tuple[str, str]] = field(default_factory=list)
    view: JobView | None = None

    def before_the_commit(self) -> list[Any]:
        """All of it but what parties send to be opened, and what comes of that."""
        told = {party: [e for e in events if e != Finished()] for party, events in self.events.items()}
        return [self.answers, told, self.states]


@dataclass
class WatchedServices:
    """A running federation, its analyst's client, and what the coordinator saw of each job, by job id."""

    deployment: LocalDeployment
    client: CoordinatorClient
    seen: dict[str, Seen]

    async def submit(self, job: Job) -> str:
        """Submit a job and return its id."""
        return await self.client.submit(job.canonical_json(), uuid.uuid4().hex)

    async def run(self, job: Job) -> Seen:
        """Run a job to its end, whatever that is, and wait until all parties have said how it ended."""
        job_id = await self.submit(job)
        seen = self.seen.setdefault(job_id, Seen())
        async with asyncio.timeout(2 * END_S):
            seen.states = [(e.state, e.text) async for e in self.client.watch(job_id) if not e.member]
            while not all(map(_has_ended, seen.events.values())):  # noqa: ASYNC110 - as the coordinator hears them
                await asyncio.sleep(0.01)
        seen.view = await self.client.show(job_id)
        return seen


def _has_ended(events: Sequence[Any]) -> bool:
    return bool(events) and isinstance(events[-1], Finished | Failed)


class _NotingClient(PartyClient):
    """The coordinator's calls to a party, whose answers are noted."""

    seen: dict[str, Seen]

    def _of(self, job_id: str) -> Seen:
        return self.seen.setdefault(job_id, Seen())

    async def propose(self, job_id: str, *args: Any, **options: Any) -> Any:
        answer = await super().propose(job_id, *args, **options)
        self._of(job_id).answers.setdefault(self.name, []).append(answer)
        return answer

    async def reserve(self, job_id: str, *args: Any) -> AsyncIterator[Any]:
        async for answer in super().reserve(job_id, *args):
            self._of(job_id).answers.setdefault(self.name, []).append(answer)
            yield answer

    async def run(self, job_id: str) -> AsyncIterator[Any]:
        events = self._of(job_id).events.setdefault(self.name, [])
        async for event in super().run(job_id):
            if event not in events[-1:]:
                events.append(event)
            yield event


class _NotingSession(GrpcSession):
    """The coordinator's end of a job, which notes what it takes."""

    seen: dict[str, Seen]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        mine = self.seen.setdefault(self.job_id, Seen())
        mine.total_bytes = options["inbox"].bytes_received
        self._received = mine.received

    async def receive(self, sender: int, stage: str, *args: Any, **options: Any) -> Any:
        array = await super().receive(sender, stage, *args, **options)
        self._received.setdefault(self.names[sender], []).append((stage, array.shape, str(array.dtype)))
        return array


@asynccontextmanager
async def watched_services(
    folder: Path,
    tables: Mapping[str, Sequence[LocalTable]],
    monkeypatch: Any,
    *,
    change: Any = lambda config: config,
    **options: Any,
) -> AsyncIterator[WatchedServices]:
    """Serve a federation as long as the context lasts.

    Args:
        folder: empty, for all files.
        tables: party to its tables.
        monkeypatch: lets the coordinator note what it sees.
        change: of a party's configuration before it is served.
        options: of `LocalDeployment`.
    """
    deployment = LocalDeployment(folder, tables, **options)
    deployment.write_files()
    seen: dict[str, Seen] = {}
    monkeypatch.setattr(proposal, "PartyClient", type("NotingClient", (_NotingClient,), {"seen": seen}))
    monkeypatch.setattr(runner, "GrpcSession", type("NotingSession", (_NotingSession,), {"seen": seen}))

    def credentials_of(name: str) -> Any:
        files = {"certificate": folder / f"{name}.pem", "key": folder / f"{name}.key"}
        return load_credentials(authority=folder / "ca.pem", **files)

    async with AsyncExitStack() as stack:
        for party in tables:
            config: PartyConfig = change(load_party_config(deployment.config_path(party), environ={}))
            await stack.enter_async_context(running_party(config))
        config_of_hub = CoordinatorConfig.load(deployment.config_path(COORDINATOR_NAME))
        process = CoordinatorProcess(config_of_hub, credentials_of(COORDINATOR_NAME))
        address = await process.start()
        stack.push_async_callback(process.stop)
        hub = Identity(deployment.federation, Role.COORDINATOR, COORDINATOR_NAME)
        channel = await stack.enter_async_context(open_channel(address, hub, credentials_of(ANALYST_NAME)))
        yield WatchedServices(deployment, CoordinatorClient(COORDINATOR_NAME, channel), seen)
