"""A question to devices as a store keeps it: asked, answered, closed, ended; what is kept of answers is each kind's.

What a call writes is durable when it returns. The key of an answer is the name in the certificate of who gave it, so
there is one of each device; the first stands.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from service.database.database import Database, Run


class Outcome(Enum):
    """What became of an answer."""

    TAKEN = "taken"
    REPEATED = "repeated"
    CONTRADICTED = "contradicted"
    CLOSED = "closed"


@dataclass(frozen=True)
class Stored:
    """A question and how it stands.

    Attributes:
        number: 1 and up, in the order of asking.
        question_id: its identifier.
        analyst: who asks.
        text: canonical text of the question.
        is_closed: whether no answer is taken any more.
        result_json: once it is known.
        failure: why there is no result; public.
    """

    number: int
    question_id: bytes
    analyst: str
    text: str
    is_closed: bool = False
    result_json: str = ""
    failure: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether there is a result, or a reason why there is none."""
        return bool(self.result_json or self.failure)


S = TypeVar("S", bound=Stored)
G = TypeVar("G")
"""An answer as a device gave it."""


class QuestionStore(ABC, Generic[S, G]):
    """May be called from several threads. Another coordinator that takes over finds all that was called taken.

    Args:
        database: with the tables of the kind.

    Raises:
        ServiceError: in every call: the store cannot be used. What was to be written is not, or is taken for repeated
            when it comes again.
    """

    stored: ClassVar[type[Any]]
    """What is read of a question; its fields are the columns of `table`."""

    table: ClassVar[str]
    """Table of the questions."""

    answers_table: ClassVar[str]
    """Table of the answers."""

    key: ClassVar[str]
    """Column of `answers_table` with the question's number; with `_id` that of `table` with its identifier."""

    def __init__(self, database: Database) -> None:
        self._db = database
        names = [f"{self.key}_id" if one.name == "question_id" else one.name for one in fields(self.stored)]
        self._columns = ", ".join(names)
        self._select = f"SELECT {self._columns} FROM {self.table}"  # noqa: S608  # no text from outside

    def close(self) -> None:
        """Release the database."""
        self._db.close()

    def unended(self) -> list[S]:
        """Return the questions without a result or a failure, the oldest first."""
        return self._where(" WHERE result_json = '' AND failure = '' ORDER BY number")

    def find(self, question_id: bytes) -> S | None:
        """Return a question; None where there is none."""
        return next(iter(self._where(f" WHERE {self.key}_id = %s", question_id)), None)

    def take(self, given: Sequence[G]) -> list[Outcome]:
        """Write answers in one transaction; return what became of each, in their order."""
        return self._db.write(lambda run: [self._take(run, one) for one in given])

    def has_answered(self, number: int, name: str) -> bool:
        """Say whether there is an answer of a device."""
        query = f"SELECT 1 FROM {self.answers_table} WHERE {self.key} = %s AND name = %s"  # noqa: S608  # as above
        return bool(self._db.read(query, number, name))

    @abstractmethod
    def n_answers(self, number: int) -> int:
        """Return how many devices have answered."""

    def close_question(self, number: int) -> S:
        """Take no answer from now on; return how the question stands."""
        query = f"UPDATE {self.table} SET is_closed = TRUE WHERE number = %s RETURNING {self._columns}"  # noqa: S608
        return self._db.write(lambda run: self._read(run(query, number).fetchone()))

    def end(self, number: int, *, result_json: str = "", failure: str = "") -> None:
        """Write the result of a closed question, or why there is none. The first end stands."""
        query = f"UPDATE {self.table} SET result_json = %s, failure = %s"  # noqa: S608  # as above
        query += " WHERE number = %s AND is_closed AND result_json = '' AND failure = ''"

        def end(run: Run) -> None:
            if run(query, result_json, failure, number).rowcount == 1:
                self._forget_answers(run, number)

        self._db.write(end)

    @abstractmethod
    def _take(self, run: Run, given: G) -> Outcome:
        """Write an answer; return what became of it."""

    def _forget_answers(self, run: Run, number: int) -> None:
        """Delete what nobody needs of the answers to a question that has ended."""

    def _insert(self, query: str, question_id: bytes, *more: object) -> S:
        """Write a question, unless it is there; return it as it stands."""

        def insert(run: Run) -> S:
            run(f"{query} ON CONFLICT ({self.key}_id) DO NOTHING", question_id, *more)
            return self._read(run(f"{self._select} WHERE {self.key}_id = %s", question_id).fetchone())

        return self._db.write(insert)

    def _where(self, where: str, *values: object) -> list[S]:
        return [self._read(row) for row in self._db.read(self._select + where, *values)]

    def _read(self, row: Sequence[Any]) -> S:
        kinds = (one.type for one in fields(self.stored))
        # SQLite has no Booleans.
        found: S = self.stored(*(bool(v) if kind is bool else v for kind, v in zip(kinds, row, strict=True)))
        return found
