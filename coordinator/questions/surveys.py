"""Surveys: each device answers by a response that it has randomized itself, and nothing is estimated before the end."""

import asyncio
import json
from typing import Any

from analyses.distribution.estimates.tally import CountedTally, tally_of
from analyses.job.job import JobError
from analyses.pattern_count.persons import PersonTally
from coordinator.questions.answered_host import AnsweredHost
from coordinator.questions.host import OpenOne
from coordinator.stores.surveys import Given, StoredQuestion
from questions.responses import AskedQuestion, SurveyQuestion, patterns_of, result_of
from service.codes.coded_text import coded
from service.errors import InvalidRequestError
from service.identity import PeerCertificate
from transport.refusal import counted, in_words


class Surveys(AnsweredHost):
    """The surveys of one coordinator; see `AnsweredHost`."""

    kind = "survey"
    plural = "surveys"
    asked_class = AskedQuestion
    ending_is_broken_off = False

    async def open(self, analyst: str, question: SurveyQuestion) -> bytes:
        """See `Host`."""
        asked = self.asked_of(question)
        add = (asked.question_id, analyst, asked.canonical_json())
        return await self.enter(await asyncio.to_thread(self._store.add, *add))

    def is_ours(self, stored: StoredQuestion) -> bool:
        """See `Host`: masked sums share the store, and have no asker."""
        return "asker" in json.loads(stored.text)

    def records_of(self, question: SurveyQuestion) -> str:
        """See `Host`."""
        return ", ".join(question.records)

    def most_answers(self, question: SurveyQuestion) -> int:
        """See `AnsweredHost`."""
        return question.responses

    def given(self, number: int, asked: AskedQuestion | None, caller: PeerCertificate, body: bytes, text: str) -> Given:
        """See `AnsweredHost`."""
        asked, name = AskedQuestion.from_json(text) if asked is None else asked, caller.identity.name
        try:
            return Given(number, name, asked.about(name).response_of(body))
        except JobError as error:
            raise InvalidRequestError(f"{name}: {error}") from error

    async def result(self, one: OpenOne, stored: Any) -> tuple[str, str]:
        """See `Host`: of all that the store has, so that no response is missing."""
        return await asyncio.to_thread(self._estimate, one, stored)

    def _estimate(self, one: OpenOne, stored: StoredQuestion) -> tuple[str, str]:
        asked, question, number = one.asked, one.question, stored.number
        tally = PersonTally(question.mechanisms) if question.others else tally_of(question.inquiry.response)
        if isinstance(tally, PersonTally):
            for names, responses in self._store.responses(number):  # by name, so those of a person are neighbours
                tally.add([question.respondent(name) for name in names], responses)
        elif isinstance(tally, CountedTally):
            tally.add_counts(self._store.counts(number, question.inquiry.n_outputs))
        else:
            for names, responses in self._store.responses(number):
                tally.add(responses, asked.choices(names))
        if tally.n_responses == 0:
            refused = in_words(counted(one.refused.values()))
            text = f"no device answered; {refused}" if refused else "no device answered"
            return "", coded(text, code="no-device-answered")
        result = patterns_of(asked, tally) if isinstance(tally, PersonTally) else result_of(asked, tally)
        more = {"question": stored.question_id.hex(), "contradictions": stored.n_contradictions}
        return json.dumps({**result, **more}, allow_nan=False), ""
