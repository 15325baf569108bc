"""The links of a masked sum over a job's session (`mpc.secagg.drive`): arrays, deadlines, and who is left behind.

A party waits for the coordinator only, and the coordinator says before each of its messages whether there is one: a
party that answered too late hears so, and so do all when an attempt is over.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, ParamSpec, TypeVar

import numpy as np

from analyses.job.plan import OPENING_STAGE
from mpc.errors import OutOfRangeError, PeerError, PeerLostError, PeerSilentError
from mpc.protocol.session import COORDINATOR, Session
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import FromMembers, SumCoordinator
from mpc.secagg.drive import M, ToMember
from mpc.secagg.errors import AttemptOverError, LeftBehindError
from mpc.secagg.messages import Advertisement, MaskedInput, SealedShares, SurvivorSignature, UnmaskingShares
from mpc.secagg.round_arrays import Bytes, RoundArrays
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId

P = ParamSpec("P")
R = TypeVar("R")

NameOf = Callable[[Stage, RoundId], str]
"""What the messages of a stage of an attempt are called in the session."""

_ANSWER: Mapping[Stage, type] = {
    Stage.ADVERTISE: Advertisement,
    Stage.SHARE: SealedShares,
    Stage.MASK: MaskedInput,
    Stage.AGREE: SurvivorSignature,
    Stage.UNMASK: UnmaskingShares,
}
_AFTER = {Stage.SHARE: Stage.MASK, Stage.MASK: Stage.AGREE, Stage.AGREE: Stage.UNMASK, Stage.UNMASK: Stage.DONE}


class _Verdict(IntEnum):
    """The coordinator's verdict on a party's last answer, which precedes each of its messages."""

    GOES_ON = 1
    IS_OVER = 2
    LEFT_BEHIND = 3


def name_of_single(stage: Stage, round_id: RoundId) -> str:
    """Return the name of a stage where the session holds one round."""
    return name_of_attempt(stage, round_id.attempt)


def name_of_attempt(stage: Stage, attempt: int) -> str:
    """Return the name of a stage in one attempt of the one round."""
    return OPENING_STAGE if stage is Stage.UNMASK else f"{stage!s}, attempt {attempt}"


class SessionMember:
    """A party's link to the coordinator in one attempt; see `mpc.secagg.drive.MemberLink`."""

    def __init__(self, session: Session, config: RoundConfig, name_of: NameOf = name_of_single) -> None:
        self._session = session
        self._round_id = config.round_id
        self._arrays = RoundArrays(config)
        self._name_of = name_of

    async def answer(self, stage: Stage, message: FromMembers) -> None:
        """See `MemberLink`."""
        self._session.progress(OPENING_STAGE if stage is Stage.UNMASK else str(stage), 0, 1)
        await self._session.send(COORDINATOR, self._name_of(stage, self._round_id), self._arrays.write(message))

    async def receive(self, stage: Stage, kind: type[M]) -> M:
        """See `MemberLink`.

        Raises:
            LeftBehindError: we answered too late.
            AttemptOverError: too few answered.
        """
        name = self._name_of(stage, self._round_id)
        verdict = int((await self._session.receive(COORDINATOR, name, (1,), np.uint8))[0])
        if verdict == _Verdict.LEFT_BEHIND:
            raise LeftBehindError(f"we answered too late: the round continues without us from stage {stage!s} on")
        if verdict == _Verdict.IS_OVER:
            raise AttemptOverError("too few members answered in time")
        array = await self._session.receive(COORDINATOR, name, self._arrays.shape(kind), np.uint8)
        return self._arrays.read(kind, self._session.me, array)

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """See `MemberLink`."""
        return await self._session.compute(work, *args, **kwargs)


class SessionHost:
    """The coordinator's link to the parties in one attempt; see `mpc.secagg.drive.CoordinatorLink`.

    Args:
        session: the coordinator's end of the job.
        machine: state machine of this attempt.
        stage_s: deadline of a stage in seconds; parties that have not answered by then are left out.
        dropped_out: parties that dropped out for good; extended during the round.
        name_of: names the messages.
        late: takes the receiving of answers that did not come in time, where the session goes on after this round:
            a party whose late answer is never taken would count as lost. None: it ends with the stage.
    """

    def __init__(
        self,
        session: Session,
        machine: SumCoordinator,
        stage_s: float,
        dropped_out: set[int],
        name_of: NameOf = name_of_single,
        late: set[asyncio.Future[Any]] | None = None,
    ) -> None:
        self._session = session
        self._machine = machine
        self._round_id = machine.config.round_id
        self._arrays = RoundArrays(machine.config)
        self._stage_s = stage_s
        self._dropped_out = dropped_out
        self._name_of = name_of
        self._late = late
        self._awaiting = dict.fromkeys(range(1, machine.config.n_members + 1), Stage.SHARE)
        """The stage for which each waiting party expects our message."""

    async def end(self) -> None:
        """Notify all remaining parties that this attempt is over."""
        await self._send_all({party: (stage, _verdict(_Verdict.IS_OVER)) for party, stage in self._awaiting.items()})

    async def collect(self, stage: Stage) -> None:
        """See `CoordinatorLink`: until all answers are there that can come, or the deadline has passed."""
        self._session.progress(OPENING_STAGE if stage is Stage.UNMASK else str(stage), 0, 1)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._stage_s
        name, shape = self._name_of(stage, self._round_id), self._arrays.shape(_ANSWER[stage])
        coming: dict[asyncio.Future[Any], int] = {
            asyncio.ensure_future(self._session.receive(party, name, shape, np.uint8)): party
            for party in self._machine.waiting_for() - self._dropped_out
        }
        pending: set[asyncio.Future[Any]] = set(coming)
        try:
            while pending:
                left_s = max(0.0, end_s - loop.time())
                done, pending = await asyncio.wait(pending, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                for answer in done:
                    await self._take(coming[answer], stage, answer)
            if self._late is not None:
                self._late |= pending
                pending = set()
        finally:
            for answer in pending:
                answer.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def hand_out(self, stage: Stage, messages: Mapping[int, ToMember]) -> None:
        """See `CoordinatorLink`; who is not in `messages`, and still there, hears that it is left behind."""
        told: dict[int, tuple[Stage, Sequence[Bytes]]] = {}
        messages = dict(messages)  # each once, so that an id below names one message
        written: dict[int, Bytes] = {}  # most messages go to all
        for party, awaited in list(self._awaiting.items()):
            if party in messages:
                message = messages[party]
                if id(message) not in written:
                    written[id(message)] = self._arrays.write(message)
                told[party] = (stage, (*_verdict(_Verdict.GOES_ON), written[id(message)]))
                self._awaiting[party] = _AFTER[stage]
            else:
                told[party] = (awaited, _verdict(_Verdict.LEFT_BEHIND))
                del self._awaiting[party]
        await self._send_all(told)

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """See `CoordinatorLink`."""
        return await self._session.compute(work, *args, **kwargs)

    async def _take(self, party: int, stage: Stage, answer: asyncio.Future[Any]) -> None:
        """Process one answer; an answer that violates the protocol counts as missing."""
        try:
            message: FromMembers = self._arrays.read(_ANSWER[stage], party, answer.result())
            await self._session.compute(self._machine.receive, message)
        except (PeerLostError, PeerSilentError):
            self._dropped_out.add(party)
        except (PeerError, OutOfRangeError):
            self._session.progress(f"{stage!s}: the message of {self._session.names[party]} is not used", 0, 1)

    async def _send_all(self, messages: Mapping[int, tuple[Stage, Iterable[Bytes]]]) -> None:
        await asyncio.gather(*(self._send(to, *what) for to, what in messages.items() if to not in self._dropped_out))

    async def _send(self, party: int, stage: Stage, arrays: Iterable[Bytes]) -> None:
        try:
            async with asyncio.timeout(self._stage_s):
                for array in arrays:
                    await self._session.send(party, self._name_of(stage, self._round_id), array)
        except (PeerLostError, PeerSilentError, TimeoutError):
            self._dropped_out.add(party)


def _verdict(verdict: _Verdict) -> tuple[Bytes]:
    return (np.array([verdict], dtype=np.uint8),)
