"""What a store of surveys does: it keeps questions and the responses to them.

What a call writes is durable when it returns. The key of a response is the name in the certificate of who gave it, so
there is one of each device; the first stands.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from service.errors import ServiceError

ROWS_AT_ONCE = 1 << 14
"""Largest number of responses that are read at a time."""


class SurveyStoreError(ServiceError):
    """The store cannot be used."""

    code = "survey-store-unusable"


class Outcome(Enum):
    """What became of a response."""

    TAKEN = "taken"
    REPEATED = "repeated"
    CONTRADICTED = "contradicted"
    CLOSED = "closed"


@dataclass(frozen=True)
class Given:
    """A response as a device gave it.

    Attributes:
        question: number of the question.
        name: in the device's certificate.
        response: an output of the mechanism.
    """

    question: int
    name: str
    response: int


@dataclass(frozen=True)
class StoredQuestion:
    """A question and how it stands.

    Attributes:
        number: 1 and up, in the order of asking.
        question_id: its identifier.
        analyst: who asks.
        text: canonical.
        n_contradictions: so many second responses were refused that differed from the first.
        is_closed: whether no response is taken any more.
        result_json: once it is known.
        failure: why there is no result; public.
    """

    number: int
    question_id: bytes
    analyst: str
    text: str
    n_contradictions: int = 0
    is_closed: bool = False
    result_json: str = ""
    failure: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether there is a result, or a reason why there is none."""
        return bool(self.result_json or self.failure)


class SurveyStore(Protocol):
    """May be called from several threads.

    Raises:
        SurveyStoreError: in every call: the store cannot be used. What was to be written is not, or is taken for
            repeated when it comes again.
    """

    def close(self) -> None:
        """Release what it holds."""

    def add(self, question_id: bytes, analyst: str, text: str) -> StoredQuestion:
        """Write a question that is asked from now on."""

    def unended(self) -> list[StoredQuestion]:
        """Return the questions without a result or a failure, the oldest first."""

    def find(self, question_id: bytes) -> StoredQuestion | None:
        """Return a question; None where there is none."""

    def take(self, given: Sequence[Given], /) -> list[Outcome]:
        """Write responses in one transaction; return what became of each, in their order."""

    def has_answered(self, question: int, name: str) -> bool:
        """Say whether there is a response of a device."""

    def counts(self, question: int, n_outputs: int) -> NDArray[np.int64]:
        """Return how often each output was given, shape (n_outputs,)."""

    def n_responses(self, question: int) -> int:
        """Return how many devices have answered."""

    def responses(self, question: int) -> Iterator[tuple[tuple[str, ...], NDArray[np.int64]]]:
        """Yield names and responses, shape (n,), by name, n at most `ROWS_AT_ONCE`.

        Other calls go on between two parts.
        """

    def close_question(self, question: int) -> StoredQuestion:
        """Take no response from now on; return how the question stands."""

    def end(self, question: int, *, result_json: str = "", failure: str = "") -> None:
        """Write the result of a closed question, or why there is none."""
