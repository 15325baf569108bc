"""The seam for where rows are worked on: an `Engine` has workers, and lets one of them do an attempt.

`party.engine.processes` has processes on this host, `party.engine.dask_cluster` those of a cluster. What a job needs of
them, and how their answers are read, is here and the same for both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

from analyses.job.job import JobInput
from analyses.job.plan import Plan
from mpc import errors
from mpc.arithmetic.field import ResidueField
from mpc.errors import PeerError
from mpc.protocol.shards import Attempt, ShardRun, ShardSum, WorkerLostError
from party.engine.config import EngineConfig
from party.engine.order import Answer, ShardOrder, TableOrder, WorkerFailedError, declaration_of, packed
from party.engine.row_stream import can_be_read_in_parts, version_of
from party.tables.config import TableConfig, TableOwner
from party.tables.table import UnusableTableError
from service.reach.hosts import host_of
from service.reach.relay_config import directly

log = structlog.get_logger()

Traffic = Callable[[Mapping[str, int], Mapping[str, int]], None]
"""Told the payload bytes that a worker has sent and received, by stage."""


class Engine(ABC):
    """Workers of one party.

    Args:
        n_workers: how many parts of the rows may be worked on at once.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers

    def offered(self, owner: TableOwner, brought: JobInput | None) -> int | None:
        """Return how many workers the party has for a job; None where they cannot read what it brings."""
        if brought is None:
            return self.n_workers
        table = table_of(owner, brought)
        return self.n_workers if table is not None and can_be_read_in_parts(table) else None

    def begin(self) -> None:
        """Begin to start what jobs will need, in the background; by default there is nothing to start."""
        return

    @abstractmethod
    async def prepare(self, lane: int, order: ShardOrder) -> tuple[object, str]:
        """Let a worker expect an attempt; return a handle for the other methods, and the worker's address.

        Raises:
            WorkerLostError: no worker can be had.
        """

    @abstractmethod
    async def work(self, handle: object, session_id: str, addresses: Mapping[int, str]) -> Answer:
        """Let the worker of a handle do what it was prepared for.

        Raises:
            WorkerLostError: it is lost.
        """

    @abstractmethod
    async def abandon(self, handle: object, session_id: str) -> None:
        """Let the worker of a handle forget an attempt. Never raises."""

    @abstractmethod
    async def close(self) -> None:
        """End all that was started here."""


@dataclass(frozen=True)
class JobWorkers:
    """The workers of a party in one job; a `mpc.protocol.shards.RowWorkers`.

    Attributes:
        engine: engine that runs the workers.
        plan: plan of the job.
        me: number of the party.
        table: the declaration and the version of what the party brings; None where it brings no columns.
        label: what errors call it.
        hosts: party to the hosts on which its workers may be dialled.
        by_relays: parties whose workers are reached by relays.
        on_traffic: told what workers have sent and received.
    """

    engine: Engine
    plan: Plan
    me: int
    table: tuple[TableConfig, str] | None
    label: str
    hosts: Mapping[str, tuple[str, ...]]
    by_relays: frozenset[str]
    on_traffic: Traffic

    @property
    def n_lanes(self) -> int:
        """See `RowWorkers`."""
        return self.plan.n_lanes

    def run_of(self, lane: int, attempt: Attempt, counting: NDArray[np.bool_] | None) -> ShardRun:
        """See `RowWorkers`."""
        names = dict(enumerate(self.plan.job.members, start=1))
        table = None
        if self.table is not None:
            declaration, version = self.table
            table = TableOrder(table=declaration_of(declaration), version=version, counting=packed(counting))
        order = ShardOrder(
            session_id=attempt.session_id,
            terms=attempt.terms.hex(),
            start=attempt.shard.start,
            stop=attempt.shard.stop,
            me=self.me,
            names=names,
            hosts={number: self.hosts.get(name, ()) for number, name in names.items() if number != self.me},
            by_relays=tuple(number for number, name in names.items() if name in self.by_relays),
            job_json=self.plan.job.canonical_json(),
            schemas_json=tuple(schema.canonical_json() for schema in self.plan.schemas),
            deadline_s=self.plan.job.deadline_s,
            table=table,
        )
        return _Run(self, lane, order)


class _Run:
    """One attempt at one of our workers."""

    def __init__(self, workers: JobWorkers, lane: int, order: ShardOrder) -> None:
        self._workers = workers
        self._lane, self._order = lane, order
        self._handle: object = None

    async def prepare(self) -> str:
        self._handle, address = await self._workers.engine.prepare(self._lane, self._order)
        return address

    async def work(self, addresses: Mapping[int, str]) -> ShardSum:
        answer = await self._workers.engine.work(self._handle, self._order.session_id, addresses)
        self._workers.on_traffic(answer.sent, answer.received)
        if answer.kind:
            reason = answer.cause or answer.what
            log.warning(
                "an attempt of a worker failed", session=self._order.session_id, kind=answer.kind, reason=reason
            )
            raise self._error_of(answer)
        if answer.share is None:
            return ShardSum(None, answer.counts)
        words = np.frombuffer(bytes.fromhex(answer.share), dtype="<u8").astype(np.uint64)
        return ShardSum(words.reshape(ResidueField(self._workers.plan.n_primes).n_words, -1), answer.counts)

    async def abandon(self) -> None:
        if self._handle is not None:
            await self._workers.engine.abandon(self._handle, self._order.session_id)

    def _error_of(self, answer: Answer) -> Exception:
        if answer.kind == "lost":
            return WorkerLostError(answer.what)
        if answer.kind == "table":
            return UnusableTableError(self._workers.label, answer.what)
        kind = getattr(errors, answer.kind, None)
        if isinstance(kind, type) and issubclass(kind, PeerError):
            return kind(answer.member, answer.stage, answer.what)
        return WorkerFailedError(answer.what)


def table_of(owner: TableOwner, brought: JobInput) -> TableConfig | None:
    """Return the declaration of the table that a job asks for; None where there is none."""
    return next((table for table in owner.tables if table.name == brought.table), None)


class WorkerOwner(TableOwner, Protocol):
    """What the workers of a job need of a party's configuration."""

    @property
    def peers(self) -> Mapping[str, str]:
        """Party to its address."""

    @property
    def engine(self) -> EngineConfig:
        """The section."""


def workers_of_job(
    engine: Engine | None, owner: WorkerOwner, plan: Plan, me: int, brought: JobInput | None, on_traffic: Traffic
) -> JobWorkers | None:
    """Return the workers of a party in a job, before the party reads its table; None where the plan needs none.

    Raises:
        SourceError: the table's source cannot be found.
    """
    if engine is None or not plan.n_lanes:
        return None
    table, label = None, ""
    if brought is not None:
        found = table_of(owner, brought)
        assert found is not None, "the party has described it"
        table, label = (found, version_of(found)), f"table {brought.table!r} of party {owner.name!r}"
    more, direct = owner.engine.peer_hosts, directly(owner.peers)
    hosts = {name: (*([host_of(direct[name])] if name in direct else []), *more.get(name, ())) for name in owner.peers}
    return JobWorkers(engine, plan, me, table, label, hosts, frozenset(owner.peers) - set(direct), on_traffic)
