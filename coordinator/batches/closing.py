"""How a closed batch is opened: all parties are asked for their shares of the sum, as often as it takes.

A party answers a batch with one share for ever, so asking again after a failure costs time only. What another party, or
this coordinator, is said to have done against the protocol ends the batch; somebody who cannot be reached does not.

Where parties may be missing, one that does not begin an attempt is left out of it, whatever its reason, and one that
failed by itself in the attempt before is, too. As soon as one has closed the batch with some others, it opens with
these only, and all of them are waited for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, TypeVar

import numpy as np
import structlog

from analyses.job.job import JobError
from entropy import Entropy
from mpc.errors import ProtocolError
from questions.shares import AskedBatch
from questions.shares_answer import answer_of, open_sum
from service.codes.coded_text import coded, told
from service.errors import (
    RemoteFailureError,
    ServiceError,
    TimedOutError,
    TooMuchError,
    UnreachableError,
)
from transport.batch_codec import SumShare
from transport.batch_party import NOT_PREPARED_CODE, BatchPartyClient

ATTEMPT_BYTES = 16
PAUSE_S, MAX_PAUSE_S = 1.0, 60.0
SETTLE_S = 5.0
"""Seconds to wait for other parties' errors when one has failed: the first to fail seldom knows the cause."""

_PASSING = (UnreachableError, TimedOutError, TooMuchError, RemoteFailureError)

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class CannotOpenError(Exception):
    """A batch can never be opened; the text is public and has a code."""


@dataclass(frozen=True)
class Closing:
    """Opens batches.

    Attributes:
        client_of: calls to a party, by its name.
        entropy: randomness from which the names of attempts are drawn.
    """

    client_of: Callable[[str], BatchPartyClient]
    entropy: Entropy

    async def result(self, asked: AskedBatch, names: Sequence[str]) -> dict[str, Any]:
        """Return the answer as JSON data, however long it takes.

        Args:
            asked: the question.
            names: names of the devices that have answered, in the order in which parties are shown them.

        Raises:
            CannotOpenError: there is none and never will be.
        """
        pause_s, unable = PAUSE_S, set[int]()
        while True:
            try:
                return await self._attempt(asked, names, unable)
            except ServiceError as error:
                if not isinstance(error, _PASSING) and error.code != NOT_PREPARED_CODE:
                    raise CannotOpenError(told(error)) from error
                _log.warning("batch not opened yet", batch=asked.question_id.hex(), reason=told(error))
            except ProtocolError as error:
                raise CannotOpenError(told(error)) from error
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _attempt(self, asked: AskedBatch, names: Sequence[str], unable: set[int]) -> dict[str, Any]:
        question, text = asked.question, asked.canonical_json()
        attempt, openers = await self._prepared(asked, text, unable)
        unable.clear()
        most_bytes = question.group.wire_bytes(question.n_elements) + 2 * len(names) + 1024

        async def share_of(one: int) -> SumShare:
            try:
                return await self._client(asked, one).close(text, attempt, most_bytes)
            except RemoteFailureError:  # a full disk, say: the others tell that they have lost it
                unable.add(one)
                raise

        shares: list[SumShare] = await all_or_why(*map(share_of, openers))
        return await asyncio.to_thread(self._answer, asked, names, shares, openers)

    def _client(self, asked: AskedBatch, number: int) -> BatchPartyClient:
        return self.client_of(asked.question.parties[number - 1])

    async def _prepared(self, asked: AskedBatch, text: str, unable: set[int]) -> tuple[str, tuple[int, ...]]:
        """Return an attempt that parties are prepared for, and their numbers: all, or as many as are there and able."""
        question, everybody = asked.question, asked.question.openers_of(())
        if not question.may_miss:
            attempt = self._new_attempt()
            await all_or_why(*(self._client(asked, one).prepare(text, attempt) for one in everybody))
            return attempt, everybody
        fewest = len(everybody) - question.may_miss
        attempt, there, failures = await self._those_prepared(asked, text, everybody)
        bound = {openers for openers in there.values() if openers}
        able = tuple(one for one in there if one not in unable)
        openers = min(bound, default=able if len(able) >= fewest else tuple(there))
        if not failures and openers == everybody:
            return attempt, openers
        if failures and len(openers) < fewest:
            passing = [error for error in failures if isinstance(error, _PASSING)]
            lasting = [error for error in failures if not isinstance(error, _PASSING)]
            raise (lasting if len(lasting) > question.may_miss else passing or lasting)[0]
        why = [told(error) for error in failures]
        attempt, _, failures = await self._those_prepared(asked, text, openers)
        if failures:
            raise failures[0]
        _log.info("batch opens without all parties", batch=asked.question_id.hex(), openers=openers, reasons=why)
        return attempt, openers

    async def _those_prepared(
        self, asked: AskedBatch, text: str, openers: tuple[int, ...]
    ) -> tuple[str, dict[int, tuple[int, ...]], list[ServiceError]]:
        """Return an attempt, what those parties answer that are prepared for it, and why others are not."""
        attempt = self._new_attempt()
        asking = (self._client(asked, one).prepare(text, attempt, openers) for one in openers)
        there: dict[int, tuple[int, ...]] = {}
        failures = []
        for one, reply in zip(openers, await asyncio.gather(*asking, return_exceptions=True), strict=True):
            if isinstance(reply, ServiceError):
                failures.append(reply)
            elif isinstance(reply, BaseException):
                raise reply
            else:
                try:
                    there[one] = asked.question.openers_of(reply) if reply else ()
                except JobError as error:
                    name = asked.question.parties[one - 1]
                    failures.append(RemoteFailureError(f"party {name} answers for openers that cannot be: {error}"))
        return attempt, there, failures

    def _new_attempt(self) -> str:
        return "batch-" + self.entropy.read(ATTEMPT_BYTES).hex()

    @staticmethod
    def _answer(
        asked: AskedBatch, names: Sequence[str], shares: Sequence[SumShare], openers: Sequence[int]
    ) -> dict[str, Any]:
        cohort, proofs = shares[0].cohort, asked.question.proofs
        if any(share.cohort != cohort for share in shares) or len(cohort) != (1 + proofs) * -(-len(names) // 8):
            raise CannotOpenError(coded("the parties answer for different devices", code="cohorts-differ"))
        bits = np.frombuffer(cohort, dtype=np.uint8).reshape(1 + proofs, -1)
        is_in, *rejections = np.unpackbits(bits, axis=1, count=len(names)).astype(np.bool_)
        integers = open_sum(asked.question, [share.share for share in shares])
        left_out = list(compress(names, ~np.logical_or.reduce([is_in, *rejections])))
        rejected = list(compress(names, rejections[0])) if proofs else None
        return answer_of(asked.question, integers, int(is_in.sum()), left_out, rejected, openers)


async def all_or_why(*calls: Awaitable[T]) -> list[T]:
    """Return what all calls return; where some fail, wait a little for the others and raise what says most.

    Raises:
        ServiceError: the first failure that asking again would not mend, else the first of all.
    """
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        _, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        if waiting:
            await asyncio.wait(waiting, timeout=SETTLE_S)
        failures = [error for task in tasks if task.done() and (error := task.exception()) is not None]
        if failures:
            raise next((error for error in failures if not isinstance(error, _PASSING)), failures[0])
        return [task.result() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
