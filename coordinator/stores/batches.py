"""The questions of batches and the sealed answers to them, in a file of one coordinator or the database of several.

Nothing here can be opened without the keys of all parties. When a batch has ended its answers are emptied; only their
hashes stay.
"""

import hashlib
from dataclasses import dataclass, field

from coordinator.stores.question import Outcome, QuestionStore, Stored
from service.database.database import Run, Tables
from service.errors import ServiceError


class BatchesUnusableError(ServiceError):
    """The store cannot be used."""

    code = "batches-unusable"


TABLES = Tables(
    what="the store of batches",
    failure=BatchesUnusableError,
    prefix="coordinator_",
    version=2,
    schema="""\
CREATE TABLE coordinator_batches (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id BYTEA NOT NULL UNIQUE,
    analyst TEXT NOT NULL,
    text TEXT NOT NULL,
    keys BYTEA NOT NULL,
    most_answers BIGINT NOT NULL,
    n_answers BIGINT NOT NULL DEFAULT 0,
    is_closed BOOLEAN NOT NULL DEFAULT FALSE,
    result_json TEXT NOT NULL DEFAULT '',
    failure TEXT NOT NULL DEFAULT '',
    is_agreed BOOLEAN NOT NULL DEFAULT FALSE,
    is_told BOOLEAN NOT NULL DEFAULT FALSE
) /*STRICT*/;
CREATE TABLE coordinator_answers (
    batch BIGINT NOT NULL REFERENCES coordinator_batches (number),
    name TEXT COLLATE "C" NOT NULL,
    digest BYTEA NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (batch, name)
) /*STRICT*/""",
    upgrades={
        1: """\
ALTER TABLE coordinator_batches ADD COLUMN is_agreed BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE coordinator_batches ADD COLUMN is_told BOOLEAN NOT NULL DEFAULT TRUE"""
    },
)


@dataclass(frozen=True)
class GivenAnswer:
    """An answer as a device gave it.

    Attributes:
        question: number of the batch.
        name: in the device's certificate.
        body: sealed.
    """

    question: int
    name: str
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class StoredBatch(Stored):
    """A batch and how it stands.

    Attributes:
        keys: keys of the parties, as `transport.batch_codec.encode_keys` writes them.
        most_answers: no more are taken.
        n_answers: number of answers taken.
        is_agreed: whether all parties keep a place for it; before, no device is asked.
        is_told: whether the parties know that it has ended without a result.
    """

    keys: bytes = field(default=b"", repr=False)
    most_answers: int = 0
    n_answers: int = 0
    is_agreed: bool = False
    is_told: bool = False


class BatchesStore(QuestionStore[StoredBatch, GivenAnswer]):
    """Questions of batches and the sealed answers to them; see `QuestionStore`.

    Raises:
        BatchesUnusableError: in every call.
    """

    stored = StoredBatch
    table = "coordinator_batches"
    answers_table = "coordinator_answers"
    key = "batch"

    def add(self, question_id: bytes, analyst: str, text: str, keys: bytes, most_answers: int) -> StoredBatch:
        """Write a batch that its parties have been asked for; return it as it stands."""
        # The defaults of upgraded tables are those of batches that were there before.
        query = "INSERT INTO coordinator_batches (batch_id, analyst, text, keys, most_answers, is_agreed, is_told)"
        query += " VALUES (%s, %s, %s, %s, %s, FALSE, FALSE)"
        return self._insert(query, question_id, analyst, text, keys, most_answers)

    def agree(self, batch: int) -> None:
        """Write that all parties keep a place for a batch: devices are asked from now on."""
        self._db.write(lambda run: run("UPDATE coordinator_batches SET is_agreed = TRUE WHERE number = %s", batch))

    def untold(self) -> list[StoredBatch]:
        """Return the batches that have ended without a result, and whose parties do not know it, the oldest first."""
        return self._where(" WHERE failure != '' AND NOT is_told ORDER BY number")

    def tell(self, batch: int) -> None:
        """Write that the parties know that a batch has ended without a result."""
        self._db.write(lambda run: run("UPDATE coordinator_batches SET is_told = TRUE WHERE number = %s", batch))

    def n_answers(self, number: int) -> int:
        """See `QuestionStore`."""
        ((n,),) = self._db.read("SELECT n_answers FROM coordinator_batches WHERE number = %s", number)
        return int(n)

    def answers(self, batch: int, after: str, most_rows: int) -> list[tuple[str, bytes]]:
        """Return names and bodies of the next answers after a name, by name (as Unicode orders them)."""
        query = "SELECT name, body FROM coordinator_answers WHERE batch = %s AND name > %s ORDER BY name LIMIT %s"
        return self._db.read(query, batch, after, most_rows)

    def names(self, batch: int) -> list[str]:
        """Return the names of all that have answered, in the order of `answers`."""
        rows = self._db.read("SELECT name FROM coordinator_answers WHERE batch = %s ORDER BY name", batch)
        return [name for (name,) in rows]

    def _forget_answers(self, run: Run, number: int) -> None:
        """See `QuestionStore`: hashes stay."""
        run("UPDATE coordinator_answers SET body = %s WHERE batch = %s", b"", number)

    def _take(self, run: Run, given: GivenAnswer) -> Outcome:
        """See `QuestionStore`."""
        digest = hashlib.sha256(given.body).digest()
        query = "SELECT digest FROM coordinator_answers WHERE batch = %s AND name = %s"
        if (before := run(query, given.question, given.name).fetchone()) is not None:
            return Outcome.REPEATED if before[0] == digest else Outcome.CONTRADICTED
        query = "UPDATE coordinator_batches SET n_answers = n_answers + 1"
        query += " WHERE number = %s AND NOT is_closed AND n_answers < most_answers"
        if run(query, given.question).rowcount != 1:
            return Outcome.CLOSED
        run("INSERT INTO coordinator_answers VALUES (%s, %s, %s, %s)", given.question, given.name, digest, given.body)
        return Outcome.TAKEN
