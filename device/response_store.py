"""A device's lasting memory of its responses to surveys: one SQLite file, written before a response leaves.

Each step is on disk when its call returns (write-ahead log, synchronous = FULL). A response stands under a key: that of
its question, or, for a record with one response for ever, that of the record and the mechanism.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from questions.responses import AskedQuestion
from service.database.database import Tables
from service.database.sqlite import SqliteDatabase
from service.errors import ServiceError

SENDING, TAKEN = "sending", "taken"
"""Outcomes of a question that was answered. Any other text says why it was not, or why the response was not taken."""


class ResponseStoreError(ServiceError):
    """The store cannot be used; for its owner. Nothing may leave the device."""

    code = "response-store-unusable"


_TABLES = Tables(
    what="the store of responses",
    failure=ResponseStoreError,
    schema="""\
CREATE TABLE responses (
    key BYTEA PRIMARY KEY,
    body BYTEA
) /*STRICT, WITHOUT ROWID*/;
CREATE TABLE series (
    series BYTEA PRIMARY KEY,
    round INTEGER NOT NULL,
    question BYTEA
) /*STRICT, WITHOUT ROWID*/;
CREATE TABLE questions (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest BYTEA NOT NULL UNIQUE,
    key BYTEA NOT NULL,
    text TEXT NOT NULL,
    outcome TEXT NOT NULL
) /*STRICT*/""",
)


@dataclass(frozen=True)
class Begun:
    """What the store knows of a response.

    Attributes:
        body: the response, or None where it is not known to be drawn.
    """

    body: bytes | None


@dataclass(frozen=True)
class KnownQuestion:
    """A question that the device has met, for its owner.

    Attributes:
        text: canonical.
        outcome: `SENDING`, `TAKEN`, or a reason.
        body: the response, or None where there is none.
    """

    text: str
    outcome: str
    body: bytes | None


class ResponseStore:
    """May be called from several threads.

    Args:
        path: path of the file; made, readable by its owner only, where absent.

    Raises:
        ResponseStoreError: here and in every call: the file cannot be read or written. What was to be written is not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = SqliteDatabase(path, _TABLES, alone=False, patience_s=5.0)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def find(self, key: bytes) -> Begun | None:
        """Return what is known of a response; None where it was never begun."""
        rows = self._db.read("SELECT body FROM responses WHERE key = %s", key)
        return Begun(rows[0][0]) if rows else None

    def begin(self, key: bytes) -> None:
        """Write that a response is about to be paid for.

        Raises:
            ResponseStoreError: it was begun before.
        """
        self._db.write(lambda run: run("INSERT INTO responses (key) VALUES (%s)", key))

    def keep(self, key: bytes, body: bytes) -> None:
        """Write the one response that there will ever be under a key that was begun.

        Raises:
            ResponseStoreError: there is one already, or the key was not begun.
        """
        with self._db.transaction() as run:
            query = "UPDATE responses SET body = %s WHERE key = %s AND body IS NULL"
            if run(query, body, key).rowcount != 1:
                raise ResponseStoreError(f"{self._path}: a response is kept once, after it was begun")

    def empty(self, key: bytes) -> None:
        """Forget what a response said that was taken; that there was one stays known, and it is never made again."""
        query = "UPDATE responses SET body = %s WHERE key = %s AND body IS NOT NULL"
        self._db.write(lambda run: run(query, b"", key))

    def round_of(self, series: bytes, draw: Callable[[], int]) -> int:
        """Return the round of a series in which this device answers; it is drawn at the first call, for ever."""
        with self._db.transaction() as run:
            row = run("SELECT round FROM series WHERE series = %s", series).fetchone()
            if row is not None:
                return int(row[0])
            drawn = draw()
            run("INSERT INTO series (series, round) VALUES (%s, %s)", series, drawn)
            return drawn

    def is_first_of_series(self, series: bytes, question: bytes) -> bool:
        """Say whether a question is the only one of its series that is answered; it is from now on, if there is none.

        The same round may be asked again, as another question: it would be a second response in one series.
        """
        with self._db.transaction() as run:
            run("UPDATE series SET question = %s WHERE series = %s AND question IS NULL", question, series)
            row = run("SELECT question FROM series WHERE series = %s", series).fetchone()
            return row is not None and row[0] == question

    def note(self, digest: bytes, key: bytes, text: str, outcome: str) -> None:
        """Write what became of a question, for the owner; what was taken stays so."""
        query = "INSERT INTO questions (digest, key, text, outcome) VALUES (%s, %s, %s, %s)"
        query += " ON CONFLICT (digest) DO UPDATE SET outcome = excluded.outcome WHERE questions.outcome <> %s"
        self._db.write(lambda run: run(query, digest, key, text, outcome, TAKEN))

    def known(self) -> list[KnownQuestion]:
        """Return all questions that the device has met, the first one first."""
        query = "SELECT text, outcome, body FROM questions LEFT JOIN responses USING (key) ORDER BY number"
        return [KnownQuestion(*row) for row in self._db.read(query)]


def read_responses(path: Path) -> list[dict[str, Any]]:
    """Return the questions that a device has met, for its owner: JSON-able; none where there is no store yet.

    Each has `survey`, its identifier, `record`, or all records of a person that are asked about, `method`, `epsilon`,
    `outcome`, and `response`, the number that left the device or will, or None.

    Raises:
        ResponseStoreError: the store cannot be used.
    """
    if not path.exists():
        return []
    store = ResponseStore(path)
    try:
        return [_for_owner(one) for one in store.known()]
    finally:
        store.close()


def _for_owner(known: KnownQuestion) -> dict[str, Any]:
    asked = AskedQuestion.from_json(known.text)
    question = asked.question
    return {
        "survey": asked.question_id.hex(),
        "record": ", ".join(question.records),
        "method": question.method,
        "epsilon": question.epsilon,
        "outcome": known.outcome,
        "response": None if known.body is None else asked.response_of(known.body),
    }
