"""The privacy ledger of one party: what its tables may tell, what they have told, and who asked.

A job is charged in two steps. `reserve` holds what it will cost, `commit` makes it spent, durably, before anything is
opened; `release` gives a reservation back, and never one that was committed. Whatever happens in between, a crash
included, the ledger counts at least what was opened:

| crash | found afterwards | opened |
| --- | --- | --- |
| before `reserve` returned | nothing, or a reservation, which is released | nothing |
| before `commit` returned | a reservation, which is released, or a commit, which stays | nothing |
| after `commit` returned | a commit | perhaps |

Several processes may use one ledger, and several threads one object. Operations that come while another one waits for
the disk share the next transaction, so that durability costs one synchronisation for many jobs.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from dp.cost.event_record import UnknownEventError, record_of
from dp.cost.job_cost import JobCost
from party.ledger.books import Balance, Books, Charge, ChargeError, JobState, Quote
from party.ledger.budget import Budget
from party.ledger.counter import Head, LedgerCounter
from party.ledger.entry import (
    Adopted,
    BudgetSet,
    Committed,
    Entry,
    Event,
    ExactRelease,
    LedgerDamagedError,
    LedgerError,
    Released,
    Reserved,
    genesis,
    read_entry,
    write_entry,
)
from party.ledger.store import Entries, EntryStore, PostgresStore, SqliteStore

T = TypeVar("T")
Append = Callable[[Event], None]


@dataclass
class _Request(Generic[T]):
    """One operation that waits for its transaction."""

    work: Callable[[Books, Append], T]
    is_writer: bool = False
    woken: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: Exception | None = None


class Ledger:
    """The ledger of one party.

    Args:
        store: where the entries lie.
        counter: how far the ledger had come.
        party: its name; the chain begins with it, so that no other party's ledger fits.
        holder: this installation, see `Reserved`.
        clock: Unix time in seconds; only written down.
        adopt: the owner's reason to take the ledger over as it is, though the counter does not vouch for it. The chain
            must be whole all the same.

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
        holder: str,
        clock: Callable[[], float] = time.time,
        adopt: str | None = None,
    ) -> None:
        self._store = store
        self._counter = counter
        self._genesis = genesis(party)
        self._holder = holder
        self._clock = clock
        self._books = Books()
        self._head = Head(0, self._genesis)
        self._is_stale = False
        self._queue: list[_Request[Any]] = []
        self._queue_lock = threading.Lock()
        self._has_writer = False
        self._writing = threading.Lock()
        self._is_adopting = adopt is not None
        self._submit(lambda books, append: None if adopt is None else append(Adopted(adopt)))
        if self._is_adopting:
            counter.overwrite(self._head)
            self._is_adopting = False

    def set_budget(self, dataset: str, budget: Budget, reason: str) -> None:
        """Set the budget of a table from now on; a new period starts with nothing spent.

        Raises:
            ChargeError: the period had another unit before, or the reason is empty.
            LedgerError: it cannot be written.
        """

        def work(books: Books, append: Append) -> None:
            books.check_budget(dataset, budget)
            if not reason.strip():
                raise ChargeError("a change of the budget needs a reason")
            append(_budget_set(books, dataset, budget, reason))

        self._submit(work)

    def set_first_budget(self, dataset: str, budget: Budget, reason: str) -> bool:
        """Set the budget of a table that has none yet; return whether it was so."""

        def work(books: Books, append: Append) -> bool:
            if dataset in books.budgets:
                return False
            append(_budget_set(books, dataset, budget, reason))
            return True

        return self._submit(work)

    def reserve(
        self,
        job_id: str,
        *,
        dataset: str,
        analyst: str,
        analysis: str,
        consent: str,
        cost: JobCost,
        most_epsilons_of_analyst: Sequence[float] = (),
    ) -> None:
        """Hold the cost of a job. Repeating it for the same job and cost changes nothing.

        Args:
            job_id: of the job; an id is charged once, whatever becomes of it.
            dataset: name of the table.
            analyst: who asks, as the coordinator says.
            analysis: what.
            consent: "policy" or "owner".
            cost: of all releases of the job, with the unit that they protect.
            most_epsilons_of_analyst: see `Books.check_charge`.

        Raises:
            BudgetExhaustedError: the budget, or the analyst's part of it, does not cover the job.
            ChargeError: no budget, another unit or adjacency, no or unknown events, a job id that was used before.
            LedgerError: it cannot be written.
        """
        wanted = self._wanted(job_id, dataset, analyst, analysis, consent, cost)

        def work(books: Books, append: Append) -> None:
            charge = books.charges.get(job_id)
            if charge is not None:
                if charge.state is JobState.RESERVED and charge.reserved == wanted:
                    return
                raise ChargeError(f"job {job_id} was charged before and is {charge.state}; a job id is used once")
            books.check_unused(job_id)
            books.check_charge(wanted, most_epsilons_of_analyst)
            append(wanted)

        self._submit(work)

    def commit(self, job_id: str) -> None:
        """Count a reserved job as spent. Only when this has returned, something may be opened.

        It counts in the period of its reservation. Repeating it changes nothing.

        Raises:
            BudgetExhaustedError: its owner has made the period's budget smaller since, and it no longer covers it.
            ChargeError: the job has no reservation, or it was released.
            LedgerError: it cannot be written.
        """

        def work(books: Books, append: Append) -> None:
            charge = books.charges.get(job_id)
            if charge is None or charge.state is JobState.RELEASED:
                raise ChargeError(f"job {job_id} holds no reservation of privacy budget: nothing may be opened")
            if charge.state is JobState.RESERVED:
                books.check_commit(job_id)
                append(Committed(job_id))

        self._submit(work)

    def check_unused(self, job_id: str) -> None:
        """Refuse a job id that was used before.

        Raises:
            ChargeError: it was.
        """
        self._submit(lambda books, append: books.check_unused(job_id))

    def note_exact(self, job_id: str, *, dataset: str, analyst: str, analysis: str, consent: str) -> None:
        """Write that an exact result is about to be opened. Only when this has returned, it may be.

        Raises:
            ChargeError: the job id was used before.
            LedgerError: it cannot be written.
        """
        release = ExactRelease(job_id, dataset, analyst, analysis, consent)

        def work(books: Books, append: Append) -> None:
            books.check_unused(job_id)
            append(release)

        self._submit(work)

    def release(self, job_id: str, reason: str) -> bool:
        """Give back the reservation of a job that ended before it was committed.

        Returns:
            Whether it is free: False where the job was committed, so that its cost stays, or never held anything.

        Raises:
            LedgerError: it cannot be written.
        """

        def work(books: Books, append: Append) -> bool:
            charge = books.charges.get(job_id)
            if charge is not None and charge.state is JobState.RESERVED:
                append(Released(job_id, reason))
            return charge is not None and charge.state is JobState.RELEASED

        return self._submit(work)

    def release_leftovers(self, reason: str) -> list[str]:
        """Give back what this installation held when it was stopped; for its start, before it accepts jobs.

        A job without a commit has opened nothing: the commit is on disk before anything leaves.

        Returns:
            The jobs.
        """

        def work(books: Books, append: Append) -> list[str]:
            job_ids = books.reserved_by(self._holder)
            for job_id in job_ids:
                append(Released(job_id, reason))
            return job_ids

        return self._submit(work)

    def quote(self, dataset: str, analyst: str, cost: JobCost) -> Quote:
        """Return what a job would do to a budget; arguments as of `reserve`.

        Raises:
            ChargeError: no budget, another unit, or the cost of a release is unknown.
        """
        wanted = self._wanted("", dataset, analyst, "", "", cost)
        return self._submit(lambda books, append: books.quote(wanted))

    def _wanted(self, job_id: str, dataset: str, analyst: str, analysis: str, consent: str, cost: JobCost) -> Reserved:
        try:
            events = {view: tuple(map(record_of, events)) for view, events in cost.events.items()}
        except UnknownEventError as error:
            raise ChargeError(str(error)) from error
        return Reserved(job_id, dataset, analyst, analysis, self._holder, consent, cost.unit, events, cost.colluding)

    def balances(self) -> list[Balance]:
        """Return how all budgets stand, by name of the table."""
        return self._submit(lambda books, append: [books.balance(dataset) for dataset in sorted(books.budgets)])

    def balance(self, dataset: str) -> Balance | None:
        """Return how one budget stands; None where none is set."""
        return next((balance for balance in self.balances() if balance.dataset == dataset), None)

    def charge(self, job_id: str) -> Charge | None:
        """Return the charge of a job; None where it has none."""
        return self._submit(lambda books, append: books.charges.get(job_id))

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

    def _submit(self, work: Callable[[Books, Append], T]) -> T:
        """Run an operation in the next transaction, with whatever else waits by then.

        Whoever comes while nobody writes, writes. Whoever comes meanwhile waits; when the writer is done, the first of
        them writes for all of them.
        """
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
        """Take in what other processes have written, and make sure that what we knew is still there."""
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
                    f"the ledger's counter {self._counter.path} is missing: nobody can tell whether the ledger is whole"
                )
            self._counter.advance(Head(0, self._genesis))
        self._check_contains(entries, counted, "its counter")

    def _check_contains(self, entries: Entries, head: Head | None, witness: str) -> None:
        """Refuse a ledger without an entry that it once had."""
        if head is None:
            return
        found = self._genesis if head.sequence == 0 else entries.digest_of(head.sequence)
        if found is None:
            raise LedgerDamagedError(
                f"the ledger was truncated or put back from an old copy: {witness} knows entry {head.sequence}, "
                "which is missing"
            )
        if found != head.digest:
            raise LedgerDamagedError(
                f"the ledger was edited or replaced: {witness} knows another entry {head.sequence}"
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


def _budget_set(books: Books, dataset: str, budget: Budget, reason: str) -> BudgetSet:
    orders = tuple((one.order, str(one.share)) for one in books.orders_for(dataset, budget))
    return BudgetSet(dataset, budget, reason, orders)


def open_ledger(
    party: str, *, path: Path, url: str | None, counter: Path, holder: str, adopt: str | None = None
) -> Ledger:
    """Open the ledger that a configuration names; see `Ledger`.

    Args:
        party: its name.
        path: of the SQLite file, where there is no url.
        url: of a PostgreSQL database, or None.
        counter: path of the counter.
        holder: this installation.
        adopt: see `Ledger`.

    Raises:
        LedgerError: see `Ledger`.
    """
    files = LedgerCounter(counter)
    try:
        store: EntryStore = SqliteStore(path) if url is None else PostgresStore(url)
        try:
            return Ledger(store, files, party=party, holder=holder, adopt=adopt)
        except BaseException:
            store.close()
            raise
    except BaseException:
        files.close()
        raise
