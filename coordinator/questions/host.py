"""What a coordinator does with questions of any kind: it opens, follows, lists, calls off and ends them.

Questions, and what is kept of their answers, outlive a restart; a kind says what becomes of a question that an earlier
process left open.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import structlog

from analyses.job.job import JobError
from coordinator.questions.places import CALLED_OFF_CODE, MAX_OPEN_EACH, Places
from entropy import Entropy
from questions.reading import question_from_json
from service.codes.coded_text import coded, told
from service.errors import InvalidRequestError, WrongStateError
from transport.happenings import Counted, Failed, Happening, Opened, Refused, Result
from transport.questions import OpenQuestion
from transport.refusal import WhyRefused, counted

SESSION_BYTES = 16

LOOK_S = 1.0
"""How often, in seconds, an analyst hears what is new, and questions whose time has come are closed."""

MAX_SAID = 100
"""Stage reports and new attempts of one question that are kept for followers: a series may have thousands."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


@dataclass
class OpenOne:
    """A question that is open, or whose result is being made.

    Attributes:
        stored: the question's entry in the store.
        question_id: its identifier.
        question: the analyst's.
        asked: the form in which devices get it: what the kind makes of it.
        n_answers: number of answers taken.
        refused: device name to the reason why it will not answer; forgotten when the coordinator stops.
        said: what followers are told beside these, the last ones of them.
        n_said: number of what they were told in all.
        news: set, and replaced, when followers are to look again at once.
        is_over: whether there is a result, or a reason why there is none; or the coordinator stops.
        ending: makes the result.
        is_called_off: whether it ends without one, because somebody called it off.
    """

    stored: Any
    question_id: bytes
    question: Any
    asked: Any
    n_answers: int = 0
    refused: dict[str, WhyRefused] = field(default_factory=dict)
    said: deque[Happening] = field(default_factory=lambda: deque(maxlen=MAX_SAID))
    n_said: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False
    ending: "asyncio.Task[None] | None" = None
    is_called_off: bool = False

    def say(self, happening: Happening) -> None:
        """Tell followers what happens."""
        self.said.append(happening)
        self.n_said += 1
        self._wake()

    def said_after(self, n_told: int) -> list[Happening]:
        """Return what a follower was not told yet that knows the first `n_told`, as far as it is still here."""
        return list(self.said)[max(0, n_told - (self.n_said - len(self.said))) :]

    def end(self) -> None:
        """Let nobody follow any longer."""
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()


class Host(ABC):
    """Hosts the questions of one kind.

    Args:
        store: questions and their answers.
        entropy: the sessions of questions are drawn from it.

    Raises:
        ValueError: the entropy is reproducible: devices must never meet the digest of a question again.
    """

    kind: ClassVar[str]
    """Name of the kind."""

    plural: ClassVar[str]
    """The same of several."""

    ending_is_broken_off: ClassVar[bool] = True
    """Whether the making of a result may last, so that a call-off and the end of the process break it off."""

    after_a_stop: ClassVar[str] = "goes on when it runs again"
    """What becomes of a question when the coordinator stops."""

    most_open_each: ClassVar[int] = MAX_OPEN_EACH
    """Largest number of open questions of one analyst."""

    counts_from: ClassVar[int] = -1
    """The number of answers that followers take for granted."""

    def __init__(self, store: Any, entropy: Entropy) -> None:
        if not entropy.is_secure:
            raise ValueError("a service needs secure randomness")
        self._store = store
        self._entropy = entropy
        self._open: dict[bytes, OpenOne] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._places = Places(
            self.plural, lambda: [one.stored.analyst for one in self._open.values()], self.most_open_each
        )

    # What each kind says.

    @abstractmethod
    async def open(self, analyst: str, question: Any) -> bytes:
        """Open a question; return its identifier.

        Raises:
            JobError, InvalidRequestError: it cannot be asked here.
        """

    @abstractmethod
    async def take_up(self, stored: Any) -> None:
        """Go on with a question that an earlier process left open."""

    @abstractmethod
    async def result(self, one: OpenOne, stored: Any) -> tuple[str, str]:
        """Return the result of a closed question as JSON, and why there is none; one of them is empty."""

    async def end_stored(self, stored: Any, result_json: str, failure: str) -> None:
        """Write the end of a closed question."""
        await asyncio.to_thread(self._store.end, stored.number, result_json=result_json, failure=failure)

    def is_ours(self, stored: Any) -> bool:
        """Tell whether a question of the store is of this kind."""
        return True

    def until_s(self, question: Any) -> float:
        """Return the Unix time at which a question ends; 0 where it has no end of its own."""
        return float(question.until.timestamp())

    def records_of(self, question: Any) -> str:
        """Return the names of all records that a question is about, with commas between."""
        return str(question.record)

    # What all have in common.

    async def start(self) -> None:
        """Go on with the questions that an earlier process left open."""
        for stored in self._store.unended():
            if self.is_ours(stored):
                try:
                    await self.take_up(stored)
                except JobError as error:
                    await self._end_unread(stored, error)

    async def _end_unread(self, stored: Any, error: JobError) -> None:
        """End a question of another version, which would take no answer and keep its place."""
        _log.error("stored question cannot be read", kind=self.kind, number=stored.number, reason=told(error))
        await asyncio.to_thread(self._store.close_question, stored.number)
        await self.end_stored(stored, "", "this version of the coordinator cannot read the question; ask again")

    def leave(self) -> None:
        """Wake all followers: the coordinator stops."""
        for one in self._open.values():
            one.end()

    async def stop(self) -> None:
        """Stop; open questions stay open for the next process."""
        for task in self._tasks:
            task.cancel()
        endings = [one.ending for one in self._open.values() if one.ending is not None]
        await asyncio.gather(*self._tasks, *endings, return_exceptions=True)

    async def ask(self, analyst: str, text: str) -> AsyncGenerator[Happening, None]:
        """Open a question and follow it to its end.

        Raises:
            InvalidRequestError: it cannot be asked; the text names the field.
            TooMuchError: too many questions of this kind are open.
        """
        try:
            question = await asyncio.to_thread(self.read, text)
            with self._places.one_of(analyst):  # it is opened to its end, or not at all
                question_id = await asyncio.shield(self._begin(self.open(analyst, question)))
        except JobError as error:
            raise InvalidRequestError(told(error)) from error
        async for happening in self.follow(question_id):
            yield happening

    def read(self, text: str) -> Any:
        """Read a question of this kind; raises `JobError`."""
        question = question_from_json(text)
        if question.kind != self.kind:
            raise JobError(f"analysis: this question is no {self.kind}, but a {question.kind}")
        return question

    async def find(self, question_id: bytes) -> Any:
        """Return a stored question of this kind; None where there is none."""

        def look() -> Any:
            stored = self._store.find(question_id)
            return stored if stored is not None and self.is_ours(stored) else None

        return await asyncio.to_thread(look)  # `is_ours` reads a text of megabytes

    async def follow(self, question_id: bytes) -> AsyncGenerator[Happening, None]:
        """Follow a stored question to its end."""
        yield Opened(question_id)
        one, n_told, refused, n_said = self._open.get(question_id), self.counts_from, counted(()), 0
        while one is not None:
            news, is_over = one.news, one.is_over  # before what is new is looked for: nothing is missed
            unheard, n_said = one.said_after(n_said), one.n_said
            for happening in unheard:
                yield happening
            if is_over:
                break
            if one.n_answers != n_told:
                n_told = one.n_answers
                yield Counted(n_told)
            if (now := counted(one.refused.values())) != refused:
                refused = now
                yield Refused(refused)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await news.wait()
        ended = await asyncio.to_thread(self._store.find, question_id)
        assert ended is not None
        if ended.result_json:
            yield Result(ended.result_json)
        else:
            yield Failed(ended.failure or f"the coordinator stops; the {self.kind} {self.after_a_stop}")

    def open_questions(self) -> list[OpenQuestion]:
        """Return all that are open."""
        return [
            OpenQuestion(
                one.question_id,
                self.kind,
                one.stored.analyst,
                self.records_of(one.question),
                self.until_s(one.question),
                one.n_answers,
            )
            for one in self._open.values()
        ]

    async def call_off(self, question_id: bytes, who: str) -> None:
        """End an open question; `who` is for the reason.

        Raises:
            WrongStateError: its result is just being made.
            ServiceError: the end cannot be written.
        """
        one = self._open[question_id]
        if one.ending is not None and not one.is_called_off:
            if not self.ending_is_broken_off:
                raise WrongStateError(f"the {self.kind} is closed, and its result is being made")
            await asyncio.sleep(0)  # it has begun
            one.ending.cancel()
            await asyncio.gather(one.ending, return_exceptions=True)
        if self._open.get(question_id) is not one:  # it has ended meanwhile
            return
        if not one.is_called_off:
            one.is_called_off = True
            one.ending = self._begin(self._close(one, coded(f"{who} called it off", code=CALLED_OFF_CODE)))
        assert one.ending is not None, "it was just begun, by us or by somebody else"
        await asyncio.shield(one.ending)

    def begin_end(self, one: OpenOne) -> None:
        """Close a question and make its result, if that has not begun."""
        if one.ending is None:
            begin: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]] = (
                self._begin if self.ending_is_broken_off else asyncio.create_task
            )
            one.ending = begin(self._close(one))

    async def _close(self, one: OpenOne, called_off: str = "") -> None:
        """Close a question and keep its result; or why there is none."""
        log = _log.bind(kind=self.kind, question=one.question_id.hex())
        result_json, failure = "", called_off
        try:
            stored = await asyncio.to_thread(self._store.close_question, one.stored.number)
            if not called_off:
                result_json, failure = await self.result(one, stored)
            await self.end_stored(stored, result_json, failure)
        except Exception:
            log.exception("question not ended")
            self.forget(one)
            if called_off:  # whoever did so is told
                raise
        else:
            log.info("question is over", has_result=bool(result_json))
            self.forget(one)

    def forget(self, one: OpenOne) -> None:
        """Take a question that is over off the open ones."""
        self._open.pop(one.question_id, None)
        one.end()

    def _begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
