"""The interceptor around every call of a server: authorisation and limits before it, the error table after it."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import grpc
import structlog
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from service.authorization import Permissions
from service.errors import InvalidRequestError, UnauthenticatedError, UnreadableError, status_of
from service.identity import Identity, peer_certificate
from service.limits import LIMITS, CallCounts, MethodLimit, request_arrives_in_time
from service.trust.revocation import RevocationList
from service.trust.terms import Terms
from service.watch.sightings import Sightings

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
        revoked: certificates that are refused.
    """

    def __init__(
        self, permissions: Permissions, counts: CallCounts | None = None, revoked: RevocationList | None = None
    ) -> None:
        self._permissions = permissions
        self._counts = CallCounts(LIMITS) if counts is None else counts
        self._revoked = revoked
        self.seen = Sightings()
        self.terms = Terms()
        self._in_flight: dict[asyncio.Timeout, int] = {}  # calls, and the serial numbers of their callers' certificates

    def revoke(self, revoked: RevocationList | None) -> None:
        """Use another list from now on, and break off the calls of those whose certificates it revokes."""
        self._revoked = revoked
        for call, serial in list(self._in_flight.items()):
            if revoked is not None and serial in revoked.serials:
                call.reschedule(asyncio.get_running_loop().time())

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
            async with self._border(method, context) as reads:
                behavior = handler.unary_unary or handler.stream_unary
                return await behavior(await request_of(context, reads), context)

        async def answer_many(_: Any, context: Any) -> AsyncIterator[Any]:
            async with self._border(method, context) as reads:
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
    async def _border(self, method: str, context: Any) -> AsyncIterator[asyncio.Semaphore]:
        try:
            shown = peer_certificate(context)
            caller, serial = shown.identity, shown.serial
            if self._revoked is not None:
                self._revoked.check(serial, caller)
            self._permissions.check(method, caller)
            self.terms.check(caller, context)
            self.seen.note(shown, context)
            with self._counts.call(method, caller) as reads:
                async with self._until_revoked(caller, serial):
                    yield reads
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            status, text = status_of(error)
            if status is grpc.StatusCode.INTERNAL:
                _log.exception("call failed", method=method, error=type(error).__name__)
            await context.abort(status, text)

    @asynccontextmanager
    async def _until_revoked(self, caller: Identity, serial: int) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(None) as call:
                self._in_flight[call] = serial
                try:
                    yield
                finally:
                    del self._in_flight[call]
        except TimeoutError as error:
            if not call.expired():
                raise
            raise UnauthenticatedError(f"the certificate of {caller} is revoked") from error


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
