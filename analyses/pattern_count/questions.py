"""The questions that released counts answer, without a job and without further cost."""

from collections.abc import Mapping
from typing import Any

from analyses.kept_moments.answer import Answer, AnswerError
from analyses.pattern_count.hazards import hazard_ratios
from analyses.pattern_count.life_table import Courses, survival

TAKEN: Mapping[str, tuple[str, ...]] = {
    "survival": ("time", "by", "width"),
    "hazard-ratios": ("time", "by"),
}
"""Name of a question to what it takes; the first is what it cannot do without."""


def ask_counts(fields: Mapping[str, Any], question: str, given: Mapping[str, Any]) -> Answer:
    """Return the answer of a result of a cross-table or of pattern counts.

    Args:
        fields: the result.
        question: one of `TAKEN`.
        given: its arguments by name.

    Raises:
        AnswerError: there is no such question, or the counts cannot answer it; the text says why.
    """
    if question not in TAKEN:
        raise AnswerError(f"counts answer the questions {', '.join(TAKEN)}, and not {question!r}")
    for name in given:
        if name not in TAKEN[question]:
            raise AnswerError(f"the question {question} takes no {name}; it takes {', '.join(TAKEN[question])}")
    if not given.get(TAKEN[question][0]):
        raise AnswerError(f"the question {question} needs {TAKEN[question][0]}")
    courses = Courses.of(fields, given["time"], given.get("by"))
    if question == "hazard-ratios":
        return hazard_ratios(courses)
    return survival(courses, width=float(given.get("width", 1.0)))
