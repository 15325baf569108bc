"""The in-process network: real protocol code of every member in one event loop, without sockets.

For tests, simulations and the library's first steps. A `Fault` may drop, delay, repeat, reorder or alter any message.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy, InsecureTestEntropy
from mpc.errors import LocalFaultError, PeerError, PeerLostError, PeerSilentError, PeerViolationError, ProtocolError
from mpc.protocol.greeting import binding_of
from mpc.protocol.session import COORDINATOR, Array, Drawable, Session
from mpc.protocol.shards import RowWorkers

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Message:
    """One array on its way. `sequence` counts from 0 within (sender, receiver, stage)."""

    sender: int
    receiver: int
    stage: str
    sequence: int
    array: Array = field(repr=False)
    delay_s: float = 0.0

    def delayed(self, delay_s: float) -> "Message":
        """Return the same message, to arrive later."""
        return replace(self, delay_s=delay_s)

    def altered(self, array: Array) -> "Message":
        """Return the message with other content."""
        return replace(self, array=array)


Fault = Callable[[Message], Sequence[Message]]
"""Maps each sent message to what arrives: () drops it, two copies repeat it."""


def _deliver_faithfully(message: Message) -> Sequence[Message]:
    return (message,)


class LocalNetwork:
    """Queues between all members of one job.

    Args:
        names: member number to name; 0 is the coordinator.
        job_id: bound into derived keys, as in the services.
        terms_of: the terms that a member takes part by (`mpc.protocol.greeting`); all have the same by default.
        deadline_s: how long `receive` waits.
        entropy_of: the randomness of a member; the default is reproducible and insecure.
        fault: what happens to messages; the default delivers each once, in order.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        *,
        job_id: str = "local",
        terms_of: Callable[[int], bytes] = lambda member: b"",
        deadline_s: float = 30.0,
        entropy_of: Callable[[int], Entropy] = lambda member: InsecureTestEntropy(f"member {member}"),
        fault: Fault = _deliver_faithfully,
    ) -> None:
        self.names = dict(names)
        self.job_id = job_id
        self.terms_of = terms_of
        self.deadline_s = deadline_s
        self.entropy_of = entropy_of
        self.fault = fault
        self.lost: dict[int, str] = {}
        self.sent_bytes: dict[int, int] = dict.fromkeys(self.names, 0)
        self.transcript: list[Message] = []
        self.accusations: list[tuple[int, int, str, str]] = []
        self.progress_log: list[tuple[int, str, int, int]] = []
        self._arrived: dict[tuple[int, int, str], deque[Message]] = {}
        self._waiting: dict[tuple[int, int, str], list[asyncio.Future[None]]] = {}

    def session(self, member: int) -> "LocalSession":
        """Return one member's end."""
        return LocalSession(self, member)

    def kill(self, member: int) -> None:
        """Make a member drop out: no message of it arrives any more."""
        self.lost[member] = "killed"
        for stream in list(self._waiting):
            self._wake(stream)

    async def run(self, work: Mapping[int, Callable[[Session], Awaitable[Any]]]) -> dict[int, Any]:
        """Run each member's coroutine to its end; a member's `ProtocolError` is its result, other errors propagate."""

        async def one(member: int) -> Any:
            try:
                return await work[member](self.session(member))
            except ProtocolError as error:
                return error

        tasks = {member: asyncio.create_task(one(member)) for member in work}
        try:
            return dict(zip(tasks, await asyncio.gather(*tasks.values()), strict=True))
        finally:
            for task in tasks.values():
                task.cancel()

    def arrived(self, sender: int, receiver: int, stage: str) -> deque[Message]:
        """Return what has arrived of one stream and nobody has taken yet, the next message first."""
        return self._arrived.setdefault((sender, receiver, stage), deque())

    def post(self, message: Message) -> None:
        """Put a message on its way, as the fault decides."""
        if message.sender in self.lost:
            return
        self.sent_bytes[message.sender] += message.array.nbytes
        self.transcript.append(message)
        for arriving in self.fault(message):
            if arriving.delay_s:
                asyncio.get_running_loop().call_later(arriving.delay_s, self._arrive, arriving)
            else:
                self._arrive(arriving)

    async def next_message(self, sender: int, receiver: int, stage: str) -> Message:
        """Wait for the next message of one stream.

        Raises:
            PeerSilentError, PeerLostError: the sender is silent beyond the deadline, or was killed.
        """
        stream = sender, receiver, stage
        arrived = self.arrived(*stream)
        while not arrived:
            if sender in self.lost:
                raise PeerLostError(sender, stage, f"{self.names[sender]} has dropped out: {self.lost[sender]}")
            # A message stays where it has arrived until somebody who is not cancelled takes it.
            woken = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(stream, []).append(woken)
            try:
                async with asyncio.timeout(self.deadline_s):
                    await woken
            except TimeoutError:
                what = f"{self.names[sender]} sent nothing for {self.deadline_s:g} s in stage {stage}"
                raise PeerSilentError(sender, stage, what) from None
        return arrived.popleft()

    def _arrive(self, message: Message) -> None:
        stream = message.sender, message.receiver, message.stage
        self.arrived(*stream).append(message)
        self._wake(stream)

    def _wake(self, stream: tuple[int, int, str]) -> None:
        for woken in self._waiting.pop(stream, ()):
            if not woken.done():
                woken.set_result(None)


class LocalSession:
    """One member's end of a `LocalNetwork`. Implements `mpc.protocol.session.Session`."""

    def __init__(self, network: LocalNetwork, me: int) -> None:
        self.row_workers: RowWorkers | None = None
        self._network = network
        self._next_sent: dict[tuple[int, str], int] = {}
        self._next_received: dict[tuple[int, str], int] = {}
        self._given_up: dict[tuple[int, str], str] = {}
        self.me = me
        self.job_id = network.job_id
        self.binding = binding_of(network.job_id, network.names, network.terms_of(me))
        self.names: Mapping[int, str] = network.names
        self.entropy = network.entropy_of(me)
        self.progress_log: list[tuple[str, int, int]] = []

    def kept_words(self, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """Return memory."""
        return np.empty(shape, np.uint64)

    async def send(self, to: int, stage: str, message: Array) -> None:
        """Send one array; it is copied, so the sender may reuse it."""
        self._check_member(to)
        if to in self._network.lost:
            raise PeerLostError(to, stage, f"{self.names[to]} has dropped out: {self._network.lost[to]}")
        sequence = self._next_sent.get((to, stage), 0)
        self._next_sent[(to, stage)] = sequence + 1
        self._network.post(Message(self.me, to, stage, sequence, message.copy()))
        await asyncio.sleep(0)

    async def receive(self, sender: int, stage: str, shape: tuple[int, ...], dtype: type = np.uint64) -> Array:
        """Return the next array of a stage; see `Session.receive`."""
        self._check_member(sender)
        if (sender, stage) in self._given_up:
            raise PeerLostError(sender, stage, self._given_up[sender, stage])
        message = await self._network.next_message(sender, self.me, stage)
        expected = self._next_received.get((sender, stage), 0)
        self._next_received[(sender, stage)] = expected + 1
        name = self.names[sender]
        if message.sequence != expected:
            what = f"{name} sent message {message.sequence} of stage {stage} where {expected} was due"
            raise PeerViolationError(sender, stage, what)
        if message.array.shape != shape or message.array.dtype != np.dtype(dtype):
            came, due = f"{message.array.dtype} {message.array.shape}", f"{np.dtype(dtype)} {shape}"
            what = f"{name} sent {came} in stage {stage}, not {due}"
            raise PeerViolationError(sender, stage, what)
        return message.array

    async def gather(
        self, senders: Sequence[int], stage: str, shape: tuple[int, ...], *, quorum: int
    ) -> dict[int, NDArray[np.uint64]]:
        """Return one array from each sender that answers; see `Session.gather`."""
        answers = await asyncio.gather(
            *(self.receive(sender, stage, shape) for sender in senders), return_exceptions=True
        )
        arrays: dict[int, NDArray[np.uint64]] = {}
        failures: list[PeerError] = []
        for sender, answer in zip(senders, answers, strict=True):
            if isinstance(answer, PeerError):
                failures.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                arrays[sender] = answer
        if failures and len(arrays) < quorum:
            raise failures[0]
        self._given_up |= {(f.member, stage): f.what for f in failures if isinstance(f, PeerSilentError)}
        return arrays

    def _check_member(self, other: int) -> None:
        if other not in self.names or other == self.me:
            raise LocalFaultError(f"member {other} is not one that member {self.me} can send to or receive from")

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the work here and now: one process has nothing to overlap with."""
        return work(*args, **kwargs)

    async def draw(self, release: Drawable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Draw my noise; which may be drawn is the matter of a party's gate."""
        return await self.compute(release.draw, self.entropy, *args, **kwargs)

    async def commit(self) -> None:
        """Do nothing: a job in one process has no price."""

    def trust_binding(self, members: Collection[int]) -> None:
        """Do nothing: there is no gate here that would need it."""

    def accuse(self, member: int, stage: str, what: str) -> None:
        """Record the accusation."""
        self._network.accusations.append((self.me, member, stage, what))

    def progress(self, stage: str, done: int, total: int) -> None:
        """Record the progress."""
        self.progress_log.append((stage, done, total))
        self._network.progress_log.append((self.me, stage, done, total))


def local_names(n_parties: int, n_owners: int = 0) -> dict[int, str]:
    """Return names for a network of N compute parties and some input-only ones."""
    names = {COORDINATOR: "coordinator"}
    names |= {i: f"party-{i}" for i in range(1, n_parties + 1)}
    return names | {n_parties + i: f"owner-{i}" for i in range(1, n_owners + 1)}
