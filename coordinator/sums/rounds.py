"""The rounds of masked sums that this coordinator hosts: when stages end, and which message each member gets next.

A round lives in memory only. A coordinator that restarts knows none of its earlier rounds: members hear that, leave
them, and can never be asked again for the same round (their journals see to it). Its identifier is drawn at random, so
no later round is taken for it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import structlog

from mpc.errors import ProtocolError
from mpc.protocol.concurrency import run_to_its_end
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import FromMembers, SumCoordinator
from mpc.secagg.drive import ToMember, host
from mpc.secagg.messages import Advertisement, MaskedInput
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId
from service.codes.coded_text import told
from service.errors import NotAllowedError, NotFoundError, TooMuchError
from service.identity import Identity
from transport.aggregation import STEP_OF, RoundStep, longest_answer_bytes
from transport.happenings import StageReport
from transport.refusal import Declined, Refusals, WhyRefused, counted
from transport.sum_codec import Ended, Invitation, ToMembers

MAX_ROUNDS = 16
"""Largest number of rounds that run at the same time."""
MAX_PLACES_REMEMBERED = 4096
"""Number of past rounds whose position in the order is remembered; an older round counts as the first."""
LINGER_S = 60.0
"""Seconds after the end of a round during which members may still fetch its outcome."""

P = ParamSpec("P")
R = TypeVar("R")

_log = structlog.get_logger(__name__)


@dataclass
class HostedRound:
    """One round: the coordinator's link (`mpc.secagg.drive`) to members that only dial out.

    A stage is over when all have answered or declined; when enough have answered, or too many have declined, and nobody
    has said anything for a while; or when its deadline has passed. With fewer answers than its quorum (see `Topology`)
    the round ends then, for all.

    Attributes:
        config: configuration of the round.
        public_input: what all members start from.
        stage_s: the deadline of each stage.
        on_stage: called for each stage that is over.
        take: called with the opened sum, in a thread, before members hear of the end; returns what they are told then.
        give_up: called where the round cannot be brought to an end; returns what members are told beside the reason.
        grace_s: once enough have answered a stage, or too many have declined, it is over when nobody has said anything
            for so long; None for a third of `stage_s`.
        is_infeasible: set where so many have declined that the round can only fail, and so can any other attempt of it.
    """

    config: RoundConfig
    public_input: bytes = field(repr=False)
    stage_s: float
    on_stage: Callable[[StageReport], None] = lambda report: None
    take: Callable[[OpenedSum], bytes] = lambda opened: b""
    give_up: Callable[[ProtocolError], bytes] = lambda error: b""
    grace_s: float | None = None

    def __post_init__(self) -> None:
        self._coordinator = SumCoordinator(self.config, self.public_input)
        self._numbers = {entry.name: entry.number for entry in self.config.roster}
        self._due: dict[RoundStep, Mapping[int, ToMembers]] = {}
        self._ended: Ended | None = None
        self._declined: dict[int, WhyRefused] = {}
        self.is_infeasible = False
        self._handed_out = {step: asyncio.Event() for step in RoundStep}
        self._arrived = asyncio.Event()
        self._turn = asyncio.Lock()  # the machine works in threads, one step at a time
        self.longest_answer_bytes = longest_answer_bytes(self.config)
        invitation = Invitation(self.config.round_id, self.config.roster, self.public_input)
        self._due[RoundStep.INVITATION] = dict.fromkeys(self._numbers.values(), invitation)

    @property
    def is_over(self) -> bool:
        """Whether the round has ended, one way or the other."""
        return self._ended is not None

    async def run(self) -> OpenedSum:
        """Run the round to its end.

        Raises:
            ProtocolError: it cannot be brought to an end; the text says why, and members are told.
        """
        try:
            opened = await host(self._coordinator, self)
            outcome = await self.compute(self.take, opened)
        except ProtocolError as error:
            self.end(told(error), self.give_up(error))
            raise
        except BaseException:
            self.end("the coordinator gave up the round")
            raise
        self.end("", outcome)
        return opened

    def end(self, reason: str, outcome: bytes = b"") -> None:
        """End the round for its members; an empty reason says that the sum was opened. Only the first end counts."""
        if self._ended is None:
            self._ended = Ended(reason, outcome)
            if reason:
                self._coordinator.abort(reason)
            for handed_out in self._handed_out.values():
                handed_out.set()
            self._arrived.set()

    @property
    def refusals(self) -> Refusals:
        """How many members have declined, by the class of their reason."""
        return counted(self._declined.values())

    async def receive(self, name: str, message: FromMembers | Declined) -> None:
        """Take in a member's message. A member that declines is not waited for; it can do so before it has entered.

        Args:
            name: name in the caller's certificate.
            message: message as it came.

        Raises:
            NotAllowedError: the caller is not the member that the message names.
            ProtocolError: see `SumCoordinator.receive`.
        """
        if self._numbers.get(name) != message.member:
            raise NotAllowedError(f"{name} is not member {message.member} of {self.config.round_id}")
        if isinstance(message, Declined):
            if self._coordinator.stage is Stage.ADVERTISE and message.member in self._coordinator.waiting_for():
                self._declined.setdefault(message.member, message.why)
                self._arrived.set()
            return
        try:
            if isinstance(message, MaskedInput):  # work that grows with the vector
                await self.compute(self._coordinator.receive, message)
            else:
                async with self._turn:
                    self._coordinator.receive(message)
            if isinstance(message, Advertisement):
                self._declined.pop(message.member, None)
        finally:  # also if the caller has disconnected: its message was processed nevertheless
            self._arrived.set()

    def due(self, name: str, step: RoundStep) -> ToMembers | None:
        """Return what is due to a member at a step, or None while it is not known yet."""
        if step in self._due and (message := self._due[step].get(self._numbers[name])) is not None:
            return message
        if self._ended is not None:
            return self._ended
        if step in self._due:
            return Ended(f"{name} did not answer in time and counts as dropped out")
        return None

    def includes(self, name: str) -> bool:
        """Return whether a member is in the roster."""
        return name in self._numbers

    def invites(self, name: str) -> bool:
        """Return whether a member may still enter."""
        return self.includes(name) and self._ended is None and RoundStep.MEMBERS not in self._due

    async def wait(self, step: RoundStep) -> None:
        """Wait until something is due at a step. Everybody is woken once: when it is known, or the round has ended."""
        while step not in self._due and self._ended is None:
            await self._handed_out[step].wait()

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """See `mpc.secagg.drive.CoordinatorLink`: in a thread, one call at a time."""
        async with self._turn:
            return await run_to_its_end(work, *args, **kwargs)

    async def collect(self, stage: Stage) -> None:
        """See `mpc.secagg.drive.CoordinatorLink`: until all have answered or the deadline of the stage has passed."""
        n_expected, started_s = self._coordinator.n_missing, time.monotonic()
        grace_s = self.stage_s / 3 if self.grace_s is None else self.grace_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.stage_s):
                while n_awaited := self._n_awaited():
                    is_decided = self._coordinator.has_quorum() or self._is_infeasible_now()
                    async with asyncio.timeout(grace_s if is_decided else None):
                        await self._fewer_than(n_awaited)
        self.is_infeasible = self._is_infeasible_now()
        missing = self._coordinator.waiting_for() - self._declined.keys()
        names = tuple(self.config.name_of(member) for member in sorted(missing))
        seconds = time.monotonic() - started_s
        _log.info("stage is over", round=str(self.config.round_id), stage=str(stage), n_missing=len(names))
        refused = self.refusals if stage is Stage.ADVERTISE else ()
        n_answers = n_expected - self._coordinator.n_missing
        self.on_stage(StageReport(str(stage), seconds, n_answers, names, refused))

    def _is_infeasible_now(self) -> bool:
        return self._coordinator.is_infeasible(len(self._declined))

    def _n_awaited(self) -> int:
        n_declined = len(self._declined) if self._coordinator.stage is Stage.ADVERTISE else 0
        return self._coordinator.n_missing - n_declined

    async def _fewer_than(self, n_awaited: int) -> None:
        while self._n_awaited() >= n_awaited:
            self._arrived.clear()
            await self._arrived.wait()

    async def hand_out(self, stage: Stage, messages: Mapping[int, ToMember]) -> None:
        """See `mpc.secagg.drive.CoordinatorLink`: members fetch what is due to them."""
        self._due[STEP_OF[stage]] = messages
        self._handed_out[STEP_OF[stage]].set()


class HostedRounds:
    """All rounds of one coordinator. Implements `transport.aggregation.Rounds`.

    Rounds know their members by name. Callers are known by role and name, so whoever calls is looked up here first.

    Args:
        members: who may take part in rounds; no two of one name.
    """

    def __init__(self, members: Iterable[Identity]) -> None:
        self._members = frozenset(members)
        self._rounds: dict[RoundId, HostedRound] = {}
        self._places: dict[RoundId, int] = {}
        self._n_hosted = 0
        self._new = asyncio.Event()
        self._room = asyncio.Semaphore(MAX_ROUNDS)

    async def run(self, hosted: HostedRound) -> OpenedSum:
        """Host a round from its beginning to its end; wait for room first, as members may have paid for earlier rounds.

        Raises:
            ProtocolError: see `HostedRound.run`.
        """
        async with self._room:
            return await self._run(hosted)

    async def _run(self, hosted: HostedRound) -> OpenedSum:
        round_id = hosted.config.round_id
        self._rounds[round_id] = hosted
        self._n_hosted += 1
        self._places[round_id] = self._n_hosted
        if len(self._places) > MAX_PLACES_REMEMBERED:
            del self._places[next(iter(self._places))]
        self._new.set()
        self._new = asyncio.Event()
        try:
            return await hosted.run()
        finally:
            asyncio.get_running_loop().call_later(LINGER_S, self._rounds.pop, round_id, None)

    def check_room(self) -> None:
        """Refuse a round more where too many run; raises `TooMuchError`."""
        if self._room.locked():
            raise TooMuchError(f"{MAX_ROUNDS} masked sums run here already; try again later")

    def end_all(self, reason: str) -> None:
        """End all rounds, for instance because the coordinator stops."""
        for hosted in self._rounds.values():
            hosted.end(reason)

    def longest_answer_bytes(self, caller: Identity) -> int:
        """See `transport.aggregation.Rounds`."""
        name = self._name_of(caller)
        longest = [hosted.longest_answer_bytes for hosted in self._rounds.values() if hosted.includes(name)]
        if not longest:
            raise NotFoundError(
                f"this coordinator has no round of {name}: the round has ended, or the coordinator was restarted"
            )
        return max(longest)

    async def receive(self, caller: Identity, message: FromMembers | Declined) -> None:
        """See `transport.aggregation.Rounds`."""
        name = self._name_of(caller)
        await self._known(message.round_id, name).receive(name, message)

    async def wait(self, caller: Identity, round_id: RoundId, step: RoundStep, patience_s: float) -> None:
        """See `transport.aggregation.Rounds`."""
        name = self._name_of(caller)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                if step is not RoundStep.INVITATION:
                    await self._known(round_id, name).wait(step)
                    return
                while self._invitation(name, round_id) is None:
                    await self._new.wait()

    def due(self, caller: Identity, round_id: RoundId, step: RoundStep) -> ToMembers | None:
        """See `transport.aggregation.Rounds`."""
        name = self._name_of(caller)
        if step is RoundStep.INVITATION:
            return self._invitation(name, round_id)
        return self._known(round_id, name).due(name, step)

    def _invitation(self, name: str, last: RoundId) -> ToMembers | None:
        """Return that to a round that began after `last`, so that a member is invited to each round only once.

        The call may be repeated and then returns the same round. A caller that names no round, or an unknown one, is
        invited to all open rounds in their order.
        """
        after = self._places.get(last, -1)
        for round_id, hosted in self._rounds.items():
            if self._places.get(round_id, 0) > after and hosted.invites(name):
                return hosted.due(name, RoundStep.INVITATION)
        return None

    def check_caller(self, caller: Identity) -> None:
        """Refuse callers that are not members of masked sums here.

        Raises:
            NotAllowedError: names the caller.
        """
        self._name_of(caller)

    def _name_of(self, caller: Identity) -> str:
        if caller not in self._members:
            raise NotAllowedError(f"{caller} is not a member of the masked sums of this coordinator (sum_members)")
        return caller.name

    def _known(self, round_id: RoundId, name: str) -> HostedRound:
        hosted = self._rounds.get(round_id)
        if hosted is None or not hosted.includes(name):
            raise NotFoundError(
                f"this coordinator has no {round_id} of {name}: the round has ended, or the coordinator was restarted"
            )
        return hosted
