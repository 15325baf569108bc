"""A question about a number to devices that dial out: what it is made of, its digest, and its estimate.

Whether a device answers follows from what its owner declares and from the question, never from what its record holds: a
record that cannot be used answers as the empty input, which nobody can tell from another one. So what a response
protects is everything about the record, also whether there is one.

A question may name several records of one person, each kept by a device of its own, as apps of different makers do
[VertPrim23, appendix H]. Each device answers about its one record, as if nothing else were asked, and its certificate
says whose it is: PERSON-RECORD.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AwareDatetime, Field, model_validator

from analyses.distribution.inquiry import DistributionParams, Inquiry, Range, mechanism_of
from analyses.distribution.methods import Answered, takes_choices
from analyses.distribution.shuffled import analyst_view
from analyses.job.job import Delta, Epsilon, JobError, Name
from analyses.pattern_count.persons import (
    MAX_ORDER,
    MAX_RECORDS,
    TWO_VALUES,
    PersonTally,
    RecordResponse,
    check_size,
    described,
)
from analyses.rows.grid import Grid
from dp.cost.accounting import CalibrationError
from dp.cost.job_cost import JobCost
from dp.cost.report import privacy_report
from dp.cost.views import MEMBER_UNIT, VIEWS
from dp.local_mechanism.hashed_response import DirectResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave
from entropy import Entropy
from questions.persons import CATEGORIES, PERSON_UNIT, SIGNS, RecordOfPerson, cost_in_words, n_categories
from questions.question import Asked, Question

if TYPE_CHECKING:
    from analyses.distribution.estimates.tally import Tally

MAX_RESPONSES = 10_000_000
"""Largest number of responses of one survey."""

MAX_ROUNDS = 1024
"""Largest number of rounds of a series."""

RECORDS_UNIT = "member's records (that it answered is public)"
"""What a response protects, in the words of reports. Budgets of devices are kept per `dp.cost.views.MEMBER_UNIT`."""


@dataclass(frozen=True)
class Input:
    """What a device's record says. Secret.

    Attributes:
        value: an input, or the empty one.
        was_clipped: whether the number lies outside the range.
        not_used_because: why the record answers as the empty input; empty where it does not.
    """

    value: int
    was_clipped: bool = False
    not_used_because: str = ""


class SurveyQuestion(DistributionParams, Question):
    """What an analyst asks of devices.

    Attributes:
        analysis: the name of the analysis; with `others`, and only then, pattern counts.
        record: each device's `[[records]]` says where it keeps this.
        range: range of the number; values outside it count as its nearer end.
        buckets, method, bins, fine, half_width, top, centre, second, cells, rectangles, estimate, tau, smoothing,
            queries, quantiles: see `DistributionParams`. Of a `grid` the record has two numbers, in their order, and
            the expected number of responses is `responses`.
        others: further records of the same person. A device answers about the one that its name ends with. With
            `method` direct all are categories, whose ranges say how many values they have. The JSON of other questions
            does not show this field and the next.
        order: largest number of records of a pattern.
        epsilon: epsilon of one response, at delta 0; a person with a device for each of m records pays m times that.
        delta: at which the report states what a response costs; the promise at delta 0 holds whatever it is.
        until: the survey ends then, by the coordinator's clock. No decision of a device depends on it.
        responses: the survey ends when so many have come.
        rounds: a device answers in one of so many surveys of a series, which it draws beforehand.
        round: the number of this one, 0 .. rounds - 1.
        series: names the series, where there is more than one round.
    """

    kind = "survey"
    max_bytes = 8 << 10

    analysis: Literal["distribution", "pattern-count"] = "distribution"
    record: Name
    range: Range
    others: Annotated[
        tuple[RecordOfPerson, ...], Field(max_length=MAX_RECORDS - 1, exclude_if=lambda all_: not all_)
    ] = ()
    order: Annotated[int, Field(ge=2, le=MAX_ORDER, exclude_if=lambda order: order == 2)] = 2
    method: Answered = "wave"
    epsilon: Epsilon
    delta: Delta = 1e-6
    until: AwareDatetime
    responses: Annotated[int, Field(ge=1, le=MAX_RESPONSES)] = MAX_RESPONSES
    rounds: Annotated[int, Field(ge=1, le=MAX_ROUNDS)] = 1
    round: Annotated[int, Field(ge=0)] = 0
    series: Annotated[str, Field(pattern=r"^[a-zA-Z0-9-]{0,64}$")] = ""

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        self._settle_categories()
        self.check_grid()
        self._settle_cells()
        if self.round >= self.rounds:
            raise ValueError(f"round: must be below {self.rounds}, the number of rounds")
        if (self.rounds > 1) != bool(self.series):
            raise ValueError("series: several rounds have a series, and one alone has none")
        self._check_others()
        return self

    def _settle_cells(self) -> None:
        """State how many cells a grid has, where the analyst does not: everybody reads it in the question's text."""
        if self.n_values == 1 or self.cells is not None:
            return
        if self.responses == MAX_RESPONSES or self.rounds > 1:
            raise ValueError("cells: state how many; only those of one survey alone follow from its `responses`")
        try:
            found = self.with_cells(Odds.of_epsilon(self.epsilon), self.responses).cells
        except CalibrationError as error:
            raise ValueError(f"epsilon: {error}") from error
        object.__setattr__(self, "cells", found)

    def _settle_categories(self) -> None:
        """State how many values the first record has, where all are categories: as many as its range."""
        if not self.others or self.method != CATEGORIES:
            return
        k = n_categories(self.range)
        for name in ("buckets", "bins"):
            if name in self.model_fields_set and getattr(self, name) != k:
                raise ValueError(f"{name}: the range of the record has {k} categories; leave `{name}` away")
            object.__setattr__(self, name, k)

    def _check_others(self) -> None:
        if (self.analysis == "pattern-count") != bool(self.others):
            raise ValueError("others: pattern counts name further records of a person, and nothing else does")
        if self.order > max(2, len(self.records)):
            raise ValueError(f"order: a pattern has at most {len(self.records)} records here")
        if not self.others:
            return
        if len(set(self.records)) != len(self.records):
            raise ValueError("others: a record appears more than once")
        if self.method not in (SIGNS, CATEGORIES):
            raise ValueError("method: patterns of several records are counted by 'sign', or by 'direct' of categories")
        if self.rounds > 1 or self.centre is not None:
            raise ValueError("rounds, centre: a question about several records of a person has none")
        for other in self.others:
            Grid(*other.range, self.buckets)
        if self.method == CATEGORIES or self.buckets == TWO_VALUES:
            check_size([question.buckets for question in self.each], self.order)

    def check(self) -> None:
        """See `Question`: there must be such a mechanism."""
        try:
            self.inquiry.response  # noqa: B018  # checks that there is one
        except CalibrationError as error:
            raise JobError(f"epsilon, buckets: {error}") from error

    @cached_property
    def inquiry(self) -> Inquiry:
        """What is asked, and how a device answers.

        Raises:
            CalibrationError: there is no such mechanism.
        """
        return Inquiry(self, Odds.of_epsilon(self.epsilon).favoured)

    @property
    def records(self) -> tuple[str, ...]:
        """Names of all records that are asked about."""
        return (self.record, *(other.record for other in self.others))

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Range of each of `records`."""
        return (self.range, *(other.range for other in self.others))

    @property
    def epsilon_of_person(self) -> float:
        """What all responses about one person cost together, at delta 0: they are drawn independently, one a record."""
        return len(self.records) * self.inquiry.odds.pure_epsilon

    def respondent(self, name: str) -> tuple[str, int]:
        """Return whose record a device of a name keeps, and the place of that record in `records`.

        Args:
            name: in the device's certificate: PERSON-RECORD, where a person has no hyphen.

        Raises:
            JobError: no record of the question has this end.
        """
        person, _, record = name.partition("-")
        if record not in self.records:
            raise JobError(f"record: {name} is no device for one of {', '.join(self.records)}: these are PERSON-RECORD")
        return person, self.records.index(record)

    def about(self, name: str) -> "SurveyQuestion":
        """Return what the device of a name is asked: about its record alone, where the question is about several.

        Raises:
            JobError: it keeps none of them.
        """
        return self.each[self.respondent(name)[1]] if self.others else self

    @cached_property
    def each(self) -> "tuple[SurveyQuestion, ...]":
        """What the device of each record is asked, in the order of `records`."""
        common = self.model_dump() | {"analysis": "distribution", "others": (), "order": 2}
        questions = []
        for record, ends in zip(self.records, self.ranges, strict=True):
            own: dict[str, Any] = {"record": record, "range": ends}
            if self.method == CATEGORIES:
                own |= dict.fromkeys(("buckets", "bins"), n_categories(ends))
            questions.append(SurveyQuestion.model_validate(common | own))
        return tuple(questions)

    @property
    def mechanisms(self) -> tuple[RecordResponse, ...]:
        """How the device of each record of a person answers."""
        found = [question.inquiry.response for question in self.each]
        return tuple(one for one in found if isinstance(one, SignResponse | DirectResponse))

    def cost(self) -> JobCost:
        """Return what one response costs, for a device's ledger; it withstands all other devices together."""
        return JobCost.of(self.inquiry.response.events, MEMBER_UNIT, MAX_RESPONSES)

    def input_of(self, values: NDArray[np.float64]) -> Input:
        """Return what the numbers of a record say: the input of its finite ones, else the empty one."""
        if values.shape != (self.n_values,):
            return Input(self.inquiry.empty, not_used_because=f"it has {values.size} values; {self.asks_for}")
        if not np.isfinite(values).all():
            whose = "its value" if self.n_values == 1 else "one of its values"
            return Input(self.inquiry.empty, not_used_because=f"{whose} is not a finite number")
        places, n_clipped = self.inquiry.inputs_of(values[None, :])
        return Input(int(places[0]), bool(n_clipped.any()))

    @property
    def asks_for(self) -> str:
        """How many numbers of a record are asked about, in words."""
        return "a survey asks for one" if self.n_values == 1 else f"a survey by {self.method} asks for {self.n_values}"

    def privacy_report(self, n_responses: int = 0, *, with_analyst: bool = True) -> dict[str, Any]:
        """Return the cost of a response in both views, which are equal: its noise is the device's alone.

        Args:
            n_responses: number of devices that have answered; 0 where it is not known yet. Then there is no third view.
            with_analyst: whether the third view is stated, which takes seconds.
        """
        inquiry, n = self.inquiry, len(self.records)
        parameters: dict[str, Any] = {
            "favoured": inquiry.favoured,
            "other": inquiry.odds.other,
            "buckets": self.buckets,
        }
        if self.others:
            parameters |= {"records": n, "epsilon_of_one_response": inquiry.odds.pure_epsilon}
        report = privacy_report(
            mechanism=f"one randomized response per device, method {self.method}",
            sensitivity=cost_in_words(n, inquiry.odds.pure_epsilon)
            if self.others
            else "one member's records are the input of one response",
            n_parties=n_responses,
            colluding=max(0, n_responses - n),
            delta=self.delta,
            events={view: inquiry.response.events(view) * n for view in VIEWS},  # of all records the odds are the same
            noise=dict.fromkeys(VIEWS, "each response's noise is its device's alone"),
            parameters=parameters,
            unit=PERSON_UNIT if self.others else RECORDS_UNIT,
        )
        is_stated = n_responses > 0 and with_analyst and not self.others
        third = analyst_view(inquiry.mechanism, n_responses - 1, self.delta) if is_stated else None
        return report | ({} if third is None else {"analyst": third})

    @cached_property
    def series_digest(self) -> bytes:
        """SHA-256 of what all rounds of a series have in common; a centre may follow from an earlier round."""
        common = self.model_dump(mode="json", exclude={"round", "until", "responses", "centre"})
        return hashlib.sha256(b"moiety survey series:" + _canonical(common)).digest()


class AskedQuestion(Asked):
    """A survey as a coordinator asks it."""

    question: SurveyQuestion

    def about(self, name: str) -> "AskedQuestion":
        """Return it as the device of a name answers it: see `SurveyQuestion.about`."""
        return self if not self.question.others else self.model_copy(update={"question": self.question.about(name)})

    def choices(self, respondents: Sequence[str]) -> PublicChoices:
        """Return the public choices of respondents, in their order."""
        return PublicChoices(self.digest, respondents)

    def fixed_digest(self) -> bytes:
        """SHA-256 of the record and the mechanism, for records with one response for ever.

        What a mechanism does not follow from is left as it is by default, and a window is told by what it came to.

        Raises:
            JobError: the mechanism takes a public choice of its own for each question, so no response serves several.
        """
        question, mechanism = self.question, self.question.inquiry.response
        assert not question.others, "a device answers about one record"
        if takes_choices(mechanism):
            raise JobError(f"method: {question.method} makes a new choice for each question; the record is fixed")
        names = {"record", "range", "buckets", "method", "bins", "fine", "epsilon", "centre", "second", "cells"}
        tree = question.model_dump(mode="json", include=names) | {"favoured": question.inquiry.favoured}
        if not question.entry.is_binned:
            tree["bins"] = SurveyQuestion.model_fields["bins"].default
        if question.n_values > 1:
            tree["buckets"] = SurveyQuestion.model_fields["buckets"].default
        usual = question.model_copy(update={"half_width": None, "top": None})
        if isinstance(mechanism, Wave) and mechanism != mechanism_of(usual, question.inquiry.odds):
            tree["window"] = [mechanism.half_width, mechanism.window.count(max(mechanism.window))]
        return hashlib.sha256(b"moiety survey fixed response:" + _canonical(tree)).digest()

    def respond(self, value: int, respondent: str, entropy: Entropy) -> int:
        """Draw one response.

        Args:
            value: an input, or the empty one.
            respondent: the name in its certificate.
            entropy: the respondent's randomness.
        """
        mechanism, values = self.question.inquiry.response, np.array([value], dtype=np.int64)
        if isinstance(mechanism, Wave | SignResponse):
            return int(mechanism.respond(values, entropy)[0])
        return int(mechanism.respond(values, self.choices([respondent]), entropy)[0])

    def body_of(self, response: int) -> bytes:
        """Return a response as it travels."""
        return response.to_bytes(self.question.inquiry.response_bytes, "little")

    def response_of(self, body: bytes) -> int:
        """Return the response in a body.

        Raises:
            JobError: it has another length, or is no output of the mechanism.
        """
        inquiry = self.question.inquiry
        if len(body) != inquiry.response_bytes:
            raise JobError(f"a response to this question has {inquiry.response_bytes} bytes, not {len(body)}")
        response = int.from_bytes(body, "little")
        if response >= inquiry.n_outputs:
            raise JobError(f"a response to this question is below {inquiry.n_outputs}")
        return response


def _canonical(tree: Mapping[str, Any]) -> bytes:
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def result_of(asked: AskedQuestion, tally: "Tally") -> dict[str, Any]:
    """Return what the responses of devices say; see `analyses.distribution.estimates.estimate.described`.

    Args:
        asked: the question.
        tally: tally of the responses, at least one.
    """
    from analyses.distribution.estimates.estimate import estimated  # with its kernels; a device estimates nothing

    question, n = asked.question, tally.n_responses
    found = estimated(question.inquiry, tally)
    return {**found, "record": question.record, "responses": n, "privacy": question.privacy_report(n)}


def patterns_of(asked: AskedQuestion, tally: PersonTally) -> dict[str, Any]:
    """Return what responses of devices of the same persons say; see `analyses.pattern_count.persons.described`.

    Args:
        asked: a question about several records.
        tally: all persons that have answered about some of them, at least one.
    """
    question = asked.question
    found = described(question.mechanisms, tally.counts, question.records, question.ranges, question.order)
    of_all = {"record": ", ".join(question.records), "responses": tally.n_responses, "method": question.method}
    return {**found, **of_all, "privacy": question.privacy_report(tally.n_responses)}
