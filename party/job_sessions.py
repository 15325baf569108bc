"""The sessions of a party's jobs: where their messages arrive, and who takes part."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from entropy import Entropy
from mpc.errors import PeerError
from mpc.protocol.session import COORDINATOR, Session
from party.config import PartyConfig
from party.outcome.report import StageTraffic
from service.errors import AlreadyExistsError
from service.files.private_report import report_path
from service.identity import Identity, Role
from service.watch.meter import Meter
from transport.messages.inbox import Inbox
from transport.messages.mailbox import Mailboxes
from transport.messages.session import GrpcSession


class OverLimitError(Exception):
    """A job runs longer than our owner allows because of our own work; the text is public."""

    code: str = "job-overtime-here"


class JobSession(Session, Protocol):
    """A session that can be ended, and that reports which member it waits for."""

    def waits_for(self, least_s: float) -> int | None:
        """Return the member that we have waited for longest without a break; None if no wait was that long."""

    def waited_most_for(self) -> int | None:
        """Return the member that we have waited for most in total; None if for no member half of the time."""

    def count_traffic(self, sent: Mapping[str, int], received: Mapping[str, int]) -> None:
        """Count payload bytes that our workers have moved for this job, by stage."""

    async def finish(self) -> None:
        """Wait until every message was received."""

    async def abort(self, reason: str) -> None:
        """Stop at once."""

    def on_violation(self, report: Callable[[PeerError], None]) -> None:
        """Report once that a member that may restart has broken the protocol."""

    def hold(self, member: int) -> None:
        """Send nothing to a member that has gone away, until it begins again."""

    async def begin_again(self, member: int) -> None:
        """Send a member that has restarted everything again, and expect to hear everything again."""


SessionOpener = Callable[[str, bytes, int, Mapping[int, str], float, Callable[[str, int, int], None]], JobSession]
"""Given the job's id, its terms, my number, names by number, the deadline in seconds and a callback for progress."""


class JobSessions:
    """Opens and closes the sessions of jobs: inbox, roster of identities, channels.

    Args:
        config: names of this party, its coordinator and its federation.
        mailboxes: where messages arrive.
        channels: name to channel, of all peers and the coordinator.
        entropy: random source of every session.
        meter: metrics of the service.
        term: returns in which term the coordinator leads; 0 where it has none.

    Raises:
        ValueError: the entropy is reproducible.
    """

    def __init__(
        self,
        config: PartyConfig,
        mailboxes: Mailboxes,
        channels: Mapping[str, Any],
        entropy: Entropy,
        meter: Meter | None = None,
        term: Callable[[], int] = lambda: 0,
    ) -> None:
        if not entropy.is_secure:
            raise ValueError("a service needs secure randomness")
        self._config = config
        self._mailboxes = mailboxes
        self._channels = channels
        self._entropy = entropy
        self._meter = meter or Meter()
        self._term = term
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
        self._inboxes[job_id] = self._mailboxes.open(job_id, roster, returning=(COORDINATOR,))

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
            returning=(COORDINATOR,),
            term=self._term,
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
        if (session := self._sessions.pop(job_id, None)) is not None:
            self._meter.traffic("sent", session.sent_bytes_by_name)
            self._meter.traffic("received", session.received_bytes_by_name)
