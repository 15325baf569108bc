"""A device in surveys: one randomized response to each question; see `device.questions.answering`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyses.job.job import LEAST_EPSILON, JobError
from device.questions.answering import QuestionDevice
from device.records import zeros_if_raised
from device.refusing import SitsOutError
from device.report import write_survey_report
from dp.cost.job_cost import JobCost
from dp.draw.noise import sample_uniform
from entropy import Entropy
from questions.responses import AskedQuestion, Input
from service.tls import Credentials
from transport.batch_codec import PartyKey
from transport.refusal import WhyRefused

if TYPE_CHECKING:
    from device.config import DeviceConfig


@dataclass(frozen=True, kw_only=True)
class SurveyDevice(QuestionDevice[AskedQuestion]):
    """The part of a device that answers surveys.

    Attributes:
        coordinator: the identity of the one coordinator that it answers.
        fixed: names of the records that have one response per mechanism for ever, even if their value changes.
        max_epsilon: largest epsilon of one response, or of all about one person where several records are asked about.
        least_epsilon: least epsilon of a question.
    """

    kind = "survey"
    store_name = "responses.sqlite"

    coordinator: str
    fixed: frozenset[str]
    max_epsilon: float
    least_epsilon: float = LEAST_EPSILON

    @classmethod
    def settings(cls, config: "DeviceConfig", credentials: Credentials) -> dict[str, Any] | None:
        """See `QuestionDevice`."""
        if config.policy.surveys is None:
            return None
        return {
            "coordinator": config.coordinator_identity.uri,
            "fixed": config.fixed_records,
            "max_epsilon": config.policy.surveys.max_epsilon,
            "least_epsilon": config.policy.least_epsilon,
        }

    @classmethod
    def read(cls, text: str) -> AskedQuestion:
        """See `QuestionDevice`."""
        return AskedQuestion.from_json(text)

    def admit(self, asked: AskedQuestion, keys: Sequence[PartyKey]) -> None:
        """See `QuestionDevice`."""
        question, epsilon = asked.about(self.name).question, asked.question.epsilon_of_person
        if asked.asker != self.coordinator:
            raise SitsOutError(
                f"the question is that of {asked.asker}, which is not this device's coordinator", WhyRefused.POLICY
            )
        if question.record not in self.records:
            raise JobError(f"record: {self.name} declares none called {question.record}")
        length, n_values = self.records[question.record].declared.length, question.n_values
        if length not in (None, n_values):
            how_many = "several values" if n_values == 1 else f"{length} values"
            raise JobError(f"record: {question.record} is declared with {how_many}; {question.asks_for}")
        if question.epsilon < self.least_epsilon:
            what = f"epsilon is {question.epsilon:.3g}; at least {self.least_epsilon:g} here (policy.least_epsilon)"
            raise SitsOutError(what, WhyRefused.POLICY)
        if epsilon > self.max_epsilon:
            several = "" if not asked.question.others else f", those about all {len(asked.question.records)} records,"
            what = f"a response{several} costs epsilon {epsilon:.3g}; at most {self.max_epsilon:g} here"
            raise SitsOutError(what, WhyRefused.POLICY)
        if question.rounds > 1:
            drawn = self.store.round_of(question.series_digest, _uniform(self.entropy, question.rounds))
            if drawn != question.round:
                raise SitsOutError("the device answers in another round of the series")
            if not self.store.is_first_of_series(question.series_digest, asked.digest):
                raise SitsOutError("the device has answered in this series")

    def key_of(self, asked: AskedQuestion) -> bytes:
        """See `QuestionDevice`: for a fixed record that of the record and the mechanism."""
        alone = asked.about(self.name)
        return alone.fixed_digest() if alone.question.record in self.fixed else asked.digest

    def cost_of(self, asked: AskedQuestion) -> JobCost:
        """See `QuestionDevice`."""
        return asked.question.cost()

    def make(self, asked: AskedQuestion, keys: Sequence[PartyKey]) -> bytes:
        """See `QuestionDevice`."""
        answers, body = self.drawn(asked.about(self.name))
        name = self.charge_of(self.key_of(asked))
        self.report(lambda folder: write_survey_report(folder, name, asked, self.name, answers, self.budget.standing()))
        return body

    def drawn(self, asked: AskedQuestion) -> tuple[Input, bytes]:
        """Read the record and draw the response to what it says, to the empty input where anything of it raises.

        Args:
            asked: the question, about one record.
        """
        question = asked.question

        def response_to(answers: Input) -> tuple[Input, bytes]:
            return answers, asked.body_of(asked.respond(answers.value, self.name, self.entropy))

        return zeros_if_raised(
            lambda: response_to(question.input_of(self.records[question.record].read().values)),
            lambda why: response_to(Input(question.inquiry.empty, not_used_because=why)),
        )


def _uniform(entropy: Entropy, n: int) -> Callable[[], int]:
    return lambda: int(sample_uniform(entropy, n, 1)[0])
