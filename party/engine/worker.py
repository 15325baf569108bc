"""A worker: its endpoint, and the attempts at shards that it works on. It knows no coordinator and no ledger.

It answers workers of other parties only, and only those of an attempt that its own party has ordered; it calls nobody
else, and those only at addresses on the hosts that its owner names, or by its owner's relays where a party only dials
out. Where its worker listens, a party hears from the
other party alone: without this rule another member could let our workers dial anything in our network, and read in how
the attempt ended what listens there. A worker's certificate is that of `worker/PARTY`, which no party and no
coordinator takes a call from (`PERMISSIONS` of `party.server`, deny by default), but to be asked for its health. So
whoever takes over a worker's host learns its shares and its party's rows, and cannot speak for the party: not open, not
commit, not propose.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import structlog

from analyses.job.job import Job
from analyses.job.schema import BlockSchema
from analyses.registry import analysis_of
from analyses.rows.joint_computation import gram_of_shard
from analyses.rows.own_rows import OwnRows
from analyses.rows.row_plan import RowPlan
from entropy import SystemEntropy
from mpc.errors import (
    LocalFaultError,
    PeerError,
    PeerLostError,
    PeerSilentError,
    PeerSlowError,
    PeerViolationError,
)
from mpc.protocol.exchange import CONFIRMATION_STAGE
from mpc.protocol.greeting import GREETING_STAGE, DifferentTermsError
from mpc.protocol.operations.rows import ROWS_STAGE
from mpc.protocol.session import Array
from party.engine.order import Answer, ShardOrder, WorkerSettings, unpacked
from party.engine.row_stream import RowStream
from party.tables.config import TableConfig
from party.tables.sources.source import SourceError
from service.authorization import Permissions
from service.errors import ServiceError, UnreachableError
from service.identity import Identity, Role
from service.reach.addresses import BY_RELAY
from service.reach.hosts import is_on_hosts
from service.reach.relays import ByRelays, Way, drawn_endpoint_name, endpoint_in
from service.server import ListenError, Server
from service.tls import Credentials, CredentialsError, credentials_of
from transport.calls.channel import open_channel
from transport.calls.way import wait_until_reachable
from transport.messages.frames import DELIVER
from transport.messages.inbox import Inbox
from transport.messages.mailbox import Mailboxes, MailboxService
from transport.messages.session import GrpcSession
from transport.relay.member import StayConnected

STAGES = frozenset({GREETING_STAGE, CONFIRMATION_STAGE, ROWS_STAGE})
"""The only stages in which a worker sends anything: keys, and shares of rows. Nothing is opened in any of them."""

REACH_STAGE = "reaching workers"
REACH_S = 30.0
"""Limit for a worker to reach those of the other parties, which listen already."""

MAX_ATTEMPTS_KEPT = 1024
"""Attempts that a worker expects or works on at once."""

FAILURES: Mapping[type[PeerError], str] = {
    DifferentTermsError: "PeerViolationError",
    PeerViolationError: "PeerViolationError",
    PeerSlowError: "PeerSlowError",
    PeerSilentError: "PeerSilentError",
    PeerLostError: "PeerLostError",
}

log = structlog.get_logger()


class ShardSession(GrpcSession):
    """A session that deals rows, and sends nothing else."""

    async def send(self, to: int, stage: str, message: Array) -> None:
        """See `GrpcSession.send`.

        Raises:
            LocalFaultError: it is another stage.
        """
        if stage not in STAGES:
            raise LocalFaultError(f"a worker sends nothing in stage {stage!r}")
        await super().send(to, stage, message)


class _Expected:
    """An attempt that messages are accepted for."""

    def __init__(self, order: ShardOrder, inbox: Inbox) -> None:
        self.order = order
        self.inbox = inbox
        self.work: asyncio.Task[Answer] | None = None


class Worker:
    """One worker. Made by `start`; everything happens in the event loop that has started it.

    Args:
        settings: who it is.
        credentials: its certificate and key.
    """

    def __init__(self, settings: WorkerSettings, credentials: Credentials) -> None:
        self._settings = settings
        self._credentials = credentials
        self._mailboxes = Mailboxes()
        permissions = Permissions(settings.federation, {DELIVER: frozenset({Role.WORKER})})
        self._server = Server(credentials, permissions, [MailboxService(self._mailboxes).add_to])
        self._expected: dict[str, _Expected] = {}
        self._relays = tuple(relay.point(settings.federation) for relay in settings.relays)
        self._stay: StayConnected | None = None
        self.address = ""

    @classmethod
    async def start(cls, settings: WorkerSettings) -> "Worker":
        """Listen.

        Raises:
            CredentialsError: the certificate cannot be used, or is that of somebody else.
            ListenError: none of the ports is free.
        """
        credentials, own = (
            credentials_of(settings.tls, settings.proxy),
            identity_of_worker(settings.federation, settings.party),
        )
        if credentials.identity != own:
            raise CredentialsError(f"{settings.tls.certificate} belongs to {credentials.identity}, not to {own}")
        worker = cls(settings, credentials)
        for port in settings.ports:
            with suppress(ListenError):
                found = await worker._server.start(f"{settings.host}:{port}")
                worker.address = worker._at(f"{settings.host}:{found}")
                return worker
        raise ListenError(f"cannot listen at {settings.host}: all of the workers' ports are in use")

    def _at(self, listens_at: str) -> str:
        """Return where others dial it; one that only dials out begins to be connected to its relays."""
        if not self._settings.dials_out:
            return listens_at
        name = drawn_endpoint_name()
        self._stay = StayConnected(listens_at, name)
        self._stay.use(self._relays, self._credentials)
        return f"{BY_RELAY}/{name}"

    def _way(self, address: str) -> Way:
        """Return the way to a worker of another party, given the address that this one has told."""
        name = endpoint_in(address)
        return address if name is None else ByRelays(self._relays, name)

    async def stop(self) -> None:
        """End all work, and stop listening."""
        for session_id in list(self._expected):
            await self.abandon(session_id)
        if self._stay is not None:
            await self._stay.close()
        await self._server.stop(0)

    def prepare(self, order: ShardOrder) -> str:
        """Accept messages of an attempt from now on; return the address where."""
        if len(self._expected) >= MAX_ATTEMPTS_KEPT:
            self._forget(next(iter(self._expected)), "too many attempts are expected here")
        roster = {
            identity_of_worker(self._settings.federation, name): number
            for number, name in order.names.items()
            if number != order.me
        }
        inbox = self._mailboxes.open(order.session_id, roster)
        self._expected[order.session_id] = _Expected(order, inbox)
        return self.address

    async def work(self, session_id: str, addresses: Mapping[int, str]) -> Answer:
        """Do an attempt that was prepared, with the workers at these addresses, and return how it ended."""
        expected = self._expected.get(session_id)
        if expected is None:
            return Answer(kind="lost", what="this worker does not know the attempt")
        expected.work = asyncio.ensure_future(self._run(expected, addresses))
        try:
            return await expected.work
        except asyncio.CancelledError:
            if not expected.work.cancelled():
                raise
            return Answer(kind="lost", what="the attempt was abandoned")
        finally:
            self._forget(session_id, None)

    async def abandon(self, session_id: str) -> None:
        """Forget an attempt; what is running of it ends."""
        expected = self._expected.get(session_id)
        if expected is not None and expected.work is not None:
            expected.work.cancel()
            await asyncio.gather(expected.work, return_exceptions=True)
        self._forget(session_id, "the attempt was abandoned")

    def _forget(self, session_id: str, reason: str | None) -> None:
        self._expected.pop(session_id, None)
        self._mailboxes.close(session_id, reason)

    async def _run(self, expected: _Expected, addresses: Mapping[int, str]) -> Answer:
        if (elsewhere := _elsewhere(expected.order, addresses)) is not None:
            return elsewhere
        order = expected.order
        channels = {
            number: open_channel(
                self._way(address), identity_of_worker(self._settings.federation, name), self._credentials
            )
            for number, name in order.names.items()
            if (address := addresses.get(number)) is not None and number != order.me
        }
        session = ShardSession(
            job_id=order.session_id,
            terms=bytes.fromhex(order.terms),
            me=order.me,
            names=order.names,
            entropy=SystemEntropy(),
            deadline_s=order.deadline_s,
            inbox=expected.inbox,
            channels=channels,
            on_progress=lambda stage, done, total: None,
        )
        log.info("a worker begins", session=order.session_id)
        try:
            if (unreachable := await _unreachable(order, addresses, channels)) is not None:
                await session.abort(unreachable.what)
                return unreachable
            return await self._answer(order, session)
        except asyncio.CancelledError:
            await session.abort("the attempt was abandoned")
            raise
        finally:
            await asyncio.gather(*(channel.close() for channel in channels.values()), return_exceptions=True)

    async def _answer(self, order: ShardOrder, session: ShardSession) -> Answer:
        try:
            plan = await asyncio.to_thread(plan_of, order)
            mine = await asyncio.to_thread(rows_of, order, plan)
            triangle = await gram_of_shard(session, plan, order.stop - order.start, mine)
            await session.finish()
        except PeerError as error:
            await session.abort(error.what)
            kind = next(name for cls, name in FAILURES.items() if isinstance(error, cls))
            return Answer(kind=kind, member=error.member, stage=error.stage, what=error.what)
        except SourceError as error:
            await session.abort("a party cannot read its rows")
            return Answer(kind="table", what=str(error))
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # libraries panic with errors that are no `Exception`
            log.error("the work of a shard failed unexpectedly", exc_info=error)
            await session.abort("a worker has failed")
            return Answer(kind="failed", what=type(error).__name__)
        share = None if triangle.share is None else np.ascontiguousarray(triangle.share, dtype="<u8").tobytes().hex()
        counts: dict[str, Any] = {} if mine is None else mine.counts()
        return Answer(share=share, counts=counts, sent=session.bytes_sent, received=dict(session.bytes_received))


def _elsewhere(order: ShardOrder, addresses: Mapping[int, str]) -> Answer | None:
    """Return whose address is not on a host of its own; None where there is none."""
    for member, name in order.names.items():
        address, hosts = addresses.get(member), order.hosts.get(member, ())
        if member == order.me or address is None or is_on_hosts(address, hosts):
            continue
        if member not in order.by_relays or endpoint_in(address) is None:
            what = (
                f"{name} named an address of its worker that {order.names[order.me]} does not dial: no host:port of its"
            )
            cause = f"{address!r} is not host:port on {' or '.join(hosts)} (peers, engine.peer_hosts)"
            return Answer(kind="PeerViolationError", member=member, stage=REACH_STAGE, what=what, cause=cause)
    return None


async def _unreachable(order: ShardOrder, addresses: Mapping[int, str], channels: Mapping[int, Any]) -> Answer | None:
    """Wait until all namesakes answer: some are busy with their start. Return who does not; None where all do.

    Why is for our owner's log alone: the address was another member's word, and the cause says what is there.
    """
    limit_s = min(order.deadline_s, REACH_S)

    async def reach(member: int) -> Answer | None:
        peer = f"the worker of {order.names[member]}"
        try:
            await wait_until_reachable(channels[member], peer=peer, address=addresses[member], deadline_s=limit_s)
        except UnreachableError as error:
            what, cause = f"{peer} cannot be reached", str(error)
            return Answer(kind="PeerLostError", member=member, stage=REACH_STAGE, what=what, cause=cause)
        except ServiceError as error:
            what, cause = f"{peer} is not accepted, or does not accept us", str(error)
            return Answer(kind="PeerViolationError", member=member, stage=REACH_STAGE, what=what, cause=cause)
        return None

    return next(filter(None, await asyncio.gather(*map(reach, channels))), None)


def identity_of_worker(federation: str, party: str) -> Identity:
    """Return the identity of all workers of a party."""
    return Identity(federation, Role.WORKER, party)


def plan_of(order: ShardOrder) -> RowPlan:
    """Compute the plan of the job, as its party has.

    Raises:
        LocalFaultError: it is none that workers take part in.
    """
    job = Job.from_json(order.job_json)
    schemas = [BlockSchema.model_validate_json(text) for text in order.schemas_json]
    plan = analysis_of(job).plan(job, schemas)
    if not isinstance(plan, RowPlan):
        raise LocalFaultError("the plan of the job has no rows for workers")
    return plan


def rows_of(order: ShardOrder, plan: RowPlan) -> OwnRows | None:
    """Return the owner's rows of the shard; None where it brings no columns."""
    if order.table is None:
        return None
    schema = plan.schema_of(order.me)
    table = TableConfig.model_validate(order.table.table)
    stream = RowStream(table, schema, order.start, order.stop, order.table.version)
    return plan.own_rows(order.me, stream, unpacked(order.table.counting, order.stop - order.start))
