"""Calls that may be repeated, and are, while a coordinator cannot be reached or is busy."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc

from service.errors import TimedOutError, TooMuchError, UnreachableError, error_from_call
from transport.aggregation import RETRY_S
from transport.calls.final_status import REPLACED_TEXT
from transport.calls.leader import find_leader, is_in_doubt
from transport.calls.way import check_protocol

MAX_PAUSE_S = 5.0

R = TypeVar("R")


class RepeatedCalls:
    """Repeats the calls of one member to one coordinator. Pauses double, and are spread so that members do not meet.

    Args:
        name: name of the coordinator, for error texts.
        channel: an aio channel with the member's certificate.
        patience_s: seconds during which a call is retried if the coordinator cannot be reached or is busy.
    """

    def __init__(self, name: str, channel: Any, patience_s: float) -> None:
        self._name = name
        self._channel = channel
        self._patience_s = patience_s
        self._has_seen_certificate = False

    async def __call__(self, call: Callable[[], Awaitable[R]], doing: str) -> R:
        """Return what a call returns that succeeds.

        Args:
            call: begins the call anew each time.
            doing: what it is for, for error texts.

        Raises:
            ServiceError: it was refused, or the coordinator cannot be reached for `patience_s`.
        """
        loop = asyncio.get_running_loop()
        end_s, pause_s = loop.time() + self._patience_s, RETRY_S
        while True:
            try:
                if not self._has_seen_certificate or is_in_doubt(self._channel):
                    self._has_seen_certificate = await find_leader(self._channel)
                    if self._has_seen_certificate:
                        await check_protocol(self._channel, self._name)
                return await call()
            except grpc.aio.AioRpcError as failure:
                error = error_from_call(failure, peer=self._name, doing=doing)
                passing = isinstance(error, UnreachableError | TimedOutError | TooMuchError)
                passing = passing or failure.details() == REPLACED_TEXT  # the call ended while it was being written
                if not passing or loop.time() + pause_s > end_s:
                    raise error from failure
            await asyncio.sleep(pause_s * (0.5 + random.random()))  # noqa: S311 -- spreads calls in time
            pause_s = min(2 * pause_s, MAX_PAUSE_S)
