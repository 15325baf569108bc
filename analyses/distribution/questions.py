"""Reads an analyst's question about a number to devices: to be answered by responses, or by masked sums of cohorts."""

import json
import tomllib
from typing import Any

from analyses.distribution.cohorts import MaskedQuestion
from analyses.distribution.inquiry import MASKED
from analyses.distribution.survey import MAX_QUESTION_BYTES, SurveyQuestion
from analyses.job.job import JobError

MAX_MASKED_BYTES = 4 << 20
"""Largest size of the text of a question that is answered by masked sums: it may name its members."""


def question_from_toml(text: str) -> SurveyQuestion | MaskedQuestion:
    """Read a question's file.

    Raises:
        JobError: not TOML, or not such a question; the text names each wrong field.
    """
    try:
        return _question(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"the question is not valid TOML: {error}") from error


def question_from_json(text: str) -> SurveyQuestion | MaskedQuestion:
    """Read a question.

    Raises:
        JobError: not JSON, or not such a question; the text names each wrong field.
    """
    if len(text) > MAX_MASKED_BYTES:
        raise JobError(f"the question is longer than {MAX_MASKED_BYTES} bytes")
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JobError("the question is not JSON") from error
    if not is_masked(tree) and len(text) > MAX_QUESTION_BYTES:
        raise JobError(f"the question is longer than {MAX_QUESTION_BYTES} bytes")
    return _question(tree)


def is_masked(tree: Any) -> bool:
    """Say whether what was read of a question asks for masked sums."""
    return isinstance(tree, dict) and tree.get("method") == MASKED


def _question(tree: Any) -> SurveyQuestion | MaskedQuestion:
    return MaskedQuestion.from_tree(tree) if is_masked(tree) else SurveyQuestion.from_tree(tree)
