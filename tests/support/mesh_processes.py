"""Members of a mesh as processes of their own that can be made to die or to lie at a chosen point."""

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import connection
from pathlib import Path
from typing import Any

import numpy as np
from child_processes import PROCESSES, child_process

from demo.local_mesh import write_mesh
from mpc.arithmetic.field import ResidueField
from mpc.errors import PeerError, ProtocolError
from mpc.protocol.computation import Computation
from transport.messages.inbox import Inbox
from transport.messages.mesh import MeshConfig, join_mesh
from transport.messages.session import GrpcSession

X = np.array([3, -5, 7, 11])
Y = np.array([-2, 4, 6, 1])
RIGHT = X * Y * (X + 1)
PHASES = ("start", "input", "first layer", "second layer", "opening")
DEADLINE_S = 120.0
START_S = 300.0  # on a machine that does much else, Python takes its time to start


@dataclass(frozen=True)
class Outcome:
    """How a member's program ended. `values` is None where it failed."""

    values: list[int] | None = None
    wrong: tuple[int, ...] = ()
    dropped_out: tuple[int, ...] = ()
    error: str = ""
    culprit: int = 0
    text: str = ""


@dataclass(frozen=True)
class Fault:
    """What a member does in one phase of the program; by default nothing."""

    phase: str = ""

    async def before(self, session: "SessionWithFault", message: np.ndarray) -> np.ndarray:
        """Return what is sent instead of a message."""
        return message

    async def after(self, n_sent: int) -> None:
        """Act once so many messages of the phase have been sent."""


class SessionWithFault:
    """A member's session on which something happens in one phase of the program."""

    def __init__(self, session: GrpcSession, fault: Fault) -> None:
        self.real = session
        self.fault = fault
        self.now = ""
        self.n_sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    async def begin(self, phase: str) -> None:
        """The program comes to its next phase."""
        self.now = phase
        if phase == self.fault.phase:
            await self.fault.after(0)

    async def send(self, to: int, stage: str, message: np.ndarray) -> None:
        if self.now != self.fault.phase:
            return await self.real.send(to, stage, message)
        await self.real.send(to, stage, await self.fault.before(self, message))
        self.n_sent += 1
        return await self.fault.after(self.n_sent)


@dataclass(frozen=True)
class DieAfter(Fault):
    """SIGKILL once so many messages of the phase have been sent."""

    n_messages: int = 0

    async def after(self, n_sent: int) -> None:
        if n_sent == self.n_messages:
            await asyncio.sleep(0.3)  # what was sent leaves the process, unless the machine is slow
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class SendWrongShare(Fault):
    """One element of every message of the phase is another one."""

    async def before(self, session: SessionWithFault, message: np.ndarray) -> np.ndarray:
        if message.dtype != np.uint64 or message.size < X.size:
            return message
        wrong = message.copy()
        wrong.flat[2] ^= 1
        return wrong


@dataclass(frozen=True)
class SendWordsOutsideTheField(Fault):
    """All 64 bits of every word of the phase are set."""

    async def before(self, session: SessionWithFault, message: np.ndarray) -> np.ndarray:
        return message if message.dtype != np.uint64 else np.full_like(message, np.iinfo(np.uint64).max)


@dataclass(frozen=True)
class MultiplyWrongShare(Fault):
    """In the first layer the member multiplies another share of X than it holds."""


@dataclass(frozen=True)
class SendStrayMessages(Fault):
    """Before the phase's first message, one for another job and one for a stage that nobody asks for."""

    async def before(self, session: SessionWithFault, message: np.ndarray) -> np.ndarray:
        if session.n_sent > 0:
            return message
        share = np.zeros((1, X.size), np.uint64)
        await session.real.send(1, "computation/opening 7", share)
        other_job = GrpcSession(
            job_id="0" * 64,
            terms=b"",
            me=session.real.me,
            names=session.real.names,
            entropy=session.real.entropy,
            deadline_s=DEADLINE_S,
            inbox=Inbox(session.real.names),
            channels=session.real._channels,
            on_progress=lambda stage, done, total: None,
        )
        refused = ""
        try:
            await other_job.send(1, "computation/opening 0", share)
            await other_job.finish()
        except PeerError as error:
            refused = str(error)
        assert "there is no job" in refused
        return message


async def two_layers(c: Computation, session: SessionWithFault, multiplies_wrong: bool) -> Outcome:
    await session.begin("input")
    given = await c.inputs({1: X.shape, 2: Y.shape}, {1: X, 2: Y}.get(c.me), bound=100)
    x = given[1]
    await session.begin("first layer")
    factor = replace(x, share=c.field.add(x.share, x.share)) if multiplies_wrong else x
    product = await c.multiply(factor, given[2])
    await session.begin("second layer")
    result = await c.multiply(product, x + 1)
    await session.begin("opening")
    opened = await c.open(result, c.members)
    await session.begin("end")
    return Outcome(opened.values.tolist(), opened.wrong, opened.dropped_out)


async def run_member(config: MeshConfig, t: int, fault: Fault) -> Outcome:
    try:
        async with join_mesh(config, program="two layers") as session:
            wrapped = SessionWithFault(session, fault)
            await wrapped.begin("start")
            c = await Computation.start(wrapped, ResidueField(3), len(config.members), t)
            return await two_layers(c, wrapped, isinstance(fault, MultiplyWrongShare))
    except ProtocolError as error:
        return Outcome(error=type(error).__name__, culprit=getattr(error, "member", 0), text=str(error))


def member(file: Path, t: int, fault: Fault, results: Any) -> None:
    results.send(asyncio.run(run_member(MeshConfig.load(file), t, fault)))


def run_processes(
    folder: Path, n_parties: int, t: int, faults: Mapping[int, Fault]
) -> tuple[dict[int, Outcome], float]:
    """Run the circuit among processes.

    Returns:
        What those that lived to the end report, and the seconds from the death of another to the end of the last of
        them; from the beginning where nobody died.
    """
    files = write_mesh(folder, [f"party-{i}" for i in range(1, n_parties + 1)], deadline_s=DEADLINE_S)
    since_s = time.monotonic()
    latest_s = since_s + START_S + 5 * DEADLINE_S
    waiting: dict[Any, int] = {}
    outcomes: dict[int, Outcome] = {}
    with ExitStack() as children:
        for number, file in enumerate(files.values(), start=1):
            end, theirs = PROCESSES.Pipe(duplex=False)
            waiting[children.enter_context(end)] = number
            children.enter_context(child_process(member, file, t, faults.get(number, Fault()), theirs))
            theirs.close()
        while waiting:
            ready = connection.wait(list(waiting), timeout=max(0.0, latest_s - time.monotonic()))
            assert ready, f"parties {sorted(waiting.values())} hang"
            for end in ready:
                number = waiting.pop(end)
                try:
                    outcomes[number] = end.recv()
                except EOFError:
                    assert isinstance(faults.get(number), DieAfter), f"party {number} died without being told to"
                    since_s = time.monotonic()
        return outcomes, time.monotonic() - since_s
