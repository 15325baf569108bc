"""The questions of surveys and the responses to them in the database of several coordinators, of which one leads.

Who takes over finds all that was called taken, and goes on with what is open. Nothing is written but in the present
term, see `coordinator.leading.fenced_store`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.leading.fenced_store import FencedStore
from coordinator.surveys.store import ROWS_AT_ONCE, Given, Outcome, StoredQuestion, SurveyStoreError

_COLUMNS = ", ".join(StoredQuestion.__dataclass_fields__)
_SELECT = f"SELECT {_COLUMNS} FROM coordinator_questions"  # noqa: S608  # no text from outside


class PostgresSurveyStore(FencedStore):
    """Implements `SurveyStore`."""

    write_failure = read_failure = SurveyStoreError

    def add(self, question_id: bytes, analyst: str, text: str) -> StoredQuestion:
        """See `SurveyStore`."""

        def insert(cursor: Any) -> StoredQuestion:
            cursor.execute(
                "INSERT INTO coordinator_questions (question_id, analyst, text) VALUES (%s, %s, %s)"
                " ON CONFLICT (question_id) DO NOTHING",
                (question_id, analyst, text),
            )
            cursor.execute(_SELECT + " WHERE question_id = %s", (question_id,))
            return StoredQuestion(*cursor.fetchone())

        return self._write(insert)

    def unended(self) -> list[StoredQuestion]:
        """See `SurveyStore`."""
        rows = self._read(_SELECT + " WHERE result_json = '' AND failure = '' ORDER BY number")
        return [StoredQuestion(*row) for row in rows]

    def find(self, question_id: bytes) -> StoredQuestion | None:
        """See `SurveyStore`."""
        rows = self._read(_SELECT + " WHERE question_id = %s", question_id)
        return StoredQuestion(*rows[0]) if rows else None

    def take(self, given: Sequence[Given], /) -> list[Outcome]:
        """See `SurveyStore`."""
        return self._write(lambda cursor: [_take(cursor, one) for one in given])

    def has_answered(self, question: int, name: str) -> bool:
        """See `SurveyStore`."""
        return bool(self._read("SELECT 1 FROM coordinator_responses WHERE question = %s AND name = %s", question, name))

    def counts(self, question: int, n_outputs: int) -> NDArray[np.int64]:
        """See `SurveyStore`."""
        counts = np.zeros(n_outputs, dtype=np.int64)
        query = "SELECT response, COUNT(*) FROM coordinator_responses WHERE question = %s GROUP BY response"
        for response, n in self._read(query, question):
            counts[response] = n
        return counts

    def n_responses(self, question: int) -> int:
        """See `SurveyStore`."""
        ((n,),) = self._read("SELECT COUNT(*) FROM coordinator_responses WHERE question = %s", question)
        return int(n)

    def responses(self, question: int) -> Iterator[tuple[tuple[str, ...], NDArray[np.int64]]]:
        """See `SurveyStore`."""
        last = ""  # no certificate has the empty name
        query = "SELECT name, response FROM coordinator_responses WHERE question = %s AND name > %s"
        while rows := self._read(query + " ORDER BY name LIMIT %s", question, last, ROWS_AT_ONCE):
            names, responses = zip(*rows, strict=True)
            last = names[-1]
            yield names, np.array(responses, dtype=np.int64)

    def close_question(self, question: int) -> StoredQuestion:
        """See `SurveyStore`."""

        def close(cursor: Any) -> StoredQuestion:
            cursor.execute("UPDATE coordinator_questions SET is_closed = TRUE WHERE number = %s", (question,))
            cursor.execute(_SELECT + " WHERE number = %s", (question,))
            return StoredQuestion(*cursor.fetchone())

        return self._write(close)

    def end(self, question: int, *, result_json: str = "", failure: str = "") -> None:
        """See `SurveyStore`."""
        self._write(
            lambda cursor: cursor.execute(
                "UPDATE coordinator_questions SET result_json = %s, failure = %s WHERE number = %s AND is_closed",
                (result_json, failure, question),
            )
        )


def _take(cursor: Any, given: Given) -> Outcome:
    cursor.execute(
        "SELECT is_closed, response FROM coordinator_questions"
        " LEFT JOIN coordinator_responses ON question = number AND name = %s WHERE number = %s",
        (given.name, given.question),
    )
    is_closed, before = cursor.fetchone()
    if before == given.response:
        return Outcome.REPEATED
    if is_closed:
        return Outcome.CLOSED
    if before is not None:
        # Where the commit is in doubt this may be counted twice: it warns, and is no part of an estimate.
        query = "UPDATE coordinator_questions SET n_contradictions = n_contradictions + 1 WHERE number = %s"
        cursor.execute(query, (given.question,))
        return Outcome.CONTRADICTED
    cursor.execute(
        "INSERT INTO coordinator_responses VALUES (%s, %s, %s)", (given.question, given.name, given.response)
    )
    return Outcome.TAKEN
