"""The surveys of one coordinator: what is asked of devices, when a survey is over, and what becomes of the responses.

Questions and responses outlive a restart: the store has them, and the counts are made of it anew. Nothing is estimated
before a survey is over.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from analyses.distribution.cohorts import MaskedQuestion
from analyses.distribution.estimates.tally import CountedTally, tally_of
from analyses.distribution.questions import is_masked, question_from_json
from analyses.distribution.survey import ID_BYTES, AskedQuestion, SurveyQuestion, result_of
from analyses.job.job import JobError
from coordinator.surveys.intake import Intake
from coordinator.surveys.masked import MaskedSurvey, RunSum
from coordinator.surveys.store import Given, Outcome, StoredQuestion, SurveyStore
from entropy import Entropy
from service.codes.coded_text import coded, told
from service.errors import AlreadyExistsError, InvalidRequestError, NotFoundError, TooMuchError, WrongStateError
from service.identity import Identity
from transport.refusal import WhyRefused, counted, in_words
from transport.survey import SurveyCounted, SurveyFailure, SurveyHappening, SurveyOpened, SurveyRefused, SurveyResult

SESSION_BYTES = 16

MAX_OPEN = 64
"""Largest number of surveys that are open at a time."""

LOOK_S = 1.0
"""How often, in seconds, an analyst hears how many responses there are, and surveys whose time has come are closed."""

_log = structlog.get_logger(__name__)


@dataclass
class _Open:
    """A survey that takes responses.

    Attributes:
        stored: its question as it lies in the store.
        asked: the same, read.
        n_responses: so many were taken.
        refused: by name of the device, why there will be no response; forgotten when the coordinator stops.
        is_over: set once there is a result, or a reason why there is none.
    """

    stored: StoredQuestion
    asked: AskedQuestion
    n_responses: int
    refused: dict[str, WhyRefused] = field(default_factory=dict)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    ending: "asyncio.Task[None] | None" = None


class Surveys:
    """Implements `transport.survey.Surveys`.

    Args:
        store: of questions and responses.
        identity: the coordinator's, as its certificate states it.
        entropy: the sessions of questions are drawn from it.
        clock: Unix time in seconds; surveys end by it.
        run_sum: runs the masked sum of a cohort.
        members: those of masked sums here, by name.

    Raises:
        ValueError: the entropy is reproducible: devices must never meet the digest of a question again.
    """

    def __init__(
        self,
        store: SurveyStore,
        identity: Identity,
        entropy: Entropy,
        run_sum: RunSum,
        members: Sequence[str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not entropy.is_secure:
            raise ValueError("a service needs secure randomness")
        self._store = store
        self._identity = identity
        self._entropy = entropy
        self._clock = clock
        self._intake = Intake(store, self._count)
        self._open: dict[bytes, _Open] = {}
        self._run_sum = run_sum
        self._members = members
        self._masked: dict[bytes, MaskedSurvey] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._by_number: dict[int, _Open] = {}
        self._news = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Go on with the surveys that an earlier process left open."""
        for stored in self._store.unended():
            if is_masked(json.loads(stored.text)):
                self._store.close_question(stored.number)
                self._store.end(stored.number, failure="the coordinator was restarted; ask again")
            else:
                await self._enter(stored)
        self._watching = asyncio.create_task(self._watch())

    def leave(self) -> None:
        """Let nobody follow any longer: the coordinator stops."""
        for one in self._open.values():
            one.is_over.set()
        for masked in self._masked.values():
            masked.is_over.set()

    async def stop(self) -> None:
        """Write what came, and stop; open surveys stay open for the next process."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        endings = [one.ending for one in self._open.values() if one.ending is not None]
        await self._intake.stop()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*endings, *self._running, return_exceptions=True)

    async def fetch(self, caller: Identity, after: int, patience_s: float) -> tuple[int, str] | None:
        """See `transport.survey.Surveys`."""
        news = self._news  # before it is looked for: what comes meanwhile is not missed
        if (found := await self._next(caller.name, after)) is not None:
            return found
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await news.wait()
        return await self._next(caller.name, after)

    async def _next(self, name: str, after: int) -> tuple[int, str] | None:
        for one in sorted(self._open.values(), key=lambda one: one.stored.number):
            number = one.stored.number
            if number <= after or one.ending is not None:
                continue
            if not await asyncio.to_thread(self._store.has_answered, number, name):
                return number, one.stored.text
        return None

    async def answer(self, caller: Identity, question_id: bytes, body: bytes) -> None:
        """See `transport.survey.Surveys`."""
        one = self._open.get(question_id)
        if one is not None:
            number, asked = one.stored.number, one.asked
        else:
            stored = await asyncio.to_thread(self._store.find, question_id)
            if stored is None:
                raise NotFoundError(f"{caller.name} answers a question that was never asked here")
            if is_masked(json.loads(stored.text)):
                raise InvalidRequestError(f"{caller.name} answers a question that masked sums are asked")
            number, asked = stored.number, await asyncio.to_thread(AskedQuestion.from_json, stored.text)
        try:
            response = asked.response_of(body)
        except JobError as error:
            raise InvalidRequestError(f"{caller.name}: {error}") from error
        match await self._intake.take(Given(number, caller.name, response)):
            case Outcome.REPEATED:
                await self._count_again(number)
            case Outcome.CONTRADICTED:
                _log.warning("second response refused", member=caller.name, question=question_id.hex())
                raise AlreadyExistsError(f"{caller.name} has given another response to this question, which stands")
            case Outcome.CLOSED:
                raise WrongStateError(f"{caller.name} comes too late: the survey is closed")

    async def refuse(self, caller: Identity, question_id: bytes, why: WhyRefused) -> None:
        """See `transport.survey.Surveys`."""
        one = self._open.get(question_id)
        if one is not None and not await asyncio.to_thread(self._store.has_answered, one.stored.number, caller.name):
            one.refused[caller.name] = why

    def _count(self, given: Given) -> None:
        if (one := self._by_number.get(given.question)) is not None:
            self._set_count(one, one.n_responses + 1)

    async def _count_again(self, number: int) -> None:
        """Count what the store has: it may have taken a response, and not have come to say so."""
        if (one := self._by_number.get(number)) is not None:
            self._set_count(one, max(one.n_responses, await asyncio.to_thread(self._store.n_responses, number)))

    def _set_count(self, one: _Open, n_responses: int) -> None:
        one.n_responses = n_responses
        if n_responses >= one.asked.question.responses:
            self._end(one)

    async def ask(self, analyst: str, question_json: str) -> AsyncGenerator[SurveyHappening, None]:
        """See `transport.survey.Surveys`."""
        try:
            question = await asyncio.to_thread(question_from_json, question_json)
            if len(self._open) + len(self._masked) >= MAX_OPEN:
                raise TooMuchError(f"{MAX_OPEN} surveys are open; come again when one is over")
            question_id = await self._open_one(analyst, question)
        except JobError as error:
            raise InvalidRequestError(told(error)) from error
        async for happening in self.follow(analyst, question_id):
            yield happening

    async def _open_one(self, analyst: str, question: SurveyQuestion | MaskedQuestion) -> bytes:
        """Open a survey; return its identifier.

        Raises:
            JobError: it cannot be asked here.
            InvalidRequestError: it would end before it begins.
        """
        if isinstance(question, MaskedQuestion):
            return await self._ask_cohorts(analyst, question)
        if question.until.timestamp() <= self._clock():
            raise InvalidRequestError("until: the survey would end before it begins")
        session = self._entropy.read(SESSION_BYTES).hex()
        asked = AskedQuestion(question=question, asker=self._identity.uri, session=session)
        stored = await asyncio.to_thread(self._store.add, asked.question_id, analyst, asked.canonical_json())
        await self._enter(stored)
        self._news.set()
        self._news = asyncio.Event()
        _log.info("survey begins", question=asked.question_id.hex(), analyst=analyst, record=question.record)
        return asked.question_id

    async def _ask_cohorts(self, analyst: str, question: MaskedQuestion) -> bytes:
        cohorts = question.cohorts(self._members)
        question_id = self._entropy.read(ID_BYTES)
        stored = await asyncio.to_thread(self._store.add, question_id, analyst, question.canonical_json())
        self._masked[question_id] = masked = MaskedSurvey(stored, question, cohorts)
        task = asyncio.create_task(masked.run(self._store, self._run_sum))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: self._masked.pop(question_id))
        _log.info("survey begins", question=question_id.hex(), analyst=analyst, n_cohorts=len(cohorts))
        return question_id

    async def follow(self, analyst: str, question_id: bytes) -> AsyncGenerator[SurveyHappening, None]:
        """See `transport.survey.Surveys`."""
        stored = await asyncio.to_thread(self._store.find, question_id)
        if stored is None or stored.analyst != analyst:
            raise NotFoundError(f"{analyst} has asked no question with this identifier here")
        yield SurveyOpened(question_id)
        one: _Open | MaskedSurvey | None = self._open.get(question_id) or self._masked.get(question_id)
        n_told, refused = -1, counted(())
        while one is not None and not one.is_over.is_set():
            if one.n_responses != n_told:
                n_told = one.n_responses
                yield SurveyCounted(n_told)
            if isinstance(one, _Open) and (now := counted(one.refused.values())) != refused:
                refused = now
                yield SurveyRefused(refused)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await one.is_over.wait()
        ended = await asyncio.to_thread(self._store.find, question_id)
        assert ended is not None
        if ended.result_json:
            yield SurveyResult(ended.result_json)
        else:
            yield SurveyFailure(ended.failure or "the coordinator stops; the survey goes on when it runs again")

    async def _enter(self, stored: StoredQuestion) -> None:
        asked = await asyncio.to_thread(AskedQuestion.from_json, stored.text)
        one = _Open(stored, asked, await asyncio.to_thread(self._store.n_responses, stored.number))
        self._open[stored.question_id] = self._by_number[stored.number] = one
        if stored.is_closed or one.n_responses >= asked.question.responses:
            self._end(one)

    async def _watch(self) -> None:
        """End surveys when their time has come."""
        while True:
            for one in list(self._open.values()):
                if one.asked.question.until.timestamp() <= self._clock():
                    self._end(one)
            await asyncio.sleep(LOOK_S)

    def _end(self, one: _Open) -> None:
        if one.ending is None:
            one.ending = asyncio.create_task(self._close(one))

    async def _close(self, one: _Open) -> None:
        """Close a survey, estimate, and keep the result."""
        try:
            stored = await asyncio.to_thread(self._store.close_question, one.stored.number)
            result_json, failure = await asyncio.to_thread(self._result, one, stored)
            await asyncio.to_thread(self._store.end, stored.number, result_json=result_json, failure=failure)
        except Exception:
            _log.exception("survey not ended", question=one.stored.question_id.hex())
        else:
            _log.info("survey is over", question=stored.question_id.hex(), has_result=bool(result_json))
        finally:
            self._open.pop(one.stored.question_id, None)
            self._by_number.pop(one.stored.number, None)
            one.is_over.set()

    def _result(self, one: _Open, stored: StoredQuestion) -> tuple[str, str]:
        """Return the result, or why there is none; of all that the store has, so that no response is missing."""
        asked, inquiry = one.asked, one.asked.question.inquiry
        tally = tally_of(inquiry.response)
        if isinstance(tally, CountedTally):
            tally.add_counts(self._store.counts(stored.number, inquiry.n_outputs))
        else:
            for names, responses in self._store.responses(stored.number):
                tally.add(responses, asked.choices(names))
        if tally.n_responses == 0:
            refused = in_words(counted(one.refused.values()))
            text = f"no device answered; {refused}" if refused else "no device answered"
            return "", coded(text, code="no-device-answered")
        result = result_of(asked, tally)
        more = {"question": stored.question_id.hex(), "contradictions": stored.n_contradictions}
        return json.dumps({**result, **more}, allow_nan=False), ""
