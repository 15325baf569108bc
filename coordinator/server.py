"""The coordinator service: what analysts call, the mailbox of the parties, start and stop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
from typing import Any

import structlog
from wire.v1.aggregation_pb2 import Chunk
from wire.v1.coordinator_pb2 import (
    JobEvent,
    JobPart,
    JobRecord,
    JobRef,
    ListRequest,
    SubmitReply,
    SubmitRequest,
    TablesPart,
    TablesRequest,
)
from wire.v1.coordinator_pb2_grpc import CoordinatorServicer, add_CoordinatorServicer_to_server

from analyses.job.job import Job
from coordinator.batches.agreeing import Agreeing
from coordinator.batches.closing import Closing
from coordinator.catalogue import listings
from coordinator.config import MAY_CHANGE, CoordinatorConfig
from coordinator.journal import Journal
from coordinator.leading.lease import Lease
from coordinator.leading.standby import Standby
from coordinator.proposal import RosterParty
from coordinator.questions.batches import Batches
from coordinator.questions.hosts import Hosts
from coordinator.questions.sums import Sums
from coordinator.questions.surveys import Surveys
from coordinator.resumption import LeftBehind, left_behind
from coordinator.runner import JobRunner
from coordinator.scheduler import Scheduler
from coordinator.startup import lead, open_batch_store, open_store, open_survey_store, own_credentials
from coordinator.store import PIECE_BYTES
from coordinator.store import JobRecord as StoredJob
from coordinator.sums.answering import MaskedSums
from entropy import SystemEntropy
from service.authorization import Permissions
from service.errors import NotAllowedError
from service.identity import Identity, Role, peer_identity
from service.job_id import check_job_id
from service.logs import configure_logs
from service.reach.relays import Way
from service.server import Server
from service.tls import Credentials
from service.trust.changes import check_changes
from service.trust.expiry import warn_every_day
from service.watch.meter import Meter
from service.watch.traces import Traces
from transport import questions
from transport.aggregation import ANSWER, FETCH, AggregationService
from transport.batch_party import BatchPartyClient
from transport.calls.channel import open_channel
from transport.calls.chunks import gather_request
from transport.messages.frames import DELIVER
from transport.messages.mailbox import Mailboxes, MailboxService
from transport.relay.hub import RelayHub

GRACE_S = 2.0
ANALYST_METHODS = tuple(
    f"/moiety.v1.Coordinator/{method}" for method in ("Submit", "Watch", "List", "Show", "Cancel", "Tables")
)
PERMITTED = {
    **dict.fromkeys((*ANALYST_METHODS, questions.ASK, questions.LIST, questions.CALL_OFF), frozenset({Role.ANALYST})),
    **dict.fromkeys((DELIVER, questions.SHARES), frozenset({Role.PARTY})),
    **dict.fromkeys((FETCH, ANSWER), frozenset({Role.DEVICE, Role.PARTY})),
    **dict.fromkeys((questions.FETCH, questions.ANSWER, questions.ANSWER_IN_CHUNKS), frozenset({Role.DEVICE})),
}
LISTING = (questions.LIST, questions.CALL_OFF)
SERVED = PERMITTED | dict.fromkeys(LISTING, frozenset({Role.ANALYST, Role.COORDINATOR}))  # of its own name

_log = structlog.get_logger(__name__)


class CoordinatorService(CoordinatorServicer):
    """`moiety.v1.Coordinator`: every analyst sees its own jobs only.

    Args:
        scheduler: takes the jobs.
        journal: journal of the jobs.
        analysts: names of those that may call.
        parties: returns those of the roster.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        journal: Journal,
        analysts: frozenset[str],
        parties: Callable[[], Sequence[RosterParty]],
    ) -> None:
        self.scheduler = scheduler
        self._journal = journal
        self.analysts = analysts
        self._parties = parties

    def add_to(self, server: Any) -> None:
        """Register the service."""
        add_CoordinatorServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def Submit(self, request_iterator: AsyncIterator[Chunk], context: Any) -> SubmitReply:  # noqa: N802 - gRPC's name
        """Take a job."""
        request = await gather_request(request_iterator, SubmitRequest)
        return SubmitReply(
            job_id=self.scheduler.submit(self._caller(context), request.idempotency_key, request.job_json)
        )

    async def Watch(self, request: JobRef, context: Any) -> AsyncIterator[JobEvent]:  # noqa: N802
        """Stream the events of a job from its beginning to its end."""
        self._journal.store.record(check_job_id(request.job_id), analyst=self._caller(context))
        async for event in self._journal.follow(request.job_id):
            yield JobEvent(
                at_s=event.at_s,
                state=event.state,
                stage=event.stage,
                member=event.member,
                percent=event.percent,
                text=event.text,
            )

    async def List(self, request: ListRequest, context: Any) -> AsyncIterator[JobRecord]:  # noqa: N802
        """Stream the caller's jobs, newest first, without their texts."""
        for record in self._journal.store.records(self._caller(context), limit=request.limit):
            yield self._message(record)

    async def Show(self, request: JobRef, context: Any) -> AsyncIterator[JobPart]:  # noqa: N802
        """Stream one job of the caller."""
        for part in self._parts(
            self._journal.store.record(check_job_id(request.job_id), analyst=self._caller(context))
        ):
            yield part

    async def Cancel(self, request: JobRef, context: Any) -> AsyncIterator[JobPart]:  # noqa: N802
        """Cancel a job of the caller, and stream it."""
        for part in self._parts(await self.scheduler.cancel(self._caller(context), check_job_id(request.job_id))):
            yield part

    async def Tables(self, request: TablesRequest, context: Any) -> AsyncIterator[TablesPart]:  # noqa: N802
        """Stream what every party of the roster tells the caller of its tables."""
        async for party, listing, problem in listings(self._parties(), self._caller(context)):
            for start in range(0, max(1, len(listing)), PIECE_BYTES):
                piece = listing[start : start + PIECE_BYTES]
                yield TablesPart(party=party, listing_json=piece, problem=problem)

    def _parts(self, record: StoredJob) -> Iterator[JobPart]:
        texts = self._journal.store.texts(record.job_id)  # as of the record: nothing has happened since
        yield JobPart(record=self._message(record))
        for name, piece in texts:
            part: dict[str, Any] = {name: piece}
            yield JobPart(**part)

    def check_caller(self, caller: Identity) -> None:
        """Refuse analysts that are not in the list.

        Raises:
            NotAllowedError: names the analyst.
        """
        if caller.name not in self.analysts:
            raise NotAllowedError(f"analyst {caller.name} is not in the list of this coordinator (analysts.allowed)")

    @staticmethod
    def _caller(context: Any) -> str:
        return peer_identity(context).name

    def _message(self, record: StoredJob) -> JobRecord:
        return JobRecord(
            job_id=record.job_id,
            analysis=record.analysis,
            state=record.state,
            reason=record.reason,
            culprit=record.culprit,
            stage=record.stage,
            submitted_by=record.analyst,
            submitted_at_s=record.submitted_at_s,
            ended_at_s=record.ended_at_s,
            title=record.title,
            waits_for_owners_of=sorted(self.scheduler.waiting_parties(record.job_id)),
        )


class CoordinatorProcess:
    """Everything of one running coordinator.

    Args:
        config: configuration in `coordinator.toml`.
        credentials: credentials of the identity that the configuration names.
        lease: lease with which this coordinator leads, if its jobs are in PostgreSQL; released at the end.

    Raises:
        StoreError, DatabaseError, DatabaseAwayError: the job store cannot be used.
        SurveyStoreError: the store of surveys cannot be used.
        BatchesUnusableError: the store of batches cannot be used.
    """

    def __init__(self, config: CoordinatorConfig, credentials: Credentials, lease: Lease | None = None) -> None:
        self.config = config
        self.lease = lease
        self._credentials = credentials
        with ExitStack() as stores:
            self._store = open_store(config, lease)
            stores.callback(self._store.close)
            self._survey_store = open_survey_store(config, lease)
            stores.callback(self._survey_store.close)
            self._batch_store = open_batch_store(config, lease)
            stores.pop_all()
        self._traces = None if config.traces is None else Traces(config.traces, config.name, "coordinator")
        self.meter = Meter(self._traces)
        self.journal = Journal(self._store, self.meter)
        self._mailboxes = Mailboxes()
        self._parties = {name: self._roster_party(name, address) for name, address in config.roster.items()}
        self.scheduler = Scheduler(
            self.journal,
            make_runner=self._make_runner,
            roster=frozenset(config.roster),
            most_running=config.max_running_jobs,
            turn_s=config.turn_s,
        )
        service = self._service = CoordinatorService(
            self.scheduler, self.journal, frozenset(config.analysts.allowed), self._roster
        )
        self._sums = MaskedSums(config.sum_identities, SystemEntropy())
        own, entropy = credentials.identity, SystemEntropy()
        surveys = Surveys(self._survey_store, own.uri, entropy)
        agreeing, closing = Agreeing(self._client_of), Closing(self._client_of, entropy)
        batches = Batches(
            self._batch_store, lambda: self._credentials, entropy, closing, agreeing, lambda: self.config.roster
        )
        sums = Sums(self._survey_store, entropy, self._sums)
        self._questions = Hosts(own, service.check_caller, (surveys, batches, sums))
        of_analysts = [method for method, roles in PERMITTED.items() if Role.ANALYST in roles]
        checks = dict.fromkeys(of_analysts, service.check_caller)
        checks |= dict.fromkeys((FETCH, ANSWER), self._sums.rounds.check_caller)
        checks |= dict.fromkeys(LISTING, self._questions.check_caller)
        permissions = Permissions(config.federation, SERVED, checks)
        services = [service.add_to, MailboxService(self._mailboxes).add_to]
        services += [AggregationService(self._sums.rounds).add_to, questions.QuestionsService(self._questions).add_to]
        self.server = Server(credentials, permissions, services)
        self._expiry: asyncio.Task[None] | None = None
        self.relay = None if config.relay is None else RelayHub(credentials)
        """The relay in this process, if it has one."""

    def _client_of(self, party: str) -> BatchPartyClient:
        return BatchPartyClient(party, self._parties[party].channel)

    async def start(self) -> str:
        """Listen, go on with the jobs that an earlier process left behind, and return the bound address.

        Raises:
            ListenError: the address cannot be had.
            StoreWriteError: the store of jobs cannot be written.
        """
        await self._questions.start()
        self._expiry = asyncio.create_task(warn_every_day(lambda: self.server.credentials, self.config.name))
        host, _, _ = self.config.listen.rpartition(":")
        try:
            jobs = left_behind(self._store, self.config.roster)
            for left in jobs:
                _log.warning(
                    "job was left behind by an earlier process, and goes on", job=left.job_id, state=left.state
                )
            if self.lease is not None:
                await self.server.lead(self.lease.term)
            address = f"{host}:{await self.server.start(self.config.listen)}"
            if self.relay is not None and self.config.relay is not None:
                await self.relay.start(self.config.relay.listen)
            self.scheduler.take_up(jobs)
            return address
        except BaseException:
            await self._questions.stop()
            raise

    async def stop(self) -> None:
        """End all jobs with their reason and tell the parties, or leave them to another coordinator; stop listening."""
        await self._end_work()
        await self.server.stop(GRACE_S)
        await self._release()

    async def serve_until_signal(self, read_again: Callable[[], CoordinatorConfig]) -> None:
        """Serve until SIGTERM or SIGINT, then do as `stop` does; watchers hear how their jobs ended.

        Args:
            read_again: reads the configuration file anew, at SIGHUP.
        """
        await self.server.serve_until_signal(GRACE_S, end_work=self._end_work, reload=lambda: self.use(read_again()))
        await self._release()

    def use(self, config: CoordinatorConfig) -> None:
        """Take over a configuration and the files that its `[tls]` names, all of it or nothing; jobs that run go on.

        Raises:
            SettingsError: a field differs that changes only at a restart, or the certificate is somebody else's.
            CredentialsError: the files cannot be used.
        """
        changed = check_changes(self.config, config, MAY_CHANGE)
        self.server.renew(own_credentials(config))
        if self.relay is not None:
            self.relay.use(self.server.credentials)
        self.config, self._credentials = config, self.server.credentials
        # Jobs that were accepted before may name parties that the roster has no more.
        self._parties |= {name: self._roster_party(name, address) for name, address in config.roster.items()}
        self._service.analysts = frozenset(config.analysts.allowed)
        self.scheduler.use(roster=frozenset(config.roster), most_running=config.max_running_jobs, turn_s=config.turn_s)
        configure_logs(config.log_format, level=config.log_level)
        _log.info("files were read again", name=config.name, changed=", ".join(changed) or "no field")

    async def _end_work(self) -> None:
        self._sums.rounds.end_all("the coordinator stops")
        self._questions.leave()
        if self.lease is None:
            await self.scheduler.stop()
        else:
            self.scheduler.leave()

    async def _release(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        await self._questions.stop()
        self._batch_store.close()
        self._survey_store.close()
        await asyncio.gather(*(party.channel.close() for party in self._parties.values()))
        if self.relay is not None:
            await self.relay.stop()
        self.journal.write_notes()
        self._store.close()
        if self.lease is not None:
            self.lease.release()
        if self._traces is not None:
            self._traces.close()

    def _roster(self) -> list[RosterParty]:
        return [self._parties[name] for name in self.config.roster]

    def _roster_party(self, name: str, address: Way) -> RosterParty:
        identity = Identity(self.config.federation, Role.PARTY, name)
        term = 0 if self.lease is None else self.lease.term
        return RosterParty(identity, address, open_channel(address, identity, self._credentials, term=term))

    def _make_runner(self, job_id: str, job: Job, left: LeftBehind | None) -> JobRunner:
        return JobRunner(
            job_id,
            job,
            analyst=self._store.record(job_id).analyst,
            identity=self._credentials.identity,
            parties={number: self._parties[name] for number, name in enumerate(job.members, start=1)},
            journal=self.journal,
            mailboxes=self._mailboxes,
            entropy=SystemEntropy(),
            max_job_s=self.config.max_job_s,
            job_memory_mib=self.config.job_memory_mib,
            meter=self.meter,
            left=left,
        )


async def serve_coordinator(
    config: CoordinatorConfig,
    read_again: Callable[[], CoordinatorConfig],
    beside: Callable[[CoordinatorProcess], AbstractAsyncContextManager[None]] = lambda process: nullcontext(),
    beside_standby: Callable[[Standby], AbstractAsyncContextManager[None]] = lambda standby: nullcontext(),
) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        config: configuration in `coordinator.toml`.
        read_again: reads the file anew, at SIGHUP.
        beside: what else runs as long as the coordinator serves.
        beside_standby: what else runs as long as it stands by.

    Raises:
        SettingsError: the certificate states another identity than the configuration.
        ServiceError: the certificates, the job store or the address cannot be used; the text says why.
    """
    configure_logs(config.log_format, level=config.log_level)
    lease = None
    if config.database is not None:
        lease, config = await lead(config, config.database, read_again, SERVED, beside_standby)
        if lease is None:
            return
    try:
        process = CoordinatorProcess(config, own_credentials(config), lease)
        address = await process.start()
    except BaseException:
        if lease is not None:
            lease.release()
        raise
    _log.info("coordinator is ready", name=config.name, address=address, n_parties=len(config.roster))
    async with beside(process):
        await process.serve_until_signal(read_again)
    _log.info("coordinator has stopped", name=config.name)
