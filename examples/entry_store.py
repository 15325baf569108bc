"""A store of a ledger's entries of its own: a file with one line per transaction. See docs/recipes.md.

python examples/entry_store.py     keeps a ledger in such a file and checks it
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ledger.budget import Budget
from ledger.counter import LedgerCounter
from ledger.entry import Entry, LedgerError
from ledger.ledger import Ledger
from ledger.store import Entries, Row


class _Lines:
    """The entries during a transaction. Implements `Entries`."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.n_stored = len(rows)

    def digest_of(self, sequence: int) -> str | None:
        """See `Entries`."""
        return next((digest for number, _, digest in self.rows if number == sequence), None)

    def after(self, sequence: int) -> list[Row]:
        """See `Entries`."""
        return [row for row in self.rows if row[0] > sequence]

    def append(self, entries: Sequence[Entry]) -> None:
        """See `Entries`."""
        for entry in entries:
            if self.digest_of(entry.sequence) is not None:
                raise LedgerError(f"entry {entry.sequence} is there already")
            self.rows.append((entry.sequence, entry.text, entry.digest))


class LineEntryStore:
    """Implements `EntryStore`. A line holds all that a transaction appended: a crash leaves it whole, or cut and void.

    Args:
        path: of the file; made where absent.

    Raises:
        LedgerError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            flags = os.O_CREAT | os.O_RDWR | os.O_APPEND
            self._file = os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0)
        except OSError as error:
            raise LedgerError(f"the ledger cannot be opened: {error.strerror}") from error

    @contextmanager
    def transaction(self) -> Iterator[Entries]:
        """See `EntryStore`. Others wait at the lock, in this process or another."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                lines = _Lines(self._stored())
                yield lines
                self._keep(lines.rows[lines.n_stored :])
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            raise LedgerError(f"the ledger cannot be used: {error.strerror}") from error

    def close(self) -> None:
        """See `EntryStore`."""
        self._file.close()

    def _stored(self) -> list[Row]:
        self._file.seek(0)
        lines = self._file.read().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        self._file.truncate(sum(map(len, whole)))
        return [(number, text, digest) for line in whole for number, text, digest in json.loads(line)]

    def _keep(self, rows: list[Row]) -> None:
        if rows:
            self._file.write(json.dumps(rows).encode() + b"\n")
            os.fsync(self._file.fileno())


def main() -> None:
    """Keep a ledger in such a file, and check it after another start."""
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            store, counter = LineEntryStore(Path(folder) / "entries"), LedgerCounter(Path(folder) / "counter")
            ledger = Ledger(store, counter, party="north", holder="here")
            budget = Budget("record of the joint table", "2026", 1.0, 1e-6)
            is_new = ledger.set_first_budget("visits", budget, "first")
            print(f"{'set' if is_new else 'found'}; {ledger.verify().sequence} entry")
            ledger.close()


if __name__ == "__main__":
    main()
