"""Reads an analyst's question to devices, whatever its kind: the one list of kinds."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from analyses.distribution.methods import MASKED
from analyses.job.job import JobError, tree_of_toml
from analyses.matrix_factorization.devices.question import NAME as FACTORIZATION
from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.sums.round import HISTOGRAM, MEAN, SUM, TREE
from analyses.sums.secure_sum import SumParams
from questions.cohorts import MaskedQuestion
from questions.factors import AskedFactors
from questions.question import MAX_QUESTION_BYTES, Question
from questions.responses import SurveyQuestion
from questions.rounds import AskedRounds, AskedSum
from questions.shares import BatchQuestion

SumQuestion = SumParams | FactorQuestion
"""Questions that masked sums answer, a round or a series of them."""

_MASKED = (SUM, MEAN, HISTOGRAM, TREE, FACTORIZATION)
"""Analyses whose questions masked sums answer, where they have no channel."""

AnyQuestion = SumQuestion | MaskedQuestion | SurveyQuestion | BatchQuestion


def ask(question: SumQuestion, session: str, identities: Mapping[str, bytes]) -> AskedRounds:
    """Begin to ask a question of masked sums.

    Args:
        question: the analyst's question.
        session: a text that never repeats.
        identities: Ed25519 key of every member that the coordinator knows, by name.

    Raises:
        JobError: it cannot be answered; the text names the field.
    """
    if isinstance(question, FactorQuestion):
        return AskedFactors(question, session, identities)
    return AskedSum(question, session, identities)


def class_of(tree: Any) -> type[AnyQuestion]:
    """Return the class of what was read of a question.

    Raises:
        JobError: no table, or one that asks for proofs of vectors that are masked.
    """
    if not isinstance(tree, dict):
        raise JobError("the question is no table of fields")
    if "channel" in tree:
        return BatchQuestion
    analysis = tree.get("analysis", "distribution")
    if "proofs" in tree and (analysis in _MASKED or tree.get("method") == MASKED):
        instead = 'ask with channel = "parties"' if analysis in (SUM, MEAN, HISTOGRAM) else "nothing of this kind does"
        raise JobError(
            f"proofs: nobody holds shares of a member's vector in a masked sum, so nobody can check a proof; {instead}"
        )
    match analysis:
        case "distribution" | "pattern-count":
            return MaskedQuestion if tree.get("method") == MASKED else SurveyQuestion
        case name:
            return FactorQuestion if name == FACTORIZATION else SumParams


def question_from_toml(
    text: str, with_files: Callable[[Mapping[str, Any]], dict[str, Any]] = dict[str, Any]
) -> AnyQuestion:
    """Read a question's file.

    Args:
        text: TOML.
        with_files: puts what files hold in the place of their names, in a question about ratings.

    Raises:
        JobError: not TOML, or not such a question; the text names each wrong field.
    """
    tree = tree_of_toml(text)
    found = class_of(tree)
    if issubclass(found, FactorQuestion):
        return found.from_tree(with_files(tree))
    return found.from_tree(tree) if issubclass(found, SurveyQuestion | MaskedQuestion) else found.from_toml(text)


def question_from_json(text: str) -> AnyQuestion:
    """Read a question.

    Raises:
        JobError: not JSON, or not such a question; the text names each wrong field.
    """
    if len(text) > MAX_QUESTION_BYTES:
        raise JobError(f"the question is longer than {MAX_QUESTION_BYTES} bytes")
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JobError("the question is not JSON") from error
    found = class_of(tree)
    if not issubclass(found, Question):
        return found.from_json(text)
    if len(text) > found.max_bytes:
        raise JobError(f"the question is longer than {found.max_bytes} bytes")
    return found.from_tree(tree)
