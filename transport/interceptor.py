"""What happens around every call that a server handles: authorisation before it, the error table after it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import structlog

from transport.authorization import Permissions
from transport.errors import status_of
from transport.identity import peer_identity

_log = structlog.get_logger(__name__)


class BorderInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Refuses callers that the permissions do not name, and answers errors as the table in `transport.errors` says.

    Handlers raise errors of that table; they never set a status. An error that is not in the table is logged here and
    answered without any detail. Handlers that answer with a stream must be asynchronous generators.
    """

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Return the handler of a call, guarded."""
        handler = await continuation(details)
        if handler is None:
            return None
        return self._guarded(details.method, handler)

    def _guarded(self, method: str, handler: Any) -> Any:
        async def answer_once(request: Any, context: Any) -> Any:
            async with self._border(method, context):
                return await (handler.unary_unary or handler.stream_unary)(request, context)

        async def answer_many(request: Any, context: Any) -> AsyncIterator[Any]:
            async with self._border(method, context):
                async for answer in (handler.unary_stream or handler.stream_stream)(request, context):
                    yield answer

        make = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }[handler.request_streaming, handler.response_streaming]
        return make(
            answer_many if handler.response_streaming else answer_once,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    @asynccontextmanager
    async def _border(self, method: str, context: Any) -> AsyncIterator[None]:
        try:
            self._permissions.check(method, peer_identity(context))
            yield
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            status, text = status_of(error)
            if status is grpc.StatusCode.INTERNAL:
                _log.exception("call failed", method=method, error=type(error).__name__)
            await context.abort(status, text)
