"""The questions of batches and the sealed answers to them, in a file of one coordinator or the database of several.

What a call writes is durable when it returns. The key of an answer is the name in the certificate of who gave it, so
there is one of each device; the first stands. Nothing here can be opened without the keys of all parties. When a batch
has ended its answers are emptied; only their hashes stay.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.surveys.store import Outcome
from service.database.database import Database, Run, Tables
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
        batch: number of the batch.
        name: in the device's certificate.
        body: sealed.
    """

    batch: int
    name: str
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class StoredBatch:
    """A batch and how it stands.

    Attributes:
        number: 1 and up, in the order of asking.
        batch_id: its identifier.
        analyst: who asks.
        text: canonical text of the question.
        keys: keys of the parties, as `transport.batch_codec.encode_keys` writes them.
        most_answers: no more are taken.
        n_answers: number of answers taken.
        is_closed: whether no answer is taken any more.
        result_json: once it is known.
        failure: why there is no result; public.
        is_agreed: whether all parties keep a place for it; before, no device is asked.
        is_told: whether the parties know that it has ended without a result.
    """

    number: int
    batch_id: bytes
    analyst: str
    text: str
    keys: bytes = field(repr=False)
    most_answers: int = 0
    n_answers: int = 0
    is_closed: bool = False
    result_json: str = ""
    failure: str = ""
    is_agreed: bool = False
    is_told: bool = False


_COLUMNS = ", ".join(StoredBatch.__dataclass_fields__)
_SELECT = f"SELECT {_COLUMNS} FROM coordinator_batches"  # noqa: S608  # no text from outside
_CLOSE = f"UPDATE coordinator_batches SET is_closed = TRUE WHERE number = %s RETURNING {_COLUMNS}"  # noqa: S608  # likewise


class BatchesStore:
    """May be called from several threads. Another coordinator that takes over finds all that was called taken.

    Args:
        database: with `TABLES`.

    Raises:
        BatchesUnusableError: in every call: the store cannot be used. What was to be written is not, or is taken for
            repeated when it comes again.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def close(self) -> None:
        """Release the database."""
        self._db.close()

    def add(self, batch_id: bytes, analyst: str, text: str, keys: bytes, most_answers: int) -> StoredBatch:
        """Write a batch that its parties have been asked for; return it as it stands."""

        def insert(run: Run) -> StoredBatch:
            run(
                # The defaults of upgraded tables are those of batches that were there before.
                "INSERT INTO coordinator_batches (batch_id, analyst, text, keys, most_answers, is_agreed, is_told)"
                " VALUES (%s, %s, %s, %s, %s, FALSE, FALSE) ON CONFLICT (batch_id) DO NOTHING",
                *(batch_id, analyst, text, keys, most_answers),
            )
            return StoredBatch(*run(_SELECT + " WHERE batch_id = %s", batch_id).fetchone())

        return self._db.write(insert)

    def agree(self, batch: int) -> None:
        """Write that all parties keep a place for a batch: devices are asked from now on."""
        self._db.write(lambda run: run("UPDATE coordinator_batches SET is_agreed = TRUE WHERE number = %s", batch))

    def untold(self) -> list[StoredBatch]:
        """Return the batches that have ended without a result, and whose parties do not know it, the oldest first."""
        return self._batches(" WHERE failure != '' AND NOT is_told ORDER BY number")

    def tell(self, batch: int) -> None:
        """Write that the parties know that a batch has ended without a result."""
        self._db.write(lambda run: run("UPDATE coordinator_batches SET is_told = TRUE WHERE number = %s", batch))

    def unended(self) -> list[StoredBatch]:
        """Return the batches without a result or a failure, the oldest first."""
        return self._batches(" WHERE result_json = '' AND failure = '' ORDER BY number")

    def find(self, batch_id: bytes) -> StoredBatch | None:
        """Return a batch; None where there is none."""
        return next(iter(self._batches(" WHERE batch_id = %s", batch_id)), None)

    def take(self, given: Sequence[GivenAnswer]) -> list[Outcome]:
        """Write answers in one transaction; return what became of each, in their order."""
        return self._db.write(lambda run: [_take(run, one) for one in given])

    def has_answered(self, batch: int, name: str) -> bool:
        """Say whether there is an answer of a device."""
        return bool(self._db.read("SELECT 1 FROM coordinator_answers WHERE batch = %s AND name = %s", batch, name))

    def answers(self, batch: int, after: str, most_rows: int) -> list[tuple[str, bytes]]:
        """Return names and bodies of the next answers after a name, by name (as Unicode orders them)."""
        query = "SELECT name, body FROM coordinator_answers WHERE batch = %s AND name > %s ORDER BY name LIMIT %s"
        return self._db.read(query, batch, after, most_rows)

    def names(self, batch: int) -> list[str]:
        """Return the names of all that have answered, in the order of `answers`."""
        rows = self._db.read("SELECT name FROM coordinator_answers WHERE batch = %s ORDER BY name", batch)
        return [name for (name,) in rows]

    def close_batch(self, batch: int) -> StoredBatch:
        """Take no answer from now on; return how the batch stands."""
        return self._db.write(lambda run: StoredBatch(*run(_CLOSE, batch).fetchone()))

    def end(self, batch: int, *, result_json: str = "", failure: str = "") -> None:
        """Write the result of a closed batch, or why there is none, and empty its answers. The first end stands."""

        def end(run: Run) -> None:
            query = "UPDATE coordinator_batches SET result_json = %s, failure = %s"
            query += " WHERE number = %s AND is_closed AND result_json = '' AND failure = ''"
            if run(query, result_json, failure, batch).rowcount == 1:
                run("UPDATE coordinator_answers SET body = %s WHERE batch = %s", b"", batch)

        self._db.write(end)

    def _batches(self, where: str, *values: object) -> list[StoredBatch]:
        return [StoredBatch(*row) for row in self._db.read(_SELECT + where, *values)]


def _take(run: Run, given: GivenAnswer) -> Outcome:
    digest = hashlib.sha256(given.body).digest()
    query = "SELECT digest FROM coordinator_answers WHERE batch = %s AND name = %s"
    if (before := run(query, given.batch, given.name).fetchone()) is not None:
        return Outcome.REPEATED if before[0] == digest else Outcome.CONTRADICTED
    query = "UPDATE coordinator_batches SET n_answers = n_answers + 1"
    query += " WHERE number = %s AND NOT is_closed AND n_answers < most_answers"
    if run(query, given.batch).rowcount != 1:
        return Outcome.CLOSED
    run("INSERT INTO coordinator_answers VALUES (%s, %s, %s, %s)", given.batch, given.name, digest, given.body)
    return Outcome.TAKEN
