"""A device's lasting memory of its responses to surveys: one SQLite file, written before a response leaves.

Each step is on disk when its call returns (write-ahead log, synchronous = FULL). A response stands under a key: that of
its question, or, for a record with one response for ever, that of the record and the mechanism.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyses.distribution.survey import AskedQuestion
from service.errors import ServiceError
from service.files.sqlite import transaction

_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
    key BLOB PRIMARY KEY,
    body BLOB
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS series (
    series BLOB PRIMARY KEY,
    round INTEGER NOT NULL,
    question BLOB
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS questions (
    number INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    key BLOB NOT NULL,
    text TEXT NOT NULL,
    outcome TEXT NOT NULL
) STRICT;
"""

SENDING, TAKEN = "sending", "taken"
"""Outcomes of a question that was answered. Any other text says why it was not, or why the response was not taken."""


class ResponseStoreError(ServiceError):
    """The store cannot be used; for its owner. Nothing may leave the device."""

    code = "response-store-unusable"


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
        path: of the file; made, readable by its owner only, where absent.

    Raises:
        ResponseStoreError: here and in every call: the file cannot be read or written. What was to be written is not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        with self._explained():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, timeout=5.0, check_same_thread=False)
            try:
                for pragma in ("journal_mode = WAL", "synchronous = FULL"):
                    self._db.execute(f"PRAGMA {pragma}")
                for statement in _SCHEMA.split(";\n"):
                    self._db.execute(statement)
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def find(self, key: bytes) -> Begun | None:
        """Return what is known of a response; None where it was never begun."""
        with self._turn, self._explained():
            row = self._db.execute("SELECT body FROM responses WHERE key = ?", (key,)).fetchone()
        return None if row is None else Begun(row[0])

    def begin(self, key: bytes) -> None:
        """Write that a response is about to be paid for.

        Raises:
            ResponseStoreError: it was begun before.
        """
        with self._transaction():
            self._db.execute("INSERT INTO responses (key) VALUES (?)", (key,))

    def keep(self, key: bytes, body: bytes) -> None:
        """Write the one response that there will ever be under a key that was begun.

        Raises:
            ResponseStoreError: there is one already, or the key was not begun.
        """
        with self._transaction():
            query = "UPDATE responses SET body = ? WHERE key = ? AND body IS NULL"
            if self._db.execute(query, (body, key)).rowcount != 1:
                raise ResponseStoreError(f"{self._path}: a response is kept once, after it was begun")

    def empty(self, key: bytes) -> None:
        """Forget what a response said that was taken; that there was one stays known, and it is never made again."""
        with self._transaction():
            self._db.execute("UPDATE responses SET body = x'' WHERE key = ? AND body IS NOT NULL", (key,))

    def round_of(self, series: bytes, draw: Callable[[], int]) -> int:
        """Return the round of a series in which this device answers; it is drawn at the first call, for ever."""
        with self._transaction():
            row = self._db.execute("SELECT round FROM series WHERE series = ?", (series,)).fetchone()
            if row is not None:
                return int(row[0])
            drawn = draw()
            self._db.execute("INSERT INTO series (series, round) VALUES (?, ?)", (series, drawn))
            return drawn

    def is_first_of_series(self, series: bytes, question: bytes) -> bool:
        """Say whether a question is the only one of its series that is answered; it is from now on, if there is none.

        The same round may be asked again, as another question: it would be a second response in one series.
        """
        with self._transaction():
            query = "UPDATE series SET question = ? WHERE series = ? AND question IS NULL"
            self._db.execute(query, (question, series))
            row = self._db.execute("SELECT question FROM series WHERE series = ?", (series,)).fetchone()
            return row is not None and row[0] == question

    def note(self, digest: bytes, key: bytes, text: str, outcome: str) -> None:
        """Write what became of a question, for the owner; what was taken stays so."""
        with self._transaction():
            self._db.execute(
                "INSERT INTO questions (digest, key, text, outcome) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (digest) DO UPDATE SET outcome = excluded.outcome WHERE outcome <> ?",
                (digest, key, text, outcome, TAKEN),
            )

    def known(self) -> list[KnownQuestion]:
        """Return all questions that the device has met, the first one first."""
        with self._turn, self._explained():
            rows = self._db.execute(
                "SELECT text, outcome, body FROM questions LEFT JOIN responses USING (key) ORDER BY number"
            ).fetchall()
        return [KnownQuestion(*row) for row in rows]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit on leaving without an error; nobody else writes meanwhile."""
        with self._turn, self._explained(), transaction(self._db):
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ResponseStoreError(f"the responses {self._path} cannot be used: {error.strerror}") from error
        except sqlite3.Error as error:
            raise ResponseStoreError(f"the responses {self._path} cannot be used: {error}") from error


def read_responses(path: Path) -> list[dict[str, Any]]:
    """Return the questions that a device has met, for its owner: JSON-able; none where there is no store yet.

    Each has `survey`, its identifier, `record`, `method`, `epsilon`, `outcome`, and `response`, the number that left
    the device or will, or None.

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
        "record": question.record,
        "method": question.method,
        "epsilon": question.epsilon,
        "outcome": known.outcome,
        "response": None if known.body is None else asked.response_of(known.body),
    }
