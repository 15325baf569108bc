"""The party service: gRPC in front of `party.jobs`."""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import structlog
from moiety.v1.aggregation_pb2 import Chunk
from moiety.v1.party_pb2 import (
    CancelReply,
    CancelRequest,
    PartyEvent,
    Proposal,
    ProposalReply,
    ReserveEvent,
    ReserveRequest,
    RunRequest,
)
from moiety.v1.party_pb2_grpc import PartyServicer, add_PartyServicer_to_server
from pydantic import ValidationError
from threadpoolctl import threadpool_limits

from analyses.job.job import explain
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema, LocalReport
from entropy import Entropy, SystemEntropy
from mpc.protocol.session import COORDINATOR
from party.admission import Admission, RefusalError
from party.config import PartyConfig
from party.consent import ConsentBox
from party.events import FailedEvent, FinishedEvent, JobEvent, ProgressEvent
from party.installation import Installation
from party.jobs import PartyJobs
from party.ledger.ledger import FIRST_BUDGET, Ledger, open_ledger
from party.report import StageTraffic, report_path, write_report
from party.tables.table import TableReader, is_there
from service.authorization import Permissions
from service.errors import AlreadyExistsError, InvalidRequestError, NotAllowedError, public
from service.identity import NAME_PATTERN, Identity, Role
from service.job_id import check_job_id
from service.logs import configure_logs
from service.server import Server
from service.tls import CredentialsError, load_credentials
from transport.calls.channel import open_channel
from transport.calls.chunks import gather_request
from transport.messages.inbox import Inbox
from transport.messages.mailbox import DELIVER, Mailboxes, MailboxService
from transport.messages.session import GrpcSession

GRACE_S = 3.0
COORDINATOR_METHODS = tuple(f"/moiety.v1.Party/{method}" for method in ("Propose", "Reserve", "Run", "Cancel"))
PERMISSIONS = {
    **dict.fromkeys(COORDINATOR_METHODS, frozenset({Role.COORDINATOR})),
    DELIVER: frozenset({Role.PARTY, Role.COORDINATOR}),
}

log = structlog.get_logger()


class JobSessions:
    """Opens and closes the sessions of jobs: inbox, roster of identities, channels.

    Args:
        config: names of this party, its coordinator and its federation.
        mailboxes: where messages arrive.
        channels: name to channel, of all peers and the coordinator.
        entropy: of every session.

    Raises:
        ValueError: the entropy is reproducible.
    """

    def __init__(
        self, config: PartyConfig, mailboxes: Mailboxes, channels: Mapping[str, Any], entropy: Entropy
    ) -> None:
        if not entropy.is_secure:
            raise ValueError("a service needs secure randomness")
        self._config = config
        self._mailboxes = mailboxes
        self._channels = channels
        self._entropy = entropy
        self._inboxes: dict[str, Inbox] = {}
        self._sessions: dict[str, GrpcSession] = {}

    def accept_messages(self, job_id: str, names: Mapping[int, str]) -> None:
        """Accept messages of a job from its members from now on.

        Raises:
            AlreadyExistsError: the job ended here, in this process or, as its report tells, in an earlier one.
        """
        if report_path(self._config.data_dir, job_id).exists():
            raise AlreadyExistsError(f"job {job_id} has ended here before")
        roster = {
            Identity(self._config.federation, Role.PARTY if number != COORDINATOR else Role.COORDINATOR, name): number
            for number, name in names.items()
        }
        self._inboxes[job_id] = self._mailboxes.open(job_id, roster)

    def open(
        self,
        job_id: str,
        terms: bytes,
        me: int,
        names: Mapping[int, str],
        deadline_s: float,
        on_progress: Callable[[str, int, int], None],
    ) -> GrpcSession:
        """Return our end of a job whose messages are accepted."""
        self._sessions[job_id] = GrpcSession(
            job_id=job_id,
            terms=terms,
            me=me,
            names=names,
            entropy=self._entropy,
            deadline_s=deadline_s,
            inbox=self._inboxes[job_id],
            channels={number: self._channels[name] for number, name in names.items() if number != me},
            on_progress=on_progress,
        )
        return self._sessions[job_id]

    def traffic(self, job_id: str) -> dict[str, StageTraffic]:
        """Return the bytes that a job has moved so far, by stage."""
        session = self._sessions[job_id]
        sent, received = session.bytes_sent, session.bytes_received
        return {s: StageTraffic(sent.get(s, 0), received.get(s, 0)) for s in sorted({*sent, *received})}

    def close(self, job_id: str, reason: str | None) -> None:
        """Stop accepting messages of a job."""
        self._mailboxes.close(job_id, reason)
        self._inboxes.pop(job_id, None)
        self._sessions.pop(job_id, None)


class PartyService(PartyServicer):
    """`moiety.v1.Party`: only the coordinator that the owner named may call it."""

    def __init__(self, config: PartyConfig, jobs: PartyJobs) -> None:
        self._config = config
        self._jobs = jobs

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
        if re.fullmatch(NAME_PATTERN, request.analyst) is None:
            raise InvalidRequestError(
                "the name of the analyst is not valid: use 1 to 63 lower-case letters, digits and inner hyphens"
            )
        roster = {member.number: member.name for member in request.roster}
        try:
            schema = await self._jobs.propose(request.job_id, request.job_json, roster, request.analyst)
        except RefusalError as error:
            log.info("job refused", job=request.job_id, reason=str(error))
            return ProposalReply(accepted=False, reason=str(error))
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
            log.info("job refused", job=request.job_id, reason=str(error))
            answer.refused.reason = str(error)
            yield answer

    async def Run(self, request: RunRequest, context: Any) -> AsyncIterator[PartyEvent]:  # noqa: N802 - gRPC's name
        """Run a reserved job and stream its progress."""
        check_job_id(request.job_id)
        try:
            async for event in self._jobs.run(request.job_id):
                yield _message_of(event)
        except RefusalError as error:
            yield _message_of(FailedEvent("plan", str(error)))

    async def Cancel(self, request: CancelRequest, context: Any) -> CancelReply:  # noqa: N802 - gRPC's name
        """Stop a job."""
        self._jobs.end(check_job_id(request.job_id), public(request.reason))
        return CancelReply()


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


async def serve_party(config: PartyConfig) -> None:
    """Serve until SIGTERM or SIGINT; raises as `running_party`."""
    configure_logs(config.log_format)
    with threadpool_limits(config.blas_threads):
        async with running_party(config) as server:
            await server.serve_until_signal(GRACE_S)


@asynccontextmanager
async def running_party(config: PartyConfig) -> AsyncIterator[Server]:
    """Serve one party as long as the context lasts; several may share a process.

    Raises:
        CredentialsError: certificate files that cannot be used, or that belong to somebody else.
        ListenError: the address is taken.
        InstallationError: another service runs in the data folder.
        LedgerError: the privacy ledger cannot be used, or was tampered with.
    """
    tls = config.tls
    credentials = load_credentials(authority=tls.authority, certificate=tls.certificate, key=tls.key)
    own = Identity(config.federation, Role.PARTY, config.name)
    if credentials.identity != own:
        raise CredentialsError(f"{tls.certificate} belongs to {credentials.identity}, not to {own}")
    if warning := credentials.expiry_warning():
        log.warning(warning, party=config.name)
    Installation.make_folder(config.data_dir)
    mailboxes = Mailboxes()
    async with AsyncExitStack() as stack:
        installation = stack.enter_context(Installation(config.data_dir, SystemEntropy()))
        ledger = _start_ledger(config, installation.name)
        stack.callback(ledger.close)
        consent = ConsentBox(config.data_dir)
        consent.clear()
        coordinator = Identity(config.federation, Role.COORDINATOR, config.coordinator.name)
        channels = {config.coordinator.name: open_channel(config.coordinator.address, coordinator, credentials)}
        for name, address in config.peers.items():
            channels[name] = open_channel(address, Identity(config.federation, Role.PARTY, name), credentials)
        for channel in channels.values():
            stack.push_async_callback(channel.close)
        sessions = JobSessions(config, mailboxes, channels, SystemEntropy())

        def keep_report(job_id: str, plan: Plan, report: LocalReport, elapsed_s: float) -> None:
            write_report(
                config.data_dir,
                job_id,
                report,
                traffic=sessions.traffic(job_id),
                privacy=plan.privacy_report(),
                budget=_balance_of(ledger, config.name, plan),
                elapsed_s=elapsed_s,
            )

        tables = TableReader(config)
        jobs = PartyJobs(
            config,
            Admission(config, ledger, consent),
            describe_table=tables.describe,
            load_table=tables.load,
            accept_messages=sessions.accept_messages,
            open_session=sessions.open,
            close_session=sessions.close,
            write_report=keep_report,
        )
        service = PartyService(config, jobs)
        checks = dict.fromkeys(COORDINATOR_METHODS, service.check_caller)
        permissions = Permissions(config.federation, PERMISSIONS, checks)
        server = Server(credentials, permissions, [MailboxService(mailboxes).add_to, service.add_to])
        host = config.listen.rsplit(":", 1)[0]
        port = await server.start(config.listen)
        log.info("serving", party=config.name, address=f"{host}:{port}", tables=len(config.tables))
        if absent := [table.name for table in config.tables if not is_there(table)]:
            log.warning("tables whose file or database is missing: jobs on them are refused", tables=absent)
        if undeclared := [table.name for table in config.tables if table.rows is None]:
            log.info("tables without `rows`: for sums, means and histograms only", tables=undeclared)
        try:
            yield server
        finally:
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
    for table in config.tables:
        first = table.first_budget
        if first is not None and ledger.set_first_budget(table.name, first.as_budget(), FIRST_BUDGET):
            log.info("first budget set", table=table.name, epsilon=first.epsilon, delta=first.delta)
    without = sorted({t.name for t in config.tables} - {b.dataset for b in ledger.balances()})
    if without:
        log.warning("tables without a privacy budget: no job may use them", tables=without)
    return ledger


def _balance_of(ledger: Ledger, party: str, plan: Plan) -> dict[str, Any] | None:
    """Return what remains of the budget of our table in a job; None where we only compute."""
    table = next((i.table for i in plan.job.inputs if i.party == party), None)
    balance = None if table is None else ledger.balance(table)
    return None if balance is None else balance.as_dict()
