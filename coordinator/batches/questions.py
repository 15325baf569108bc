"""The batches of one coordinator: what is asked of devices, when a batch is closed, and what it comes to.

Questions and answers outlive a restart: a batch that was closed is opened by the next process. The coordinator cannot
read any answer; it checks only that an answer is its sender's own, and has the form that the question asks for.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import structlog

from analyses.job.job import JobError
from analyses.sums.batch.question import MAX_QUESTION_BYTES, AskedBatch, BatchQuestion
from coordinator.batches.closing import CannotOpenError, Closing, all_or_why
from coordinator.batches.store import BatchesStore, GivenAnswer, StoredBatch
from coordinator.surveys.intake import Intake
from coordinator.surveys.store import Outcome
from entropy import Entropy
from mpc.secagg.secret.keys import KEY_BYTES
from mpc.secagg.secret.party_shares import TAG_BYTES, SealingTerms, answer_digest, share_bytes
from service.codes.coded_text import coded, told
from service.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotAllowedError,
    NotFoundError,
    ServiceError,
    TooMuchError,
    UnauthenticatedError,
    WrongStateError,
)
from service.identity import Identity, PeerCertificate
from service.tls import Credentials
from service.trust.statements import StatementCheck
from transport.batch_codec import (
    FIXED_BYTES,
    PER_PARTY_BYTES,
    AnswerPart,
    BatchAnswer,
    OfferedBatch,
    PartyKey,
    decode_answer,
    decode_keys,
    encode_answer,
    encode_keys,
    part_of,
)
from transport.refusal import WhyRefused, counted, in_words
from transport.survey import SurveyCounted, SurveyFailure, SurveyHappening, SurveyOpened, SurveyRefused, SurveyResult

SESSION_BYTES = 16

MAX_OPEN = 64
"""Largest number of batches that are open at a time."""

LOOK_S = 1.0
"""How often, in seconds, an analyst hears how many answers there are, and batches whose time has come are closed."""

BLOCK_BYTES = 4 << 20
"""Of the answers that are read from the store at a time."""

_log = structlog.get_logger(__name__)


@dataclass
class _Open:
    """A batch that takes answers, or is being opened.

    Attributes:
        stored: as it lies in the store.
        asked: its question, read.
        keys: of the parties.
        n_answers: so many were taken.
        refused: by name of the device, why there will be no answer; forgotten when the coordinator stops.
        is_over: set once there is a result, or a reason why there is none.
    """

    stored: StoredBatch
    asked: AskedBatch
    keys: tuple[PartyKey, ...]
    n_answers: int
    refused: dict[str, WhyRefused] = field(default_factory=dict)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    ending: "asyncio.Task[None] | None" = None

    @property
    def answer_bytes(self) -> int:
        """More than any answer to it has."""
        question = self.asked.question
        n, length = len(question.parties), question.n_elements
        sealed = sum(share_bytes(question.group, length, place, n) + TAG_BYTES for place in range(n))
        return sealed + PER_PARTY_BYTES * n + FIXED_BYTES


class Batches:
    """Implements `transport.batch.Batches`.

    Args:
        store: of questions and answers.
        credentials: returns the coordinator's, as in use now.
        entropy: the sessions of batches are drawn from it.
        closing: opens closed batches.
        roster: returns the names of the parties here.
        clock: Unix time in seconds; batches are closed by it.

    Raises:
        ValueError: the entropy is reproducible: devices must never meet the digest of a question again.
    """

    def __init__(
        self,
        store: BatchesStore,
        credentials: Callable[[], Credentials],
        entropy: Entropy,
        closing: Closing,
        roster: Callable[[], Collection[str]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not entropy.is_secure:
            raise ValueError("a service needs secure randomness")
        self._store = store
        self._credentials = credentials
        self._entropy = entropy
        self._closing = closing
        self._roster = roster
        self._clock = clock
        self._intake: Intake[GivenAnswer] = Intake(store, self._count)
        self._open: dict[bytes, _Open] = {}
        self._by_number: dict[int, _Open] = {}
        self._news = asyncio.Event()
        self._last_check: StatementCheck | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Go on with the batches that an earlier process left open."""
        for stored in self._store.unended():
            await self._enter(stored)
        self._watching = asyncio.create_task(self._watch())

    def leave(self) -> None:
        """Let nobody follow any longer: the coordinator stops."""
        for one in self._open.values():
            one.is_over.set()

    async def stop(self) -> None:
        """Write what came, and stop; batches that are not opened yet go on in the next process."""
        tasks = [one.ending for one in self._open.values() if one.ending is not None]
        tasks += [] if self._watching is None else [self._watching]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._intake.stop()

    @property
    def longest_answer_bytes(self) -> int:
        """See `transport.batch.Batches`."""
        return max((one.answer_bytes for one in self._open.values()), default=FIXED_BYTES)

    async def fetch(self, caller: Identity, after: int, patience_s: float) -> OfferedBatch | None:
        """See `transport.batch.Batches`."""
        news = self._news  # before it is looked for: what comes meanwhile is not missed
        if (found := await self._next(caller.name, after)) is not None:
            return found
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await news.wait()
        return await self._next(caller.name, after)

    async def _next(self, name: str, after: int) -> OfferedBatch | None:
        for one in sorted(self._open.values(), key=lambda one: one.stored.number):
            number = one.stored.number
            if number <= after or one.ending is not None:
                continue
            if not await asyncio.to_thread(self._store.has_answered, number, name):
                return OfferedBatch(number, one.stored.text, one.keys)
        return None

    async def answer(self, caller: PeerCertificate, batch_id: bytes, answer: BatchAnswer) -> None:
        """See `transport.batch.Batches`."""
        name, one = caller.identity.name, self._open.get(batch_id)
        if one is None:
            stored = await asyncio.to_thread(self._store.find, batch_id)
            if stored is None:
                raise NotFoundError(f"{name} answers a batch that was never asked for here")
            number = stored.number
        else:
            number = one.stored.number
            await asyncio.to_thread(self._check, one.asked, caller, answer)
        match await self._intake.take(GivenAnswer(number, name, encode_answer(answer))):
            case Outcome.REPEATED:
                await self._count_again(batch_id)
            case Outcome.CONTRADICTED:
                _log.warning("second answer refused", member=name, batch=batch_id.hex())
                raise AlreadyExistsError(f"{name} has given another answer to this batch, which stands")
            case Outcome.CLOSED:
                raise WrongStateError(f"{name} comes too late: the batch is closed")

    def _check(self, asked: AskedBatch, caller: PeerCertificate, answer: BatchAnswer) -> None:
        """Refuse an answer that the parties would leave out, as far as that can be seen without their keys."""
        name, question, vector = caller.identity.name, asked.question, answer.vector
        n = len(question.parties)
        sizes = [share_bytes(question.group, question.n_elements, place, n) + TAG_BYTES for place in range(n)]
        if len(vector.ephemeral_public) != KEY_BYTES or [len(one) for one in vector.sealed] != sizes:
            raise InvalidRequestError(f"{name}: this is no answer to the question of the batch")
        part = part_of(name, answer, 0)
        terms = SealingTerms(asked.digest, name, question.parties)
        statement = answer_digest(terms, vector.ephemeral_public, part.seal_digests)
        try:
            signer = self._statement_check().signer_of_call(answer.signed, statement, caller)
        except UnauthenticatedError as error:
            raise InvalidRequestError(f"{name}: {error}") from error
        if signer != caller.identity:
            raise InvalidRequestError(f"{name} sends an answer that {signer.name} has signed")

    def _statement_check(self) -> StatementCheck:
        credentials = self._credentials()
        if self._last_check is None or self._last_check.credentials is not credentials:
            self._last_check = StatementCheck(credentials)
        return self._last_check

    async def refuse(self, caller: Identity, batch_id: bytes, why: WhyRefused) -> None:
        """See `transport.batch.Batches`."""
        one = self._open.get(batch_id)
        if one is not None and not await asyncio.to_thread(self._store.has_answered, one.stored.number, caller.name):
            one.refused[caller.name] = why

    async def shares(self, caller: Identity, batch_id: bytes, only: bytes) -> AsyncGenerator[AnswerPart, None]:
        """See `transport.batch.Batches`."""
        one = self._open.get(batch_id)
        if one is None:
            raise NotFoundError("there is no batch with this identifier, or it has ended")
        if caller.name not in one.asked.question.parties:
            raise NotAllowedError(f"{caller.name} is not a party of this batch")
        if one.ending is None:
            raise WrongStateError("this batch still takes answers")
        position = one.asked.question.parties.index(caller.name)
        wanted = np.unpackbits(np.frombuffer(only, dtype=np.uint8)).astype(np.bool_) if only else None
        most_rows, place, last = max(1, min(256, BLOCK_BYTES // one.answer_bytes)), 0, ""
        while rows := await asyncio.to_thread(self._store.answers, one.stored.number, last, most_rows):
            for name, body in rows:
                if wanted is None or (place < len(wanted) and wanted[place]):
                    yield part_of(name, decode_answer(body), position)
                place += 1
            last = rows[-1][0]

    def _count(self, given: GivenAnswer) -> None:
        if (one := self._by_number.get(given.batch)) is not None:
            self._set_count(one, one.n_answers + 1)

    async def _count_again(self, batch_id: bytes) -> None:
        """Count what the store has: it may have taken an answer, and not have come to say so."""
        stored = await asyncio.to_thread(self._store.find, batch_id)
        if stored is not None and (one := self._open.get(batch_id)) is not None:
            self._set_count(one, max(one.n_answers, stored.n_answers))

    def _set_count(self, one: _Open, n_answers: int) -> None:
        one.n_answers = n_answers
        if n_answers >= one.asked.question.largest_cohort:
            self._end(one)

    async def ask(self, analyst: str, question_json: str) -> AsyncGenerator[SurveyHappening, None]:
        """See `transport.batch.Batches`."""
        if len(question_json) > MAX_QUESTION_BYTES:
            raise InvalidRequestError(f"a question has at most {MAX_QUESTION_BYTES} bytes")
        try:
            question = await asyncio.to_thread(
                lambda: BatchQuestion.from_tree(BatchQuestion.from_json(question_json).model_dump())
            )
        except JobError as error:
            raise InvalidRequestError(told(error)) from error
        if len(self._open) >= MAX_OPEN:
            raise TooMuchError(f"{MAX_OPEN} batches are open; come again when one is over")
        if question.until.timestamp() <= self._clock():
            raise InvalidRequestError("until: the batch would be closed before it is open")
        if strangers := sorted(set(question.parties) - set(self._roster())):
            raise InvalidRequestError(f"parties: this coordinator does not know {strangers[0]!r}")
        batch_id = await self._open_one(analyst, question)
        async for happening in self.follow(analyst, batch_id):
            yield happening

    async def _open_one(self, analyst: str, question: BatchQuestion) -> bytes:
        """Ask the parties for their keys, then open the batch; return its identifier."""
        session = self._entropy.read(SESSION_BYTES).hex()
        asked = AskedBatch(question=question, asker=self._credentials().identity.uri, session=session)
        text = asked.canonical_json()
        try:
            keys = await all_or_why(*(self._closing.client_of(party).open(text) for party in question.parties))
        except ServiceError as error:
            raise InvalidRequestError(f"parties: {told(error)}") from error
        stored = await asyncio.to_thread(
            self._store.add, asked.batch_id, analyst, text, encode_keys(tuple(keys)), question.largest_cohort
        )
        await self._enter(stored)
        self._news.set()
        self._news = asyncio.Event()
        _log.info("batch begins", batch=asked.batch_id.hex(), analyst=analyst, record=question.sum.record)
        return asked.batch_id

    async def follow(self, analyst: str, batch_id: bytes) -> AsyncGenerator[SurveyHappening, None]:
        """See `transport.batch.Batches`."""
        stored = await asyncio.to_thread(self._store.find, batch_id)
        if stored is None or stored.analyst != analyst:
            raise NotFoundError(f"{analyst} has asked for no batch with this identifier here")
        yield SurveyOpened(batch_id)
        told_n, refused = -1, counted(())
        while (one := self._open.get(batch_id)) is not None and not one.is_over.is_set():
            if one.n_answers != told_n:
                told_n = one.n_answers
                yield SurveyCounted(told_n)
            if (now := counted(one.refused.values())) != refused:
                refused = now
                yield SurveyRefused(refused)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await one.is_over.wait()
        ended = await asyncio.to_thread(self._store.find, batch_id)
        assert ended is not None
        if ended.result_json:
            yield SurveyResult(ended.result_json)
        else:
            yield SurveyFailure(ended.failure or "the coordinator stops; the batch goes on when it runs again")

    async def _enter(self, stored: StoredBatch) -> None:
        asked = await asyncio.to_thread(AskedBatch.from_json, stored.text)
        one = _Open(stored, asked, decode_keys(stored.keys), stored.n_answers)
        self._open[stored.batch_id] = self._by_number[stored.number] = one
        if stored.is_closed or one.n_answers >= asked.question.largest_cohort:
            self._end(one)

    async def _watch(self) -> None:
        """Close batches when their time has come."""
        while True:
            for one in list(self._open.values()):
                if one.asked.question.until.timestamp() <= self._clock():
                    self._end(one)
            await asyncio.sleep(LOOK_S)

    def _end(self, one: _Open) -> None:
        if one.ending is None:
            one.ending = asyncio.create_task(self._close(one))

    async def _close(self, one: _Open) -> None:
        """Close a batch, let the parties open it, and keep the result."""
        number, result_json, failure = one.stored.number, "", ""
        try:
            await asyncio.to_thread(self._store.close_batch, number)
            names = await asyncio.to_thread(self._store.names, number)
            try:
                if len(names) < one.asked.question.smallest_cohort:
                    raise CannotOpenError(_too_few(one, len(names)))
                result = await self._closing.result(one.asked, names)
                result_json = json.dumps(result | {"batch": one.stored.batch_id.hex()}, allow_nan=False)
            except CannotOpenError as error:
                failure = str(error)
            await asyncio.to_thread(self._store.end, number, result_json=result_json, failure=failure)
        except Exception:
            _log.exception("batch not ended", batch=one.stored.batch_id.hex())
        else:
            _log.info("batch is over", batch=one.stored.batch_id.hex(), has_result=bool(result_json))
        self._open.pop(one.stored.batch_id, None)
        self._by_number.pop(number, None)
        one.is_over.set()


def _too_few(one: _Open, n: int) -> str:
    refused = in_words(counted(one.refused.values()))
    text = f"{n} devices answered, and at least {one.asked.question.smallest_cohort} must" + (
        f"; {refused}" if refused else ""
    )
    return coded(text, code="too-few-answers")
