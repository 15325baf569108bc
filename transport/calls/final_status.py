"""The true final status of a streaming call.

When the other end finishes a call while we are writing, grpc.aio puts its own INTERNAL, "Internal error from Core", in
place of the status that came (grpc/grpc issue 36066). If the real status came first, it is visible while gRPC runs
the done callbacks; if the failed write was noticed first, the real status follows before the answer is settled.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import grpc

REPLACED_TEXT = "Internal error from Core"
LATE_STATUS_S = 1.0

T = TypeVar("T")


class FinalStatus:
    """The final status of one streaming call with one answer. Create it together with the call."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._noted: tuple[Any, str] | None = None
        call.add_done_callback(self._note)

    async def wait(self) -> tuple[Any, str]:
        """Wait for the end of the call; return its status and text."""
        await self._call.code()
        if self._noted is None:
            try:
                async with asyncio.timeout(LATE_STATUS_S):
                    await self._call
            except (grpc.aio.AioRpcError, TimeoutError):
                self._note(self._call)
        return self._noted or (grpc.StatusCode.UNAVAILABLE, "")

    def _note(self, call: Any) -> None:
        status, details = at_hand(call.code()), at_hand(call.details()) or ""
        if status is not None and details != REPLACED_TEXT:
            self._noted = self._noted or (status, details)


def at_hand(coroutine: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of a coroutine that need not wait for it; None if it would."""
    try:
        coroutine.send(None)
    except StopIteration as result:
        value: T = result.value
        return value
    coroutine.close()
    return None
