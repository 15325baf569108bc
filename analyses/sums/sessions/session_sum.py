"""Masked sums over a job's session: the parties are the members, and all their messages pass their gates.

The rounds are those of `mpc.secagg.drive`, over the links of `session_link`. Every message to the
coordinator goes through the session of the job, so none leaves a party before every party has committed the cost of
the job (`party.gate`); from then on parties may drop out.

Each party signs with its own key for this job, which it sends to the others over direct channels. The coordinator
relays no keys, so it cannot impersonate a party. With the key goes the binding of the job (`mpc.protocol.greeting`):
parties that were shown different plans stop before anything is sent to the coordinator and before any cost is
committed. The binding is also the public input of every round, so it is in every key that a mask is drawn from.

A round in which too few parties answered in time is repeated with fresh keys. At most one attempt is ever opened: each
party releases shares in one attempt only, and two attempts would need 2 n_required <= n + n_corrupt parties' shares.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.plan import OPENING_STAGE
from analyses.sums.sessions.session_link import SessionHost, SessionMember, name_of_attempt
from mpc.errors import PeerError, PeerLostError, PeerSilentError, PeerViolationError
from mpc.protocol.greeting import exchange_public_keys
from mpc.protocol.session import COORDINATOR, Session
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import SumCoordinator
from mpc.secagg.drive import host, take_part
from mpc.secagg.errors import AttemptOverError, TooFewMembersError
from mpc.secagg.journal import MemoryJournal
from mpc.secagg.member import SumMember
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.round_arrays import Bytes
from mpc.secagg.secret.keys import KEY_BYTES, IdentityKey
from mpc.secagg.stage import Stage

Integers = NDArray[np.int64]
ConfigOf = Callable[[int, Mapping[int, bytes]], RoundConfig]
"""The configuration of an attempt, given its number and the parties' identity keys: the same for all participants."""

NoiseOf = Callable[[Sequence[bytes]], Awaitable[Integers]]
"""A member's surplus seeds to the noise that it adds, drawn anew for each attempt."""

IDENTITY_STAGE = "signing key"
MESSAGES_FROM_VECTOR = 3
"""Number of messages of a member in one attempt from its masked vector on: vector, signature and shares of keys."""

_MAX_ATTEMPT = 8
MAX_ATTEMPTS = _MAX_ATTEMPT + 1
"""A member takes part in no more, however many the coordinator begins; it draws noise for each."""

STAGES_BEFORE_VECTORS = frozenset(
    {IDENTITY_STAGE}
    | {name_of_attempt(stage, i) for stage in (Stage.ADVERTISE, Stage.SHARE) for i in range(MAX_ATTEMPTS)}
)
"""The stages in which members send keys and sealed shares of keys: nothing of what is added up."""


async def exchange_identities(session: Session, identity: IdentityKey, n_parties: int) -> dict[int, bytes]:
    """Send my signing key to all parties, return the keys of all, and send all of them to the coordinator.

    Keys go over the authenticated channels between two parties. The coordinator is told last: that passes the gate.

    Raises:
        DifferentTermsError: a party has computed another plan, or says so; nothing has been said to the coordinator
            then.
        PeerError: a party is silent or drops out; likewise.

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
    """Run a party's part: take part in rounds until one is opened or the coordinator gives up.

    Args:
        session: my end of the job.
        config_of: see `ConfigOf`.
        n_parties: parties of the job; all are members.
        public_input: the binding of the job, on which all parties agree.
        values: what I contribute, shape (n_elements,). Secret.
        noise_of: my surplus seeds to the noise that I add; drawn anew for each attempt.

    Raises:
        LeftBehindError: we answered too late.
        ProtocolError: somebody violates the protocol, or is lost.
    """

    async def contribute_to(seeds: tuple[bytes, ...]) -> tuple[Integers, Integers | None]:
        return values, None if noise_of is None else await noise_of(seeds)

    identity, journal = IdentityKey(session.entropy), MemoryJournal()
    identities = await exchange_identities(session, identity, n_parties)
    for attempt in range(MAX_ATTEMPTS):
        config = await session.compute(config_of, attempt, identities)
        member = SumMember(
            config,
            session.me,
            identity=identity,
            policy=policy_of(config),
            journal=journal,
            public_input=public_input,
            entropy=session.entropy,
        )
        try:
            await take_part(member, SessionMember(session, config), contribute_to)
        except AttemptOverError:
            session.progress("retry", 0, 1)
        else:
            session.progress(OPENING_STAGE, 1, 1)
            return
    raise PeerViolationError(COORDINATOR, Stage.ADVERTISE, "the coordinator began more attempts than a sum may have")


def policy_of(config: RoundConfig) -> MemberPolicy:
    """Return a party's policy. The party made the configuration itself, from the plan and the keys that it received."""
    return MemberPolicy(
        pinned={entry.name: entry.identity_public for entry in config.roster},
        smallest_cohort=2,
        largest_attempt=_MAX_ATTEMPT,
    )


async def conduct(
    session: Session, config_of: ConfigOf, n_parties: int, public_input: bytes, *, stage_s: float, attempts: int
) -> tuple[OpenedSum, RoundConfig]:
    """Do the coordinator's part: host rounds until one is opened.

    Args:
        session: the coordinator's end of the job.
        config_of: see `ConfigOf`.
        n_parties: parties of the job.
        public_input: the binding of the job.
        stage_s: deadline of a stage in seconds; parties that have not answered by then are left out.
        attempts: at most so many rounds.

    Returns:
        The outcome of the round, and its configuration.

    Raises:
        TooFewMembersError: too few answered, in the last attempt too.
        ProtocolError: the sum cannot be opened.
    """
    dropped_out: set[int] = set()
    identities = await receive_identities(session, n_parties, stage_s, dropped_out)
    for attempt in range(attempts):
        config = await session.compute(config_of, attempt, identities)
        machine = SumCoordinator(config, public_input)
        link = SessionHost(session, machine, stage_s, dropped_out)
        try:
            return await host(machine, link), config
        except TooFewMembersError:
            if attempt + 1 == attempts or n_parties - len(dropped_out) < config.topology.fewest_survivors:
                raise
            await link.end()
    raise AssertionError("there is at least one attempt")


async def receive_identities(
    session: Session, n_parties: int, stage_s: float, dropped_out: set[int]
) -> dict[int, bytes]:
    """Return all parties' keys, including those of parties that dropped out after they had sent their keys.

    There is no deadline before the first answer: parties read their tables, and each waits for all others to commit.
        After it, all parties must be ready.
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
                    dropped_out.add(coming[answer])
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
            what = f"{session.names[party]} reports signing keys that differ from those that another party reports"
            raise PeerViolationError(party, IDENTITY_STAGE, what)
    return _keys_of(first)


def _keys_of(table: Bytes) -> dict[int, bytes]:
    return {party: row.tobytes() for party, row in enumerate(table, start=1)}
