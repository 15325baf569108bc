"""How all parties of a batch come to keep a place for it, or none does.

Each first holds a place and a key for a short time. Only when all have done so, the coordinator writes the batch down
and asks them to keep them; only when all have kept them, devices are asked. Where a party refuses, or the batch ends
without a result, all are told to forget it, as often as it takes; a place that nobody kept ends by itself.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from coordinator.batches.closing import MAX_PAUSE_S, PAUSE_S, all_or_why
from questions.shares import AskedBatch
from service.codes.coded_text import told
from service.errors import InvalidRequestError, ServiceError
from transport.batch_codec import PartyKey
from transport.batch_party import BatchPartyClient

FORGOTTEN_S = 31 * 86400.0
"""Seconds after the end of a batch at which its parties have forgotten it by themselves."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Agreeing:
    """Asks the parties of batches.

    Attributes:
        client_of: calls to a party, by its name.
        clock: Unix time in seconds.
    """

    client_of: Callable[[str], BatchPartyClient]
    clock: Callable[[], float] = time.time

    async def keys(self, asked: AskedBatch, analyst: str) -> tuple[PartyKey, ...]:
        """Let all parties hold a place, and return their keys.

        Raises:
            InvalidRequestError: one does not; the places of the others are given back.
        """
        text = asked.canonical_json()
        try:
            return tuple(await all_or_why(*(one.open(text, analyst) for one in self._clients(asked))))
        except ServiceError as error:
            await self._call_off(asked)
            raise InvalidRequestError(f"parties: {told(error)}") from error

    async def keep(self, asked: AskedBatch) -> None:
        """Let all parties keep their places.

        Raises:
            InvalidRequestError: one does not. `call_off` is next.
        """
        try:
            await all_or_why(*(one.keep(asked.canonical_json()) for one in self._clients(asked)))
        except ServiceError as error:
            raise InvalidRequestError(f"parties: {told(error)}") from error

    async def call_off(self, asked: AskedBatch) -> None:
        """Tell all parties that a batch is over, until all know it or have forgotten it by themselves."""
        pause_s, forgotten_s = PAUSE_S, asked.question.until.timestamp() + FORGOTTEN_S
        while not await self._call_off(asked) and self.clock() < forgotten_s:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _call_off(self, asked: AskedBatch) -> bool:
        text = asked.canonical_json()
        calls = (one.call_off(text) for one in self._clients(asked))
        errors = [one for one in await asyncio.gather(*calls, return_exceptions=True) if one is not None]
        for error in errors:
            _log.warning("a party is not told that a batch is over", batch=asked.question_id.hex(), reason=str(error))
        return not errors

    def _clients(self, asked: AskedBatch) -> list[BatchPartyClient]:
        return [self.client_of(party) for party in asked.question.parties]
