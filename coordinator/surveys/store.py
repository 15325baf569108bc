"""The questions of surveys and the responses to them, in a file of one coordinator or the database of several.

What a call writes is durable when it returns. The key of a response is the name in the certificate of who gave it, so
there is one of each device; the first stands.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.database.database import Database, Run, Tables
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
class StoredQuestion:
    """A question and how it stands.

    Attributes:
        number: 1 and up, in the order of asking.
        question_id: its identifier.
        analyst: who asks.
        text: canonical.
        n_contradictions: number of refused second responses that differed from the first.
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


_COLUMNS = ", ".join(StoredQuestion.__dataclass_fields__)
_SELECT = f"SELECT {_COLUMNS} FROM coordinator_questions"  # noqa: S608  # no text from outside
_CLOSE = f"UPDATE coordinator_questions SET is_closed = TRUE WHERE number = %s RETURNING {_COLUMNS}"  # noqa: S608  # likewise


class SurveyStore:
    """May be called from several threads. Another coordinator that takes over finds all that was called taken.

    Args:
        database: with `TABLES`.

    Raises:
        SurveyStoreError: in every call: the store cannot be used. What was to be written is not, or is taken for
            repeated when it comes again.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def close(self) -> None:
        """Release the database."""
        self._db.close()

    def add(self, question_id: bytes, analyst: str, text: str) -> StoredQuestion:
        """Write a question that is asked from now on; return it as it stands."""

        def insert(run: Run) -> StoredQuestion:
            query = "INSERT INTO coordinator_questions (question_id, analyst, text) VALUES (%s, %s, %s)"
            run(query + " ON CONFLICT (question_id) DO NOTHING", question_id, analyst, text)
            return _question(run(_SELECT + " WHERE question_id = %s", question_id).fetchone())

        return self._db.write(insert)

    def unended(self) -> list[StoredQuestion]:
        """Return the questions without a result or a failure, the oldest first."""
        rows = self._db.read(_SELECT + " WHERE result_json = '' AND failure = '' ORDER BY number")
        return [_question(row) for row in rows]

    def find(self, question_id: bytes) -> StoredQuestion | None:
        """Return a question; None where there is none."""
        rows = self._db.read(_SELECT + " WHERE question_id = %s", question_id)
        return _question(rows[0]) if rows else None

    def take(self, given: Sequence[Given]) -> list[Outcome]:
        """Write responses in one transaction; return what became of each, in their order."""
        return self._db.write(lambda run: [_take(run, one) for one in given])

    def has_answered(self, question: int, name: str) -> bool:
        """Say whether there is a response of a device."""
        query = "SELECT 1 FROM coordinator_responses WHERE question = %s AND name = %s"
        return bool(self._db.read(query, question, name))

    def counts(self, question: int, n_outputs: int) -> NDArray[np.int64]:
        """Return how often each output was given, shape (n_outputs,)."""
        counts = np.zeros(n_outputs, dtype=np.int64)
        query = "SELECT response, COUNT(*) FROM coordinator_responses WHERE question = %s GROUP BY response"
        for response, n in self._db.read(query, question):
            counts[response] = n
        return counts

    def n_responses(self, question: int) -> int:
        """Return how many devices have answered."""
        ((n,),) = self._db.read("SELECT COUNT(*) FROM coordinator_responses WHERE question = %s", question)
        return int(n)

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

    def close_question(self, question: int) -> StoredQuestion:
        """Take no response from now on; return how the question stands."""
        return self._db.write(lambda run: _question(run(_CLOSE, question).fetchone()))

    def end(self, question: int, *, result_json: str = "", failure: str = "") -> None:
        """Write the result of a closed question, or why there is none. The first end stands."""
        query = "UPDATE coordinator_questions SET result_json = %s, failure = %s"
        query += " WHERE number = %s AND is_closed AND result_json = '' AND failure = ''"
        self._db.write(lambda run: run(query, result_json, failure, question))


def _take(run: Run, given: Given) -> Outcome:
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


def _question(row: tuple[Any, ...]) -> StoredQuestion:
    found = StoredQuestion(*row)
    return replace(found, is_closed=bool(found.is_closed))  # SQLite has no Booleans
