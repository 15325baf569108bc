"""The questions of batches and the sealed answers to them in one SQLite file, which belongs to one process at a time.

What a call writes is on disk when it returns (write-ahead log, synchronous = FULL). The key of an answer is the name in
the certificate of who gave it, so there is one of each device; the first stands. Nothing here can be opened without the
keys of all parties. When a batch has ended its answers are emptied; only their hashes stay.
"""

import hashlib
from collections.abc import Sequence

from coordinator.batches.store import BatchesUnusableError, GivenAnswer, StoredBatch
from coordinator.surveys.store import Outcome
from service.files.sqlite import SqliteFile

_SCHEMA = """
CREATE TABLE batches (
    number INTEGER PRIMARY KEY,
    batch_id BLOB NOT NULL UNIQUE,
    analyst TEXT NOT NULL,
    text TEXT NOT NULL,
    keys BLOB NOT NULL,
    most_answers INTEGER NOT NULL,
    n_answers INTEGER NOT NULL DEFAULT 0,
    is_closed INTEGER NOT NULL DEFAULT 0,
    result_json TEXT NOT NULL DEFAULT '',
    failure TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE answers (
    batch INTEGER NOT NULL REFERENCES batches (number),
    name TEXT NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (batch, name)
) STRICT;
"""


_COLUMNS = ", ".join(StoredBatch.__dataclass_fields__)
_SELECT = f"SELECT {_COLUMNS} FROM batches"  # noqa: S608  # no text from outside


class SqliteBatchesStore(SqliteFile):
    """Implements `BatchesStore`.

    Args:
        path: of the file; made, readable by its owner only, where absent.

    Raises:
        BatchesUnusableError: here and in every call: the file cannot be used. What was to be written is not.
    """

    what = "the batches"
    failure = BatchesUnusableError
    version = 1
    schema = _SCHEMA

    def add(self, batch_id: bytes, analyst: str, text: str, keys: bytes, most_answers: int) -> StoredBatch:
        """Write a batch that is asked from now on."""
        with self._transaction():
            row = self._db.execute(
                "INSERT INTO batches (batch_id, analyst, text, keys, most_answers) VALUES (?, ?, ?, ?, ?)"
                " RETURNING number",
                (batch_id, analyst, text, keys, most_answers),
            ).fetchone()
        return StoredBatch(row[0], batch_id, analyst, text, keys, most_answers)

    def unended(self) -> list[StoredBatch]:
        """Return the batches without a result or a failure, the oldest first."""
        with self._reading() as db:
            rows = db.execute(_SELECT + " WHERE result_json = '' AND failure = '' ORDER BY number").fetchall()
        return [StoredBatch(*row) for row in rows]

    def find(self, batch_id: bytes) -> StoredBatch | None:
        """Return a batch; None where there is none."""
        with self._reading() as db:
            row = db.execute(_SELECT + " WHERE batch_id = ?", (batch_id,)).fetchone()
        return None if row is None else StoredBatch(*row)

    def take(self, given: Sequence[GivenAnswer]) -> list[Outcome]:
        """Write answers in one transaction; return what became of each, in their order."""
        with self._transaction():
            return [self._take(one) for one in given]

    def _take(self, given: GivenAnswer) -> Outcome:
        digest = hashlib.sha256(given.body).digest()
        query = "SELECT digest FROM answers WHERE batch = ? AND name = ?"
        before = self._db.execute(query, (given.batch, given.name)).fetchone()
        if before is not None:
            return Outcome.REPEATED if before[0] == digest else Outcome.CONTRADICTED
        query = "UPDATE batches SET n_answers = n_answers + 1 WHERE number = ?"
        query += " AND NOT is_closed AND n_answers < most_answers"
        if self._db.execute(query, (given.batch,)).rowcount != 1:
            return Outcome.CLOSED
        self._db.execute("INSERT INTO answers VALUES (?, ?, ?, ?)", (given.batch, given.name, digest, given.body))
        return Outcome.TAKEN

    def has_answered(self, batch: int, name: str) -> bool:
        """Say whether there is an answer of a device."""
        with self._reading() as db:
            query = "SELECT 1 FROM answers WHERE batch = ? AND name = ?"
            return db.execute(query, (batch, name)).fetchone() is not None

    def answers(self, batch: int, after: str, most_rows: int) -> list[tuple[str, bytes]]:
        """Return names and bodies of the next answers after a name, by name (as Unicode orders them)."""
        with self._reading() as db:
            query = "SELECT name, body FROM answers WHERE batch = ? AND name > ? ORDER BY name LIMIT ?"
            return db.execute(query, (batch, after, most_rows)).fetchall()

    def names(self, batch: int) -> list[str]:
        """Return the names of all that have answered, in the order of `answers`."""
        with self._reading() as db:
            query = "SELECT name FROM answers WHERE batch = ? ORDER BY name"
            return [name for (name,) in db.execute(query, (batch,))]

    def close_batch(self, batch: int) -> StoredBatch:
        """Take no answer from now on; return how the batch stands."""
        with self._transaction():
            self._db.execute("UPDATE batches SET is_closed = 1 WHERE number = ?", (batch,))
            return StoredBatch(*self._db.execute(_SELECT + " WHERE number = ?", (batch,)).fetchone())

    def end(self, batch: int, *, result_json: str = "", failure: str = "") -> None:
        """Write the result of a closed batch, or why there is none, and empty its answers."""
        with self._transaction():
            query = "UPDATE batches SET result_json = ?, failure = ? WHERE number = ? AND is_closed = 1"
            self._db.execute(query, (result_json, failure, batch))
            self._db.execute("UPDATE answers SET body = x'' WHERE batch = ?", (batch,))
