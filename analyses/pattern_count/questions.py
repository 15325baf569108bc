"""The questions that released counts answer, without a job and without further cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from analyses.kept_moments.answer import Answer, Question, answered
from analyses.pattern_count.groups import Groups, groups, means, quantiles
from analyses.pattern_count.hazards import hazard_ratios
from analyses.pattern_count.life_table import Courses, survival
from analyses.pattern_count.sum_answers import QUARTILES, distribution

Fields = Mapping[str, Any]


def _survival(fields: Fields, time: str, by: str | None = None, width: float = 1.0) -> Answer:
    return survival(Courses.of(fields, time, by), width=float(width))


def _hazard_ratios(fields: Fields, time: str, by: str | None = None) -> Answer:
    return hazard_ratios(Courses.of(fields, time, by))


def _groups(fields: Fields, columns: Sequence[str], at_least: float = 0.0) -> Answer:
    return groups(Groups.of(fields, columns), at_least=float(at_least))


def _group_means(
    fields: Fields,
    value: str,
    columns: Sequence[str] = (),
    width: float | None = None,
    at_least: float | None = None,
) -> Answer:
    return means(Groups.of(fields, columns, value), width=width, at_least=at_least)


def _quantiles(fields: Fields, value: str, columns: Sequence[str] = (), q: float = 0.5, width: float = 1.0) -> Answer:
    return quantiles(Groups.of(fields, columns, value), q=float(q), width=float(width))


def _distribution(
    fields: Fields, powers: Sequence[float] = (1.0, 2.0), quantiles: Sequence[float] = QUARTILES
) -> Answer:
    return distribution(fields, powers, quantiles)


QUESTIONS: Mapping[str, Question] = {
    "survival": Question(_survival, ("time", "by", "width"), ("time",)),
    "hazard-ratios": Question(_hazard_ratios, ("time", "by"), ("time",)),
    "groups": Question(_groups, ("columns", "at_least"), ("columns",)),
    "group-means": Question(_group_means, ("value", "columns", "width", "at_least"), ("value",)),
    "quantiles": Question(_quantiles, ("value", "columns", "q", "width"), ("value",)),
    "distribution": Question(_distribution, ("powers", "quantiles")),
}


def ask_counts(fields: Fields, name: str, given: Mapping[str, Any]) -> Answer:
    """Return the answer of a result of a cross-table or of pattern counts.

    Args:
        fields: the result.
        name: name of the question.
        given: its arguments by name.

    Raises:
        AnswerError: there is no such question, or the counts cannot answer it; the text says why.
    """
    return answered(QUESTIONS, name, fields, given)
