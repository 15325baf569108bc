"""The party service: gRPC in front of `party.jobs`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from typing import Any

import structlog
from pydantic import ValidationError
from threadpoolctl import threadpool_limits
from wire.v1.aggregation_pb2 import Chunk
from wire.v1.party_pb2 import (
    CancelReply,
    CancelRequest,
    DescribeRequest,
    PartyEvent,
    PartyEvents,
    Proposal,
    ProposalReply,
    Reached,
    ReachReply,
    ReachRequest,
    ReceiptRequest,
    ReserveEvent,
    ReserveRequest,
    RunRequest,
    SignedReceipt,
)
from wire.v1.party_pb2_grpc import PartyServicer, add_PartyServicer_to_server

from analyses.job.job import explain
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema, LocalReport
from entropy import SystemEntropy
from ledger.ledger import Ledger, open_ledger
from party.admission import Admission, RefusalError
from party.batches.member import PartyBatches
from party.batches.store import BatchStore
from party.config import PartyConfig
from party.consent import ConsentBox
from party.engine.make import make_engine
from party.events import FailedEvent, FinishedEvent, JobEvent, ProgressEvent
from party.job_sessions import JobSessions
from party.jobs import PartyJobs
from party.outcome.receipts import Receipts
from party.outcome.report import balance_of, write_report
from party.reload import RunningParty, own_credentials, place_of
from party.tables.looks.at_start import looking, warn_of_declarations
from party.tables.looks.budgets import begin_budgets, warn_of_budgets
from party.tables.table import TableReader, describe_table
from service.authorization import Permissions
from service.codes.coded_text import told
from service.errors import InvalidRequestError, NotAllowedError, public
from service.files.installation import Installation
from service.identity import Identity, Role, check_analyst
from service.job_id import check_job_id
from service.logs import configure_logs
from service.reach.attempt import Caller, Peer
from service.reach.reachability import Reachability
from service.server import Server
from service.trust.changes import forget_refusal, noted
from service.trust.expiry import warn_every_day
from service.trust.protocol import PROTOCOL, own_version
from service.trust.terms import Terms
from service.watch.meter import Meter
from service.watch.traces import Traces
from transport.batch_party import CALL_OFF, CLOSE, KEEP, OPEN, PREPARE, BatchPartyService
from transport.calls.chunks import chunks_of_text, gather_request
from transport.calls.peers import PeerChannels
from transport.messages.frames import DELIVER
from transport.messages.mailbox import Mailboxes, MailboxService
from transport.question_client import fetch_shares
from transport.relay.member import StayConnected

GRACE_S = 3.0
COORDINATOR_METHODS = tuple(
    f"/moiety.v1.Party/{method}" for method in ("Propose", "Reserve", "Run", "Cancel", "Receipt", "Describe", "Reach")
)
BATCH_METHODS = (OPEN, KEEP, CALL_OFF, PREPARE, CLOSE)
PERMISSIONS = {
    **dict.fromkeys((*COORDINATOR_METHODS, *BATCH_METHODS), frozenset({Role.COORDINATOR})),
    DELIVER: frozenset({Role.PARTY, Role.COORDINATOR}),
}

log = structlog.get_logger()


class PartyService(PartyServicer):
    """`moiety.v1.Party`: only the coordinator that the owner named may call it."""

    def __init__(self, config: PartyConfig, jobs: PartyJobs, receipts: Receipts, meter: Meter) -> None:
        self._config = config
        self._jobs = jobs
        self._receipts = receipts
        self._reachability = _reachability_of(config)
        self._meter = meter

    def use(self, config: PartyConfig) -> None:
        """Dial those whom another configuration names from now on, when somebody asks whom we reach."""
        self._config, self._reachability = config, _reachability_of(config)

    def add_to(self, server: Any) -> None:
        """Register the service."""
        add_PartyServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    def check_caller(self, caller: Identity) -> None:
        """Refuse all callers except that coordinator.

        Raises:
            NotAllowedError: names both.
        """
        if caller.name != self._config.coordinator.name:
            raise NotAllowedError(
                f"{self._config.name} takes calls from coordinator {self._config.coordinator.name} only, not from "
                f"{caller.name}"
            )

    async def Propose(self, request_iterator: AsyncIterator[Chunk], context: Any) -> ProposalReply:  # noqa: N802 - gRPC's name
        """Accept a job or refuse it with a reason."""
        request = await gather_request(request_iterator, Proposal)
        check_job_id(request.job_id)
        check_analyst(request.analyst)
        roster = {member.number: member.name for member in request.roster}
        try:
            schema = await self._jobs.propose(request.job_id, request.job_json, roster, request.analyst)
        except RefusalError as error:
            log.info("job refused", job=request.job_id, reason=told(error))
            self._meter.job_ended(request.job_id, "REFUSED", told(error))
            return ProposalReply(accepted=False, reason=told(error))
        return ProposalReply(accepted=True, schema_json=schema.canonical_json())

    async def Reserve(  # noqa: N802
        self, request_iterator: AsyncIterator[Chunk], context: Any
    ) -> AsyncIterator[ReserveEvent]:
        """Agree to the plan of an accepted job and hold budget for it, or refuse with a reason."""
        request = await gather_request(request_iterator, ReserveRequest)
        check_job_id(request.job_id)
        try:
            schemas = [BlockSchema.model_validate_json(text) for text in request.schema_json]
        except ValidationError as error:
            raise InvalidRequestError(f"a schema cannot be read: {explain(error)}") from error
        answer = ReserveEvent()
        try:
            async with aclosing(self._jobs.reserve(request.job_id, schemas, request.plan_digest)) as waiting:
                async for text in waiting:
                    note = ReserveEvent()
                    note.waiting.text = text
                    yield note
            answer.reserved.SetInParent()
            yield answer
            await self._jobs.hold(request.job_id)
        except RefusalError as error:
            log.info("job refused", job=request.job_id, reason=told(error))
            self._meter.job_ended(request.job_id, "REFUSED", told(error))
            answer.refused.reason = told(error)
            yield answer

    async def Run(self, request: RunRequest, context: Any) -> AsyncIterator[PartyEvents]:  # noqa: N802 - gRPC's name
        """Run a reserved job and stream its progress."""
        check_job_id(request.job_id)
        try:
            async for events in self._jobs.run(request.job_id):
                yield PartyEvents(events=map(_message_of, events))
        except RefusalError as error:
            yield PartyEvents(events=[_message_of(FailedEvent("plan", told(error)))])

    async def Describe(self, request: DescribeRequest, context: Any) -> AsyncIterator[Chunk]:  # noqa: N802
        """Stream what an analyst is told of our tables."""
        check_analyst(request.analyst)
        listing = await asyncio.to_thread(self._jobs.listing, request.analyst)
        for chunk in chunks_of_text(listing.canonical_json()):
            yield chunk

    async def Cancel(self, request: CancelRequest, context: Any) -> CancelReply:  # noqa: N802 - gRPC's name
        """Stop a job; without a reason, its result is stored and nothing of it is needed any more."""
        job_id = check_job_id(request.job_id)
        if request.reason:
            self._jobs.end(job_id, public(request.reason))
        else:
            self._jobs.settle(job_id)
        return CancelReply()

    async def Receipt(self, request: ReceiptRequest, context: Any) -> SignedReceipt:  # noqa: N802 - gRPC's name
        """Sign a receipt of a job, once our part is done."""
        text, signed = await self._receipts.sign(check_job_id(request.job_id), request.result_digest)
        return SignedReceipt(receipt_json=text, certificate=signed.certificate, signature=signed.signature)

    async def Reach(self, request: ReachRequest, context: Any) -> ReachReply:  # noqa: N802 - gRPC's name
        """Dial all members that the configuration names, and say what came of it."""
        members = [
            Reached(role=who.role, name=who.name, outcome=check.outcome, found=check.found, fix=check.fix)
            for who, check in await self._reachability.check(request.timeout_s)
        ]
        return ReachReply(version=own_version(), members=members, protocol=PROTOCOL)


def _reachability_of(config: PartyConfig) -> Reachability:
    peers = [
        Peer(identity, first, tuple(map(str, others))) for identity, (first, *others) in config.dials.items()
    ]  # several addresses are a coordinator's, and host:port
    tls = config.tls
    caller = Caller(tls.authority, tls.certificate, tls.key, config.name, tls.revoked, config.proxy)
    return Reachability(caller, peers)


def _message_of(event: JobEvent) -> PartyEvent:
    message = PartyEvent()
    match event:
        case ProgressEvent(stage, percent, waits_for):
            message.progress.stage, message.progress.percent = stage, percent
            message.progress.waits_for = waits_for
        case FinishedEvent():
            message.finished.SetInParent()
        case FailedEvent(stage, reason, culprit, is_finding):
            message.failed.stage, message.failed.reason = stage, reason
            message.failed.culprit, message.failed.is_finding = culprit, is_finding
    return message


async def serve_party(
    config: PartyConfig,
    read_again: Callable[[], PartyConfig],
    beside: Callable[[RunningParty], AbstractAsyncContextManager[None]] = lambda running: nullcontext(),
) -> None:
    """Serve until SIGTERM or SIGINT; raises as `running_party`.

    Args:
        config: configuration of the party.
        read_again: reads the file anew, at SIGHUP.
        beside: what else runs as long as the party serves.
    """
    configure_logs(config.log_format, level=config.log_level)
    with threadpool_limits(config.blas_threads):
        async with running_party(config) as running, beside(running), looking(config) as look:

            def reload() -> None:
                if "tables" in running.use(read_again()):
                    look(running.config)

            forget_refusal(config.data_dir)
            await running.server.serve_until_signal(GRACE_S, reload=noted(reload, config.data_dir))


@asynccontextmanager
async def running_party(config: PartyConfig) -> AsyncIterator[RunningParty]:
    """Serve one party as long as the context lasts; several may share a process.

    Raises:
        CredentialsError: certificate files that cannot be used, or that belong to somebody else.
        ListenError: the address is taken.
        InstallationError: another service runs in the data folder.
        LedgerError: the privacy ledger cannot be used, or was tampered with.
        BatchStoreError: the store of batches cannot be used.
    """
    credentials = own_credentials(config)
    Installation.make_folder(config.data_dir)
    mailboxes = Mailboxes()
    async with AsyncExitStack() as stack:
        traces = None if config.traces is None else Traces(config.traces, config.name, "party")
        if traces is not None:
            stack.callback(traces.close)  # at the very end: a collector that does not answer delays it by seconds
        installation = stack.enter_context(Installation(config.data_dir, SystemEntropy()))
        ledger = _start_ledger(config, installation.name)
        stack.callback(ledger.close)
        consent = ConsentBox(config.data_dir)
        consent.clear()
        channels = PeerChannels()
        channels.open(config.dials, credentials)
        stack.push_async_callback(channels.close)
        meter = Meter(traces)
        coordinator = Identity(config.federation, Role.COORDINATOR, config.coordinator.name)

        def term() -> int:
            return server.terms.present(coordinator)

        sessions = JobSessions(config, mailboxes, channels, SystemEntropy(), meter, term)

        def keep_report(config: PartyConfig, job_id: str, plan: Plan, report: LocalReport, elapsed_s: float) -> None:
            write_report(
                config.data_dir,
                job_id,
                report,
                traffic=sessions.traffic(job_id),
                privacy=plan.privacy_report(),
                budget=balance_of(ledger, config.name, plan, config.accounts),
                elapsed_s=elapsed_s,
            )

        engine = make_engine(config)
        if engine is not None:
            stack.push_async_callback(engine.close)
            engine.begin()
        admission = Admission(config, ledger, consent, meter=meter)
        jobs = PartyJobs(
            config,
            admission,
            describe_table=describe_table,
            load_table=TableReader().load,
            accept_messages=sessions.accept_messages,
            open_session=sessions.open,
            close_session=sessions.close,
            write_report=keep_report,
            meter=meter,
            engine=engine,
            try_ways=channels.reach,
        )
        store = BatchStore(config.data_dir / "batches.sqlite")
        stack.callback(store.close)
        hub = config.coordinator.name
        batches = PartyBatches(
            place=place_of(config),
            credentials=lambda: server.credentials,
            store=store,
            entropy=SystemEntropy(),
            fetch=lambda batch_id, most_bytes, only: fetch_shares(
                hub, channels[hub], batch_id, most_bytes, only, term=term
            ),
            accept_messages=sessions.accept_messages,
            open_session=sessions.open,
            close_session=sessions.close,
            try_ways=channels.reach,
        )
        receipts = Receipts(hub, jobs.finished, admission.admitted, ledger, lambda: server.credentials)
        service = PartyService(config, jobs, receipts, meter)
        checks = dict.fromkeys((*COORDINATOR_METHODS, *BATCH_METHODS), service.check_caller)
        permissions = Permissions(config.federation, PERMISSIONS, checks)
        services = [MailboxService(mailboxes).add_to, service.add_to, BatchPartyService(batches).add_to]
        server = Server(credentials, permissions, services, terms=Terms(store))
        host = config.listen.rsplit(":", 1)[0]
        port = await server.start(config.listen)
        log.info("serving", party=config.name, address=f"{host}:{port}", tables=len(config.tables))
        stay = StayConnected(f"{host}:{port}")
        stack.push_async_callback(stay.close)
        stay.use(config.stays_at, credentials)
        warn_of_declarations(config.tables)
        expiry = asyncio.create_task(warn_every_day(lambda: server.credentials, config.name))
        try:
            yield RunningParty(config, server, channels, jobs, batches, ledger, consent, meter, service.use, stay)
        finally:
            expiry.cancel()
            batches.stop()
            await jobs.end_all(f"{config.name} was stopped")
            await server.stop(0)
            log.info("stopped", party=config.name)


def _start_ledger(config: PartyConfig, holder: str) -> Ledger:
    """Open the ledger, give back what an earlier process of this installation held, and set first budgets."""
    url = None if config.ledger.url is None else config.ledger.url.get_secret_value()
    ledger = open_ledger(config.name, path=config.ledger_path, url=url, counter=config.counter_path, holder=holder)
    for job_id in ledger.release_leftovers("the service was stopped before anything was opened"):
        log.warning("reservation released", job=job_id)
    if ledger.is_new and not config.ledger.may_begin:
        log.error("there is no privacy ledger: restore it if it was lost; `moiety budget init` begins a new party's")
        return ledger
    begin_budgets(ledger, config)
    warn_of_budgets(ledger, config)
    return ledger
