"""Whole rounds without a network: the real members and the real coordinator under the one driver, in one process."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy
from mpc.errors import ProtocolError
from mpc.protocol.concurrency import run_together
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import FromMembers, SumCoordinator
from mpc.secagg.drive import M, ToMember, host, take_part
from mpc.secagg.errors import AttemptOverError, LeftBehindError
from mpc.secagg.journal import MemoryJournal
from mpc.secagg.member import SumMember
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.keys import IdentityKey
from mpc.secagg.stage import Stage

Integers = NDArray[np.int64]
_ORDER = tuple(Stage)

P = ParamSpec("P")
R = TypeVar("R")


def run_locally(
    config: RoundConfig,
    values_of: Callable[[int], Integers],
    identities: Mapping[int, IdentityKey],
    entropy_of: Callable[[int], Entropy],
    *,
    policy: MemberPolicy | None = None,
    public_input: bytes = b"",
    noise_of: Callable[[int, tuple[bytes, ...]], Integers] | None = None,
    dropouts: Mapping[int, Stage] | None = None,
    meter: "Meter | None" = None,
) -> OpenedSum:
    """Run one round. It has an event loop of its own, so it cannot be called from a running one.

    Args:
        config: configuration of the round.
        values_of: member to its integers, shape (n_elements,).
        identities: member to its identity key; public halves as in the roster.
        entropy_of: member to its randomness.
        policy: policy of all members; by default one that pins the roster and asks for nothing else.
        public_input: what all members start from.
        noise_of: member and its surplus seeds to the noise that it adds.
        dropouts: member to the first stage at which it does not answer any more.
        meter: told who is about to work.

    Raises:
        ProtocolError: what a member or the coordinator raised.
    """
    watch = meter or Meter()
    policy = policy or pinning_policy(config)

    async def run() -> OpenedSum:
        with watch.coordinator():
            machine = SumCoordinator(config, public_input)
        link = LocalRound(machine, watch, dropouts or {})

        async def member(me: int) -> None:
            async def contribute(seeds: tuple[bytes, ...]) -> tuple[Integers, Integers | None]:
                return values_of(me), None if noise_of is None else noise_of(me, seeds)

            with watch.member(me):
                entered = SumMember(
                    config,
                    me,
                    identity=identities[me],
                    policy=policy,
                    journal=MemoryJournal(),
                    public_input=public_input,
                    entropy=entropy_of(me),
                )
            with suppress(LeftBehindError):
                await take_part(entered, link.member(me), contribute)

        ends = await run_together(host(machine, link), *map(member, link.present))
        opened: OpenedSum = ends[0]
        return opened

    return asyncio.run(run())


def pinning_policy(config: RoundConfig) -> MemberPolicy:
    """Return a policy that pins the roster of a round and asks for nothing else."""
    return MemberPolicy(
        pinned={entry.name: entry.identity_public for entry in config.roster},
        smallest_cohort=2,
        largest_degree=config.n_members,
        smallest_degree=2,
        largest_attempt=config.round_id.attempt,
    )


class Meter:
    """Hooks that are called when a member works or sends. This class does not measure; `bench` has one that does."""

    def sent(self, message: FromMembers) -> None:
        """Observe a message on its way to the coordinator."""

    def member(self, member: int) -> AbstractContextManager[object]:
        """Return a context in which a member works."""
        return nullcontext()

    def coordinator(self) -> AbstractContextManager[object]:
        """Return a context in which the coordinator works."""
        return nullcontext()


class LocalRound:
    """The coordinator's link in one process: a stage is over when all have answered that have not dropped out.

    Members work one after the other, in their order, so a round with given randomness always runs alike.

    Args:
        machine: state machine of the coordinator.
        watch: told who works.
        dropouts: member to the first stage at which it does not answer.
    """

    def __init__(self, machine: SumCoordinator, watch: Meter, dropouts: Mapping[int, Stage]) -> None:
        self._machine = machine
        self._watch = watch
        self._dropouts = dropouts
        self.present = [m for m in range(1, machine.config.n_members + 1) if self._stays(m, Stage.ADVERTISE)]
        """Those that answer the first stage."""
        self._due: dict[int, asyncio.Queue[ToMember | ProtocolError]] = {me: asyncio.Queue() for me in self.present}
        self._waiting = set(self.present)
        self._answers = {me: asyncio.get_running_loop().create_future() for me in self.present}
        """Member to what resolves when it has answered the stage that runs."""

    def member(self, me: int) -> "LocalMember":
        """Return the link of one member."""
        return LocalMember(self, me)

    async def collect(self, stage: Stage) -> None:
        """See `CoordinatorLink`."""
        await asyncio.gather(*(self._answers[m] for m in sorted(self._machine.waiting_for()) if self._stays(m, stage)))

    async def hand_out(self, stage: Stage, messages: Mapping[int, ToMember]) -> None:
        """See `CoordinatorLink`. Who does not stay hears that it is left behind."""
        staying = [me for me in messages if self._stays(me, stage)]
        self._answers = {me: asyncio.get_running_loop().create_future() for me in staying}
        for me in staying:
            self._due[me].put_nowait(messages[me])
        for me in self._waiting - set(staying):
            self._due[me].put_nowait(LeftBehindError(f"member {me} has dropped out at the stage {stage!s}"))
        self._waiting &= set(staying)

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """See `CoordinatorLink`."""
        with self._watch.coordinator():
            return work(*args, **kwargs)

    def end(self) -> None:
        """Tell all that are still in the round that it is over."""
        for me in self._waiting:
            self._due[me].put_nowait(AttemptOverError("too few members answered in time"))
        self._waiting = set()

    def deliver(self, me: int, message: FromMembers) -> None:
        """Take in what a member sends."""
        self._watch.sent(message)
        with self._watch.coordinator():
            self._machine.receive(message)
        self._answers[me].set_result(None)

    async def due(self, me: int) -> ToMember:
        """Wait for what is handed out to a member.

        Raises:
            LeftBehindError, AttemptOverError: nothing is.
        """
        message = await self._due[me].get()
        if isinstance(message, ProtocolError):
            raise message
        return message

    def working(self, me: int) -> AbstractContextManager[object]:
        """Return a context in which a member works."""
        return self._watch.member(me)

    def _stays(self, me: int, stage: Stage) -> bool:
        return me not in self._dropouts or _ORDER.index(self._dropouts[me]) > _ORDER.index(stage)


class LocalMember:
    """A member's link in one process."""

    def __init__(self, round_: LocalRound, me: int) -> None:
        self._round = round_
        self._me = me

    async def answer(self, stage: Stage, message: FromMembers) -> None:
        """See `MemberLink`."""
        self._round.deliver(self._me, message)

    async def receive(self, stage: Stage, kind: type[M]) -> M:
        """See `MemberLink`."""
        message = await self._round.due(self._me)
        assert isinstance(message, kind)
        return message

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """See `MemberLink`."""
        with self._round.working(self._me):
            return work(*args, **kwargs)
