"""The seam for stores of a ledger's entries: `EntryStore`. It is append-only.

A transaction is exclusive: nobody else, in this process or another, reads or writes the entries between its beginning
and its end, and what it appended is durable when it has ended. A store knows nothing of what entries say. It should
refuse to change or delete one, which keeps out slips, not owners of the database: those are found by the chain and the
counter (`ledger.chain`).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ledger.entry import Entry

Row = tuple[int, str, str]
"""Sequence number, text, digest."""

BUSY_S = 30.0
"""How long to wait for another process to end its transaction."""


class Entries(Protocol):
    """The stored entries during a transaction."""

    def digest_of(self, sequence: int) -> str | None:
        """Return the digest of an entry, None where it is missing."""

    def after(self, sequence: int) -> list[Row]:
        """Return the entries with higher numbers, in order."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries; they become durable only if the transaction succeeds."""


class EntryStore(Protocol):
    """Storage for the entries of one ledger. An object may be used by one thread at a time."""

    def transaction(self) -> AbstractContextManager[Entries]:
        """Begin a transaction; an exception inside it rolls everything back.

        Raises:
            LedgerError: the store cannot be read or written; the text says why.
        """

    def close(self) -> None:
        """Release it."""
