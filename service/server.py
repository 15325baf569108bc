"""A gRPC server of this federation: mutual TLS, permissions, error table, health, graceful end."""

import asyncio
import datetime
import gc
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from service.authorization import Permissions
from service.errors import ServiceError
from service.interceptor import BorderInterceptor
from service.limits import MAX_MESSAGE_BYTES
from service.tls import Credentials
from service.trust.changes import at_hangup, guarded
from service.trust.protocol import PROTOCOL_SERVICE
from service.trust.terms import Terms, service_of_term
from service.watch.callers import Callers

MAX_CALLS = 500
"""Calls in flight per connection. `service.limits` says how many an identity may have over all of its connections."""

STREAM_WINDOW_BYTES = 64 << 10
"""Flow-control window of a call that is not read yet. What exceeds it of a message is let in once the message is read
and its length is known: far away, each message takes a round trip of its own, however long it is."""

UNBEGUN_S = 600
"""Seconds for which a call may wait to be begun."""

_ONLY_IDENTITY = 1

_log = structlog.get_logger(__name__)

SERVER_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second process on the same port must fail, not share it
    ("grpc.max_concurrent_streams", MAX_CALLS),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # The library breaks off calls that a busy process has not begun within half a minute; callers have their deadlines.
    ("grpc.server_max_unrequested_time_in_server", UNBEGUN_S),
    ("grpc.http2.lookahead_bytes", STREAM_WINDOW_BYTES),
    ("grpc.http2.bdp_probe", 0),  # it would widen the window of every call to megabytes, read or not
    ("grpc.compression_enabled_algorithms_bitset", _ONLY_IDENTITY),  # a compressed message would grow before it is read
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 30_000),  # a network that is gone for less ends no call
    ("grpc.http2.ping_timeout_ms", 30_000),  # also of other pings; the library would wait for a minute for all
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


class ListenError(ServiceError):
    """The server cannot listen at the address."""

    code = "cannot-listen"


class Server:
    """One listening server.

    Args:
        credentials: ours; every caller must show a certificate of the same authority.
        permissions: who may call what.
        services: functions that register a service on the underlying server, for instance `MailboxService(...).add_to`.
        terms: terms of the coordinators that have called; where absent they are forgotten when the process ends.
        now: the clock by which callers' certificates are valid.
    """

    def __init__(
        self,
        credentials: Credentials,
        permissions: Permissions,
        services: Sequence[Callable[[Any], None]],
        *,
        terms: Terms | None = None,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self.credentials = credentials
        self.is_told_to_stop = False
        """Whether `serve_until_signal` has had its signal."""
        self._stands_by = False
        self._renewed: Any = None  # what handshakes take up, once
        self._border = BorderInterceptor(permissions, trust=credentials, terms=terms or Terms(), now=now)
        self._server = grpc.aio.server(interceptors=(self._border,), options=SERVER_OPTIONS)
        self._health = health.aio.HealthServicer()
        add_HealthServicer_to_server(self._health, self._server)
        for register in services:
            register(self._server)

    async def start(self, address: str) -> int:
        """Listen.

        Args:
            address: `host:port`; port 0 lets the system choose.

        Returns:
            The port.

        Raises:
            ListenError: the port is taken, or the address is not one of this machine.
        """
        try:
            secure = self.credentials.for_server(self._take_renewed)
            port = int(self._server.add_secure_port(address, secure))
        except RuntimeError as error:
            raise ListenError(
                f"cannot listen at {address}: the port is in use, or the address does not belong to this machine"
            ) from error
        if not self._stands_by:
            await self._tell_health(HealthCheckResponse.SERVING)
        await self._server.start()
        return port

    async def stand_by(self) -> None:
        """Tell those who ask for our health that we do not serve."""
        self._stands_by = True
        await self._tell_health(HealthCheckResponse.NOT_SERVING)

    async def _tell_health(self, status: Any) -> None:
        for service in ("", PROTOCOL_SERVICE):
            await self._health.set(service, status)

    def renew(self, credentials: Credentials) -> None:
        """Show another certificate in new connections, and refuse what its list revokes; other calls go on.

        Raises:
            CredentialsError: it is somebody else's, or its list is older than the present one.
        """
        self.credentials.check_successor(credentials)
        self.credentials = credentials
        self._renewed = credentials.certificate_configuration
        self._border.trust(credentials)

    def _take_renewed(self) -> Any:
        renewed, self._renewed = self._renewed, None
        return renewed

    @property
    def seen(self) -> Callers:
        """Who has called."""
        return self._border.seen

    @property
    def terms(self) -> Terms:
        """In which terms coordinators have called."""
        return self._border.terms

    async def lead(self, term: int) -> None:
        """Tell those who ask that we lead in a term."""
        await self._health.set(service_of_term(term), HealthCheckResponse.SERVING)

    async def stop(self, grace_s: float) -> None:
        """Take no new calls, give the present ones `grace_s` to end, then cancel them."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)

    async def serve_until_signal(
        self,
        grace_s: float,
        *,
        end_work: Callable[[], Awaitable[None]] | None = None,
        reload: Callable[[], None] | None = None,
    ) -> None:
        """Serve until SIGTERM or SIGINT, then stop; a second signal ends the grace.

        Args:
            grace_s: seconds for calls in flight.
            end_work: awaited after the signal and before the stop, while callers can still hear how their work ended.
            reload: called at each SIGHUP; it raises a `ServiceError` or a `SettingsError` where nothing has changed.
        """
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        first, second = asyncio.Event(), asyncio.Event()

        def signalled() -> None:
            self.is_told_to_stop = True
            (second if first.is_set() else first).set()

        for number in signals:
            loop.add_signal_handler(number, signalled)
        gc.collect()
        gc.freeze()  # what was imported lives as long as the process: no collection need look at it again
        try:
            with at_hangup(guarded(reload or (lambda: None))):
                await first.wait()
                stopping = asyncio.create_task(self._end(end_work, grace_s))
                impatience = asyncio.create_task(second.wait())
                await asyncio.wait({stopping, impatience}, return_when=asyncio.FIRST_COMPLETED)
                impatience.cancel()
                if not stopping.done():
                    await self._server.stop(0)
                await stopping
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def _end(self, end_work: Callable[[], Awaitable[None]] | None, grace_s: float) -> None:
        if end_work is not None:
            await end_work()
        await self.stop(grace_s)
