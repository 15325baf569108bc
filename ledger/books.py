"""The books of a ledger: budgets, reservations and spending that follow from its entries. No files, no clock.

Costs are Renyi curves (`dp.cost.job_cost`: each dominates both views of its job), which add up. A job is admitted if
the sum with it stays within the bounds of a filter whose orders are fixed before the first job of a period
(`dp.cost.renyi_filter`): the budget so holds though analysts choose jobs by the results of others, run several at once
and put questions to those that run. One job by itself may also use up a whole period by its own epsilon.

A job belongs to the period in which it was reserved, whatever period has begun since. A period has one unit for ever;
its epsilon and delta are those that its owner set last, and they must cover a job when it is reserved and again when it
is committed: nothing was opened by then.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from dp.cost.gaussian_filter import part_of_budget
from dp.cost.renyi_filter import FilterOrder, orders_of_budget
from ledger.accounts import label_of
from ledger.balance import Balance, Quote, check_covered
from ledger.budget import Budget
from ledger.entry import (
    Adopted,
    BudgetSet,
    Committed,
    Entry,
    ExactRelease,
    LedgerDamagedError,
    Released,
    Reserved,
)
from ledger.spending import BudgetExhaustedError, ChargeError, Cover, Spending, cover_of, spending_of

__all__ = ["Account", "Balance", "Books", "BudgetExhaustedError", "Charge", "ChargeError", "JobState", "Quote"]

Account = tuple[str, str]
"""Name of a table, and the period of its budget: what was spent adds up within one."""


class JobState(StrEnum):
    """The state of the charge of a job."""

    RESERVED = "reserved"
    COMMITTED = "committed"
    RELEASED = "released"


@dataclass
class Charge:
    """The charge of one job.

    Attributes:
        reserved: what it costs, as the entry states it.
        spending: the same, to be added up.
        period: period of its table's budget when the job was reserved.
        state: reserved, committed or released.
        is_in_doubt: whether the budget of that period was changed since, so that it may no longer cover the job.
    """

    reserved: Reserved
    spending: Spending
    period: str
    state: JobState = JobState.RESERVED
    is_in_doubt: bool = False


class Books:
    """The balances of a ledger, updated entry by entry."""

    def __init__(self) -> None:
        self.budgets: dict[str, Budget] = {}  # dataset to the one in force
        self.charges: dict[str, Charge] = {}
        self.exact: dict[str, ExactRelease] = {}
        self._live: dict[str, Charge] = {}  # the reserved jobs
        # By account, which is a dataset and a period: what was set last, and the sums.
        self._budget_of: dict[Account, Budget] = {}
        self._orders_of: dict[Account, tuple[FilterOrder, ...]] = {}
        self._gaussian_part_of: dict[Account, Fraction | None] = {}
        # Whether the first job of an account, or of one analyst in it, has Gaussian noise: that decides on the filters.
        self._is_gaussian_first: dict[tuple[Account, str | None], bool] = {}
        self._spent: dict[Account, Spending] = {}
        self._spent_by: dict[tuple[Account, str], Spending] = {}  # by analyst
        self._held: dict[Account, Spending] = {}  # with the reserved jobs; absent: to be summed anew
        self._n_committed: Counter[Account] = Counter()

    def take(self, entry: Entry) -> None:
        """Process the next entry.

        Raises:
            LedgerDamagedError: the entry contradicts earlier entries.
        """
        match entry.what:
            case BudgetSet(dataset, budget):
                account = (dataset, budget.period)
                part = entry.what.gaussian_part
                self._orders_of[account] = entry.what.filter_orders or self.orders_for(dataset, budget)
                self._gaussian_part_of[account] = None if part is None else Fraction(part)
                self.budgets[dataset] = self._budget_of[account] = budget
                for charge in self._live_in(account):
                    charge.is_in_doubt = True
            case Reserved(job_id, dataset) as reserved:
                if job_id in self.charges or job_id in self.exact or dataset not in self.budgets:
                    raise LedgerDamagedError(f"entry {entry.sequence} reserves for a job that cannot be charged")
                charge = Charge(reserved, spending_of(reserved), self.budgets[dataset].period)
                account = _account_of(charge)
                for who in (None, reserved.analyst):
                    self._is_gaussian_first.setdefault((account, who), bool(charge.spending.is_gaussian_first))
                self._held[account] = self._held_of(account) + charge.spending
                self.charges[job_id] = self._live[job_id] = charge
            case Committed(job_id):
                charge = self._settle(entry, job_id, JobState.COMMITTED)
                account, cost = _account_of(charge), charge.spending
                by = (account, charge.reserved.analyst)
                self._spent[account] = self._spent.get(account, Spending()) + cost
                self._spent_by[by] = self._spent_by.get(by, Spending()) + cost
                self._n_committed[account] += 1
            case Released(job_id):
                charge = self._settle(entry, job_id, JobState.RELEASED)
                # Not by subtraction: sums of positive terms are rounded in one known direction.
                account = _account_of(charge)
                self._held.pop(account, None)
                for who in (None, charge.reserved.analyst):
                    if not self._held_by(account, who).n_jobs:  # nothing was seen, so another job may be the first
                        del self._is_gaussian_first[account, who]
            case ExactRelease(job_id) as release:
                if job_id in self.charges or job_id in self.exact:
                    raise LedgerDamagedError(
                        f"entry {entry.sequence} opens an exact result for a job that was charged before"
                    )
                self.exact[job_id] = release
            case Adopted():
                pass

    def _settle(self, entry: Entry, job_id: str, state: JobState) -> Charge:
        charge = self._live.pop(job_id, None)
        if charge is None:
            raise LedgerDamagedError(f"entry {entry.sequence} commits or releases a job that holds no reservation")
        charge.state = state
        return charge

    def check_budget(self, dataset: str, budget: Budget) -> None:
        """Refuse a budget that would mix units within a period.

        Raises:
            ChargeError: the period had another unit before, so what was spent in it could not be compared.
        """
        before = self._budget_of.get((dataset, budget.period))
        if before is not None and before.unit != budget.unit:
            raise ChargeError(
                f"the unit of period {budget.period!r} is {before.unit!r} and cannot be changed: begin another period"
            )

    def orders_for(self, dataset: str, budget: Budget) -> tuple[FilterOrder, ...]:
        """Return the orders of the filter of a budget that is set now.

        They are fixed before the first job of a period: where the period has jobs, they stay what they are.
        """
        account = (dataset, budget.period)
        return self._orders_of[account] if self._has_jobs(account) else orders_of_budget(budget.epsilon, budget.delta)

    def gaussian_part_for(self, dataset: str, budget: Budget) -> Fraction | None:
        """Return the Gaussian filter's part of delta of a budget that is set now; it stays, as the orders do."""
        account = (dataset, budget.period)
        if self._has_jobs(account):
            return self._gaussian_part_of[account]
        return part_of_budget(budget.epsilon, budget.delta)

    def _has_jobs(self, account: Account) -> bool:
        return account in self._orders_of and bool(self._n_committed[account] or self._live_in(account))

    @property
    def is_empty(self) -> bool:
        """Whether no entry was ever written."""
        return not (self.budgets or self.charges or self.exact)

    def budget_of(self, dataset: str, unit: str) -> Budget:
        """Return the budget that a job about this table and unit is charged to.

        Raises:
            ChargeError: there is none, or it is for another unit.
        """
        budget = self.budgets.get(dataset)
        if budget is None:
            raise ChargeError(f"no privacy budget is set for {label_of(dataset)}")
        if budget.unit != unit:
            raise ChargeError(
                f"the privacy budget of {label_of(dataset)} is of the unit {budget.unit!r}, but this job protects the "
                f"unit {unit!r}"
            )
        return budget

    def balance(self, dataset: str) -> Balance:
        """Return how a table's budget stands. The table must have one."""
        budget = self.budgets[dataset]
        account = (dataset, budget.period)
        ever = [spent for one, spent in self._spent.items() if one[0] == dataset and self._unit_of(one) == budget.unit]
        return Balance(
            dataset,
            budget,
            self._cover(account, self._spent.get(account, Spending())),
            self._cover(account, self._held_of(account)),
            self._n_committed[account],
            len(self._live_in(account)),
            sum(release.dataset == dataset for release in self.exact.values()),
            sum(ever, Spending()),
            len(ever),
        )

    def quote(self, wanted: Reserved) -> Quote:
        """Return the effect that a job would have on a budget.

        Raises:
            ChargeError: there is no such budget, or the events cannot be composed.
        """
        budget = self.budget_of(wanted.dataset, wanted.unit)
        account, cost = (wanted.dataset, budget.period), spending_of(wanted)
        return Quote(
            self.balance(wanted.dataset),
            self._cover(account, self._held_of(account) + cost),
            self._held_by(account, wanted.analyst) + cost,
            cost.epsilon(budget.delta),
        )

    def check_charge(self, wanted: Reserved, most_epsilons_of_analyst: Iterable[float] = ()) -> None:
        """Refuse a job that would exceed the budget of its table, or the limit of its analyst.

        Args:
            wanted: the job.
            most_epsilons_of_analyst: each limits what this analyst's jobs of the period may come to, by a filter of its
                own at the budget's delta.

        Raises:
            ChargeError: the text is public.
        """
        budget = self.budget_of(wanted.dataset, wanted.unit)
        account, cost = (wanted.dataset, budget.period), spending_of(wanted)
        check_covered(wanted.dataset, budget, self._cover(account, self._held_of(account) + cost))
        for most in most_epsilons_of_analyst:
            cover = cover_of(self._held_by(account, wanted.analyst) + cost, most, budget.delta)
            if not cover.is_covered:
                raise BudgetExhaustedError(
                    f"the jobs of analyst {wanted.analyst!r} on {label_of(wanted.dataset)} would, in period "
                    f"{budget.period!r}, come to {cover.described()}"
                )

    def check_commit(self, job_id: str) -> None:
        """Refuse to spend a reservation that the budget of its period no longer covers, as its owner has set it since.

        Whoever commits first has the rest; other reservations do not count. Where nothing was set since, the
        reservation stands: adding up in another order might differ from it by a rounding error.

        Raises:
            ChargeError: the text is public.
        """
        charge = self._live[job_id]
        if not charge.is_in_doubt:
            return
        account = _account_of(charge)
        budget = self._budget_of[account]
        if charge.reserved.unit != budget.unit:  # possible in ledgers of versions that let the unit of a period change
            raise ChargeError(
                f"the budget of period {charge.period!r} now protects another privacy unit ({budget.unit}) than when "
                f"job {job_id} was reserved ({charge.reserved.unit})"
            )
        spent = self._spent.get(account, Spending()) + charge.spending
        check_covered(charge.reserved.dataset, budget, self._cover(account, spent))

    def _cover(self, account: Account, spending: Spending) -> Cover:
        """Return how the budget of a period stands to some of its jobs."""
        budget = self._budget_of[account]
        spending = self._nothing(account) + spending
        orders, part = self._orders_of[account], self._gaussian_part_of[account]
        return cover_of(spending, budget.epsilon, budget.delta, orders, part)

    def _nothing(self, account: Account, analyst: str | None = None) -> Spending:
        """Return the sum of no jobs, which knows of what kind the first one of an account, or of an analyst, was."""
        if self._gaussian_part_of[account] is None:
            return Spending(is_gaussian_first=False)
        return Spending(is_gaussian_first=self._is_gaussian_first.get((account, analyst)))

    def _unit_of(self, account: Account) -> str:
        return self._budget_of[account].unit

    def _live_in(self, account: Account) -> list[Charge]:
        """Return the reserved jobs of a period."""
        return [charge for charge in self._live.values() if _account_of(charge) == account]

    def _held_of(self, account: Account) -> Spending:
        """Return what a period holds: what was spent, and the reserved jobs."""
        if account not in self._held:
            total = Spending() + self._spent.get(account, Spending())
            for charge in self._live_in(account):
                total = total + charge.spending
            self._held[account] = total
        return self._held[account]

    def _held_by(self, account: Account, analyst: str | None) -> Spending:
        """Return `_held_of` for the jobs of one analyst, or of all for None."""
        if analyst is None:
            return self._held_of(account)
        total = self._nothing(account, analyst) + self._spent_by.get((account, analyst), Spending())
        for charge in self._live_in(account):
            if charge.reserved.analyst == analyst:
                total = total + charge.spending
        return total

    def check_unused(self, job_id: str) -> None:
        """Refuse a job id that was used before, for a charge or for an exact result.

        Raises:
            ChargeError: the text is public.
        """
        if job_id in self.charges or job_id in self.exact:
            raise ChargeError(f"job {job_id} was charged before; a job id may be used only once")

    def reserved_by(self, holder: str) -> list[str]:
        """Return the jobs for which an installation holds a reservation."""
        return [job_id for job_id, charge in self._live.items() if charge.reserved.holder == holder]


def _account_of(charge: Charge) -> Account:
    return charge.reserved.dataset, charge.period
