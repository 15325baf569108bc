"""Flights and bytes of a job, counted: the real code of all members, on a clock that only messages move.

A flight is one message that somebody had to wait for before the next could leave. Each message takes one unit of time
and nothing else takes any, so the time at which the job ends is the longest chain of messages, one-way.
"""

import asyncio
import selectors
import time
from collections.abc import Mapping
from dataclasses import dataclass

from analyses.job.job import Job
from analyses.job.schema import Table
from analyses.run_locally import run_locally
from mpc.local.network import Message
from mpc.protocol.session import COORDINATOR


class CountingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer as soon as everybody waits; for code without sockets and threads."""

    def __init__(self) -> None:
        self._waiting = _Jumping()
        super().__init__(self._waiting)

    def time(self) -> float:
        """Return how far the clock has jumped."""
        return self._waiting.now


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
class Traffic:
    """What a job took.

    Attributes:
        flights: the longest chain of messages, one-way; those with which a service proposes a job and commits its cost
            are not among them.
        party_bytes: what the party sent that sent the most: payload, without frames and TLS.
        processor_s: of all members together, in one thread, without sockets and TLS.
        n_members: of the job, the coordinator included.
    """

    flights: int
    party_bytes: int
    processor_s: float
    n_members: int


def _delay(message: Message) -> float:
    """Return one flight, and so little more that messages of one stream arrive in order: equal timers have none."""
    return 1.0 + 1e-9 * message.sequence


def count(job: Job, tables: Mapping[str, Table]) -> Traffic:
    """Run a job and count.

    Raises:
        JobError: it cannot be planned.
        ProtocolError: it failed.
    """

    async def counted() -> Traffic:
        loop = asyncio.get_running_loop()
        started, started_s = loop.time(), time.process_time()
        run = await run_locally(job, tables, fault=lambda message: (message.delayed(_delay(message)),))
        taken_s, flights = time.process_time() - started_s, round(loop.time() - started)
        run.result  # noqa: B018 -- raises the first error of a job that failed
        sent = run.network.sent_bytes
        most = max(n_bytes for member, n_bytes in sent.items() if member != COORDINATOR)
        return Traffic(flights, most, taken_s, len(sent))

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        return runner.run(counted())
