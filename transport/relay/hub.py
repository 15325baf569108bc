"""The relay: members that stay connected, callers that ask for ways to them, and the splices between the two.

It proves by mutual TLS who calls, and joins two connections once their outer TLS has ended; what they carry from then
on is sealed by keys that it has not. A member stays connected under the identity of its certificate alone.

Limits (decision 084): of each identity `WAYS_EACH` ways that it asked for, `WAYS_PAIR` of them to one member; in all
`MOST_WAYS`, each of which holds `SPLICE_BYTES` of memory at most; `MOST_HANDSHAKES` connections that have not said yet
what they want, each for `HANDSHAKE_S`. Further connections wait in the system's queue.
"""

import asyncio
import datetime
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog
from cryptography import x509

from service.certificate_rules import check_issued_by, check_member, check_valid_at, read_as
from service.errors import ServiceError
from service.identity import Identity, Role, identity_of
from service.reach.addresses import split_address
from service.reach.relays import (
    CALL_S,
    SILENT_S,
    CallUnansweredError,
    NotAtRelayError,
    RelayError,
    RelayRefusesError,
    ServiceAwayError,
)
from service.server import ListenError
from service.tls import Credentials
from transport.relay.outer_tls import OuterTls, server_context
from transport.relay.splice import Splice, keep_alive

HANDSHAKE_S = 10.0
MOST_HANDSHAKES = 256
WAYS_EACH = 64
WAYS_PAIR = 16
MOST_WAYS = 512
LOOK_S = 30.0
"""Seconds between looks at the certificates of connections that stand."""

MAY_CALL = {
    Role.PARTY: frozenset({Role.PARTY, Role.COORDINATOR}),
    Role.WORKER: frozenset({Role.WORKER}),
}
"""Role that may stay at a relay to the roles that may ask for a way to it."""

_MEMBERS = frozenset({Role.RELAY}) | frozenset(MAY_CALL) | frozenset().union(*MAY_CALL.values())

_log = structlog.get_logger(__name__)


@dataclass
class Stay:
    """A member that is connected.

    Attributes:
        channel: connection over which it is called.
        since_s: time of the system's clock when it came.
        task: task that listens to it.
    """

    channel: OuterTls
    shown: x509.Certificate
    since_s: float
    task: "asyncio.Task[None]"


@dataclass
class _Awaited:
    """A caller that waits for the called member.

    Attributes:
        target: member that was called.
        came: the member's connection, and what it sent first.
    """

    target: Identity
    came: "asyncio.Future[tuple[socket.socket, bytes, x509.Certificate]]"


@dataclass(eq=False)
class OpenWay:
    """A way in use.

    Attributes:
        caller, target: its ends.
        splice: its two connections.
        shown: certificates of both.
    """

    caller: Identity
    target: Identity
    splice: Splice
    shown: tuple[x509.Certificate, x509.Certificate] = field(repr=False)


class RelayHub:
    """One relay.

    Args:
        credentials: ours: those of a relay, or of a coordinator.
        now: the clock by which certificates are valid.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._credentials = credentials
        self._context = server_context(credentials)
        self._authority = x509.load_pem_x509_certificate(credentials.authority_pem)
        self._now = now
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(MOST_HANDSHAKES)
        self.stays: dict[Identity, Stay] = {}
        self.ways: set[OpenWay] = set()
        self.n_bytes: Counter[tuple[Identity, Identity]] = Counter()
        """Caller and called to the bytes of their ways that have ended; see `traffic`."""
        self._awaited: dict[str, _Awaited] = {}
        self._n_asked: Counter[Identity] = Counter()
        self._n_pair: Counter[tuple[Identity, Identity]] = Counter()

    async def start(self, address: str) -> int:
        """Listen.

        Args:
            address: host:port; port 0 lets the system choose.

        Returns:
            The port.

        Raises:
            ListenError: the port is taken, or the address is not one of this machine.
        """
        host, port = split_address(address)
        try:
            family, kind, number, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, kind, number)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(MOST_HANDSHAKES)
        except OSError as error:
            raise ListenError(f"cannot listen as a relay at {address}: {error.strerror}") from error
        listener.setblocking(False)
        self._listener = listener
        self._begin(self._accept(listener))
        self._begin(self._look())
        return int(listener.getsockname()[1])

    def use(self, credentials: Credentials) -> None:
        """Show another certificate from now on, and end the connections of those whom its list revokes."""
        self._credentials, self._context = credentials, server_context(credentials)
        self._authority = x509.load_pem_x509_certificate(credentials.authority_pem)
        self._end_refused()

    async def stop(self) -> None:
        """Listen no more, and end all connections."""
        if self._listener is not None:
            self._listener.close()
        for way in list(self.ways):
            way.splice.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def traffic(self) -> dict[tuple[Identity, Identity], int]:
        """Return caller and called to the bytes forwarded between them so far."""
        found = Counter(self.n_bytes)
        for way in self.ways:
            found[way.caller, way.target] += way.splice.n_bytes
        return dict(found)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._places.acquire()
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError as error:
                self._places.release()
                _log.warning("relay cannot accept a connection", reason=error.strerror)
                await asyncio.sleep(1.0)
                continue
            keep_alive(sock)
            self._begin(self._serve(sock))

    async def _serve(self, sock: socket.socket) -> None:
        """Serve one connection: prove who calls, and do what its line asks for."""
        held = [self._places]  # until it has said what it wants
        is_handed_on = False
        channel = OuterTls(sock, self._context)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                der = await channel.shake_hands()
                line = await channel.read_line()
            held.pop().release()
            try:
                shown, caller = self._admit(der)
                is_handed_on = await self._answer(channel, caller, shown, line)
            except RelayError as refusal:
                await channel.write_line(f"NO {refusal.code} {refusal}")
        except (OSError, ValueError, TimeoutError) as error:
            _log.debug("a connection to the relay ended", reason=type(error).__name__)
        finally:
            for place in held:
                place.release()
            if not is_handed_on:
                sock.close()

    def _admit(self, der: bytes) -> tuple[x509.Certificate, Identity]:
        """Return who calls.

        Raises:
            RelayRefusesError: its certificate is not accepted.
        """
        try:
            with read_as("it is damaged"):
                shown = x509.load_der_x509_certificate(der)
            check_issued_by(shown, self._authority)
            check_member(shown, dials=True)
            self._check_now(shown)
            caller = identity_of(shown)
        except (ServiceError, ValueError) as error:
            raise RelayRefusesError(f"this certificate is not accepted: {error}") from error
        if caller.federation != self._credentials.identity.federation:
            raise RelayRefusesError(f"{caller} does not belong to this federation")
        return shown, caller

    def _check_now(self, shown: x509.Certificate) -> None:
        now = self._now()
        check_valid_at(shown, now)
        if self._credentials.revoked is not None:
            self._credentials.revoked.check(shown.serial_number, "this member", now)

    async def _answer(self, channel: OuterTls, caller: Identity, shown: x509.Certificate, line: str) -> bool:
        """Do what a line asks for; return whether the socket belongs to somebody else now."""
        word, _, rest = line.partition(" ")
        match word:
            case "STAY" if caller.role in MAY_CALL:
                await self._stay(channel, caller, shown)
                return False
            case "COME" if caller.role in MAY_CALL:
                return await self._come(channel, caller, shown, rest)
            case "TRY" if caller.role in _MEMBERS:
                await channel.write_line("OK")
                async with asyncio.timeout(HANDSHAKE_S):
                    await channel.read_line()
                await channel.write_line("PONG")
                return False
            case "WAY":
                return await self._way(channel, caller, shown, rest)
        raise RelayRefusesError(f"a {caller.role} cannot ask a relay for this")

    async def _stay(self, channel: OuterTls, member: Identity, shown: x509.Certificate) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        before = self.stays.get(member)
        own = self.stays[member] = Stay(
            channel, shown, time.time(), task
        )  # the later one: its address may have changed
        if before is not None:
            before.task.cancel()
        _log.info("a member is connected to the relay", member=member.uri)
        try:
            await channel.write_line("OK")
            while True:
                async with asyncio.timeout(SILENT_S):
                    line = await channel.read_line()
                word, _, ticket = line.partition(" ")
                if word == "PING":
                    await channel.write_line("PONG")
                elif word == "GONE":
                    self._gone(member, ticket)
        finally:
            if self.stays.get(member) is own:
                del self.stays[member]
                _log.info("a member is no longer connected to the relay", member=member.uri)

    def _gone(self, member: Identity, ticket: str) -> None:
        awaited = self._awaited.get(ticket)
        if awaited is not None and awaited.target == member and not awaited.came.done():
            awaited.came.set_exception(ServiceAwayError(member.name))

    async def _come(self, channel: OuterTls, member: Identity, shown: x509.Certificate, ticket: str) -> bool:
        awaited = self._awaited.get(ticket)
        if awaited is None or awaited.target != member or awaited.came.done():
            raise RelayRefusesError("nobody waits for this")
        del self._awaited[ticket]
        await channel.write_line("OK")
        first = await self._ended(channel)
        if awaited.came.done():  # the caller has given up meanwhile
            return False
        awaited.came.set_result((channel.sock, first, shown))
        return True

    @staticmethod
    async def _ended(channel: OuterTls) -> bytes:
        async with asyncio.timeout(HANDSHAKE_S):
            return await channel.end()

    async def _way(self, channel: OuterTls, caller: Identity, shown: x509.Certificate, uri: str) -> bool:
        try:
            target = Identity.from_uri(uri)
        except ValueError as error:
            raise RelayRefusesError(str(error)) from error
        if caller.role not in MAY_CALL.get(target.role, ()):
            raise RelayRefusesError(f"a {caller.role} may not call a {target.role}")
        pair = (caller, target)
        if self._n_asked[caller] >= WAYS_EACH or self._n_pair[pair] >= WAYS_PAIR or self._n_asked.total() >= MOST_WAYS:
            raise RelayRefusesError("too many ways are open")
        self._n_asked[caller] += 1
        self._n_pair[pair] += 1
        is_open = False
        try:
            sock, first, called = await self._called(target)
            try:
                await channel.write_line("OK")
                second = await self._ended(channel)
                way = OpenWay(caller, target, Splice(), (shown, called))
                joined = way.splice.join(channel.sock, sock, second, first)
            except BaseException:
                sock.close()
                raise
            is_open = True  # from here on the splice closes both
            self.ways.add(way)
            way.splice.ended.add_done_callback(lambda _: self._forget(way))
            await joined
            return True
        finally:
            if not is_open:
                self._count_off(caller, target)

    async def _called(self, target: Identity) -> tuple[socket.socket, bytes, x509.Certificate]:
        """Call a member, and return its new connection."""
        stay = self.stays.get(target)
        if stay is None:
            raise NotAtRelayError(target.name)
        ticket = secrets.token_hex(16)
        came: asyncio.Future[tuple[socket.socket, bytes, x509.Certificate]]
        came = asyncio.get_running_loop().create_future()
        self._awaited[ticket] = _Awaited(target, came)
        try:
            async with asyncio.timeout(CALL_S):
                await stay.channel.write_line(f"CALL {ticket}")
                return await came
        except (OSError, TimeoutError) as error:
            raise CallUnansweredError(target.name) from error
        finally:
            self._awaited.pop(ticket, None)

    def _forget(self, way: OpenWay) -> None:
        self.ways.discard(way)
        self.n_bytes[way.caller, way.target] += way.splice.n_bytes
        self._count_off(way.caller, way.target)

    def _count_off(self, caller: Identity, target: Identity) -> None:
        self._n_asked[caller] -= 1
        self._n_pair[caller, target] -= 1
        self._n_asked, self._n_pair = +self._n_asked, +self._n_pair  # without those that have none

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self._end_refused()

    def _end_refused(self) -> None:
        """End what stands for members whose certificates are accepted no longer."""
        for way in list(self.ways):
            if not all(map(self._is_accepted, way.shown)):
                way.splice.abort()
        for stay in list(self.stays.values()):
            if not self._is_accepted(stay.shown):
                stay.task.cancel()

    def _is_accepted(self, shown: x509.Certificate) -> bool:
        with suppress(ServiceError, ValueError):
            check_issued_by(shown, self._authority)
            self._check_now(shown)
            return True
        return False
