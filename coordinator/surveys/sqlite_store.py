"""The questions of surveys and the responses to them in one SQLite file, which belongs to one process at a time.

What a call writes is on disk when it returns (write-ahead log, synchronous = FULL). The key of a response is the name
in the certificate of who gave it, so there is one of each device; the first stands.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from coordinator.surveys.store import ROWS_AT_ONCE, Given, Outcome, StoredQuestion, SurveyStoreError
from service.files.sqlite import SqliteFile

_SCHEMA = """
CREATE TABLE questions (
    number INTEGER PRIMARY KEY,
    question_id BLOB NOT NULL UNIQUE,
    analyst TEXT NOT NULL,
    text TEXT NOT NULL,
    n_contradictions INTEGER NOT NULL DEFAULT 0,
    is_closed INTEGER NOT NULL DEFAULT 0,
    result_json TEXT NOT NULL DEFAULT '',
    failure TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE responses (
    question INTEGER NOT NULL REFERENCES questions (number),
    name TEXT NOT NULL,
    response INTEGER NOT NULL,
    PRIMARY KEY (question, name)
) STRICT, WITHOUT ROWID;
"""

_COLUMNS = ", ".join(StoredQuestion.__dataclass_fields__)
_SELECT = f"SELECT {_COLUMNS} FROM questions"  # noqa: S608  # no text from outside


class SqliteSurveyStore(SqliteFile):
    """Implements `SurveyStore`.

    Args:
        path: of the file; made, readable by its owner only, where absent.

    Raises:
        SurveyStoreError: here and in every call: the file cannot be used. What was to be written is not.
    """

    what = "the surveys"
    failure = SurveyStoreError
    version = 1
    schema = _SCHEMA

    def add(self, question_id: bytes, analyst: str, text: str) -> StoredQuestion:
        """Write a question that is asked from now on."""
        with self._transaction():
            row = self._db.execute(
                "INSERT INTO questions (question_id, analyst, text) VALUES (?, ?, ?) RETURNING number",
                (question_id, analyst, text),
            ).fetchone()
        return StoredQuestion(row[0], question_id, analyst, text)

    def unended(self) -> list[StoredQuestion]:
        """Return the questions without a result or a failure, the oldest first."""
        with self._reading() as db:
            rows = db.execute(_SELECT + " WHERE result_json = '' AND failure = '' ORDER BY number").fetchall()
        return [_question(row) for row in rows]

    def find(self, question_id: bytes) -> StoredQuestion | None:
        """Return a question; None where there is none."""
        with self._reading() as db:
            row = db.execute(_SELECT + " WHERE question_id = ?", (question_id,)).fetchone()
        return None if row is None else _question(row)

    def take(self, given: Sequence[Given]) -> list[Outcome]:
        """Write responses in one transaction; return what became of each, in their order."""
        with self._transaction():
            return [self._take(one) for one in given]

    def _take(self, given: Given) -> Outcome:
        key = (given.question, given.name)
        query = "SELECT is_closed, response FROM questions LEFT JOIN responses ON question = number AND name = ?"
        is_closed, before = self._db.execute(query + " WHERE number = ?", (given.name, given.question)).fetchone()
        if before == given.response:
            return Outcome.REPEATED
        if is_closed:
            return Outcome.CLOSED
        if before is not None:
            query = "UPDATE questions SET n_contradictions = n_contradictions + 1 WHERE number = ?"
            self._db.execute(query, (given.question,))
            return Outcome.CONTRADICTED
        self._db.execute("INSERT INTO responses VALUES (?, ?, ?)", (*key, given.response))
        return Outcome.TAKEN

    def has_answered(self, question: int, name: str) -> bool:
        """Say whether there is a response of a device."""
        with self._reading() as db:
            query = "SELECT 1 FROM responses WHERE question = ? AND name = ?"
            return db.execute(query, (question, name)).fetchone() is not None

    def counts(self, question: int, n_outputs: int) -> NDArray[np.int64]:
        """Return how often each output was given, shape (n_outputs,)."""
        counts = np.zeros(n_outputs, dtype=np.int64)
        with self._reading() as db:
            query = "SELECT response, COUNT(*) FROM responses WHERE question = ? GROUP BY response"
            for response, n in db.execute(query, (question,)):
                counts[response] = n
        return counts

    def n_responses(self, question: int) -> int:
        """Return how many devices have answered."""
        with self._reading() as db:
            (n,) = db.execute("SELECT COUNT(*) FROM responses WHERE question = ?", (question,)).fetchone()
        return int(n)

    def responses(self, question: int) -> Iterator[tuple[tuple[str, ...], NDArray[np.int64]]]:
        """Yield names and responses, shape (n,), by name, n at most `ROWS_AT_ONCE`.

        Other calls go on between two parts.
        """
        last = ""  # no certificate has the empty name
        query = "SELECT name, response FROM responses WHERE question = ? AND name > ? ORDER BY name LIMIT ?"
        while True:
            with self._reading() as db:
                rows = db.execute(query, (question, last, ROWS_AT_ONCE)).fetchall()
            if not rows:
                return
            names, responses = zip(*rows, strict=True)
            last = names[-1]
            yield names, np.array(responses, dtype=np.int64)

    def close_question(self, question: int) -> StoredQuestion:
        """Take no response from now on; return how the question stands."""
        with self._transaction():
            self._db.execute("UPDATE questions SET is_closed = 1 WHERE number = ?", (question,))
            return _question(self._db.execute(_SELECT + " WHERE number = ?", (question,)).fetchone())

    def end(self, question: int, *, result_json: str = "", failure: str = "") -> None:
        """Write the result of a closed question, or why there is none."""
        with self._transaction():
            query = "UPDATE questions SET result_json = ?, failure = ? WHERE number = ? AND is_closed = 1"
            self._db.execute(query, (result_json, failure, question))


def _question(row: tuple[int, bytes, str, str, int, int, str, str]) -> StoredQuestion:
    number, question_id, analyst, text, n_contradictions, is_closed, result_json, failure = row
    return StoredQuestion(number, question_id, analyst, text, n_contradictions, bool(is_closed), result_json, failure)
