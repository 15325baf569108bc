"""Surveys that are answered by masked sums of cohorts of devices: one round per cohort, several at a time.

Rounds live in memory only, so such a survey does not outlive the coordinator. Its question and its result do.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import structlog

from analyses.distribution.cohorts import MaskedQuestion, combined
from coordinator.surveys.store import StoredQuestion, SurveyStore
from service.codes.coded_text import told
from service.errors import ServiceError
from transport.sum_codec import SumFailure, SumHappening, SumResult

MAX_AT_ONCE = 4
"""Cohorts of one survey whose rounds run at the same time."""

RunSum = Callable[[str, str], AsyncGenerator[SumHappening, None]]
"""Runs the masked sum of an analyst and a question's JSON text."""

_log = structlog.get_logger(__name__)


@dataclass
class MaskedSurvey:
    """A survey whose cohorts are asked.

    Attributes:
        stored: its question as it lies in the store.
        question: the same, read.
        cohorts: the names of each.
        n_responses: members in the sums that were opened so far.
        is_over: set once there is a result, or a reason why there is none.
    """

    stored: StoredQuestion
    question: MaskedQuestion
    cohorts: Sequence[tuple[str, ...]]
    n_responses: int = 0
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, store: SurveyStore, run_sum: RunSum) -> None:
        """Ask all cohorts, and keep the result."""
        places = asyncio.Semaphore(MAX_AT_ONCE)

        async def ask(cohort: tuple[str, ...]) -> dict[str, Any] | str:
            async with places:
                return await self._answer(run_sum, cohort)

        result_json, failure = "", "the coordinator stops"
        try:
            outcomes = await asyncio.gather(*(ask(cohort) for cohort in self.cohorts))
            result_json, failure = await asyncio.to_thread(self._result, outcomes)
        except Exception as error:
            _log.exception("survey not ended", question=self.stored.question_id.hex())
            failure = f"the coordinator failed: {type(error).__name__}"
        finally:
            store.close_question(self.stored.number)
            store.end(self.stored.number, result_json=result_json, failure=failure)
            self.is_over.set()

    async def _answer(self, run_sum: RunSum, cohort: tuple[str, ...]) -> dict[str, Any] | str:
        """Return what a cohort's sum came to, or why it was not opened."""
        text = self.question.sum_of(cohort).canonical_json()
        try:
            async with aclosing(run_sum(self.stored.analyst, text)) as happenings:
                async for happening in happenings:
                    if isinstance(happening, SumFailure):
                        return happening.reason
                    if isinstance(happening, SumResult):
                        answer: dict[str, Any] = json.loads(happening.result_json)
                        self.n_responses += len(answer["survivors"])
                        return answer
        except ServiceError as error:
            return told(error)
        return "its sum ended without a result"

    def _result(self, outcomes: Sequence[dict[str, Any] | str]) -> tuple[str, str]:
        answers = [outcome for outcome in outcomes if isinstance(outcome, dict)]
        reasons = [outcome for outcome in outcomes if isinstance(outcome, str)]
        if not answers:
            return "", f"no cohort's sum was opened: {reasons[0]}"
        failed = {
            name: outcome
            for cohort, outcome in zip(self.cohorts, outcomes, strict=True)
            if isinstance(outcome, str)
            for name in cohort
        }
        result = combined(self.question, answers, failed)
        more = {"question": self.stored.question_id.hex(), "contradictions": 0}
        return json.dumps({**result, **more}, allow_nan=False), ""
