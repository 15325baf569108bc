"""Mailboxes of several members in one process: real certificates, real servers, real channels, one open job."""

import asyncio
import datetime
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deadlines import GENEROUS_S

from entropy import InsecureTestEntropy
from service.authorization import Permissions
from service.identity import Identity, Role
from service.pki import KeyPair, create_authority, issue
from service.server import Server
from service.tls import Credentials, load_credentials
from transport.calls.channel import open_channel
from transport.messages.frames import DELIVER
from transport.messages.inbox import Inbox
from transport.messages.mailbox import Mailboxes, MailboxService
from transport.messages.session import GrpcSession

FEDERATION = "acme"
JOB = "job-1"


def write_files(folder: Path, authority: KeyPair, pair: KeyPair) -> Credentials:
    """Write PEM files as `moiety pki` does, and load them."""
    folder.mkdir(parents=True, exist_ok=True)
    ca, certificate, key = folder / "ca.pem", folder / "own.pem", folder / "own.key"
    ca.write_bytes(authority.certificate_pem)
    certificate.write_bytes(pair.certificate_pem)
    key.touch(mode=0o600)
    key.write_bytes(pair.key_pem)
    return load_credentials(authority=ca, certificate=certificate, key=key)


@dataclass
class Member:
    """One participant: a server with a mailbox, channels to the others, and what it heard of progress."""

    number: int
    identity: Identity
    credentials: Credentials
    mailboxes: Mailboxes
    server: Server
    inbox: Inbox | None = None
    port: int = 0
    channels: dict[int, Any] = field(default_factory=dict)
    progress: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass
class MailboxFederation:
    """The members of one job, all in this process, each behind its own TLS server."""

    folder: Path
    authority: KeyPair
    members: dict[int, Member]
    names: Mapping[int, str]
    job_id: str = JOB

    def open_job(self, job_id: str) -> None:
        """Open the mailboxes of another job; sessions are of that job from now on."""
        for number, member in self.members.items():
            member.mailboxes.close(self.job_id)
            roster = {other.identity: n for n, other in self.members.items() if n != number}
            member.inbox = member.mailboxes.open(job_id, roster)
        self.job_id = job_id

    def session(
        self, number: int, *, deadline_s: float = 60.0, channels: Mapping[int, Any] | None = None
    ) -> GrpcSession:
        """Return a new session of a member, over its own channels unless others are given."""
        member = self.members[number]
        assert member.inbox is not None
        return self._session(self.job_id, member.inbox, number, deadline_s, channels)

    def session_of(self, job_id: str, number: int) -> GrpcSession:
        """Open the mailbox of one more job at a member, beside the others; return a session of it."""
        member = self.members[number]
        inbox = member.mailboxes.open(job_id, {o.identity: n for n, o in self.members.items() if n != number})
        return self._session(job_id, inbox, number, GENEROUS_S, None)

    def _session(
        self, job_id: str, inbox: Inbox, number: int, deadline_s: float, channels: Mapping[int, Any] | None
    ) -> GrpcSession:
        member = self.members[number]
        return GrpcSession(
            job_id=job_id,
            terms=b"",
            me=number,
            names=self.names,
            entropy=InsecureTestEntropy(str(number)),
            deadline_s=deadline_s,
            inbox=inbox,
            channels=member.channels if channels is None else channels,
            on_progress=lambda stage, done, total: member.progress.append((stage, done, total)),
        )

    async def connected(self, number: int, to: int) -> None:
        """Wait until a member has a connection to another one: where a short deadline is to pass for another reason."""
        await asyncio.wait_for(self.members[number].channels[to].channel_ready(), GENEROUS_S)

    def issue(self, role: Role, name: str) -> Credentials:
        """Issue a certificate of this federation."""
        pair = issue(self.authority, role, name, days=1, now=datetime.datetime.now(datetime.UTC))
        return write_files(self.folder / f"{role}-{name}", self.authority, pair)

    def dial(self, to: int, credentials: Credentials) -> Any:
        """Open a channel to a member's server with any credentials."""
        member = self.members[to]
        return open_channel(f"127.0.0.1:{member.port}", member.identity, credentials)


@asynccontextmanager
async def running_federation(folder: Path, n_parties: int) -> AsyncIterator[MailboxFederation]:
    """Run a coordinator (0) and parties 1..N with an open job among them."""
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority(FEDERATION, days=2, now=now)
    identities = {0: Identity(FEDERATION, Role.COORDINATOR, "hub")}
    identities |= {i: Identity(FEDERATION, Role.PARTY, f"party-{i}") for i in range(1, n_parties + 1)}
    names = {number: identity.name for number, identity in identities.items()}
    made = MailboxFederation(folder, authority, {}, names)
    permissions = Permissions(FEDERATION, {DELIVER: frozenset({Role.PARTY, Role.COORDINATOR})})
    async with AsyncExitStack() as stack:
        for number, identity in identities.items():
            credentials = made.issue(identity.role, identity.name)
            mailboxes = Mailboxes()
            server = Server(credentials, permissions, [MailboxService(mailboxes).add_to])
            member = Member(number, identity, credentials, mailboxes, server)
            member.inbox = mailboxes.open(JOB, {other: n for n, other in identities.items() if n != number})
            member.port = await server.start("127.0.0.1:0")
            stack.push_async_callback(server.stop, 0)
            made.members[number] = member
        for number, member in made.members.items():
            for to in identities:
                if to != number:
                    channel = made.dial(to, member.credentials)
                    member.channels[to] = channel
                    stack.push_async_callback(channel.close)
        yield made
