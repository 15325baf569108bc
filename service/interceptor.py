"""The interceptor around every call of a server: authorisation and limits before it, the error table after it."""

import asyncio
import datetime
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import grpc
import structlog
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from service.authorization import HEALTH_METHODS, Permissions
from service.errors import InvalidRequestError, UnauthenticatedError, UnreadableError, status_of
from service.identity import Identity, PeerCertificate, peer_certificate
from service.limits import LIMITS, CallCounts, MethodLimit, request_arrives_in_time
from service.tls import Credentials
from service.trust.protocol import check_agent
from service.trust.terms import Terms
from service.watch.callers import Callers

MOST_WAITING, MOST_HEARD, HEARD_EACH = 128, 16, 8
"""Refused calls that wait for a pause of their callers at a time; those of which messages are taken in at a time; and
those of one caller within `FORGET_S`."""

PAUSE_S, HEAR_OUT_S, FORGET_S = 0.25, 2.0, 10.0
"""Seconds without a message after which a refused caller is taken to write no more; for which its messages are taken in
at most; and after which its refusal is forgotten."""

_MINUTE = "%Y-%m-%d %H:%M"

_log = structlog.get_logger(__name__)


class BorderInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Refuses callers that the permissions do not name, and answers errors as the table in `service.errors` says.

    Nothing of a call is read before its caller may speak. grpc.aio reads and decodes the message of a unary request
    before it calls the handler, and tells an interceptor nothing of the caller. So every method is served as one that
    takes a stream of raw bytes, of which the library reads none until it is asked: the wire is the same. The border
    checks who calls and how many calls it has in flight, then reads, measures and decodes.

    Handlers raise errors of the table; they never set a status. An error that is not in the table is logged here and
    answered without any detail. Handlers that answer with a stream are asynchronous generators, or coroutines that
    write to the context.

    Args:
        permissions: who may call what.
        counts: how much each caller may ask at once.
        trust: ours: the authority whose certificates are accepted, and the list of those that are refused.
        terms: terms of the coordinators that have called.
        now: the clock.
    """

    def __init__(
        self,
        permissions: Permissions,
        counts: CallCounts | None = None,
        *,
        trust: Credentials,
        terms: Terms,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._permissions = permissions
        self._counts = CallCounts(LIMITS) if counts is None else counts
        self._trust = trust
        self._now = now
        self.seen = Callers()
        self.terms = terms
        self._in_flight: dict[asyncio.Timeout, PeerCertificate] = {}  # calls, and what their callers have shown
        self._refused = _RefusedCalls()

    def trust(self, credentials: Credentials) -> None:
        """Use another list from now on, and break off the calls of those whose certificates it revokes."""
        self._trust = credentials
        for call, shown in list(self._in_flight.items()):
            call.reschedule(self._end_of(shown))

    def _end_of(self, shown: PeerCertificate) -> float:
        """Return the time of the loop at which calls of a caller end, because it is accepted no longer."""
        ends, revoked = [shown.not_valid_after, self._trust.authority_not_valid_after], self._trust.revoked
        now = self._now()
        if revoked is not None:
            ends.append(now if shown.serial in revoked.serials else revoked.not_valid_after)
        return asyncio.get_running_loop().time() + (min(ends) - now).total_seconds()

    def _check_shown(self, shown: PeerCertificate) -> None:
        """Refuse a certificate that is revoked or not valid now: TLS looks at dates when a connection begins."""
        now, end = self._now(), self._trust.authority_not_valid_after
        if self._trust.revoked is not None:
            self._trust.revoked.check(shown.serial, shown.identity, now)
        if now > end:
            raise UnauthenticatedError(
                f"nobody is accepted: the authority's certificate expired on {end:{_MINUTE}} UTC"
            )
        if now > shown.not_valid_after:
            raise UnauthenticatedError(
                f"the certificate of {shown.identity} expired on {shown.not_valid_after:{_MINUTE}} UTC; get a new one"
            )
        if now < shown.not_valid_before:
            begin = f"{shown.not_valid_before:{_MINUTE}} UTC"
            raise UnauthenticatedError(f"the certificate of {shown.identity} is valid only from {begin} on")

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Return the handler of a call, guarded."""
        handler = await continuation(details)
        if handler is None:
            return None
        return self._guarded(details.method, handler)

    def _guarded(self, method: str, handler: Any) -> Any:
        limit = self._counts.limit_of(method)

        async def request_of(context: Any, reads: asyncio.Semaphore) -> Any:
            messages = _AllMessages(context, handler.request_deserializer, limit, reads)
            return messages if handler.request_streaming else await _only(messages)

        async def answer_once(_: Any, context: Any) -> Any:
            async with self._border(method, context, writes=handler.request_streaming) as reads:
                behavior = handler.unary_unary or handler.stream_unary
                return await behavior(await request_of(context, reads), context)

        async def answer_many(_: Any, context: Any) -> AsyncIterator[Any]:
            async with self._border(method, context, writes=handler.request_streaming) as reads:
                behavior = handler.unary_stream or handler.stream_stream
                request = await request_of(context, reads)
                if inspect.iscoroutinefunction(behavior):
                    await behavior(request, context)
                    return
                async for answer in behavior(request, context):
                    yield answer

        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(answer_many, response_serializer=handler.response_serializer)
        return grpc.stream_unary_rpc_method_handler(answer_once, response_serializer=handler.response_serializer)

    @asynccontextmanager
    async def _border(self, method: str, context: Any, *, writes: bool) -> AsyncIterator[asyncio.Semaphore]:
        caller: Identity | None = None
        is_let_in = False
        try:
            shown = peer_certificate(context)
            caller = shown.identity
            self._check_shown(shown)
            self._permissions.check(method, caller)
            if method not in HEALTH_METHODS:
                check_agent(caller.name, context)
            self.terms.check(caller, context)
            self.seen.note(shown, context)
            with self._counts.call(method, caller) as reads:
                async with self._while_accepted(shown):
                    is_let_in = True
                    yield reads
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            status, text = status_of(error)
            if status is grpc.StatusCode.INTERNAL:
                _log.exception("call failed", method=method, error=type(error).__name__)
            if writes and not is_let_in:
                await self._refused.hear_out(caller, context)
            await context.abort(status, text)

    @asynccontextmanager
    async def _while_accepted(self, shown: PeerCertificate) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout_at(self._end_of(shown)) as call:
                self._in_flight[call] = shown
                try:
                    yield
                finally:
                    del self._in_flight[call]
        except TimeoutError as error:
            if not call.expired():
                raise
            self._check_shown(shown)
            raise UnauthenticatedError(f"the certificate of {shown.identity} has just expired") from error


class _RefusedCalls:
    """Lets refused callers write to the end, so that they read why they are refused. What they write is dropped.

    gRPC's own client puts an error of its own in place of a status that comes while it writes (grpc/grpc issue 36066).
    So the status waits for a pause; then what does not fit into the window of the call is taken in, message by message.
    That costs memory, so it is done for a few calls at a time, not for long, and not for a caller that is refused again
    and again.
    """

    def __init__(self) -> None:
        self._n_waiting = 0
        self._n_heard = 0
        self._n_of: Counter[Identity | None] = Counter()  # within the last FORGET_S

    async def hear_out(self, caller: Identity | None, context: Any) -> None:
        """Wait until a caller writes no more, or long enough.

        Args:
            caller: who is refused; None where its certificate does not say.
            context: context of the call.
        """
        if self._n_waiting >= MOST_WAITING:
            return
        self._n_of[caller] += 1
        asyncio.get_running_loop().call_later(FORGET_S, self._forget, caller)
        self._n_waiting += 1
        try:
            await asyncio.sleep(PAUSE_S)
        finally:
            self._n_waiting -= 1
        if self._n_heard >= MOST_HEARD or self._n_of[caller] > HEARD_EACH:
            return
        self._n_heard += 1
        try:
            async with asyncio.timeout(HEAR_OUT_S):
                while True:
                    async with asyncio.timeout(PAUSE_S):
                        if await context.read() is grpc.aio.EOF:
                            return
        except TimeoutError:
            pass
        finally:
            self._n_heard -= 1

    def _forget(self, caller: Identity | None) -> None:
        self._n_of[caller] -= 1
        if not self._n_of[caller]:
            del self._n_of[caller]


class _AllMessages:
    """The messages of a stream, decoded. Keeps none while it waits for the next, as a generator would.

    The library takes in a message from when it is asked for one. So a call asks only while it holds one of the reads of
    its caller (`service.limits`); until then no more than a window of it is in memory.
    """

    def __init__(
        self, context: Any, decode: Callable[[bytes], Any] | None, limit: MethodLimit, reads: asyncio.Semaphore
    ) -> None:
        self._context = context
        self._decode = decode
        self._limit = limit
        self._reads = reads

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        async with self._reads:
            data = await self._context.read()
        if data is grpc.aio.EOF:
            raise StopAsyncIteration
        return _decoded(data, self._decode, self._limit)


async def _only(messages: _AllMessages) -> Any:
    async with request_arrives_in_time():
        try:
            return await anext(messages)
        except StopAsyncIteration:
            raise InvalidRequestError("the call ended without a request") from None


def _decoded(data: bytes, decode: Callable[[bytes], Any] | None, limit: MethodLimit) -> Any:
    if len(data) > limit.message_bytes:
        raise UnreadableError(f"a message of this call may have at most {limit.message_bytes} bytes")
    if decode is None:
        return data
    try:
        return decode(data)
    except DecodeError as error:
        raise UnreadableError("a message of this call cannot be decoded") from error
