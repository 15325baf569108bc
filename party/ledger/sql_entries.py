"""The stored entries during a transaction of a database that speaks SQL."""

from collections.abc import Sequence
from typing import Any

from party.ledger.entry import Entry
from party.ledger.store import Row


class SqlEntries:
    """The table `entries (sequence, text, digest)` behind a connection. Implements `Entries`.

    Args:
        execute: runs one statement with its values and returns the rows.
        executemany: runs one statement for each of many tuples of values.
        mark: what stands for a value in a statement.
    """

    def __init__(self, execute: Any, executemany: Any, mark: str) -> None:
        self._execute = execute
        self._executemany = executemany
        self._mark = mark

    def digest_of(self, sequence: int) -> str | None:
        """See `Entries`."""
        found = self._execute(f"SELECT digest FROM entries WHERE sequence = {self._mark}", (sequence,)).fetchone()  # noqa: S608
        return None if found is None else str(found[0])

    def after(self, sequence: int) -> list[Row]:
        """See `Entries`."""
        query = f"SELECT sequence, text, digest FROM entries WHERE sequence > {self._mark} ORDER BY sequence"  # noqa: S608
        return [(int(number), str(text), str(digest)) for number, text, digest in self._execute(query, (sequence,))]

    def append(self, entries: Sequence[Entry]) -> None:
        """See `Entries`."""
        marks = ", ".join([self._mark] * 3)
        rows = [(entry.sequence, entry.text, entry.digest) for entry in entries]
        self._executemany(f"INSERT INTO entries (sequence, text, digest) VALUES ({marks})", rows)  # noqa: S608
