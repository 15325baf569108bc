"""A series of masked sums over a job's session (`mpc.secagg.series`): signing keys once, one commit, many rounds.

Everything that is said of one round in `session_sum` holds for each of these: the parties make their keys known to each
other before they say anything to the coordinator, what they say to it passes their gates, and so all rounds are paid
for before the first one begins. A party that answers too late misses the rest of an attempt, and takes part again from
the next announcement on; one that is lost to the session is lost for all rounds.

The messages of an attempt are named by round and attempt, so none is taken for that of another one.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np

from analyses.job.plan import OPENING_STAGE
from analyses.sums.sessions.session_link import SessionHost, SessionMember
from analyses.sums.sessions.session_sum import IDENTITY_STAGE, exchange_identities, policy_of, receive_identities
from mpc.errors import PeerError, PeerLostError, PeerSilentError, PeerViolationError
from mpc.protocol.session import COORDINATOR, Session
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import SumCoordinator
from mpc.secagg.journal import MemoryJournal
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.round_arrays import Bytes
from mpc.secagg.secret.keys import IdentityKey
from mpc.secagg.series import (
    AfterRound,
    Announcement,
    ContributeTo,
    Series,
    SeriesMember,
    host_series,
    take_part_in_series,
)
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId

ANNOUNCEMENT_STAGE = "next round"

_HEADER = np.dtype([("goes_on", "u1"), ("number", "<u4"), ("attempt", "<u4"), ("n_bytes", "<u4")])

ANNOUNCEMENT_BYTES = _HEADER.itemsize
"""Bytes of an announcement, besides its public input."""


@dataclass(frozen=True)
class SessionSeries:
    """What all participants of a job agree on before a series; it follows from the plan.

    Attributes:
        n_parties: parties of the job; all are members.
        n_rounds: at most so many rounds.
        attempts: attempts of each round.
        config_of: the configuration of an attempt, given also the parties' signing keys.
        max_input_bytes: no announcement has a longer public input.
    """

    n_parties: int
    n_rounds: int
    attempts: int
    config_of: Callable[[RoundId, Mapping[int, bytes]], RoundConfig]
    max_input_bytes: int = 1 << 26

    def series(self, session: Session, identities: Mapping[int, bytes]) -> Series:
        """Return the series, once the signing keys are known."""
        return Series(
            session.job_id,
            self.n_rounds,
            self.attempts,
            session.binding,
            lambda round_id: self.config_of(round_id, identities),
        )

    @property
    def max_silences(self) -> int:
        """Number of deadlines that may pass while a party waits for an announcement, as it has missed a round.

        No stage lasts longer than a deadline, there are five in an attempt, and one deadline is for what is computed
        between rounds.
        """
        return 5 * self.attempts + 1


async def contribute_to_series(session: Session, agreed: SessionSeries, contribute: ContributeTo) -> tuple[int, ...]:
    """Do a party's part in all rounds.

    Args:
        session: my end of the job.
        agreed: on by all participants.
        contribute: see `mpc.secagg.series.ContributeTo`; heavy work in it belongs into `session.compute`.

    Returns:
        Numbers of the rounds in which I answered the last stage.

    Raises:
        ProtocolError: somebody violates the protocol, or the coordinator is lost.

    Privacy: see `mpc.secagg.series`, for each round.
    Cost: one exchange of keys; then 6 messages each way per attempt.
    """
    identity = IdentityKey(session.entropy)
    identities = await exchange_identities(session, identity, agreed.n_parties)
    member = SeriesMember(session.me, identity, policy_of, MemoryJournal(), session.entropy)
    link = _PartyLink(session, agreed)
    rounds = await take_part_in_series(agreed.series(session, identities), member, link, contribute)
    session.progress(OPENING_STAGE, 1, 1)
    return rounds


async def conduct_series(
    session: Session,
    agreed: SessionSeries,
    *,
    stage_s: float,
    first_input: bytes,
    after_round: AfterRound,
    may_end_early: bool = False,
) -> tuple[OpenedSum, ...]:
    """Do the coordinator's part in all rounds.

    Args:
        session: the coordinator's end of the job.
        agreed: on by all participants.
        stage_s: deadline of a stage in seconds; parties that have not answered by then are left out.
        first_input: public input of round 0.
        after_round: see `mpc.secagg.series.AfterRound`.
        may_end_early: see `mpc.secagg.series.host_series`.

    Returns:
        What each round came to, in order.

    Raises:
        TooFewMembersError: too few answered in the last attempt of a round: of round 0, with `may_end_early`.
        ProtocolError: a sum cannot be opened.
    """
    dropped_out: set[int] = set()
    identities = await receive_identities(session, agreed.n_parties, stage_s, dropped_out)
    link = _CoordinatorLink(session, agreed, stage_s, dropped_out)
    try:
        series = agreed.series(session, identities)
        return await host_series(series, link, first_input, after_round, may_end_early=may_end_early)
    finally:
        await link.close()


def name_in_series(stage: Stage, round_id: RoundId) -> str:
    """Return the name of a stage where the session holds a series."""
    return f"{stage!s}, round {round_id.number}, attempt {round_id.attempt}"


def stages_before_vectors(n_rounds: int, attempts: int) -> frozenset[str]:
    """Return the names of what parties send the coordinator before any masked vector: keys, sealed shares of keys.

    The rest of an attempt is three messages: the vector, the signature of the survivors, and shares of keys.
    """
    ids = [RoundId("", number, attempt) for number in range(n_rounds) for attempt in range(attempts)]
    names = (name_in_series(stage, round_id) for stage in (Stage.ADVERTISE, Stage.SHARE) for round_id in ids)
    return frozenset({IDENTITY_STAGE, *names})


_AFTER_VECTORS = (Stage.MASK, Stage.AGREE, Stage.UNMASK)


@dataclass(frozen=True)
class StagesBesideVectors(Set[str]):
    """The names of all that parties send the coordinator in a series, but for a round's vectors and what follows them.

    The noise of that round has nothing to hide in them: they are keys, sealed shares of keys, and messages of other
    rounds, each of which has noise of its own.

    A plan has such a set for each of its rounds, each of which names nearly all stages of all of them; so what they
    have in common is held once.

    Attributes:
        number: number of the round.
        n_rounds: rounds of the series.
        attempts: attempts of each round.
        after: stages after the series in which the noise of this round has nothing to hide either.
    """

    number: int
    n_rounds: int
    attempts: int
    after: frozenset[str] = frozenset()

    def __contains__(self, stage: object) -> bool:
        is_of_series = stage in _all_stages(self.n_rounds, self.attempts) and stage not in self._own
        return is_of_series or stage in self.after

    def __iter__(self) -> Iterator[str]:
        return chain(_all_stages(self.n_rounds, self.attempts) - self._own, self.after)

    def __len__(self) -> int:
        return len(_all_stages(self.n_rounds, self.attempts)) - len(self._own) + len(self.after)

    @cached_property
    def _own(self) -> frozenset[str]:
        ids = [RoundId("", self.number, attempt) for attempt in range(self.attempts)]
        return frozenset(name_in_series(stage, one) for stage in _AFTER_VECTORS for one in ids)


@lru_cache(maxsize=4)
def _all_stages(n_rounds: int, attempts: int) -> frozenset[str]:
    ids = [RoundId("", number, attempt) for number in range(n_rounds) for attempt in range(attempts)]
    after = (name_in_series(stage, one) for stage in _AFTER_VECTORS for one in ids)
    return stages_before_vectors(n_rounds, attempts) | frozenset(after)


class _PartyLink:
    """See `mpc.secagg.series.MemberSeriesLink`."""

    def __init__(self, session: Session, agreed: SessionSeries) -> None:
        self._session = session
        self._agreed = agreed

    async def announced(self) -> Announcement | None:
        header = np.frombuffer((await self._patiently(_HEADER.itemsize)).tobytes(), dtype=_HEADER)[0]
        if header["goes_on"] == 0:
            return None
        n_bytes = int(header["n_bytes"])
        if header["goes_on"] != 1 or n_bytes > self._agreed.max_input_bytes:
            what = "the coordinator announces a round in a form that no announcement has"
            raise PeerViolationError(COORDINATOR, ANNOUNCEMENT_STAGE, what)
        public_input = (await self._patiently(n_bytes)).tobytes() if n_bytes else b""
        return Announcement(int(header["number"]), int(header["attempt"]), public_input)

    def enter(self, config: RoundConfig) -> SessionMember:
        return SessionMember(self._session, config, name_in_series)

    async def _patiently(self, n_bytes: int) -> Bytes:
        """Return the next array; a deadline may pass more than once, as a round that we missed lasts longer."""
        for _ in range(self._agreed.max_silences):
            try:
                array: Bytes = await self._session.receive(COORDINATOR, ANNOUNCEMENT_STAGE, (n_bytes,), np.uint8)
            except PeerSilentError as error:
                silence = error
            else:
                return array
        raise silence


class _CoordinatorLink:
    """See `mpc.secagg.series.CoordinatorSeriesLink`."""

    def __init__(self, session: Session, agreed: SessionSeries, stage_s: float, dropped_out: set[int]) -> None:
        self._session = session
        self._agreed = agreed
        self._stage_s = stage_s
        self._dropped_out = dropped_out
        self._late: set[asyncio.Future[Any]] = set()
        self._attempt: SessionHost | None = None

    def enter(self, machine: SumCoordinator) -> SessionHost:
        self._attempt = SessionHost(
            self._session, machine, self._stage_s, self._dropped_out, name_of=name_in_series, late=self._late
        )
        return self._attempt

    async def announce(self, announcement: Announcement | None) -> None:
        self._drop_late()
        arrays = _announced(announcement)
        await asyncio.gather(
            *(
                self._tell(party, arrays)
                for party in range(1, self._agreed.n_parties + 1)
                if party not in self._dropped_out
            )
        )

    async def end_attempt(self) -> None:
        assert self._attempt is not None
        await self._attempt.end()

    async def close(self) -> None:
        """Stop waiting for answers that did not come in time."""
        for answer in self._late:
            answer.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)

    def _drop_late(self) -> None:
        """Forget the answers that came too late, so that they take no memory."""
        for answer in [answer for answer in self._late if answer.done()]:
            self._late.discard(answer)
            with suppress(PeerError):
                answer.result()

    async def _tell(self, party: int, arrays: tuple[Bytes, ...]) -> None:
        try:
            async with asyncio.timeout(self._stage_s):
                for array in arrays:
                    await self._session.send(party, ANNOUNCEMENT_STAGE, array)
        except (PeerLostError, PeerSilentError, TimeoutError):
            self._dropped_out.add(party)


def _announced(announcement: Announcement | None) -> tuple[Bytes, ...]:
    header = np.zeros(1, dtype=_HEADER)
    if announcement is None:
        return (np.frombuffer(header.tobytes(), dtype=np.uint8),)
    public_input = announcement.public_input
    header[0] = (1, announcement.number, announcement.attempt, len(public_input))
    arrays = (np.frombuffer(header.tobytes(), dtype=np.uint8), np.frombuffer(public_input, dtype=np.uint8))
    return arrays if public_input else arrays[:1]
