"""The questions of batches and the sealed answers to them in the database of several coordinators, of which one leads.

Who takes over finds all that was called taken, and goes on with what is open or not opened yet. Nothing is written but
in the present term, see `coordinator.leading.fenced_store`.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from coordinator.batches.store import BatchesUnusableError, GivenAnswer, StoredBatch
from coordinator.leading.fenced_store import FencedStore
from coordinator.surveys.store import Outcome

_COLUMNS = ", ".join(StoredBatch.__dataclass_fields__)
_SELECT = f"SELECT {_COLUMNS} FROM coordinator_batches"  # noqa: S608  # no text from outside


class PostgresBatchesStore(FencedStore):
    """Implements `BatchesStore`."""

    write_failure = read_failure = BatchesUnusableError

    def add(self, batch_id: bytes, analyst: str, text: str, keys: bytes, most_answers: int) -> StoredBatch:
        """See `BatchesStore`."""

        def insert(cursor: Any) -> StoredBatch:
            cursor.execute(
                "INSERT INTO coordinator_batches (batch_id, analyst, text, keys, most_answers)"
                " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (batch_id) DO NOTHING",
                (batch_id, analyst, text, keys, most_answers),
            )
            cursor.execute(_SELECT + " WHERE batch_id = %s", (batch_id,))
            return StoredBatch(*cursor.fetchone())

        return self._write(insert)

    def unended(self) -> list[StoredBatch]:
        """See `BatchesStore`."""
        rows = self._read(_SELECT + " WHERE result_json = '' AND failure = '' ORDER BY number")
        return [StoredBatch(*row) for row in rows]

    def find(self, batch_id: bytes) -> StoredBatch | None:
        """See `BatchesStore`."""
        rows = self._read(_SELECT + " WHERE batch_id = %s", batch_id)
        return StoredBatch(*rows[0]) if rows else None

    def take(self, given: Sequence[GivenAnswer], /) -> list[Outcome]:
        """See `BatchesStore`."""
        return self._write(lambda cursor: [_take(cursor, one) for one in given])

    def has_answered(self, batch: int, name: str) -> bool:
        """See `BatchesStore`."""
        return bool(self._read("SELECT 1 FROM coordinator_answers WHERE batch = %s AND name = %s", batch, name))

    def answers(self, batch: int, after: str, most_rows: int) -> list[tuple[str, bytes]]:
        """See `BatchesStore`."""
        query = "SELECT name, body FROM coordinator_answers WHERE batch = %s AND name > %s ORDER BY name LIMIT %s"
        return [(str(name), bytes(body)) for name, body in self._read(query, batch, after, most_rows)]

    def names(self, batch: int) -> list[str]:
        """See `BatchesStore`."""
        rows = self._read("SELECT name FROM coordinator_answers WHERE batch = %s ORDER BY name", batch)
        return [str(name) for (name,) in rows]

    def close_batch(self, batch: int) -> StoredBatch:
        """See `BatchesStore`."""

        def close(cursor: Any) -> StoredBatch:
            cursor.execute("UPDATE coordinator_batches SET is_closed = TRUE WHERE number = %s", (batch,))
            cursor.execute(_SELECT + " WHERE number = %s", (batch,))
            return StoredBatch(*cursor.fetchone())

        return self._write(close)

    def end(self, batch: int, *, result_json: str = "", failure: str = "") -> None:
        """See `BatchesStore`."""

        def end(cursor: Any) -> None:
            query = "UPDATE coordinator_batches SET result_json = %s, failure = %s WHERE number = %s AND is_closed"
            cursor.execute(query, (result_json, failure, batch))
            cursor.execute("UPDATE coordinator_answers SET body = '' WHERE batch = %s", (batch,))

        self._write(end)


def _take(cursor: Any, given: GivenAnswer) -> Outcome:
    digest = hashlib.sha256(given.body).digest()
    query = "SELECT digest FROM coordinator_answers WHERE batch = %s AND name = %s"
    cursor.execute(query, (given.batch, given.name))
    if (before := cursor.fetchone()) is not None:
        return Outcome.REPEATED if before[0] == digest else Outcome.CONTRADICTED
    cursor.execute(
        "UPDATE coordinator_batches SET n_answers = n_answers + 1"
        " WHERE number = %s AND NOT is_closed AND n_answers < most_answers",
        (given.batch,),
    )
    if cursor.rowcount != 1:
        return Outcome.CLOSED
    row = (given.batch, given.name, digest, given.body)
    cursor.execute("INSERT INTO coordinator_answers VALUES (%s, %s, %s, %s)", row)
    return Outcome.TAKEN
