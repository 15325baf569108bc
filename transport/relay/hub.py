"""The relay: members that stay connected, callers that ask for ways to them, and the splices between the two.

It proves by mutual TLS who calls, and joins two connections once their outer TLS has ended; what they carry from then
on is sealed by keys that it has not. A member stays connected under the identity of its certificate alone; workers of
one party, which share an identity, each at an endpoint of its own name.

Limits (decision 084): those of `transport.relay.ways`; of each identity `STAYS_EACH` connections that stay, in all
`MOST_STAYS`; `MOST_HANDSHAKES` connections that have not said yet what they want, or ask for a sign of life, each for
`HANDSHAKE_S`. Further connections wait in the system's queue.
"""

import asyncio
import datetime
import secrets
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog
from cryptography import x509

from service.identity import Identity, Role
from service.reach.addresses import split_address
from service.reach.relays import (
    CALL_S,
    SILENT_S,
    CallUnansweredError,
    Endpoint,
    NotAtRelayError,
    RelayError,
    RelayRefusesError,
    ServiceAwayError,
    is_endpoint_name,
)
from service.server import ListenError
from service.tls import Credentials
from transport.relay.admission import MAY_CALL, MEMBERS, Admission
from transport.relay.outer_tls import OuterTls, server_context
from transport.relay.splice import Splice, keep_alive
from transport.relay.ways import OpenWay, Ways

HANDSHAKE_S = 10.0
MOST_HANDSHAKES = 256
STAYS_EACH = 64
MOST_STAYS = 512
LOOK_S = 30.0
"""Seconds between looks at the certificates of connections that stand."""

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


class RelayHub:
    """One relay.

    Args:
        credentials: ours: those of a relay, or of a coordinator.
        now: the clock by which certificates are valid.

    Attributes:
        stays: who is connected.
        ways: what is forwarded.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._context = server_context(credentials)
        self._admission = Admission(credentials, now)
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(MOST_HANDSHAKES)
        self.stays: dict[Endpoint, Stay] = {}
        self.ways = Ways()
        self._awaited: dict[str, _Awaited] = {}

    @property
    def credentials(self) -> Credentials:
        """What it shows now."""
        return self._admission.credentials

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
        self._context = server_context(credentials)
        self._admission.use(credentials)
        self._end_refused()

    async def stop(self) -> None:
        """Listen no more, and end all connections."""
        if self._listener is not None:
            self._listener.close()
        self.ways.end()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def connected(self) -> dict[Identity, float]:
        """Return who is connected to the Unix time since when; of several workers of a party, the first one's."""
        found: dict[Identity, float] = {}
        for endpoint, stay in self.stays.items():
            found[endpoint.identity] = min(stay.since_s, found.get(endpoint.identity, stay.since_s))
        return found

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
        held = [self._places]  # until it has said what it wants, or has had its sign of life
        is_handed_on = False
        channel = OuterTls(sock, self._context)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                der = await channel.shake_hands()
                line = await channel.read_line()
            if line != "TRY":  # what else is counted by itself
                held.pop().release()
            try:
                shown, caller = self._admission.admit(der)
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

    async def _answer(self, channel: OuterTls, caller: Identity, shown: x509.Certificate, line: str) -> bool:
        """Do what a line asks for; return whether the socket belongs to somebody else now."""
        word, _, rest = line.partition(" ")
        match word:
            case "STAY" if caller.role in MAY_CALL:
                await self._stay(channel, _endpoint(caller, rest), shown)
                return False
            case "COME" if caller.role in MAY_CALL:
                return await self._come(channel, caller, shown, rest)
            case "TRY" if caller.role in MEMBERS:
                await channel.write_line("OK")
                async with asyncio.timeout(HANDSHAKE_S):
                    await channel.read_line()
                await channel.write_line("PONG")
                return False
            case "WAY":
                return await self._way(channel, caller, shown, rest)
        raise RelayRefusesError(f"a {caller.role} cannot ask a relay for this")

    async def _stay(self, channel: OuterTls, member: Endpoint, shown: x509.Certificate) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        before = self.stays.get(member)
        if before is None:
            n_own = sum(endpoint.identity == member.identity for endpoint in self.stays)
            if n_own >= STAYS_EACH or len(self.stays) >= MOST_STAYS:
                raise RelayRefusesError("too many members are connected")
        else:  # the later one counts: its address may have changed
            before.task.cancel()
        own = self.stays[member] = Stay(channel, shown, time.time(), task)
        _log.info("a member is connected to the relay", member=member.identity.uri)
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
                _log.info("a member is no longer connected to the relay", member=member.identity.uri)

    def _gone(self, member: Endpoint, ticket: str) -> None:
        awaited = self._awaited.get(ticket)
        if awaited is not None and awaited.target == member.identity and not awaited.came.done():
            awaited.came.set_exception(ServiceAwayError(member.told))

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

    async def _way(self, channel: OuterTls, caller: Identity, shown: x509.Certificate, asked: str) -> bool:
        uri, _, name = asked.partition(" ")
        try:
            target = _endpoint(Identity.from_uri(uri), name)
        except ValueError as error:
            raise RelayRefusesError(str(error)) from error
        if caller.role not in MAY_CALL.get(target.identity.role, ()):
            raise RelayRefusesError(f"a {caller.role} may not call a {target.identity.role}")
        self.ways.count(caller, target)
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
            self.ways.begin(way)
            await joined
            return True
        finally:
            if not is_open:
                self.ways.count_off(caller, target)

    async def _called(self, target: Endpoint) -> tuple[socket.socket, bytes, x509.Certificate]:
        """Call a member, and return its new connection."""
        stay = self.stays.get(target)
        if stay is None:
            raise NotAtRelayError(target.told)
        ticket = secrets.token_hex(16)
        came: asyncio.Future[tuple[socket.socket, bytes, x509.Certificate]]
        came = asyncio.get_running_loop().create_future()
        self._awaited[ticket] = _Awaited(target.identity, came)
        try:
            async with asyncio.timeout(CALL_S):
                await stay.channel.write_line(f"CALL {ticket}")
                return await came
        except (OSError, TimeoutError) as error:
            raise CallUnansweredError(target.told) from error
        finally:
            self._awaited.pop(ticket, None)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self._end_refused()

    def _end_refused(self) -> None:
        """End what stands for members whose certificates are accepted no longer."""
        self.ways.end(self._admission.is_accepted)
        for stay in list(self.stays.values()):
            if not self._admission.is_accepted(stay.shown):
                stay.task.cancel()


def _endpoint(identity: Identity, name: str) -> Endpoint:
    """Return an endpoint that a line names.

    Raises:
        RelayRefusesError: an identity of that role has none of that name.
    """
    if not (is_endpoint_name(name) if identity.role is Role.WORKER else not name):
        raise RelayRefusesError("it is no endpoint: those of workers have names, and no others")
    return Endpoint(identity, name)
