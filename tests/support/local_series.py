"""Runs a series of rounds of masked sums in this process, over links that let members drop out of an attempt."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy
from mpc.protocol.concurrency import run_together
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import SumCoordinator
from mpc.secagg.journal import MemoryJournal
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.secret.keys import IdentityKey
from mpc.secagg.series import Announcement, Series, SeriesMember, host_series, take_part_in_series
from mpc.secagg.simulation import LocalMember, LocalRound, Meter, pinning_policy
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId

Integers = NDArray[np.int64]


def run_series_locally(
    series: Series,
    contribute: Callable[[int, Announcement, tuple[bytes, ...]], tuple[Integers, Integers | None]],
    identities: Mapping[int, IdentityKey],
    entropy_of: Callable[[int], Entropy],
    *,
    first_input: bytes = b"",
    after_round: Callable[[RoundConfig, OpenedSum], bytes | None] = lambda config, opened: b"",
    dropouts_in: Callable[[RoundId], Mapping[int, Stage]] = lambda round_id: {},
) -> tuple[tuple[OpenedSum, ...], dict[int, tuple[int, ...]]]:
    """Run a series of rounds; see `run_locally` for what is not said here.

    Args:
        series: series of the rounds.
        contribute: member, announcement of the attempt and surplus seeds to its values and noise.
        identities: member to its identity key.
        entropy_of: member to its randomness.
        first_input: the public input of round 0.
        after_round: to the next public input; None ends the series.
        dropouts_in: dropouts of an attempt: member to the first stage at which it does not answer. It comes back after
            it.

    Returns:
        What each round came to, and member to the numbers of the rounds that it took part in to the end.
    """

    async def run() -> tuple[tuple[OpenedSum, ...], dict[int, tuple[int, ...]]]:
        link = LocalSeries(identities, dropouts_in)

        async def member(me: int) -> tuple[int, ...]:
            async def contribute_now(
                announced: Announcement, seeds: tuple[bytes, ...]
            ) -> tuple[Integers, Integers | None]:
                return contribute(me, announced, seeds)

            who = SeriesMember(me, identities[me], pinning_policy, MemoryJournal(), entropy_of(me))
            return await take_part_in_series(series, who, link.member(me), contribute_now)

        async def next_input(config: RoundConfig, opened: OpenedSum) -> bytes | None:
            return after_round(config, opened)

        numbers = sorted(identities)
        ends = await run_together(host_series(series, link, first_input, next_input), *map(member, numbers))
        return ends[0], dict(zip(numbers, ends[1:], strict=True))

    return asyncio.run(run())


class LocalSeries:
    """The coordinator's link to all members of a series in one process.

    Args:
        members: their numbers.
        dropouts_in: see `run_series_locally`.
    """

    def __init__(self, members: Iterable[int], dropouts_in: Callable[[RoundId], Mapping[int, Stage]]) -> None:
        self._dropouts_in = dropouts_in
        self._announced: dict[int, asyncio.Queue[Announcement | None]] = {me: asyncio.Queue() for me in members}
        self.round: LocalRound | None = None

    def member(self, me: int) -> "LocalSeriesMember":
        """Return the link of one member."""
        return LocalSeriesMember(self, me)

    def enter(self, machine: SumCoordinator) -> LocalRound:
        """See `CoordinatorSeriesLink`."""
        self.round = LocalRound(machine, Meter(), self._dropouts_in(machine.config.round_id))
        return self.round

    async def announce(self, announcement: Announcement | None) -> None:
        """See `CoordinatorSeriesLink`. Who is not there at the first stage misses it."""
        there = self._announced if announcement is None or self.round is None else self.round.present
        for me in there:
            self._announced[me].put_nowait(announcement)

    async def end_attempt(self) -> None:
        """See `CoordinatorSeriesLink`."""
        assert self.round is not None
        self.round.end()

    async def next_announcement(self, me: int) -> Announcement | None:
        """Wait for the next announcement to a member."""
        return await self._announced[me].get()


class LocalSeriesMember:
    """A member's link to the series in one process."""

    def __init__(self, series: LocalSeries, me: int) -> None:
        self._series = series
        self._me = me

    async def announced(self) -> Announcement | None:
        """See `MemberSeriesLink`."""
        return await self._series.next_announcement(self._me)

    def enter(self, config: RoundConfig) -> LocalMember:
        """See `MemberSeriesLink`."""
        assert self._series.round is not None
        return self._series.round.member(self._me)
