"""Masked sums over a job's session: the parties are the members, and all that they say passes their gates.

The rounds are those of `mpc.secagg`; this module carries their messages and keeps their deadlines. Every message to the
coordinator goes through the session of the job, so none leaves a party before every party has committed the cost of
the job (`party.gate`); from then on parties may vanish.

A party signs with a key of its own for this job, which it tells the others over their direct channels: the
coordinator relays no keys, so it can play nobody. With the key goes the binding of the job (`mpc.protocol.greeting`):
parties that were shown different plans part before anything is said to the coordinator, and before anybody has paid.
The binding is also the public input of every round, so it is in every key that a mask is drawn from.

A round that too few have answered in time is tried again with fresh keys. At most one attempt is ever opened: each
party releases shares in one attempt only, and two attempts would need 2 n_required <= n + n_corrupt parties' shares.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from analyses.job.plan import OPENING_STAGE
from mpc.errors import OutOfRangeError, PeerError, PeerLostError, PeerSilentError, PeerViolationError, ProtocolError
from mpc.protocol.greeting import exchange_public_keys
from mpc.protocol.session import COORDINATOR, Session
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import FromMembers, SumCoordinator
from mpc.secagg.errors import TooFewMembersError
from mpc.secagg.journal import MemoryJournal
from mpc.secagg.keys import KEY_BYTES, IdentityKey
from mpc.secagg.member import SumMember
from mpc.secagg.messages import (
    Advertisement,
    MaskedInput,
    MemberList,
    SealedShares,
    ShareDelivery,
    SignedSurvivors,
    SurvivorList,
    SurvivorSignature,
    UnmaskingShares,
)
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.round_arrays import Bytes, RoundArrays
from mpc.secagg.stage import Stage

Integers = NDArray[np.int64]
ConfigOf = Callable[[int, Mapping[int, bytes]], RoundConfig]
"""The configuration of an attempt, given its number and the parties' identity keys: the same for all participants."""

NoiseOf = Callable[[Sequence[bytes]], Awaitable[Integers]]
"""A member's surplus seeds to the noise that it adds, drawn anew for each attempt."""

IDENTITY_STAGE = "signing key"
MESSAGES_FROM_VECTOR = 3
"""Of a member in one attempt, from its masked vector on: it, the signature of the survivors, and shares of keys."""

_LARGEST_ATTEMPT = 8

M = TypeVar("M")


class _Verdict(IntEnum):
    """What the coordinator says before each of its messages."""

    GOES_ON = 1
    IS_OVER = 2
    LEFT_BEHIND = 3


class LeftBehindError(ProtocolError):
    """The round goes on without us: we answered too late. Nobody else is at fault."""


class _AttemptOverError(Exception):
    """Too few answered in time; there may be another attempt."""


def stages_before_vectors(attempts: int) -> frozenset[str]:
    """Return the stages in which members send keys and sealed shares of keys: nothing of what is added up."""
    per_attempt = (_stage_name(stage, i) for stage in (Stage.ADVERTISE, Stage.SHARE) for i in range(attempts))
    return frozenset({IDENTITY_STAGE, *per_attempt})


async def exchange_identities(session: Session, identity: IdentityKey, n_parties: int) -> dict[int, bytes]:
    """Tell all parties with which key I sign; return everybody's, and tell the coordinator all of them.

    Keys go over the authenticated channels between two parties. The coordinator is told last: that passes the gate.

    Raises:
        DifferentTermsError: a party has computed another plan, or says so; nothing has been said to the coordinator
            then.
        PeerError: a party is silent or lost; likewise.

    Privacy: fresh public keys. Cost: 1 round, 64 bytes per pair and direction, 32 n_parties to the coordinator.
    """
    peers = [party for party in range(1, n_parties + 1) if party != session.me]
    keys = await exchange_public_keys(session, peers, identity.public_bytes)
    keys[session.me] = identity.public_bytes
    table = np.frombuffer(b"".join(keys[party] for party in sorted(keys)), dtype=np.uint8)
    await session.send(COORDINATOR, IDENTITY_STAGE, table.reshape(n_parties, KEY_BYTES))
    return keys


async def contribute(
    session: Session,
    config_of: ConfigOf,
    n_parties: int,
    public_input: bytes,
    values: Integers,
    noise_of: NoiseOf | None,
) -> None:
    """Do a party's part: rounds until one is opened or the coordinator gives up.

    Args:
        session: my end of the job.
        config_of: see `ConfigOf`.
        n_parties: of the job; all are members.
        public_input: what all start from: the binding of the job.
        values: what I contribute, shape (n_elements,). Secret.
        noise_of: my surplus seeds to the noise that I add; drawn anew for each attempt.

    Raises:
        LeftBehindError: we answered too late.
        ProtocolError: somebody violates the protocol, or is lost.
    """
    identity, journal = IdentityKey(session.entropy), MemoryJournal()
    identities = await exchange_identities(session, identity, n_parties)
    for attempt in range(_LARGEST_ATTEMPT + 1):
        config = await session.compute(config_of, attempt, identities)
        member = SumMember(
            config,
            session.me,
            identity=identity,
            policy=_policy_of(config),
            journal=journal,
            public_input=public_input,
            entropy=session.entropy,
        )
        try:
            await _Member(session, config, member).run(values, noise_of)
            return
        except _AttemptOverError:
            session.progress("retry", 0, 1)
    raise PeerViolationError(COORDINATOR, Stage.ADVERTISE, "the coordinator began more attempts than a sum may have")


def _policy_of(config: RoundConfig) -> MemberPolicy:
    """Return the floor of a party: it made the configuration itself, from the plan and the keys that it was told."""
    return MemberPolicy(
        pinned={entry.name: entry.identity_public for entry in config.roster},
        smallest_cohort=2,
        largest_attempt=_LARGEST_ATTEMPT,
    )


class _Member:
    """A party's half of one attempt."""

    def __init__(self, session: Session, config: RoundConfig, member: SumMember) -> None:
        self._session = session
        self._attempt = config.round_id.attempt
        self._arrays = RoundArrays(config)
        self._member = member

    async def run(self, values: Integers, noise_of: NoiseOf | None) -> None:
        session, arrays, member, compute = self._session, self._arrays, self._member, self._session.compute
        await self._answer(Stage.ADVERTISE, arrays.of_advertisement(member.advertise()))
        members = arrays.members(await self._due(Stage.SHARE, MemberList))
        await self._answer(Stage.SHARE, arrays.of_sealed(await compute(member.share_keys, members)))
        delivery = arrays.delivery(session.me, await self._due(Stage.MASK, ShareDelivery))
        noise = None if noise_of is None else await noise_of(member.surplus_seeds)
        masked = await compute(member.mask_input, delivery, values, noise)
        await self._answer(Stage.MASK, arrays.of_masked(masked))
        survivors = arrays.survivors(await self._due(Stage.AGREE, SurvivorList))
        await self._answer(Stage.AGREE, arrays.of_signature(await compute(member.sign_survivors, survivors)))
        signed = arrays.signatures(await self._due(Stage.UNMASK, SignedSurvivors))
        await self._answer(Stage.UNMASK, arrays.of_unmasking(await compute(member.unmask, signed)))
        session.progress(OPENING_STAGE, 1, 1)

    async def _answer(self, stage: Stage, array: Bytes) -> None:
        self._session.progress(OPENING_STAGE if stage is Stage.UNMASK else str(stage), 0, 1)
        await self._session.send(COORDINATOR, _stage_name(stage, self._attempt), array)

    async def _due(self, stage: Stage, kind: type) -> Bytes:
        """Return what the coordinator sends for a stage."""
        name = _stage_name(stage, self._attempt)
        verdict = int((await self._session.receive(COORDINATOR, name, (1,), np.uint8))[0])
        if verdict == _Verdict.LEFT_BEHIND:
            raise LeftBehindError(f"we answered too late: the round goes on without us from the stage {stage!s}")
        if verdict == _Verdict.IS_OVER:
            raise _AttemptOverError
        array: Bytes = await self._session.receive(COORDINATOR, name, self._arrays.shape(kind), np.uint8)
        return array


async def conduct(
    session: Session, config_of: ConfigOf, n_parties: int, public_input: bytes, *, stage_s: float, attempts: int
) -> tuple[OpenedSum, RoundConfig]:
    """Do the coordinator's part: host rounds until one is opened.

    Args:
        session: the coordinator's end of the job.
        config_of: see `ConfigOf`.
        n_parties: of the job.
        public_input: the binding of the job.
        stage_s: who has not answered a stage within so long is left behind.
        attempts: at most so many rounds.

    Returns:
        What the round came to, and its configuration.

    Raises:
        TooFewMembersError: too few answered, in the last attempt too.
        ProtocolError: the sum cannot be opened.
    """
    gone: set[int] = set()
    identities = await _hear_identities(session, n_parties, stage_s, gone)
    for attempt in range(attempts):
        config = await session.compute(config_of, attempt, identities)
        hosting = _Coordinator(session, config, public_input, stage_s, gone)
        try:
            return await hosting.run(), config
        except TooFewMembersError:
            if attempt + 1 == attempts or n_parties - len(gone) < config.topology.fewest_survivors:
                raise
            await hosting.end()
    raise AssertionError("there is at least one attempt")


async def _hear_identities(session: Session, n_parties: int, stage_s: float, gone: set[int]) -> dict[int, bytes]:
    """Return all parties' keys, also of those that have vanished since the others heard theirs.

    Before the first answer nobody is hurried: parties read their tables, and each waits for all others' commits. From
    then on all of them must be ready.
    """
    shape = (n_parties, KEY_BYTES)
    coming: dict[asyncio.Future[Any], int] = {
        asyncio.ensure_future(session.receive(party, IDENTITY_STAGE, shape, np.uint8)): party
        for party in range(1, n_parties + 1)
    }
    tables: dict[int, Bytes] = {}
    failure: PeerError | None = None
    pending: set[asyncio.Future[Any]] = set(coming)
    try:
        while pending:
            limit_s = stage_s if tables else None
            done, pending = await asyncio.wait(pending, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            for answer in done:
                try:
                    tables[coming[answer]] = answer.result()
                except (PeerLostError, PeerSilentError) as error:
                    gone.add(coming[answer])
                    failure = failure or error
    finally:
        for answer in pending:
            answer.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    if not tables:
        assert failure is not None
        raise failure
    first = next(iter(tables.values()))
    for party, table in tables.items():
        if (table != first).any():
            what = f"{session.names[party]} says that parties sign with other keys than another party says"
            raise PeerViolationError(party, IDENTITY_STAGE, what)
    return _keys_of(first)


def _keys_of(table: Bytes) -> dict[int, bytes]:
    return {party: row.tobytes() for party, row in enumerate(table, start=1)}


class _Coordinator:
    """The coordinator's half of one attempt.

    Args:
        gone: parties that are lost for good; grows.
    """

    def __init__(
        self, session: Session, config: RoundConfig, public_input: bytes, stage_s: float, gone: set[int]
    ) -> None:
        self._session = session
        self._attempt = config.round_id.attempt
        self._arrays = RoundArrays(config)
        self._machine = SumCoordinator(config, public_input)
        self._stage_s = stage_s
        self._gone = gone
        self._awaiting = dict.fromkeys(range(1, config.n_members + 1), Stage.SHARE)
        """Party to the stage for which it waits to hear from us."""

    async def run(self) -> OpenedSum:
        arrays, machine, compute = self._arrays, self._machine, self._session.compute
        await self._collect(Stage.ADVERTISE, Advertisement, arrays.advertisement)
        members = await compute(machine.close_advertising)
        present = [ad.member for ad in members.advertisements]
        await self._hand_out(Stage.SHARE, dict.fromkeys(present, arrays.of_members(members)))
        await self._collect(Stage.SHARE, SealedShares, arrays.sealed)
        deliveries = await compute(machine.close_sharing)
        await self._hand_out(Stage.MASK, {to: arrays.of_delivery(due) for to, due in deliveries.items()})
        await self._collect(Stage.MASK, MaskedInput, arrays.masked)
        survivors = await compute(machine.close_inputs)
        await self._hand_out(Stage.AGREE, dict.fromkeys(survivors.survivors, arrays.of_survivors(survivors)))
        await self._collect(Stage.AGREE, SurvivorSignature, arrays.signature)
        signed = await compute(machine.close_signatures)
        signers = [one.member for one in signed.signatures]
        await self._hand_out(Stage.UNMASK, dict.fromkeys(signers, arrays.of_signatures(signed)))
        await self._collect(Stage.UNMASK, UnmaskingShares, arrays.unmasking)
        return await compute(machine.open_sum)

    async def end(self) -> None:
        """Tell all who are still there that this attempt is over."""
        await self._tell_all({party: (stage, _verdict(_Verdict.IS_OVER)) for party, stage in self._awaiting.items()})

    async def _collect(self, stage: Stage, kind: type, read: Callable[[int, Bytes], FromMembers]) -> None:
        """Take the answers of a stage until all are there that can come, or the deadline has passed."""
        self._session.progress(OPENING_STAGE if stage is Stage.UNMASK else str(stage), 0, 1)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._stage_s
        name, shape = _stage_name(stage, self._attempt), self._arrays.shape(kind)
        coming: dict[asyncio.Future[Any], int] = {
            asyncio.ensure_future(self._session.receive(party, name, shape, np.uint8)): party
            for party in self._machine.waiting_for() - self._gone
        }
        pending: set[asyncio.Future[Any]] = set(coming)
        try:
            while pending:
                left_s = max(0.0, end_s - loop.time())
                done, pending = await asyncio.wait(pending, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                for answer in done:
                    await self._take(coming[answer], stage, answer, read)
        finally:
            for answer in pending:
                answer.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _take(
        self, party: int, stage: Stage, answer: asyncio.Future[Any], read: Callable[[int, Bytes], FromMembers]
    ) -> None:
        """Take in one answer; what the protocol does not allow counts as silence."""
        try:
            await self._session.compute(self._machine.receive, read(party, answer.result()))
        except (PeerLostError, PeerSilentError):
            self._gone.add(party)
        except (PeerError, OutOfRangeError):
            self._session.progress(f"{stage!s}: what {self._session.names[party]} sent is not used", 0, 1)

    async def _hand_out(self, stage: Stage, messages: Mapping[int, Bytes]) -> None:
        """Send what the stage before came to; who is not in it, and still there, hears that it is left behind."""
        told: dict[int, tuple[Stage, Sequence[Bytes]]] = {}
        for party, awaited in list(self._awaiting.items()):
            if party in messages:
                told[party] = (stage, (*_verdict(_Verdict.GOES_ON), messages[party]))
                self._awaiting[party] = _AFTER[stage]
            else:
                told[party] = (awaited, _verdict(_Verdict.LEFT_BEHIND))
                del self._awaiting[party]
        await self._tell_all(told)

    async def _tell_all(self, messages: Mapping[int, tuple[Stage, Iterable[Bytes]]]) -> None:
        await asyncio.gather(*(self._tell(to, *what) for to, what in messages.items() if to not in self._gone))

    async def _tell(self, party: int, stage: Stage, arrays: Iterable[Bytes]) -> None:
        try:
            async with asyncio.timeout(self._stage_s):
                for array in arrays:
                    await self._session.send(party, _stage_name(stage, self._attempt), array)
        except (PeerLostError, PeerSilentError, TimeoutError):
            self._gone.add(party)


_AFTER = {Stage.SHARE: Stage.MASK, Stage.MASK: Stage.AGREE, Stage.AGREE: Stage.UNMASK, Stage.UNMASK: Stage.DONE}


def _verdict(verdict: _Verdict) -> tuple[Bytes]:
    return (np.array([verdict], dtype=np.uint8),)


def _stage_name(stage: Stage, attempt: int) -> str:
    return OPENING_STAGE if stage is Stage.UNMASK else f"{stage!s}, attempt {attempt}"
