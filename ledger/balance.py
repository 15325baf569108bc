"""How a table's budget stands, and the effect that a job would have on it."""

import math
from dataclasses import dataclass
from typing import Any

from dp.cost.views import ADJACENCY, views_of
from ledger.accounts import label_of
from ledger.budget import Budget
from ledger.spending import BudgetExhaustedError, Cover, Spending, cover_of


@dataclass(frozen=True)
class Balance:
    """The state of a table's budget in its present period.

    Attributes:
        dataset: name of the table.
        budget: budget of its present period.
        spent_of: all committed jobs under the budget.
        held_of: these and all reserved jobs together; what a new job adds to.
        n_committed, n_reserved: how many jobs of this period.
        n_exact: how many exact results were opened, ever; no epsilon counts them.
        ever_spent: all committed jobs of all periods with the same unit.
        n_periods: number of these periods in which jobs were committed.
    """

    dataset: str
    budget: Budget
    spent_of: Cover
    held_of: Cover
    n_committed: int
    n_reserved: int
    n_exact: int
    ever_spent: Spending
    n_periods: int

    @property
    def spent(self) -> float:
        """Epsilon of all committed jobs, under the assumption that all of them were fixed in advance."""
        return self.spent_of.epsilon

    @property
    def held(self) -> float:
        """Epsilon of all committed and reserved jobs, under the same assumption."""
        return self.held_of.epsilon

    @property
    def least_colluding(self) -> int | None:
        """The smallest number of colluding parties that any job of the period withstands; the budget covers that many.

        None where no job says so: there is none, or only ones of version 1.
        """
        return self.held_of.spending.least_colluding

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object. An epsilon that nobody knows is None.

        `odometer_epsilon` is what the committed jobs have cost at every moment at once, however they were chosen.
        `remaining_epsilon` is for people: epsilons do not simply add up. `remaining_part` is at the filter that decides
        now; a job with noise of another kind may have less left.
        """
        left = self.budget.epsilon - self.held
        return {
            "dataset": self.dataset,
            "unit": self.budget.unit,
            "period": self.budget.period,
            "adjacency": {view: ADJACENCY[view].value for view in views_of(self.budget.unit)},
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "spent_epsilon": _known(self.spent),
            "held_epsilon": _known(self.held),
            "odometer_epsilon": _known(self.spent_of.odometer),
            "remaining_epsilon": max(0.0, left) if self.held_of.used < 1 else 0.0,
            "spent_part": _known(self.spent_of.used),
            "held_part": _known(self.held_of.used),
            "remaining_part": max(0.0, 1 - self.held_of.used),
            "orders": [one.order for one in self.held_of.filter.orders],
            "gaussian_filter": self.held_of.gaussian is not None,
            "least_colluding": self.least_colluding,
            "committed_jobs": self.n_committed,
            "reserved_jobs": self.n_reserved,
            "earlier_jobs": self.held_of.spending.n_earlier,
            "exact_results": self.n_exact,
            "all_periods_epsilon": _known(self.ever_spent.epsilon(self.budget.delta)),
            "periods": self.n_periods,
        }


@dataclass(frozen=True)
class Quote:
    """The effect of a job on a budget.

    Attributes:
        balance: before it.
        after: all jobs of the period with it, under the budget.
        analyst_after: this analyst's jobs of the period with it.
        job_alone: epsilon of the job by itself, in its worst view, at the budget's delta.
    """

    balance: Balance
    after: Cover
    analyst_after: Spending
    job_alone: float

    @property
    def held_after(self) -> float:
        """Epsilon of the period with the job, under the assumption that all its jobs were fixed in advance."""
        return self.after.epsilon

    def analyst_cover(self, most_epsilon: float) -> Cover:
        """Return how a limit on the analyst's epsilon covers the analyst's jobs, at the budget's delta."""
        return cover_of(self.analyst_after, most_epsilon, self.balance.budget.delta)

    def check_covered(self) -> None:
        """Refuse a job that the budget would not cover if it were reserved now.

        Raises:
            BudgetExhaustedError: the text is public.
        """
        check_covered(self.balance.dataset, self.balance.budget, self.after)


def check_covered(dataset: str, budget: Budget, cover: Cover) -> None:
    """Refuse what a budget does not cover.

    Args:
        dataset: name of the table.
        budget: budget of its present period.
        cover: how it covers the jobs of the period.

    Raises:
        BudgetExhaustedError: it does not; the text is public.
    """
    if not cover.is_covered:
        raise BudgetExhaustedError(
            f"the privacy budget of {label_of(dataset)} does not cover this job: with it, the jobs of period "
            f"{budget.period!r} would come to {cover.described()}"
        )


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None
