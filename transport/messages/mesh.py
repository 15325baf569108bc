"""A mesh of processes that run one program: no coordinator and no jobs, only members that know each other.

    async with join_mesh(MeshConfig.load(Path("alice.toml")), program="salaries") as session:
        c = await Computation.start(session, ResidueField(3), n_parties=3, t=1)
        ...

Every member runs the same program and has a file like this one, which differs in `name` and `tls`:

    name = "alice"
    federation = "pay-survey"

    [tls]
    authority = "ca.pem"
    certificate = "alice.pem"
    key = "alice.key"

    [[members]]
    name = "alice"
    address = "alice.example.org:7201"

    [[members]]
    name = "bob"
    address = "bob.example.org:7201"
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator
from threadpoolctl import threadpool_limits

from entropy import Entropy, SystemEntropy
from mpc.errors import PeerError, PeerLostError, PeerSilentError, PeerViolationError
from mpc.protocol.concurrency import run_together
from service.authorization import Permissions
from service.identity import NAME_PATTERN, Identity, Role
from service.memory import limit_heaps, release_compiler
from service.server import Server
from service.settings import Address, Settings, TlsFiles, load_settings
from service.tls import party_credentials
from transport.calls.channel import open_channel
from transport.calls.way import wait_until_reachable
from transport.messages.frames import DELIVER
from transport.messages.inbox import Inbox
from transport.messages.mailbox import Mailboxes, MailboxService
from transport.messages.session import GrpcSession

ENVIRONMENT_PREFIX = "MOIETY_MESH"
LOBBY = "lobby"
"""The job under which members meet before they have agreed on one."""
LAST_STAGE = "end of the mesh"
GRACE_S = 3.0
SETTLE_S = 1.0
"""Seconds to stay after another member's fault, so that the others can see whose fault it was and do not blame us."""
NONCE_BYTES = 32

Name = Annotated[str, Field(pattern=NAME_PATTERN)]


class MeshMember(Settings):
    """One member.

    Attributes:
        name: name in its certificate, which is one of a party.
        address: where the others reach it.
    """

    name: Name
    address: Address


class MeshConfig(Settings):
    """All of a member's file.

    Attributes:
        name: name of this member.
        federation: federation whose members it trusts.
        listen: address to serve on; this member's own address where absent.
        tls: its certificate, its key, the authority.
        members: all of them, this one included. Their order is their numbers from 1 on: the same in everybody's file.
        start_s: how long to wait for the others to be there.
        deadline_s: silence of a member for so long fails what waits for it.
        blas_threads: threads of the linear algebra library.
    """

    name: Name
    federation: Name
    listen: Address | None = None
    tls: TlsFiles
    members: Annotated[tuple[MeshMember, ...], Field(min_length=2)]
    start_s: Annotated[float, Field(gt=0)] = 60.0
    deadline_s: Annotated[float, Field(gt=0)] = 30.0
    blas_threads: Annotated[int, Field(ge=1, le=1024)] = 1

    @model_validator(mode="after")
    def _names_are_distinct_and_mine_is_among_them(self) -> Self:
        names = [member.name for member in self.members]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"members: {repeated[0]!r} appears more than once")
        if self.name not in names:
            raise ValueError(f"members: {self.name!r}, the name of this member, is missing")
        return self

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file, overridden by `MOIETY_MESH__...` of the environment; see `load_settings`.

        Raises:
            SettingsError: it cannot be used; the text names each wrong field.
        """
        return load_settings(cls, path, prefix=ENVIRONMENT_PREFIX)

    @property
    def names(self) -> dict[int, str]:
        """Member number to name."""
        return {number: member.name for number, member in enumerate(self.members, start=1)}

    @property
    def me(self) -> int:
        """My member number."""
        return next(number for number, name in self.names.items() if name == self.name)


@asynccontextmanager
async def join_mesh(
    config: MeshConfig,
    *,
    program: str,
    on_progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> AsyncIterator[GrpcSession]:
    """Meet the other members, yield my end of a fresh job among them, part when all have come to the end.

    The job's id is a digest of random numbers of all members, so no two runs share one and no message of an earlier run
    is taken for one of this. When the body fails, the others hear of it at once; what they hear is the text of a
    `PeerError`, of other errors only that there was one.

    Args:
        config: configuration of this member.
        program: what is about to run; all members must say the same.
        on_progress: told (stage, done, total).

    Raises:
        CredentialsError: certificate files that cannot be used, or that belong to somebody else.
        ListenError: the address is taken.
        UnreachableError: a member was not there in time.
        UnauthenticatedError: a member does not accept our certificate.
        PeerViolationError: a member runs another program, or its file lists other members.
        PeerError: a member went away at the start.

    Cost: 2 rounds before the first message of the program, 1 after the last.
    """
    limit_heaps()
    release_compiler()
    credentials = party_credentials(config.tls, config.federation, config.name)
    identities = {number: Identity(config.federation, Role.PARTY, name) for number, name in config.names.items()}
    peers = {number: member for number, member in enumerate(config.members, start=1) if number != config.me}
    roster = {identities[number]: number for number in peers}
    entropy, mailboxes = SystemEntropy(), Mailboxes()
    async with AsyncExitStack() as stack:
        stack.enter_context(threadpool_limits(config.blas_threads))
        lobby = mailboxes.open(LOBBY, roster)  # before anybody can call
        permissions = Permissions(config.federation, {DELIVER: frozenset({Role.PARTY})})
        server = Server(credentials, permissions, [MailboxService(mailboxes).add_to])
        await server.start(config.listen or config.members[config.me - 1].address)
        stack.push_async_callback(server.stop, GRACE_S)
        channels = {
            number: open_channel(peer.address, identities[number], credentials) for number, peer in peers.items()
        }
        for channel in channels.values():
            stack.push_async_callback(channel.close)

        def session_of(job_id: str, inbox: Inbox, deadline_s: float) -> GrpcSession:
            return GrpcSession(
                job_id=job_id,
                terms=program.encode(),
                me=config.me,
                names=config.names,
                entropy=entropy,
                deadline_s=deadline_s,
                inbox=inbox,
                channels=channels,
                on_progress=on_progress,
            )

        reaching = (
            wait_until_reachable(channels[number], peer=peer.name, address=peer.address, deadline_s=config.start_s)
            for number, peer in peers.items()
        )
        await run_together(*reaching)
        session = session_of(LOBBY, lobby, config.start_s)  # the others may still be waiting for each other
        try:
            meeting, job_id = session, await _agree_on_job(session, program, entropy)
            session = session_of(job_id, mailboxes.open(job_id, roster), config.deadline_s)
            await _exchange(meeting, "ready", b"\1")  # from now on everybody takes messages of the job
            await meeting.finish()
            mailboxes.close(LOBBY)
            yield session
            await _part(session)
        except BaseException as error:
            if isinstance(error, PeerError):
                await asyncio.sleep(SETTLE_S)
            reason = error.what if isinstance(error, PeerError) else f"{config.name} gave up"
            mailboxes.close(LOBBY, reason)
            await session.abort(reason)
            raise


async def _agree_on_job(meeting: GrpcSession, program: str, entropy: Entropy) -> str:
    """Return an id that no run has had before, the same for all who run this program with this list of members."""
    nonce = entropy.read(NONCE_BYTES)
    purpose = hashlib.sha256("\0".join([program, *meeting.names.values()]).encode()).digest()
    greetings = await _exchange(meeting, "greeting", nonce + purpose)
    for peer, greeting in greetings.items():
        if greeting[NONCE_BYTES:] != purpose:
            what = f"{meeting.names[peer]} runs another program than {program!r}, or lists other members"
            raise PeerViolationError(peer, "greeting", what)
    nonces = {meeting.me: nonce} | {peer: greeting[:NONCE_BYTES] for peer, greeting in greetings.items()}
    return hashlib.sha256(purpose + b"".join(nonces[number] for number in sorted(nonces))).hexdigest()


async def _part(session: GrpcSession) -> None:
    """Stay until all are done, because others may still send messages. Nobody waits for members that dropped out."""
    peers = [number for number in session.names if number != session.me]
    await run_together(*(_say_goodbye(session, peer) for peer in peers))
    with suppress(PeerLostError, PeerSilentError):
        await session.finish()


async def _say_goodbye(session: GrpcSession, peer: int) -> None:
    with suppress(PeerLostError, PeerSilentError):
        await _exchange_one(session, peer, LAST_STAGE, b"\1")


async def _exchange(session: GrpcSession, stage: str, message: bytes) -> dict[int, bytes]:
    """Send some bytes to all others and return what each sent, of the same length."""
    peers = [number for number in session.names if number != session.me]
    answers = await run_together(*(_exchange_one(session, peer, stage, message) for peer in peers))
    return dict(zip(peers, answers, strict=True))


async def _exchange_one(session: GrpcSession, peer: int, stage: str, message: bytes) -> bytes:
    await session.send(peer, stage, np.frombuffer(message, dtype=np.uint8))
    answer = await session.receive(peer, stage, (len(message),), np.uint8)
    return answer.tobytes()
