"""Questions that masked sums answer: one sum, a series of them, or one for each cohort of devices, several at a time.

Rounds live in memory only, so such a question does not outlive the coordinator. Its text and its result do.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from analyses.job.job import JobError
from analyses.open_until import DAY_S, MOST_OPEN_DAYS
from coordinator.questions.host import Host, OpenOne
from coordinator.stores.surveys import StoredQuestion
from coordinator.sums.answering import MaskedSums, NotOpenedError
from coordinator.sums.rounds import MAX_ROUNDS
from entropy import Entropy
from questions.cohorts import MaskedQuestion, combined
from questions.question import ID_BYTES
from questions.reading import SumQuestion
from questions.rounds import AskedRounds
from service.codes.coded_text import told
from service.errors import ServiceError

MAX_AT_ONCE = 4
"""Cohorts of one question whose rounds run at the same time."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Cohorts:
    """A question about a distribution while its cohorts are asked.

    Attributes:
        question: the analyst's question.
        names: members of each cohort.
    """

    question: MaskedQuestion
    names: Sequence[tuple[str, ...]]

    def result(self, outcomes: Sequence[dict[str, Any] | str]) -> tuple[dict[str, Any] | None, str]:
        """Return what the cohorts' answers come to; or why there is nothing."""
        answers = [outcome for outcome in outcomes if isinstance(outcome, dict)]
        if not answers:
            return None, f"no cohort's sum was opened: {outcomes[0]}"
        failed = {
            name: outcome
            for cohort, outcome in zip(self.names, outcomes, strict=True)
            if isinstance(outcome, str)
            for name in cohort
        }
        return combined(self.question, answers, failed), ""


class Sums(Host):
    """The questions of one coordinator that masked sums answer; see `Host`.

    Args:
        store: the store of surveys, which keeps these questions too.
        entropy: their identifiers are drawn from it.
        masked: runs the sums.
    """

    kind = "sum"
    plural = "sums"
    most_open_each = MAX_ROUNDS // 4  # they hold rounds while they are open, also where their analyst has gone away
    after_a_stop = "does not go on; ask again"
    counts_from = 0

    def __init__(self, store: Any, entropy: Entropy, masked: MaskedSums) -> None:
        super().__init__(store, entropy)
        self._masked = masked

    def is_ours(self, stored: StoredQuestion) -> bool:
        """See `Host`: surveys share the store, and have an asker."""
        return "asker" not in json.loads(stored.text)

    def until_s(self, question: Any) -> float:
        """See `Host`: it ends when its sums are opened."""
        return 0.0

    async def take_up(self, stored: StoredQuestion) -> None:
        """See `Host`."""
        await asyncio.to_thread(self._store.close_question, stored.number)
        await self.end_stored(stored, "", "the coordinator was restarted; ask again")

    async def open(self, analyst: str, question: SumQuestion | MaskedQuestion) -> bytes:
        """See `Host`; raises `TooMuchError`, too."""
        asked: Cohorts | AskedRounds
        self._masked.rounds.check_room()
        if isinstance(question, MaskedQuestion):
            asked = Cohorts(question, question.cohorts(self._masked.members))
        else:
            asked = await asyncio.to_thread(self._masked.begin, question)
        question_id = self._entropy.read(ID_BYTES)
        stored = await asyncio.to_thread(self._store.add, question_id, analyst, question.canonical_json())
        one = self._open[question_id] = OpenOne(stored, question_id, question, asked)
        _log.info("question is open", kind=self.kind, question=question_id.hex(), analyst=analyst)
        self.begin_end(one)
        return question_id

    async def result(self, one: OpenOne, stored: Any) -> tuple[str, str]:
        """See `Host`: run the sums."""
        try:
            if isinstance(one.asked, Cohorts):
                return await self._of_cohorts(one, one.asked)
            return json.dumps(await self._masked.answer(one.asked, one.say)), ""
        except NotOpenedError as error:
            return "", str(error)
        except ServiceError as error:
            return "", told(error)
        except TimeoutError:
            return "", f"its sums were not opened within {MOST_OPEN_DAYS} days"
        except Exception as error:
            _log.exception("question not ended", question=one.question_id.hex())
            return "", f"the coordinator failed: {type(error).__name__}"

    async def _of_cohorts(self, one: OpenOne, cohorts: Cohorts) -> tuple[str, str]:
        places = asyncio.Semaphore(MAX_AT_ONCE)

        async def answer(cohort: tuple[str, ...]) -> dict[str, Any] | str:
            async with places:
                try:
                    asked = await asyncio.to_thread(self._masked.begin, cohorts.question.sum_of(cohort))
                    found = await self._masked.answer(asked, lambda happening: None)
                except NotOpenedError as error:
                    return str(error)
                except (JobError, ServiceError) as error:
                    return told(error)
            one.n_answers += len(found["survivors"])
            return found

        async with asyncio.timeout(MOST_OPEN_DAYS * DAY_S):
            outcomes = await asyncio.gather(*(answer(cohort) for cohort in cohorts.names))
        result, failure = await asyncio.to_thread(cohorts.result, outcomes)
        if result is None:
            return "", failure
        return json.dumps({**result, "question": one.question_id.hex(), "contradictions": 0}, allow_nan=False), ""
