"""A series of masked sums in one session: members agree on their identity keys once, and then sum round after round.

Before each attempt of a round the coordinator announces it to all members: its number, the attempt, and the public
input, which it may make from the sums opened before. Each member that is there enters it; one that drops out, or that
answers too late, waits for the next announcement and enters again. The five stages are those of `drive`.

Nothing of one attempt is of use in another. Fresh keys are drawn for each, and every key, commitment, signature and
sealed message is derived, signed or sealed under the attempt's `RoundId`: session, round and attempt
(`mpc.transcript.context`). A replayed message is refused by name (`WrongRoundError`); one that is relabelled is of keys
that nobody advertised, or is not signed (`ForgedSignatureError`, `InvalidSetError`, `SplitMembersError`).

What a member holds the coordinator to: rounds and attempts only ever ascend; no round is after the last one agreed on;
and all members of a round have the same public input, as each signs its digest (`DifferentInputError`). By the journal
a member releases shares in one attempt of each round only, so at most one sum of each round is opened, as for a single
round. Sums of different survivors over the same vectors can be subtracted from each other, so a series protects a
member only by its noise, and what all its rounds cost together is the matter of whoever fixes that.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy
from mpc.errors import LocalFaultError, PeerViolationError, TooFewSharesError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import SumCoordinator
from mpc.secagg.drive import CoordinatorLink, MemberLink, host, take_part
from mpc.secagg.errors import AttemptOverError, LeftBehindError, TooFewMembersError
from mpc.secagg.journal import MemberJournal
from mpc.secagg.member import SumMember
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.keys import IdentityKey
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId, encode_fields

Integers = NDArray[np.int64]

MAX_ROUNDS = 1 << 12
"""Largest number of rounds of a series: each attempt and kind of message takes a stage, whose number per session is
bounded."""


@dataclass(frozen=True)
class Series:
    """What all members and the coordinator agree on before the first round. Public.

    Attributes:
        session: a text that never repeats; each round is named by it.
        n_rounds: maximum number of rounds.
        attempts: attempts of each round before the series fails because too few members answer.
        binding: what all have in common, as the hash of the job's terms. It is in every round's public input.
        config_of: the configuration of an attempt.

    Raises:
        LocalFaultError: the numbers are out of range.
    """

    session: str
    n_rounds: int
    attempts: int
    binding: bytes
    config_of: Callable[[RoundId], RoundConfig]

    def __post_init__(self) -> None:
        if not 1 <= self.n_rounds <= MAX_ROUNDS or self.attempts < 1:
            raise LocalFaultError(f"a series has 1 to {MAX_ROUNDS} rounds and at least one attempt of each")

    def config(self, number: int, attempt: int) -> RoundConfig:
        """Return the configuration of an attempt.

        Raises:
            LocalFaultError: `config_of` returned that of another one.
        """
        round_id = RoundId(self.session, number, attempt)
        config = self.config_of(round_id)
        if config.round_id != round_id:
            raise LocalFaultError(f"the configuration is of {config.round_id}, not of {round_id}")
        return config

    def input_of(self, public_input: bytes) -> bytes:
        """Return what the keys of a round are bound to: what all have in common, and the round's own input."""
        return encode_fields("series", self.binding, public_input)


@dataclass(frozen=True)
class Announcement:
    """Coordinator to members: an attempt of a round begins.

    Attributes:
        number: number of the round, from 0.
        attempt: attempt at the round, from 0.
        public_input: what all members of the round start from; public.
    """

    number: int
    attempt: int
    public_input: bytes = field(repr=False)


class MemberSeriesLink(Protocol):
    """How one member reaches the coordinator through a series."""

    async def announced(self) -> Announcement | None:
        """Wait for the next announcement; None when the series has ended."""

    def enter(self, config: RoundConfig) -> MemberLink:
        """Return the link of one attempt. Its `receive` raises `LeftBehindError` or `AttemptOverError`."""


class CoordinatorSeriesLink(Protocol):
    """How the coordinator reaches the members through a series."""

    async def announce(self, announcement: Announcement | None) -> None:
        """Send an announcement to all members that can still be reached; None: the series has ended."""

    def enter(self, machine: SumCoordinator) -> CoordinatorLink:
        """Return the link of one attempt."""

    async def end_attempt(self) -> None:
        """Tell all that are still in the attempt that too few answered."""


ContributeTo = Callable[[Announcement, tuple[bytes, ...]], Awaitable[tuple[Integers, Integers | None]]]
"""From an announcement and the member's surplus seeds to its values and noise; as `drive.Contribute`."""

AfterRound = Callable[[RoundConfig, OpenedSum], Awaitable[bytes | None]]
"""From a round's configuration and its opened sum to the next round's public input; None ends the series early.

Noise in excess is still in the sum (`OpenedSum.surplus_seeds`).
"""


@dataclass(frozen=True)
class SeriesMember:
    """What a member has all through a series.

    Attributes:
        me: my number.
        identity: my key; one for all rounds.
        policy_of: my floor, given the configuration of an attempt.
        journal: my memory; one for all rounds.
        entropy: where my randomness comes from.
    """

    me: int
    identity: IdentityKey
    policy_of: Callable[[RoundConfig], MemberPolicy]
    journal: MemberJournal
    entropy: Entropy


async def take_part_in_series(
    series: Series, member: SeriesMember, link: MemberSeriesLink, contribute: ContributeTo
) -> tuple[int, ...]:
    """Take a member through a series.

    Args:
        series: the agreed series.
        member: who I am.
        link: link to the coordinator.
        contribute: see `ContributeTo`; called at most once per attempt, when the round's keys are agreed.

    Returns:
        Numbers of the rounds in which I answered the last stage, ascending.

    Raises:
        PeerViolationError: the coordinator announces a round that is not due, or somebody violates the protocol.
    """
    last, rounds = (0, -1), []
    while (announced := await link.announced()) is not None:
        now = (announced.number, announced.attempt)
        if now <= last or announced.number >= series.n_rounds or announced.attempt >= series.attempts:
            what = f"the coordinator announces attempt {now[1]} of round {now[0]}, which is not due: replayed?"
            raise PeerViolationError(COORDINATOR, Stage.ADVERTISE, what)
        last = now
        config = series.config(*now)
        machine = SumMember(
            config,
            member.me,
            identity=member.identity,
            policy=member.policy_of(config),
            journal=member.journal,
            public_input=series.input_of(announced.public_input),
            entropy=member.entropy,
        )

        async def contribute_now(
            seeds: tuple[bytes, ...], announced: Announcement = announced
        ) -> tuple[Integers, Integers | None]:
            return await contribute(announced, seeds)

        try:
            await take_part(machine, link.enter(config), contribute_now)
        except (LeftBehindError, AttemptOverError):
            continue
        rounds.append(announced.number)
    return tuple(rounds)


async def host_series(
    series: Series,
    link: CoordinatorSeriesLink,
    first_input: bytes,
    after_round: AfterRound,
    *,
    may_end_early: bool = False,
) -> tuple[OpenedSum, ...]:
    """Take the coordinator through a series.

    Args:
        series: the agreed series.
        link: link to the members.
        first_input: the public input of round 0.
        after_round: see `AfterRound`.
        may_end_early: whether a round after round 0 in which too few answer ends the series in good order: members
            hear that it is over, and the rounds before it are the result.

    Returns:
        What each round came to, in order.

    Raises:
        TooFewMembersError, TooFewSharesError: too few answered in the last attempt of a round: of round 0, with
            `may_end_early`.
        ProtocolError: a sum cannot be opened.
    """
    found: list[OpenedSum] = []
    public_input: bytes | None = first_input
    for number in range(series.n_rounds):
        if public_input is None:
            break
        try:
            config, opened = await _host_round(series, number, public_input, link)
        except TooFewMembersError:
            if not may_end_early or not found:
                raise
            await link.end_attempt()
            break
        except TooFewSharesError:
            if not may_end_early or not found:
                raise
            break  # members that have answered the last stage wait for the next announcement already
        found.append(opened)
        public_input = await after_round(config, opened)
    await link.announce(None)
    return tuple(found)


async def _host_round(
    series: Series, number: int, public_input: bytes, link: CoordinatorSeriesLink
) -> tuple[RoundConfig, OpenedSum]:
    for attempt in range(series.attempts):
        config = series.config(number, attempt)
        machine = SumCoordinator(config, series.input_of(public_input))
        in_attempt = link.enter(machine)
        await link.announce(Announcement(number, attempt, public_input))
        try:
            return config, await host(machine, in_attempt)
        except TooFewMembersError:
            if attempt + 1 == series.attempts:
                raise
            await link.end_attempt()
    raise AssertionError("there is at least one attempt")
