"""The chain of entries of one ledger: read, checked, and appended to in transactions that many operations share.

The books (`ledger.books`) in memory are always what the stored entries add up to. Before each transaction the
chain takes in what other processes have written, and makes sure that nothing it knew is missing or changed.

Several processes may use one store, and several threads one object. Operations that come while another one waits for
the disk share the next transaction, so that durability costs one synchronisation for many jobs.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ledger.books import Books, ChargeError
from ledger.counter import Head, LedgerCounter
from ledger.entry import (
    Adopted,
    Entry,
    Event,
    LedgerDamagedError,
    LedgerError,
    genesis,
    read_entry,
    write_entry,
)
from ledger.store import Entries, EntryStore

T = TypeVar("T")
Append = Callable[[Event], None]
"""Adds an entry to the chain and the books; it is durable when the transaction has ended."""


@dataclass
class _Request(Generic[T]):
    """An operation that waits for its transaction."""

    work: Callable[[Books, Append], T]
    is_writer: bool = False
    woken: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: Exception | None = None


class EntryChain:
    """The entries of one party's ledger.

    Args:
        store: where they are stored.
        counter: how far the ledger had come.
        party: its name; the chain begins with it, so that no other party's ledger fits.
        clock: Unix time in seconds; only written down.
        adopt: the owner's reason to accept the ledger as it is, although it does not match the counter. The chain must
            be complete nevertheless.

    Raises:
        LedgerError: the store or the counter cannot be used.
        LedgerDamagedError: the ledger was edited, truncated or put back from an old copy.
    """

    def __init__(
        self,
        store: EntryStore,
        counter: LedgerCounter,
        *,
        party: str,
        clock: Callable[[], float],
        adopt: str | None = None,
    ) -> None:
        self._store = store
        self._counter = counter
        self._genesis = genesis(party)
        self._clock = clock
        self._books = Books()
        self._head = Head(0, self._genesis)
        self._is_stale = False
        self._queue: list[_Request[Any]] = []
        self._queue_lock = threading.Lock()
        self._has_writer = False
        self._writing = threading.Lock()
        self._is_adopting = adopt is not None
        self.submit(lambda books, append: None if adopt is None else append(Adopted(adopt)))
        if self._is_adopting:
            counter.overwrite(self._head)
            self._is_adopting = False

    def submit(self, work: Callable[[Books, Append], T]) -> T:
        """Run an operation in the next transaction, with whatever else waits by then.

        Args:
            work: given the books and a function that appends. It raises ChargeError before it appends anything.

        Returns:
            What the operation returns, once what it appended is durable.

        Raises:
            ChargeError: the operation raises it.
            LedgerError: the entries cannot be read or written; none of this operation is counted.
        """
        # Whoever comes while nobody writes, writes. Whoever comes meanwhile waits; when the writer is done, the first
        # of them writes for all of them.
        request = _Request(work)
        with self._queue_lock:
            self._queue.append(request)
            request.is_writer = not self._has_writer
            self._has_writer = True
        if not request.is_writer:
            request.woken.wait()
        if request.is_writer:
            with self._queue_lock:
                batch, self._queue = self._queue, []
            try:
                with self._writing:
                    self._write(batch)
            finally:
                self._hand_over(batch)
        if request.error is not None:
            raise request.error
        result: T = request.result
        return result

    def history(self) -> list[Entry]:
        """Return all entries, read and checked anew.

        Raises:
            LedgerDamagedError: the chain is broken.
        """
        with self._writing, self._store.transaction() as entries:
            read, _ = self._read(entries, Head(0, self._genesis))
            return read

    def verify(self, anchor: Head | None = None) -> Head:
        """Read all entries, check the chain, the counter and what the entries add up to; return the head.

        Args:
            anchor: a head that was noted before; the ledger must contain it.

        Raises:
            LedgerDamagedError: something does not fit.
        """
        with self._writing, self._store.transaction() as entries:
            read, head = self._read(entries, Head(0, self._genesis))
            books = Books()
            for entry in read:
                books.take(entry)
            self._check_contains(entries, self._counter.read(), "its counter")
            self._check_contains(entries, anchor, "the head that was noted")
            return head

    def close(self) -> None:
        """Release the store and the counter."""
        with self._writing:
            self._store.close()
            self._counter.close()

    def _hand_over(self, batch: list[_Request[Any]]) -> None:
        with self._queue_lock:
            if self._queue:
                self._queue[0].is_writer = True
                self._queue[0].woken.set()
            else:
                self._has_writer = False
        for request in batch:
            request.woken.set()

    def _write(self, batch: list[_Request[Any]]) -> None:
        try:
            with self._store.transaction() as entries:
                self._catch_up(entries)
                fresh: list[Entry] = []
                for request in batch:
                    self._run(request, fresh)
                if fresh:
                    entries.append(fresh)
            if fresh:
                self._counter.advance(self._head)
        except BaseException as error:
            # What is in memory may differ from what is on disk: the next transaction reads everything anew.
            self._is_stale = True
            for request in batch:
                kind = type(error) if isinstance(error, LedgerError) else LedgerError
                request.error = kind(str(error))
                request.error.__cause__ = error
            if not isinstance(error, Exception):
                raise

    def _run(self, request: _Request[Any], fresh: list[Entry]) -> None:
        def append(what: Event) -> None:
            entry = write_entry(self._head.sequence + 1, self._clock(), what, self._head.digest)
            self._books.take(entry)
            self._head = Head(entry.sequence, entry.digest)
            fresh.append(entry)

        try:
            request.result = request.work(self._books, append)
        except ChargeError as error:  # raised before anything is appended
            request.error = error

    def _catch_up(self, entries: Entries) -> None:
        """Read the entries that other processes have written, and check that the entries known here still exist."""
        if self._is_stale:
            self._books, self._head, self._is_stale = Books(), Head(0, self._genesis), False
        self._check_contains(entries, self._head, "this process")
        self._check_counter(entries)
        read, self._head = self._read(entries, self._head)
        for entry in read:
            self._books.take(entry)

    def _check_counter(self, entries: Entries) -> None:
        if self._is_adopting:
            return
        counted = self._counter.read()
        if counted is None:
            if entries.after(0):
                raise LedgerDamagedError(
                    f"the ledger's counter {self._counter.path} is missing, so it cannot be checked whether the "
                    "ledger is complete"
                )
            self._counter.advance(Head(0, self._genesis))
        self._check_contains(entries, counted, "its counter")

    def _check_contains(self, entries: Entries, head: Head | None, witness: str) -> None:
        """Refuse a ledger that lacks an entry that it once had."""
        if head is None:
            return
        found = self._genesis if head.sequence == 0 else entries.digest_of(head.sequence)
        if found is None:
            raise LedgerDamagedError(
                f"the ledger was truncated or restored from an old copy: {witness} contains entry {head.sequence}, "
                "which is missing in the ledger"
            )
        if found != head.digest:
            raise LedgerDamagedError(
                f"the ledger was edited or replaced: {witness} contains a different entry {head.sequence}"
            )

    @staticmethod
    def _read(entries: Entries, head: Head) -> tuple[list[Entry], Head]:
        """Return the entries after a head, checked one against the other, and the last one's head."""
        read: list[Entry] = []
        for sequence, text, digest in entries.after(head.sequence):
            if sequence != head.sequence + 1:
                raise LedgerDamagedError(f"entry {head.sequence + 1} of the ledger is missing")
            read.append(read_entry(sequence, text, digest, head.digest))
            head = Head(sequence, digest)
        return read, head
