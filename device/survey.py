"""A device in surveys: one response to each question for ever, paid for before it is drawn, kept before it is sent.

The steps, each on disk before the next one begins:

1. the owner's policy and declarations allow the question;
2. the response is *begun* in the store;
3. its cost is reserved in the ledger, and committed;
4. the record is read, for the first time, and the response is drawn;
5. it is kept in the store;
6. it is sent until the coordinator says that it has taken it.

Whatever a stop leaves behind, `respond` goes on so that no question ever has two different responses, and none that is
not paid for:

| found | then |
| --- | --- |
| a response | the same bytes, for ever |
| begun, committed, no response | it is drawn: nothing has left |
| begun, not committed | the device sits out |
| committed, not begun | it refuses: the store was lost, and with it perhaps a response that has left |

The record decides none of this, and is not opened before it is paid for. One that cannot be used answers as the empty
input.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from analyses.distribution.survey import AskedQuestion, Input
from analyses.job.job import JobError
from device.budget import DeviceBudget, survey_charge_id
from device.records import KeptRecord, UnusableRecordError
from device.refusing import why_refused
from device.report import write_survey_report
from device.response_store import SENDING, TAKEN, ResponseStore
from dp.draw.noise import sample_uniform
from entropy import Entropy
from party.ledger.books import JobState
from party.ledger.entry import LedgerError
from service.codes.coded_text import told
from service.errors import ServiceError, TimedOutError, TooMuchError, UnreachableError
from transport.refusal import WhyRefused
from transport.survey_client import SurveyClient

PAUSE_S = 2.0
"""Seconds to wait before the next attempt if the coordinator cannot be reached or repeats an invitation."""

_PASSING = (UnreachableError, TimedOutError, TooMuchError)

_log = structlog.get_logger(__name__)


class SitsOutError(Exception):
    """The device does not answer the question; the text is for its owner and shows nothing of a record.

    Attributes:
        why: what who asks is told of it; None for nothing.
    """

    code: str = "survey-sat-out"

    def __init__(self, text: str, why: WhyRefused | None = None) -> None:
        super().__init__(text)
        self.why = why


@dataclass(frozen=True)
class SurveyDevice:
    """The part of a device that answers surveys.

    Attributes:
        name: as in its certificate.
        coordinator: the identity of the one coordinator that it answers.
        client: calls to it.
        store: of responses.
        records: what it keeps, by name; read anew for each question.
        fixed: names of the records that have one response per mechanism for ever, even if their value changes.
        budget: its ledger, shared with masked sums.
        max_epsilon: of one response.
        entropy: where its randomness comes from.
        data_dir: where its private reports are kept; None for none.
        tells_refusals: whether the coordinator is told the class of the reason where nothing is answered.

    Raises:
        ValueError: the entropy is reproducible: whoever knew its seed would know the value behind a response.
    """

    name: str
    coordinator: str
    client: SurveyClient
    store: ResponseStore
    records: Mapping[str, KeptRecord]
    fixed: frozenset[str]
    budget: DeviceBudget
    max_epsilon: float
    entropy: Entropy
    data_dir: Path | None = None
    tells_refusals: bool = True

    def __post_init__(self) -> None:
        if not self.entropy.is_secure:
            raise ValueError("a service needs secure randomness")

    async def run(self) -> None:
        """Answer every question that the owner's policy allows, until cancelled."""
        await answer_questions(lambda: self)

    async def answer(self, text: str) -> bool:
        """Answer one question, or sit it out; say whether the coordinator has taken a response. Failures are logged."""
        try:
            asked = await asyncio.to_thread(AskedQuestion.from_json, text)
        except JobError as error:
            _log.warning("refused the question", member=self.name, reason=str(error))
            return False
        log = _log.bind(member=self.name, question=asked.question_id.hex())
        try:
            body = await asyncio.to_thread(self.respond, asked)
        except (SitsOutError, JobError, LedgerError, ServiceError) as error:
            log.warning("sits the question out", reason=told(error))
            await self._tell(asked, error.why if isinstance(error, SitsOutError) else why_refused(error))
            await self._note(asked, f"sat out: {error}")
            return False
        outcome = await self._send(asked, body)
        log.info("response", outcome=outcome)
        await self._note(asked, outcome)
        return outcome == TAKEN

    async def _tell(self, asked: AskedQuestion, why: WhyRefused | None) -> None:
        """Tell the class of the reason to who asks, once; nothing depends on whether it is heard."""
        if why is None or not self.tells_refusals:
            return
        try:
            await self.client.refuse(asked.question_id, why)
        except ServiceError as error:
            _log.info("refusal not told", member=self.name, reason=told(error))

    async def _send(self, asked: AskedQuestion, body: bytes) -> str:
        """Send a response until it is taken or refused for good; return what became of it."""
        await self._note(asked, SENDING)
        while True:
            try:
                await self.client.answer(asked.question_id, body)
            except _PASSING as error:
                _log.warning("response not taken yet", member=self.name, reason=str(error))
                await asyncio.sleep(PAUSE_S)
            except ServiceError as error:
                return f"not taken: {error}"
            else:
                return TAKEN

    async def _note(self, asked: AskedQuestion, outcome: str) -> None:
        try:
            key = await asyncio.to_thread(self._key_of, asked)
            await asyncio.to_thread(self.store.note, asked.digest, key, asked.canonical_json(), outcome)
        except (ServiceError, JobError) as error:
            _log.error("outcome not kept", member=self.name, reason=str(error))

    def respond(self, asked: AskedQuestion) -> bytes:
        """Return the one response to a question: steps 1 to 5.

        Raises:
            SitsOutError: the owner rules it out, or what an earlier stop left behind does.
            JobError: what the owner declares does not fit it.
            ChargeError, LedgerError: the budget does not cover it, or cannot be written.
            ResponseStoreError: the store cannot be used. Nothing leaves.
        """
        self._admit(asked)
        key = self._key_of(asked)
        if (found := self.store.find(key)) is not None and found.body is not None:
            return found.body
        state = self.budget.survey_state(key)
        if found is None:
            if state is not None:
                raise SitsOutError(
                    "the ledger knows the response and the store does not: the store was lost", WhyRefused.TROUBLE
                )
            self.store.begin(key)
            self.budget.charge_survey(key, asked.question.analysis, asked.question.cost())
        elif state is not JobState.COMMITTED:
            raise SitsOutError("the device was stopped before the response was paid for")
        answers = self._read(asked)
        body = asked.body_of(asked.respond(answers.value, self.name, self.entropy))
        self._report(asked, key, answers)
        self.store.keep(key, body)
        return body

    def _admit(self, asked: AskedQuestion) -> None:
        """Refuse what the owner rules out, by the question and the owner's declarations alone; no record is read."""
        question = asked.question
        if asked.asker != self.coordinator:
            raise SitsOutError(
                f"the question is that of {asked.asker}, which is not this device's coordinator", WhyRefused.POLICY
            )
        if question.record not in self.records:
            raise JobError(f"record: {self.name} declares none called {question.record}")
        if self.records[question.record].declared.length not in (None, 1):
            raise JobError(f"record: {question.record} is declared with several values; a survey asks for one")
        epsilon = question.inquiry.odds.pure_epsilon
        if epsilon > self.max_epsilon:
            what = f"a response costs epsilon {epsilon:.3g}; at most {self.max_epsilon:g} here"
            raise SitsOutError(what, WhyRefused.POLICY)
        if question.rounds > 1:
            drawn = self.store.round_of(question.series_digest, _uniform(self.entropy, question.rounds))
            if drawn != question.round:
                raise SitsOutError("the device answers in another round of the series")
            if not self.store.is_first_of_series(question.series_digest, asked.digest):
                raise SitsOutError("the device has answered in this series")

    def _key_of(self, asked: AskedQuestion) -> bytes:
        return asked.fixed_digest() if asked.question.record in self.fixed else asked.digest

    def _read(self, asked: AskedQuestion) -> Input:
        """Read the record. Every error is caught: one that left here would tell others about the record."""
        question = asked.question
        try:
            return question.input_of(self.records[question.record].read().values)
        except UnusableRecordError as error:
            return Input(question.inquiry.empty, not_used_because=str(error))
        except Exception as error:
            return Input(question.inquiry.empty, not_used_because=f"reading it failed: {type(error).__name__}")

    def _report(self, asked: AskedQuestion, key: bytes, answers: Input) -> None:
        """Keep the private report. A response does not fail for want of it, which would tell others of this device."""
        if self.data_dir is None:
            return
        try:
            write_survey_report(self.data_dir, survey_charge_id(key), asked, answers, self.budget.standing())
        except (OSError, ValueError, LedgerError) as error:
            _log.error("report not kept", member=self.name, reason=str(error))


async def answer_questions(current: Callable[[], SurveyDevice]) -> None:
    """Answer every question that the owner's policy allows, until cancelled.

    Args:
        current: returns the device as it is configured now.
    """
    after = 0
    while True:
        device = current()
        try:
            found = await device.client.fetch(after)
        except ServiceError as error:
            _log.warning("no question", member=device.name, reason=told(error))
            await asyncio.sleep(PAUSE_S)
            continue
        if found is None:
            continue
        number, text = found
        if number <= after:
            await asyncio.sleep(PAUSE_S)
        after = max(after, number)
        await current().answer(text)


def _uniform(entropy: Entropy, n: int) -> Callable[[], int]:
    return lambda: int(sample_uniform(entropy, n, 1)[0])
