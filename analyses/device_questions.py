"""Which questions a coordinator can put to devices: the one list of their kinds."""

import tomllib
from collections.abc import Mapping

from analyses.job.job import JobError
from analyses.matrix_factorization.devices.asked import AskedFactors
from analyses.matrix_factorization.devices.question import NAME, FactorQuestion, question_of
from analyses.sums.asked import AskedQuestion, AskedSum
from analyses.sums.batch.question import BatchQuestion
from analyses.sums.secure_sum import SumParams

DeviceQuestion = SumParams | FactorQuestion


def read_question(text: str) -> DeviceQuestion:
    """Return the question that canonical JSON states.

    Raises:
        JobError: a field is missing, unknown or out of range; the text names each.
    """
    return question_of(text) or SumParams.from_json(text)


def question_from_toml(text: str) -> DeviceQuestion | BatchQuestion:
    """Return the question of a file: one with a `channel` is for compute parties, others are for masked sums.

    Raises:
        JobError: not TOML, or as `read_question`.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"the question is not valid TOML: {error}") from error
    if "channel" in tree:
        return BatchQuestion.from_toml(text)
    return FactorQuestion.from_toml(text) if tree.get("analysis") == NAME else SumParams.from_toml(text)


def ask(question: DeviceQuestion, session: str, identities: Mapping[str, bytes]) -> AskedQuestion:
    """Begin to ask a question.

    Args:
        question: of the analyst.
        session: a text that never repeats.
        identities: of all members that the coordinator knows, name to Ed25519 key.

    Raises:
        JobError: it cannot be answered; the text names the field.
    """
    if isinstance(question, FactorQuestion):
        return AskedFactors(question, session, identities)
    return AskedSum(question, session, identities)
