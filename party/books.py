"""What the entries of a ledger add up to: budgets, reservations and what was spent. No files, no clock.

Costs are composed as Renyi curves: the curves of all jobs of a period add up at each order, and the sum is converted to
epsilon once, at the delta of the budget. Adding the epsilons of jobs instead would be sound too, and waste most of it.

Charged is the coalition's view, the worst, with adjacency `replace_one`; events of another adjacency are refused.

A job belongs to the period in which it was reserved, whatever period has begun since. A period has one unit for ever;
its epsilon and delta are those that its owner set last, and they must cover a job when it is reserved and again when it
is committed: nothing was opened by then.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np

from dp.accounting import ORDERS, Adjacency, Floats, epsilon_of_rdp
from dp.event_record import UnknownEventError, event_from, rdp_of
from party.budget import Budget
from party.ledger_entry import (
    Adopted,
    BudgetSet,
    Committed,
    Entry,
    ExactRelease,
    LedgerDamagedError,
    Released,
    Reserved,
)
from transport.errors import ServiceError

ADJACENCY = Adjacency.REPLACE_ONE

Account = tuple[str, str]
"""Name of a table, and the period of its budget: what was spent adds up within one."""


class ChargeError(ServiceError):
    """A job cannot be charged; the text is public and goes to the analyst."""


class BudgetExhaustedError(ChargeError):
    """What is left does not cover the job."""


class JobState(StrEnum):
    """Where the charge of a job stands."""

    RESERVED = "reserved"
    COMMITTED = "committed"
    RELEASED = "released"


@dataclass
class Spending:
    """A sum of Renyi curves.

    Attributes:
        curve: at each of `dp.accounting.ORDERS`.
        n_events: how many were added.
    """

    curve: Floats = field(default_factory=lambda: np.zeros(len(ORDERS)))
    n_events: int = 0

    def add(self, other: "Spending") -> None:
        """Add another sum to this one."""
        self.curve = self.curve + other.curve
        self.n_events += other.n_events

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(self.curve + other.curve, self.n_events + other.n_events)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of all of it together, rounded up; 0 for nothing."""
        return epsilon_of_rdp(self.curve, self.n_events, delta).epsilon if self.n_events else 0.0


@dataclass
class Charge:
    """The charge of one job.

    Attributes:
        reserved: what it costs.
        period: of its table's budget when it was reserved.
        state: where it stands.
        is_in_doubt: whether that period's budget was set anew since, so that it may no longer cover the job.
    """

    reserved: Reserved
    period: str
    state: JobState = JobState.RESERVED
    is_in_doubt: bool = False


@dataclass(frozen=True)
class Balance:
    """How a table's budget stands in its present period.

    Attributes:
        dataset: name of the table.
        budget: of its present period.
        spent: epsilon of all committed jobs.
        held: epsilon of these and all reserved jobs together; what a new job adds to.
        n_committed, n_reserved: how many jobs of this period.
        n_exact: how many exact results were opened, ever; no epsilon counts them.
    """

    dataset: str
    budget: Budget
    spent: float
    held: float
    n_committed: int
    n_reserved: int
    n_exact: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object. `remaining` is for people: epsilons do not simply add up."""
        return {
            "dataset": self.dataset,
            "unit": self.budget.unit,
            "period": self.budget.period,
            "adjacency": ADJACENCY.value,
            "view": "coalition",
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "spent_epsilon": self.spent,
            "held_epsilon": self.held,
            "remaining_epsilon": max(0.0, self.budget.epsilon - self.held),
            "committed_jobs": self.n_committed,
            "reserved_jobs": self.n_reserved,
            "exact_results": self.n_exact,
        }


@dataclass(frozen=True)
class Quote:
    """What a job would do to a budget.

    Attributes:
        balance: before it.
        held_after: epsilon of the period with the job.
        analyst_after: epsilon of this analyst's jobs of the period with the job.
        job_alone: epsilon of the job by itself, at the budget's delta.
    """

    balance: Balance
    held_after: float
    analyst_after: float
    job_alone: float

    def check_covered(self) -> None:
        """Refuse a job that the budget would not cover if it were reserved now.

        Raises:
            BudgetExhaustedError: the text is public.
        """
        _check_covered(self.balance.dataset, self.balance.budget, self.held_after)


class Books:
    """The sum of a ledger's entries, taken in one by one."""

    def __init__(self) -> None:
        self.budgets: dict[str, Budget] = {}  # dataset to the one in force
        self.charges: dict[str, Charge] = {}
        self.exact: dict[str, ExactRelease] = {}
        self._live: dict[str, Charge] = {}  # the reserved jobs
        # By account, which is a dataset and a period: what was set last, and the sums.
        self._budget_of: dict[Account, Budget] = {}
        self._spent: dict[Account, Spending] = {}
        self._spent_by: dict[tuple[Account, str], Spending] = {}  # by analyst
        self._held: dict[Account, Spending] = {}  # with the reserved jobs; absent: to be summed anew
        self._n_committed: Counter[Account] = Counter()

    def take(self, entry: Entry) -> None:
        """Take in the next entry.

        Raises:
            LedgerDamagedError: it cannot follow what came before it.
        """
        match entry.what:
            case BudgetSet(dataset, budget):
                account = (dataset, budget.period)
                self.budgets[dataset] = self._budget_of[account] = budget
                for charge in self._live_in(account):
                    charge.is_in_doubt = True
            case Reserved(job_id, dataset) as reserved:
                if job_id in self.charges or job_id in self.exact or dataset not in self.budgets:
                    raise LedgerDamagedError(f"entry {entry.sequence} reserves for a job that cannot be charged")
                charge = Charge(reserved, self.budgets[dataset].period)
                self._held_of(_account_of(charge)).add(cost_of(reserved.events))
                self.charges[job_id] = self._live[job_id] = charge
            case Committed(job_id):
                charge = self._settle(entry, job_id, JobState.COMMITTED)
                account, cost = _account_of(charge), cost_of(charge.reserved.events)
                self._spent.setdefault(account, Spending()).add(cost)
                self._spent_by.setdefault((account, charge.reserved.analyst), Spending()).add(cost)
                self._n_committed[account] += 1
            case Released(job_id):
                charge = self._settle(entry, job_id, JobState.RELEASED)
                # Not by subtraction: sums of positive terms are rounded in one known direction.
                self._held.pop(_account_of(charge), None)
            case ExactRelease(job_id) as release:
                if job_id in self.charges or job_id in self.exact:
                    raise LedgerDamagedError(f"entry {entry.sequence} opens a result of a job that was charged before")
                self.exact[job_id] = release
            case Adopted():
                pass

    def _settle(self, entry: Entry, job_id: str, state: JobState) -> Charge:
        charge = self._live.pop(job_id, None)
        if charge is None:
            raise LedgerDamagedError(f"entry {entry.sequence} settles a job that holds no reservation")
        charge.state = state
        return charge

    def check_budget(self, dataset: str, budget: Budget) -> None:
        """Refuse a budget that would mix units within a period.

        Raises:
            ChargeError: the period had another unit before, so what was spent in it could not be compared.
        """
        before = self._budget_of.get((dataset, budget.period))
        if before is not None and before.unit != budget.unit:
            raise ChargeError(f"the unit of period {budget.period!r} is {before.unit!r}: begin another period")

    def budget_of(self, dataset: str, unit: str) -> Budget:
        """Return the budget that a job about this table and unit is charged to.

        Raises:
            ChargeError: there is none, or it is for another unit.
        """
        budget = self.budgets.get(dataset)
        if budget is None:
            raise ChargeError(f"no privacy budget is set for table {dataset!r}")
        if budget.unit != unit:
            raise ChargeError(
                f"the privacy budget of table {dataset!r} is per {budget.unit}, this job protects one {unit}"
            )
        return budget

    def balance(self, dataset: str) -> Balance:
        """Return how a table's budget stands. The table must have one."""
        budget = self.budgets[dataset]
        account = (dataset, budget.period)
        spent = self._spent.get(account, Spending())
        return Balance(
            dataset,
            budget,
            spent.epsilon(budget.delta),
            self._held_of(account).epsilon(budget.delta),
            self._n_committed[account],
            len(self._live_in(account)),
            sum(release.dataset == dataset for release in self.exact.values()),
        )

    def quote(self, dataset: str, unit: str, analyst: str, events: Sequence[Mapping[str, Any]]) -> Quote:
        """Return what a job would do to a budget. Arguments as of `Reserved`.

        Raises:
            ChargeError: there is no such budget, or the events cannot be composed.
        """
        budget = self.budget_of(dataset, unit)
        account, cost = (dataset, budget.period), cost_of(tuple(events))
        return Quote(
            self.balance(dataset),
            (self._held_of(account) + cost).epsilon(budget.delta),
            (self._held_by(account, analyst) + cost).epsilon(budget.delta),
            cost.epsilon(budget.delta),
        )

    def check_charge(self, wanted: Reserved, most_epsilon_of_analyst: float | None) -> None:
        """Refuse a job that would pass what its table's budget, or its analyst, may come to.

        Raises:
            ChargeError: the text is public.
        """
        budget = self.budget_of(wanted.dataset, wanted.unit)
        account, cost = (wanted.dataset, budget.period), cost_of(wanted.events)
        _check_covered(wanted.dataset, budget, (self._held_of(account) + cost).epsilon(budget.delta))
        if most_epsilon_of_analyst is not None:
            epsilon = (self._held_by(account, wanted.analyst) + cost).epsilon(budget.delta)
            if not epsilon <= most_epsilon_of_analyst:
                raise BudgetExhaustedError(
                    f"the jobs of analyst {wanted.analyst!r} on table {wanted.dataset!r} would come to epsilon "
                    f"{epsilon:.4g} of {most_epsilon_of_analyst:.4g} in period {budget.period!r}"
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
            raise ChargeError(f"the unit of period {charge.period!r} has changed since job {job_id} was reserved")
        spent = self._spent.get(account, Spending()) + cost_of(charge.reserved.events)
        _check_covered(charge.reserved.dataset, budget, spent.epsilon(budget.delta))

    def _live_in(self, account: Account) -> list[Charge]:
        """Return the reserved jobs of a period."""
        return [charge for charge in self._live.values() if _account_of(charge) == account]

    def _held_of(self, account: Account) -> Spending:
        """Return what a period holds: what was spent, and the reserved jobs."""
        if account not in self._held:
            total = Spending() + self._spent.get(account, Spending())
            for charge in self._live_in(account):
                total.add(cost_of(charge.reserved.events))
            self._held[account] = total
        return self._held[account]

    def _held_by(self, account: Account, analyst: str) -> Spending:
        """As `_held_of`, of one analyst's jobs."""
        total = Spending() + self._spent_by.get((account, analyst), Spending())
        for charge in self._live_in(account):
            if charge.reserved.analyst == analyst:
                total.add(cost_of(charge.reserved.events))
        return total

    def check_unused(self, job_id: str) -> None:
        """Refuse the id of a job that was charged, or let open an exact result, before.

        Raises:
            ChargeError: the text is public.
        """
        if job_id in self.charges or job_id in self.exact:
            raise ChargeError(f"job {job_id} was charged before; a job id is used once")

    def reserved_by(self, holder: str) -> list[str]:
        """Return the jobs for which an installation holds a reservation."""
        return [job_id for job_id, charge in self._live.items() if charge.reserved.holder == holder]


def _account_of(charge: Charge) -> Account:
    return charge.reserved.dataset, charge.period


def _check_covered(dataset: str, budget: Budget, epsilon: float) -> None:
    if not epsilon <= budget.epsilon:  # also for NaN
        raise BudgetExhaustedError(
            f"the privacy budget of table {dataset!r} does not cover this job: with it, the jobs of period "
            f"{budget.period!r} would come to epsilon {epsilon:.4g} of {budget.epsilon:.4g} at delta {budget.delta:g}, "
            "coalition's view"
        )


def cost_of(records: Sequence[Mapping[str, Any]]) -> Spending:
    """Return the sum of the curves of recorded events.

    Raises:
        ChargeError: there are none, one is unknown, or one is for another adjacency than budgets are.
    """
    if not records:
        raise ChargeError("the analysis states no cost for what it opens")
    curves = [_curve(json.dumps(record, sort_keys=True)) for record in records]
    return Spending(curves[0] if len(curves) == 1 else np.sum(curves, axis=0), len(curves))


@lru_cache(maxsize=4096)
def _curve(record_json: str) -> Floats:
    try:
        event = event_from(json.loads(record_json))
        curve = rdp_of(event)
    except UnknownEventError as error:
        raise ChargeError(str(error)) from error
    if event.adjacency is not ADJACENCY:
        raise ChargeError(f"budgets are for neighbours by {ADJACENCY.value}, an event is for {event.adjacency.value}")
    if math.isnan(curve.sum()) or not math.isfinite(curve[0]):  # inf at higher orders: no bound is known there
        raise ChargeError("the cost of an event is not finite")
    curve.setflags(write=False)
    return curve
