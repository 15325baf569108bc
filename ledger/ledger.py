"""The privacy ledger of one party: the budgets of its tables, the jobs charged to them, and their analysts.

A job is charged in two steps. `reserve` reserves the cost, `commit` makes it spent, durably, before anything is opened,
and `release` frees a reservation that was not committed. Whatever happens in between, a crash included, the ledger
counts at least what was opened:

| crash | found afterwards | opened |
| --- | --- | --- |
| before `reserve` returned | nothing, or a reservation, which is released | nothing |
| before `commit` returned | a reservation, which is released, or a commit, which stays | nothing |
| after `commit` returned | a commit | perhaps |

Several processes may use one ledger, and several threads one object (`ledger.chain`).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dp.cost.events.record import UnknownEventError, record_of
from dp.cost.job_cost import JobCost
from ledger.balance import Balance, Quote
from ledger.books import Books, Charge, ChargeError, JobState
from ledger.budget import Budget
from ledger.chain import Append, EntryChain
from ledger.counter import Head, LedgerCounter
from ledger.entry import BudgetSet, Committed, Entry, ExactRelease, Released, Reserved
from ledger.sql_store import LedgerFile, LedgerSchema, SqlEntryStore
from ledger.store import EntryStore

FIRST_BUDGET = "first budget of party.toml"
"""The reason that stands at budgets which no command set."""


class Ledger:
    """The ledger of one party.

    Args:
        store: where the entries are stored.
        counter: how far the ledger had come.
        party: its name.
        holder: this installation, see `Reserved`.
        clock: Unix time in seconds; only written down.
        adopt: see `EntryChain`.

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
        self._chain = EntryChain(store, counter, party=party, clock=clock, adopt=adopt)
        self._holder = holder

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

        self._chain.submit(work)

    def set_first_budget(self, dataset: str, budget: Budget, reason: str) -> bool:
        """Set the budget of a table that has none yet; return whether it was so."""

        def work(books: Books, append: Append) -> bool:
            if dataset in books.budgets:
                return False
            append(_budget_set(books, dataset, budget, reason))
            return True

        return self._chain.submit(work)

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
        """Reserve the cost of a job. Repeating the call for the same job and cost changes nothing.

        Args:
            job_id: id of the job; an id is charged once, whatever becomes of it.
            dataset: name of the table.
            analyst: who asks, as the coordinator says.
            analysis: what.
            consent: "policy" or "owner".
            cost: cost of all releases of the job, with the unit that they protect.
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
                raise ChargeError(
                    f"job {job_id} was charged before and is {charge.state}; a job id may be used only once"
                )
            books.check_unused(job_id)
            books.check_charge(wanted, most_epsilons_of_analyst)
            append(wanted)

        self._chain.submit(work)

    def commit(self, job_id: str) -> None:
        """Commit the cost of a reserved job. Nothing may be opened before this has returned.

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

        self._chain.submit(work)

    def check_unused(self, job_id: str) -> None:
        """Refuse a job id that was used before.

        Raises:
            ChargeError: it was.
        """
        self._chain.submit(lambda books, append: books.check_unused(job_id))

    def record_exact(self, job_id: str, *, dataset: str, analyst: str, analysis: str, consent: str) -> None:
        """Record that an exact result is about to be opened. It must not be opened before this has returned.

        Raises:
            ChargeError: the job id was used before.
            LedgerError: it cannot be written.
        """
        release = ExactRelease(job_id, dataset, analyst, analysis, consent)

        def work(books: Books, append: Append) -> None:
            books.check_unused(job_id)
            append(release)

        self._chain.submit(work)

    def release(self, job_id: str, reason: str) -> bool:
        """Release the reservation of a job that ended before it was committed.

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

        return self._chain.submit(work)

    def reserved(self, prefix: str) -> list[str]:
        """Return the jobs that hold a reservation of this installation, and whose ids begin with a text."""
        return self._chain.submit(
            lambda books, append: [one for one in books.reserved_by(self._holder) if one.startswith(prefix)]
        )

    def release_leftovers(self, reason: str) -> list[str]:
        """Release the reservations that this installation held when it stopped; to be called before it accepts jobs.

        A job without a commit has opened nothing: the commit is on disk before anything leaves.

        Returns:
            The jobs.
        """

        def work(books: Books, append: Append) -> list[str]:
            job_ids = books.reserved_by(self._holder)
            for job_id in job_ids:
                append(Released(job_id, reason))
            return job_ids

        return self._chain.submit(work)

    def quote(self, dataset: str, analyst: str, cost: JobCost) -> Quote:
        """Return the effect that a job would have on a budget; arguments as for `reserve`.

        Raises:
            ChargeError: no budget, another unit, or the cost of a release is unknown.
        """
        wanted = self._wanted("", dataset, analyst, "", "", cost)
        return self._chain.submit(lambda books, append: books.quote(wanted))

    def _wanted(self, job_id: str, dataset: str, analyst: str, analysis: str, consent: str, cost: JobCost) -> Reserved:
        try:
            events = {view: tuple(map(record_of, events)) for view, events in cost.events.items()}
        except UnknownEventError as error:
            raise ChargeError(str(error)) from error
        return Reserved(job_id, dataset, analyst, analysis, self._holder, consent, cost.unit, events, cost.colluding)

    @property
    def is_new(self) -> bool:
        """Whether nothing stands in it yet."""
        return self._chain.submit(lambda books, append: books.is_empty)

    def begin(self, budgets: Mapping[str, Budget]) -> bool:
        """Set the first budgets of a new ledger, all or none; return False, and change nothing, where it is not new."""

        def work(books: Books, append: Append) -> bool:
            if not books.is_empty:
                return False
            for dataset, budget in budgets.items():
                append(_budget_set(books, dataset, budget, FIRST_BUDGET))
            return True

        return self._chain.submit(work)

    def balances(self) -> list[Balance]:
        """Return the state of all budgets, by name of the table."""
        return self._chain.submit(lambda books, append: [books.balance(dataset) for dataset in sorted(books.budgets)])

    def balance(self, dataset: str) -> Balance | None:
        """Return the state of one budget; None if none is set."""
        return self._chain.submit(lambda books, append: books.balance(dataset) if dataset in books.budgets else None)

    def charge(self, job_id: str) -> Charge | None:
        """Return the charge of a job; None where it has none."""
        return self._chain.submit(lambda books, append: books.charges.get(job_id))

    def history(self) -> list[Entry]:
        """Return all entries; see `EntryChain.history`."""
        return self._chain.history()

    def verify(self, anchor: Head | None = None) -> Head:
        """Check the whole ledger and return its head; see `EntryChain.verify`."""
        return self._chain.verify(anchor)

    def close(self) -> None:
        """Release the store and the counter."""
        self._chain.close()


def _budget_set(books: Books, dataset: str, budget: Budget, reason: str) -> BudgetSet:
    orders, gaussian_part = books.orders_for(dataset, budget), books.gaussian_part_for(dataset, budget)
    return BudgetSet(
        dataset,
        budget,
        reason,
        tuple((one.order, str(one.share)) for one in orders),
        None if gaussian_part is None else str(gaussian_part),
    )


def open_ledger(
    party: str, *, path: Path, url: str | None, counter: Path, holder: str, adopt: str | None = None
) -> Ledger:
    """Open the ledger that a configuration names; see `Ledger`.

    Args:
        party: its name.
        path: path of the SQLite file, used if there is no url.
        url: URL of a database instead, or None.
        counter: path of the counter.
        holder: this installation.
        adopt: see `Ledger`.

    Raises:
        LedgerError: see `Ledger`.
    """
    files = LedgerCounter(counter)
    try:
        store = open_entries(path, url)
        try:
            return Ledger(store, files, party=party, holder=holder, adopt=adopt)
        except BaseException:
            store.close()
            raise
    except BaseException:
        files.close()
        raise


def open_entries(path: Path, url: str | None) -> EntryStore:
    """Open the store that a configuration names: the database at `url`, or else the SQLite file at `path`.

    Raises:
        LedgerError: it cannot be used.
    """
    return SqlEntryStore(LedgerFile(path) if url is None else LedgerSchema(url))
