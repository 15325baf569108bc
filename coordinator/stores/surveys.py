"""The questions of surveys and the responses to them, in a file of one coordinator or the database of several."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coordinator.stores.question import Outcome, QuestionStore, Stored
from service.database.database import Run, Tables
from service.errors import ServiceError

ROWS_AT_ONCE = 1 << 14
"""Largest number of responses that are read at a time."""


class SurveyStoreError(ServiceError):
    """The store cannot be used."""

    code = "survey-store-unusable"


TABLES = Tables(
    what="the store of surveys",
    failure=SurveyStoreError,
    prefix="coordinator_",
    schema="""\
CREATE TABLE coordinator_questions (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    question_id BYTEA NOT NULL UNIQUE,
    analyst TEXT NOT NULL,
    text TEXT NOT NULL,
    n_contradictions INTEGER NOT NULL DEFAULT 0,
    is_closed BOOLEAN NOT NULL DEFAULT FALSE,
    result_json TEXT NOT NULL DEFAULT '',
    failure TEXT NOT NULL DEFAULT ''
) /*STRICT*/;
CREATE TABLE coordinator_responses (
    question BIGINT NOT NULL REFERENCES coordinator_questions (number),
    name TEXT COLLATE "C" NOT NULL,
    response BIGINT NOT NULL,
    PRIMARY KEY (question, name)
) /*STRICT, WITHOUT ROWID*/""",
)


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
class StoredQuestion(Stored):
    """A question and how it stands.

    Attributes:
        n_contradictions: number of refused second responses that differed from the first.
    """

    n_contradictions: int = 0


class SurveyStore(QuestionStore[StoredQuestion, Given]):
    """Questions of surveys and their responses; see `QuestionStore`.

    Raises:
        SurveyStoreError: in every call.
    """

    stored = StoredQuestion
    table = "coordinator_questions"
    answers_table = "coordinator_responses"
    key = "question"

    def add(self, question_id: bytes, analyst: str, text: str) -> StoredQuestion:
        """Write a question that is asked from now on; return it as it stands."""
        query = "INSERT INTO coordinator_questions (question_id, analyst, text) VALUES (%s, %s, %s)"
        return self._insert(query, question_id, analyst, text)

    def n_answers(self, number: int) -> int:
        """See `QuestionStore`."""
        ((n,),) = self._db.read("SELECT COUNT(*) FROM coordinator_responses WHERE question = %s", number)
        return int(n)

    def counts(self, question: int, n_outputs: int) -> NDArray[np.int64]:
        """Return how often each output was given, shape (n_outputs,)."""
        counts = np.zeros(n_outputs, dtype=np.int64)
        query = "SELECT response, COUNT(*) FROM coordinator_responses WHERE question = %s GROUP BY response"
        for response, n in self._db.read(query, question):
            counts[response] = n
        return counts

    def responses(self, question: int) -> Iterator[tuple[tuple[str, ...], NDArray[np.int64]]]:
        """Yield names and responses, shape (n,), by name, n at most `ROWS_AT_ONCE`.

        Other calls go on between two parts.
        """
        last = ""  # no certificate has the empty name
        query = "SELECT name, response FROM coordinator_responses WHERE question = %s AND name > %s"
        while rows := self._db.read(query + " ORDER BY name LIMIT %s", question, last, ROWS_AT_ONCE):
            names, responses = zip(*rows, strict=True)
            last = names[-1]
            yield names, np.array(responses, dtype=np.int64)

    def _take(self, run: Run, given: Given) -> Outcome:
        """See `QuestionStore`."""
        query = "SELECT is_closed, response FROM coordinator_questions LEFT JOIN coordinator_responses"
        query += " ON question = number AND name = %s WHERE number = %s"
        is_closed, before = run(query, given.name, given.question).fetchone()
        if before == given.response:
            return Outcome.REPEATED
        if is_closed:
            return Outcome.CLOSED
        if before is not None:
            # Where the commit is in doubt this may be counted twice: it warns, and is no part of an estimate.
            query = "UPDATE coordinator_questions SET n_contradictions = n_contradictions + 1 WHERE number = %s"
            run(query, given.question)
            return Outcome.CONTRADICTED
        run("INSERT INTO coordinator_responses VALUES (%s, %s, %s)", given.question, given.name, given.response)
        return Outcome.TAKEN
