"""What a coordinator does with questions that each device answers by one message, whatever the message is."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import structlog

from analyses.open_until import check_open_until
from coordinator.questions.host import LOOK_S, SESSION_BYTES, Host, OpenOne
from coordinator.questions.intake import Intake
from coordinator.stores.question import Outcome
from entropy import Entropy
from questions.question import Asked
from service.errors import AlreadyExistsError, NotFoundError, WrongStateError
from service.identity import Identity, PeerCertificate
from transport.batch_codec import FIXED_BYTES, OfferedQuestion, PartyKey
from transport.refusal import WhyRefused

_log = structlog.get_logger(__name__)


class AnsweredHost(Host):
    """Hosts questions of one kind; the key of an answer is its device's name, and the first one stands.

    Args:
        store: questions and their answers.
        asker: the coordinator's identity, as its certificate states it.
        entropy: the sessions of questions are drawn from it.
        clock: Unix time in seconds; questions end by it.
    """

    asked_class: ClassVar[type[Asked]]
    """A question of the kind as it is asked."""

    def __init__(self, store: Any, asker: str, entropy: Entropy, clock: Callable[[], float] = time.time) -> None:
        super().__init__(store, entropy)
        self._asker = asker
        self._clock = clock
        self._intake: Intake[Any] = Intake(store, self._count)
        self._by_number: dict[int, OpenOne] = {}
        self._news = asyncio.Event()

    # What each kind says.

    @abstractmethod
    def most_answers(self, question: Any) -> int:
        """Return the number of answers that ends a question."""

    @abstractmethod
    def given(self, number: int, asked: Any, caller: PeerCertificate, body: bytes, text: str) -> Any:
        """Return an answer as the store takes it.

        Args:
            number: the question's number in the store.
            asked: the question; None where it takes no answer any more.
            caller: who answers.
            body: the answer.
            text: canonical text of the question.

        Raises:
            InvalidRequestError: it is no answer to the question.
        """

    def keys_of(self, stored: Any) -> tuple[PartyKey, ...]:
        """Return what devices are shown beside a question."""
        return ()

    def longest_answer_bytes(self) -> int:
        """Return more bytes than any answer to any open question has."""
        return FIXED_BYTES

    # What all have in common.

    async def start(self) -> None:
        """See `Host`."""
        await super().start()
        self._begin(self._watch())

    async def stop(self) -> None:
        """See `Host`; what came is written."""
        await super().stop()
        await self._intake.stop()

    async def take_up(self, stored: Any) -> None:
        """See `Host`: it takes answers again."""
        asked = await asyncio.to_thread(self.asked_class.from_json, stored.text)
        n_answers = await asyncio.to_thread(self._store.n_answers, stored.number)
        one = OpenOne(stored, asked.question_id, asked.question, asked, n_answers)
        self._open[one.question_id] = self._by_number[stored.number] = one
        if stored.is_closed or n_answers >= self.most_answers(asked.question):
            self.begin_end(one)

    def asked_of(self, question: Any) -> Any:
        """Return a question as it is asked from now on; raises `JobError` where its end is past or too far ahead."""
        check_open_until(question.until, self._clock())
        return self.asked_class(question=question, asker=self._asker, session=self._entropy.read(SESSION_BYTES).hex())

    async def enter(self, stored: Any) -> bytes:
        """Let devices answer a question that was stored; return its identifier."""
        await self.take_up(stored)
        self._news.set()
        self._news = asyncio.Event()
        one = self._by_number[stored.number]
        _log.info(
            "question is open",
            kind=self.kind,
            question=one.question_id.hex(),
            analyst=stored.analyst,
            record=self.records_of(one.question),
        )
        return one.question_id

    async def fetch(self, caller: Identity, after: int, patience_s: float) -> OfferedQuestion | None:
        """Return the first open question after a number that a device has not answered; None if there is none."""
        news = self._news  # before it is looked for: what comes meanwhile is not missed
        if (found := await self._next(caller.name, after)) is not None:
            return found
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await news.wait()
        return await self._next(caller.name, after)

    async def _next(self, name: str, after: int) -> OfferedQuestion | None:
        for one in sorted(self._open.values(), key=lambda one: one.stored.number):
            number = one.stored.number
            if number <= after or one.ending is not None:
                continue
            if not await asyncio.to_thread(self._store.has_answered, number, name):
                return OfferedQuestion(number, one.stored.text, self.keys_of(one.stored))
        return None

    async def answer(self, caller: PeerCertificate, question_id: bytes, body: bytes) -> None:
        """Take an answer; it is on disk when this returns. The same one again changes nothing.

        Raises:
            NotFoundError: there is no such question.
            WrongStateError: it is closed.
            InvalidRequestError: the body is no answer to it.
            AlreadyExistsError: the caller has given another answer, which stands.
        """
        name, one = caller.identity.name, self._open.get(question_id)
        stored = await self.find(question_id) if one is None else one.stored
        if stored is None:
            raise NotFoundError(f"{name} answers a question that was never asked here")
        asked = None if one is None else one.asked
        if asked is None and not stored.is_closed:  # not asked yet, or its end could not be written: answers count
            asked = await asyncio.to_thread(self.asked_class.from_json, stored.text)
        given = await asyncio.to_thread(self.given, stored.number, asked, caller, body, stored.text)
        match await self._intake.take(given):
            case Outcome.REPEATED if (one := self._open.get(question_id)) is not None:
                # The store may have taken an answer, and not have come to say so.
                n_kept = await asyncio.to_thread(self._store.n_answers, stored.number)
                self._set_count(one, max(one.n_answers, n_kept))
            case Outcome.CONTRADICTED:
                _log.warning("second answer refused", member=name, kind=self.kind, question=question_id.hex())
                raise AlreadyExistsError(f"{name} has given another answer to this question, which stands")
            case Outcome.CLOSED:
                raise WrongStateError(f"{name} comes too late: the {self.kind} is closed")

    async def refuse(self, caller: Identity, question_id: bytes, why: WhyRefused) -> None:
        """Take note that a device will not answer an open question; of others nothing is noted."""
        one = self._open.get(question_id)
        if one is not None and not await asyncio.to_thread(self._store.has_answered, one.stored.number, caller.name):
            one.refused[caller.name] = why

    def _count(self, given: Any) -> None:
        if (one := self._by_number.get(given.question)) is not None:
            self._set_count(one, one.n_answers + 1)

    def _set_count(self, one: OpenOne, n_answers: int) -> None:
        one.n_answers = n_answers
        if n_answers >= self.most_answers(one.question):
            self.begin_end(one)

    async def _watch(self) -> None:
        """End questions when their time has come."""
        while True:
            for one in list(self._open.values()):
                if self.until_s(one.question) <= self._clock():
                    self.begin_end(one)
            await asyncio.sleep(LOOK_S)

    def forget(self, one: OpenOne) -> None:
        """See `Host`."""
        self._by_number.pop(one.stored.number, None)
        super().forget(one)
