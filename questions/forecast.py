"""What is known of a question to devices before it is asked: the errors of its answer, and what it costs a member.

Both follow from the question and the number of members that answer, from the noise whose standard errors the answer
itself will state. Nobody is asked for it, and nothing is spent.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from analyses.distribution.forecast import forecast_of_counts, forecast_of_responses
from analyses.distribution.inquiry import Inquiry
from analyses.job.forecast import Enough, Forecast, Quantity, Signal, Wanted, enough_for
from analyses.job.job import JobError
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.matrix_factorization.devices.rounds import DeviceRounds
from analyses.matrix_factorization.devices.statistics_rounds import StatisticsRounds
from analyses.matrix_factorization.jobs.forecast import OF_A_DESCENT, forecast_of_offsets
from analyses.pattern_count.persons import forecast as forecast_of_persons
from analyses.sums.forecast import LARGEST_FRACTION
from analyses.sums.round import HISTOGRAM, MEAN, SUM
from analyses.sums.secure_sum import SumParams, check_delta, privacy_report, topology_of
from analyses.sums.tree_counts import TreeCounts
from mpc.errors import ProtocolError
from questions.cohorts import MaskedQuestion
from questions.reading import AnyQuestion, question_from_json
from questions.responses import MAX_RESPONSES, SurveyQuestion
from questions.shares import MAX_DEVICES, BatchQuestion

UNIT = "units of the record"

_ALL_STAY = "All members answer and stay in the sum, so its noise is the smallest that it allows."
_HALF = "Every member has half of the largest weight."
_MIDDLE = "In the best case each mean is near 0, in the bad case at a bound."


@dataclass(frozen=True)
class QuestionPlan:
    """What is known of a question before it is asked.

    Attributes:
        members: how many are taken to answer.
        forecast: the errors that are expected of the answer.
        privacy: what the answer would cost a member; a report without epsilon for an exact one.
        proofs: what each device of a batch proves, and the size of its answer; None where it proves nothing.
        enough: what would bring a wanted error about, where one is.
    """

    members: int
    forecast: Forecast
    privacy: Mapping[str, Any]
    proofs: Mapping[str, Any] | None = None
    enough: Enough | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        tree = {"members": self.members, "forecast": self.forecast.as_dict(), "privacy": dict(self.privacy)}
        tree |= {} if self.enough is None else {"enough": self.enough.as_dict()}
        return tree if self.proofs is None else tree | {"proofs": dict(self.proofs)}


def plan_of(question: AnyQuestion, n_members: int | None = None, wanted: Wanted | None = None) -> QuestionPlan:
    """Return what is known of a question.

    Args:
        question: the analyst's question.
        n_members: how many answer; by default as many as it names, or as end it.
        wanted: an error that the analyst wants; the plan says the epsilon and the number of members for it.

    Raises:
        JobError: the number is not known, or nothing can be answered by so few; names the field.
    """
    n = _members_of(question, n_members)
    planned = _planned(question, n)
    if wanted is None:
        return planned
    enough = enough_for(
        wanted,
        planned.forecast,
        epsilon_of(question),
        lambda epsilon: _planned(with_epsilon(question, epsilon), n).forecast,
        n,
        lambda members: _planned(question, _members_of(question, members)).forecast,
    )
    return replace(planned, enough=enough)


def _target_of(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a question's tree that holds its epsilon."""
    for part in (tree, tree.get("privacy"), (tree.get("sum") or {}).get("privacy")):
        if part is not None and "epsilon" in part:
            return cast(dict[str, Any], part)
    raise JobError("within: the answer is exact, so it has no error")


def epsilon_of(question: AnyQuestion) -> float:
    """Return the epsilon that a question asks for.

    Raises:
        JobError: its answer is exact.
    """
    return float(_target_of(json.loads(question.canonical_json()))["epsilon"])


def with_epsilon(question: AnyQuestion, epsilon: float) -> AnyQuestion:
    """Return a question with another epsilon.

    Raises:
        JobError: it cannot be asked with that.
    """
    tree = json.loads(question.canonical_json())
    _target_of(tree)["epsilon"] = epsilon
    changed = question_from_json(json.dumps(tree))
    if isinstance(changed, SurveyQuestion):
        changed.check()
    return changed


def _planned(question: AnyQuestion, n: int) -> QuestionPlan:
    try:
        if isinstance(question, FactorQuestion):
            return _of_rounds(rounds_of(question, n), n)
        if isinstance(question, SurveyQuestion):
            if question.others:
                return _of_persons(question, n)
            assumed = (f"{n} members answer about {'a value' if question.n_values == 1 else 'two values'} each.",)
            forecast = forecast_of_responses(question, question.inquiry.response, n, UNIT, assumed)
            return QuestionPlan(n, forecast, question.privacy_report(n, with_analyst=False))
        if isinstance(question, MaskedQuestion):
            return _of_cohorts(question, n)
        if isinstance(question, BatchQuestion):
            deviation = 0.0 if question.noise is None else math.sqrt(question.noise.variance(len(question.parties)))
            of_sum = _of_sum(question.sum, n, deviation)
            return QuestionPlan(n, of_sum, question.privacy_report(), question.proofs_report())
        check_delta(question.privacy, n)
        topology = topology_of(question, n)
        noise = question.noise(topology)
        deviation = 0.0 if noise is None else math.sqrt(noise.variance(n))
        return QuestionPlan(n, _of_sum(question, n, deviation), privacy_report(question, topology))
    except ProtocolError as error:
        raise JobError(f"members, colluding: {error}") from error


def _of_persons(question: SurveyQuestion, n: int) -> QuestionPlan:
    forecast = forecast_of_persons(question.mechanisms, question.order, question.ranges, n)
    return QuestionPlan(n, forecast, question.privacy_report(n))


def _of_rounds(rounds: DeviceRounds, n: int) -> QuestionPlan:
    if isinstance(rounds, StatisticsRounds):
        rated = "Every member rates as many items as the question says."
        forecast = forecast_of_offsets(rounds.plan, rounds.question.bounds, rated)
    else:
        forecast = Forecast(not_forecast=(OF_A_DESCENT,))
    return QuestionPlan(n, forecast, rounds.privacy_report())


def _members_of(question: AnyQuestion, n_members: int | None) -> int:
    if isinstance(question, SurveyQuestion):
        known = question.responses if question.responses < MAX_RESPONSES else None
    elif isinstance(question, BatchQuestion):
        known = question.largest_cohort if question.largest_cohort < MAX_DEVICES else None
    else:
        known = len(question.members) or None
    found = known if n_members is None else n_members
    if found is None:
        raise JobError("members: the question does not say how many answer, so a forecast must be told: --members")
    most = {SurveyQuestion: MAX_RESPONSES, BatchQuestion: MAX_DEVICES}.get(type(question), found)
    if not 1 <= found <= most:
        raise JobError(f"members: {found} members {'answer nothing' if found < 1 else f'are more than {most}'}")
    return found


def _of_sum(question: SumParams, n: int, deviation: float) -> Forecast:
    """Return the errors of sums, means or counts; `deviation` is that of the noise on each integer of the sum."""
    if question.privacy is None:
        return Forecast(assumptions=("The answer is exact: it has no noise, and protects nobody.",))
    if question.analysis == HISTOGRAM:
        most = n * question.largest
        count = Quantity("count of any bin", "numbers", deviation, least=0.0, largest=most)
        return _seen(count, Signal("the standard error of a count", deviation, "the largest count", most, "numbers"))
    if question.analysis == SUM:
        most = n * min(question.largest, question.largest_norm or question.largest)
        error = deviation / question.units
        total = Quantity(f"each entry of the sum of {question.record}", UNIT, error, least=-most, largest=most)
        return _seen(total, Signal("the standard error of the sum", error, "its range", 2 * most, UNIT))
    if question.analysis != MEAN:
        return Forecast(not_forecast=("Counts of a tree are forecast with the distribution that they serve.",))
    assert question.largest_weight is not None
    weight = n * question.largest_weight / 2
    if deviation / question.encoding.weight_units > LARGEST_FRACTION * weight:
        why = (
            "The noise on the total weight is more than a fifth of it: a mean is divided by it, and may come out "
            "anywhere."
        )
        return Forecast(not_forecast=(why,))
    mean = Quantity(
        f"each entry of the mean of {question.record}",
        UNIT,
        deviation / weight / question.units,
        least=-question.largest,
        largest=question.largest,
        bad_case=math.sqrt(2) * deviation / weight / question.units,
    )
    return Forecast((mean,), (_ALL_STAY, _HALF, _MIDDLE))


def _seen(quantity: Quantity, signal: Signal) -> Forecast:
    return Forecast((quantity,), (_ALL_STAY,), infeasible=signal.in_words if signal.is_infeasible else "")


def _of_cohorts(question: MaskedQuestion, n: int) -> QuestionPlan:
    """Return what the sums of all cohorts come to: their noises add up, and a member pays for its own."""
    names = question.members or tuple(f"member-{number}" for number in range(n))
    if len(names) != n:
        raise JobError(f"members: the question names {len(names)} members, not {n}")
    cohorts = question.cohorts(names)
    sizes, variance, reports = Counter(map(len, cohorts)), 0.0, []
    of_size = {len(cohort): cohort for cohort in cohorts}
    for size, times in sizes.items():
        params = question.sum_of(of_size[size])
        topology = topology_of(params, size)
        noise = params.noise(topology)
        assert noise is not None, "such a question has a target"
        variance += times * float(noise.variance(size))
        reports.append(privacy_report(params, topology))
    assumed = (f"All members answer and stay in the sums of {len(cohorts)} cohorts.",)
    forecast = forecast_of_counts(Inquiry(question), TreeCounts(question.buckets, 1), variance, n, UNIT, assumed)
    dearest = max(reports, key=lambda report: max(float(v["epsilon"]) for v in report["views"].values()))
    return QuestionPlan(n, forecast, dearest)
