"""Flights and bytes of a job, counted: the real code of all members, on a clock that only messages move.

A flight is one message that somebody had to wait for before the next could leave. Each message takes one unit of time
and nothing else takes any, so the time at which the job ends is the longest chain of messages, one-way.
"""

import asyncio
import selectors
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from analyses.job.job import Job
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema, Table
from analyses.registry import analysis_of
from analyses.run_locally import Part, local_network, run_plan
from mpc.local.network import Message
from mpc.protocol.session import COORDINATOR, Session
from party.gate import GatedSession


class CountingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer as soon as everybody waits; for code without sockets and threads."""

    def __init__(self) -> None:
        self._waiting = _Jumping()
        super().__init__(self._waiting)

    def time(self) -> float:
        """Return how far the clock has jumped."""
        return self._waiting.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Run the work here and now: threads would take time."""
        done = self.create_future()
        done.set_result(func(*args))
        return done


class _Jumping(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits and no message is on its way")
        if not ready and timeout:
            self.now += timeout
        return ready


@dataclass(frozen=True)
class Counted:
    """What a job took.

    Attributes:
        flights: the longest chain of messages, one-way; those with which a service proposes a job are not among them.
        links: bytes by sender and receiver: payload, without frames and TLS.
        processor_s: of all members together, in one thread, without sockets and TLS.
        n_members: of the job, the coordinator included.
        plan: of the job.
    """

    flights: int
    links: Mapping[tuple[int, int], int]
    processor_s: float
    n_members: int
    plan: Plan

    @property
    def party_bytes(self) -> int:
        """What the party sent that sent the most."""
        sent = Counter[int]()
        for (sender, _), n_bytes in self.links.items():
            sent[sender] += n_bytes
        return max(n_bytes for member, n_bytes in sent.items() if member != COORDINATOR)


def _delay(message: Message) -> float:
    """Return one flight, and so little more that messages of one stream arrive in order: equal timers have none."""
    return 1.0 + 1e-9 * message.sequence


def count(job: Job, tables: Mapping[str, Table]) -> Counted:
    """Run a job and count. Parties send through their gates, as in a service.

    Raises:
        JobError: it cannot be planned.
        ProtocolError: it failed.
    """
    schemas = [tables[name].schema if name in tables else BlockSchema(party=name) for name in job.members]
    plan = analysis_of(job).plan(job, schemas)

    def part_of(name: str) -> Part:
        async def part(session: Session) -> Any:
            gated = GatedSession.of_plan(session, plan, commit=lambda: None)
            report = await analysis_of(job).party(gated, plan, tables.get(name))
            await gated.open()
            return report

        return part

    async def counted() -> Counted:
        loop = asyncio.get_running_loop()
        started, started_s = loop.time(), time.process_time()
        network = local_network(plan, fault=lambda message: (message.delayed(_delay(message)),))
        parts = {number: part_of(name) for number, name in enumerate(job.members, start=1)}
        run = await run_plan(plan, tables, network, parts=parts)
        taken_s, flights = time.process_time() - started_s, round(loop.time() - started)
        run.result  # noqa: B018 -- raises the first error of a job that failed
        links = Counter[tuple[int, int]]()
        for message in network.transcript:
            links[message.sender, message.receiver] += message.array.nbytes
        return Counted(flights, dict(links), taken_s, len(network.names), plan)

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        return runner.run(counted())
