"""Batches: each device answers by shares, sealed for compute parties, which open their sum together.

A batch that was closed is opened by the next process, where this one stops. The coordinator cannot read any answer; it
checks only that an answer is its sender's own, and has the form that the question asks for.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Collection
from typing import Any

import numpy as np
import structlog

from analyses.job.job import JobError
from coordinator.batches.agreeing import Agreeing
from coordinator.batches.answer_check import AnswerCheck, answer_bytes
from coordinator.batches.closing import CannotOpenError, Closing
from coordinator.questions.answered_host import AnsweredHost
from coordinator.questions.host import OpenOne
from coordinator.stores.batches import GivenAnswer, StoredBatch
from entropy import Entropy
from questions.shares import AskedBatch, BatchQuestion
from service.codes.coded_text import coded, told
from service.errors import InvalidRequestError, NotAllowedError, NotFoundError, ServiceError, WrongStateError
from service.identity import Identity, PeerCertificate
from service.tls import Credentials
from transport.batch_codec import (
    FIXED_BYTES,
    AnswerPart,
    PartyKey,
    decode_answer,
    decode_keys,
    encode_answer,
    encode_keys,
    part_of,
)
from transport.refusal import counted, in_words

BLOCK_BYTES = 4 << 20
"""Bytes of answers that are read from the store at a time."""

_log = structlog.get_logger(__name__)


class Batches(AnsweredHost):
    """The batches of one coordinator; see `AnsweredHost`.

    Args:
        store, clock, entropy: see `AnsweredHost`.
        credentials: returns the coordinator's, as in use now.
        closing: opens closed batches.
        agreeing: asks parties for their places.
        roster: returns the names of the parties here.
    """

    kind = "batch"
    plural = "batches"
    asked_class = AskedBatch

    def __init__(
        self,
        store: Any,
        credentials: Callable[[], Credentials],
        entropy: Entropy,
        closing: Closing,
        agreeing: Agreeing,
        roster: Callable[[], Collection[str]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(store, credentials().identity.uri, entropy, clock)
        self._closing = closing
        self._agreeing = agreeing
        self._roster = roster
        self._check = AnswerCheck(credentials)

    async def start(self) -> None:
        """See `Host`; parties are told of what has ended."""
        untold = await asyncio.to_thread(self._store.untold)  # of what ends at this start they are told there
        await super().start()
        for stored in untold:
            self._begin(self._tell(stored))

    async def take_up(self, stored: StoredBatch) -> None:
        """See `Host`."""
        if stored.is_agreed:
            await super().take_up(stored)
        else:  # devices were never asked
            await self.end_stored(stored, "", "the coordinator was stopped before all parties had agreed")

    async def open(self, analyst: str, question: BatchQuestion) -> bytes:
        """See `Host`: the parties agree first.

        Raises:
            InvalidRequestError: a party does not agree; then none keeps a place.
        """
        if strangers := sorted(set(question.parties) - set(self._roster())):
            raise InvalidRequestError(f"parties: this coordinator does not know {strangers[0]!r}")
        asked = self.asked_of(question)
        keys = encode_keys(await self._agreeing.keys(asked, analyst))
        add = (asked.question_id, analyst, asked.canonical_json(), keys, question.largest_cohort)
        stored = await asyncio.to_thread(self._store.add, *add)
        try:
            await self._agreeing.keep(asked)
            await asyncio.to_thread(self._store.agree, stored.number)
        except ServiceError as error:
            await self.end_stored(stored, "", told(error))
            raise
        return await self.enter(stored)

    async def enter(self, stored: StoredBatch) -> bytes:
        """See `AnsweredHost`."""
        agreed = await asyncio.to_thread(self._store.find, stored.question_id)
        return await super().enter(agreed)

    def most_answers(self, question: BatchQuestion) -> int:
        """See `AnsweredHost`."""
        return question.largest_cohort

    def keys_of(self, stored: StoredBatch) -> tuple[PartyKey, ...]:
        """See `AnsweredHost`."""
        return decode_keys(stored.keys)

    def longest_answer_bytes(self) -> int:
        """See `AnsweredHost`."""
        return max((answer_bytes(one.question) for one in self._open.values()), default=FIXED_BYTES)

    def given(
        self, number: int, asked: AskedBatch | None, caller: PeerCertificate, body: bytes, text: str
    ) -> GivenAnswer:
        """See `AnsweredHost`."""
        answer = decode_answer(body)
        if asked is not None:
            self._check.check(asked, caller, answer)
        return GivenAnswer(number, caller.identity.name, encode_answer(answer))

    async def shares(self, caller: Identity, question_id: bytes, only: bytes) -> AsyncGenerator[AnswerPart, None]:
        """Yield what is meant for a party of a closed batch.

        Args:
            caller: the party.
            question_id: identifier of the batch.
            only: a bit for each answer, the highest first; empty for all.

        Raises:
            NotFoundError: there is no such batch.
            NotAllowedError: the caller is not one of its parties.
            WrongStateError: the batch is still open.
        """
        one = self._open.get(question_id)
        if one is None:
            raise NotFoundError("there is no batch with this identifier, or it has ended")
        if caller.name not in one.question.parties:
            raise NotAllowedError(f"{caller.name} is not a party of this batch")
        if one.ending is None:
            raise WrongStateError("this batch still takes answers")
        position, n_parties = one.question.parties.index(caller.name), len(one.question.parties)
        wanted = np.unpackbits(np.frombuffer(only, dtype=np.uint8)).astype(np.bool_) if only else None
        most_rows, place, last = max(1, min(256, BLOCK_BYTES // answer_bytes(one.question))), 0, ""
        while rows := await asyncio.to_thread(self._store.answers, one.stored.number, last, most_rows):
            for name, body in rows:
                if wanted is None or (place < len(wanted) and wanted[place]):
                    yield part_of(name, decode_answer(body), position, n_parties)
                place += 1
            last = rows[-1][0]

    async def end_stored(self, stored: StoredBatch, result_json: str, failure: str) -> None:
        """See `Host`; parties that have not closed it are told, so that it takes up no place there."""
        if failure:
            await asyncio.to_thread(self._store.close_question, stored.number)
        await super().end_stored(stored, result_json, failure)
        if failure or "opened_by" in json.loads(result_json):
            self._begin(self._tell(stored))

    async def _tell(self, stored: StoredBatch) -> None:
        try:
            asked = await asyncio.to_thread(AskedBatch.from_json, stored.text)
        except JobError as error:
            _log.error("parties cannot be told of a batch", batch=stored.question_id.hex(), reason=told(error))
            return
        await self._agreeing.call_off(asked)
        await asyncio.to_thread(self._store.tell, stored.number)

    async def result(self, one: OpenOne, stored: StoredBatch) -> tuple[str, str]:
        """See `Host`: the parties open the sum, however long it takes."""
        names = await asyncio.to_thread(self._store.names, stored.number)
        if len(names) < one.question.smallest_cohort:
            refused = in_words(counted(one.refused.values()))
            text = f"{len(names)} devices answered, and at least {one.question.smallest_cohort} must"
            return "", coded(text + (f"; {refused}" if refused else ""), code="too-few-answers")
        try:
            result = await self._closing.result(one.asked, names)
        except CannotOpenError as error:
            return "", str(error)
        return json.dumps(result | {"batch": one.question_id.hex()}, allow_nan=False), ""
