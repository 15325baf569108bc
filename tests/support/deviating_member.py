"""A member that deviates at one of its messages, or in one of its draws, in any job and over any network.

`DeviatingSession` stands between a member's own code and its end of the network. The member computes what the protocol
says, and up to a chosen message sends what it says. So whatever a member may send is there, but for what needs other
computations: rows beyond their bounds and products that are wrong but dealt consistently are in `deviations`.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import forked_services
import numpy as np
from lying_dealers import with_another_residue

from mpc.local.network import Message
from party.job_sessions import JobSessions

DRAWS = "draws of noise"
"""Stands for a stage: the draws of a member, one after another."""

SILENT_S = 10.0
"""Deadline of a job of these tests, in virtual time."""


@dataclass(frozen=True)
class Point:
    """Where a member deviates.

    Attributes:
        stage: stage, or `DRAWS`.
        number: of the message among those of the stage that one receiver gets.
        receiver: whom it deceives; None for all of them alike.
    """

    stage: str
    number: int
    receiver: int | None = None


@dataclass
class Sent:
    """What a member has sent, the last message last: what it may send once more."""

    arrays: list[tuple[str, int, np.ndarray]] = field(default_factory=list)

    def alike(self, stage: str, array: np.ndarray) -> np.ndarray:
        """Return an earlier message that could stand for this one, of this stage if there is one; zeros if none."""
        found = [(s == stage, a) for s, _, a in self.arrays if a.shape == array.shape and a.dtype == array.dtype]
        same = [a for is_same, a in found if is_same and not np.array_equal(a, array)]
        others = [a for _, a in found if not np.array_equal(a, array)]
        return (same or others or [np.zeros_like(array)])[-1]


Change = Callable[[str, np.ndarray, Sent], Sequence[tuple[str, np.ndarray]]]
"""From stage and message, and all before, what is sent instead: stages and messages."""


def _one_more(stage: str, array: np.ndarray, sent: Sent) -> Sequence[tuple[str, np.ndarray]]:
    """Another element in the first place, or another bit: a wrong share, a malformed proof, another face."""
    if array.dtype == np.uint64 and array.size:
        return ((stage, with_another_residue(array)),)
    other = array.copy()
    if other.size:
        other.reshape(-1)[0] ^= 1
    return ((stage, other),)


def _one_less_modulo_another_prime(stage: str, array: np.ndarray, sent: Sent) -> Sequence[tuple[str, np.ndarray]]:
    other = array.copy()
    flat = other.reshape(-1)
    if array.dtype == np.uint64 and flat.size:
        second = int(flat[-1]) >> 21 & ((1 << 21) - 1)
        flat[-1] = int(flat[-1]) - ((1 << 21) if second else 1)
    elif flat.size:
        flat[-1] ^= 128
    return ((stage, other),)


def _random(stage: str, array: np.ndarray, sent: Sent) -> Sequence[tuple[str, np.ndarray]]:
    """Elements that have nothing to do with what is due: residues below 2^20, where the message has any."""
    drawn = np.random.default_rng(array.size).integers(0, 1 << 62, array.shape, dtype=np.uint64)
    if array.dtype == np.uint64 and array.size:
        rows = array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
        used = np.bitwise_or.reduce(rows, axis=1) & np.uint64(sum(((1 << 20) - 1) << 21 * i for i in range(3)))
        drawn = (drawn.reshape(rows.shape) & used[:, None]).reshape(array.shape)
    return ((stage, drawn.astype(array.dtype)),)


CHANGES: dict[str, Change] = {
    "another element": _one_more,
    "another element of another prime": _one_less_modulo_another_prime,
    "other elements": _random,
    "zeros": lambda stage, array, sent: ((stage, np.zeros_like(array)),),
    "an earlier message": lambda stage, array, sent: ((stage, sent.alike(stage, array)),),
    "no elements": lambda stage, array, sent: ((stage, np.full_like(array, np.iinfo(array.dtype).max)),),
    "too short": lambda stage, array, sent: ((stage, array.reshape(-1)[:-1]),),
    "of another type": lambda stage, array, sent: (
        (stage, array.astype(np.uint8 if array.dtype == np.uint64 else np.uint64)),
    ),
    "twice": lambda stage, array, sent: ((stage, array), (stage, array)),
    "in another stage": lambda stage, array, sent: ((sent.arrays[0][0] if sent.arrays else "opening", array),),
    "nothing": lambda stage, array, sent: (),
}
"""What a member sends instead of a message."""

SILENCE, LATE = "silence from then on", "late"
DEVIATIONS = (*CHANGES, SILENCE, LATE)


class DeviatingSession:
    """A member's end of a job that deviates once. Everything else is that of the real session.

    Args:
        session: the real one.
        deviation: one of `DEVIATIONS`; in draws, any stands for other noise.
        point: where.
    """

    def __init__(self, session: Any, deviation: str, point: Point) -> None:
        self._session, self._deviation, self._point = session, deviation, point
        self._sent, self._numbers, self._is_silent = Sent(), {}, False
        self.n_drawn = 0
        self.has_deviated = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send(self, to: int, stage: str, message: np.ndarray) -> None:
        number = self._numbers.get((to, stage), 0)
        self._numbers[to, stage] = number + 1
        if self._is_here(stage, number, to):
            self.has_deviated = True
            if self._deviation == LATE:
                await asyncio.sleep(1.5 * SILENT_S)
            self._is_silent |= self._deviation == SILENCE
        if self._is_silent:
            return
        change = CHANGES.get(self._deviation) if self._is_here(stage, number, to) else None
        instead = change(stage, message, self._sent) if change else ((stage, message),)
        self._sent.arrays.append((stage, to, message.copy()))
        for other_stage, array in instead:
            await self._session.send(to, other_stage, array)

    async def draw(self, release: Any, *arguments: Any, **options: Any) -> Any:
        noise = await self._session.draw(release, *arguments, **options)
        number, self.n_drawn = self.n_drawn, self.n_drawn + 1
        if self._is_here(DRAWS, number, None) and isinstance(noise, np.ndarray):
            self.has_deviated = True
            return noise + 12345
        return noise

    def _is_here(self, stage: str, number: int, to: int | None) -> bool:
        point = self._point
        return (point.stage, point.number) == (stage, number) and point.receiver in (None, to)


def points_of(transcript: Sequence[Message], member: int, n_draws: int = 0) -> list[Point]:
    """Return where a member can deviate: the first and the last message of each stage, to one receiver and to all.

    Args:
        transcript: messages of a run without deviations.
        member: who deviates.
        n_draws: how often it draws noise.
    """
    receivers: dict[tuple[str, int], list[int]] = {}
    last: dict[str, int] = {}
    for message in transcript:
        if message.sender == member:
            receivers.setdefault((message.stage, message.sequence), []).append(message.receiver)
            last[message.stage] = max(last.get(message.stage, 0), message.sequence)
    found = [Point(DRAWS, number) for number in range(n_draws)]
    for (stage, number), those in receivers.items():
        if number in (0, last[stage]):
            found += [Point(stage, number, who) for who in (None, *those[:2]) if who is None or len(those) > 1]
    return found


def in_turn(points: Sequence[Point], turn: int, at_most: int | None = None) -> Iterator[tuple[Point, str]]:
    """Return points with deviations: all pairs come in the course of many turns, or at once if no limit is given."""
    pairs = [
        (point, deviation) for point in points for deviation in (DEVIATIONS[:1] if point.stage == DRAWS else DEVIATIONS)
    ]
    if at_most is None:
        yield from pairs
        return
    step = max(1, round(len(pairs) / at_most / 1.618))  # no multiple of the deviations: neighbours differ in both
    for i in range(at_most):
        yield pairs[(turn * 7919 + i * (step * 2 + 1)) % len(pairs)]


def serve_a_deviating_member(deviations: Sequence[tuple[str, Point]], *service: Any) -> None:
    """Run a party's service that deviates in each job in turn; see `forked_services.serve_in_child`.

    Args:
        deviations: of its first job, its second one and so on; later jobs have none.
        service: what is served.
    """
    due, opened = iter(deviations), JobSessions.open

    def open_deviating(self: JobSessions, *arguments: Any) -> Any:
        session, deviation = opened(self, *arguments), next(due, None)
        return session if deviation is None else DeviatingSession(session, *deviation)

    with mock.patch.object(JobSessions, "open", open_deviating):
        forked_services.serve_in_child(*service)
