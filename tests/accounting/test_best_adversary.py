"""What the best analyst gets out of the filter and the books, against what they promise.

The analyst chooses each job by all that the ones before it said. With randomized response, what it gains is computed
exactly: the true delta at epsilon is the mean, under one of two neighbouring tables, of (1 - e^(epsilon - L))+, L the
loss of all that was said. So the best strategy is found backwards, from the last job to the first.
"""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from ledgers import UNIT, cost_of, records_of

from dp.cost.accounting import Adjacency
from dp.cost.events.event import renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.renyi_filter import RenyiFilter
from ledger.books import Books, ChargeError
from ledger.budget import Budget
from ledger.entry import BudgetSet, Committed, Released, Reserved, genesis, write_entry
from ledger.spending import Spending, spending_of

OPTIONS = (2, 20, 500, 5000, 10**5, 2 * 10**6, 7 * 10**6)
PARTS = (0.02, 0.1, 0.3, 0.6)
"""Fraction of the remaining budget that a job may use if it is not the last one; the last job uses all of it."""


def response(n_options: int, loss: float) -> RandomizedResponseDpEvent:
    truthful = Fraction(math.exp(loss) / (n_options - 1 + math.exp(loss)))
    return RandomizedResponseDpEvent(n_options, truthful, Adjacency.REPLACE_ONE)


class Analyst:
    """The best one among those that ask so many questions of these kinds."""

    def __init__(self, budget: RenyiFilter) -> None:
        self.budget = budget
        self.at = np.array([one.order for one in budget.orders])
        self.bounds = np.array(budget.bounds())

    def largest_loss(self, n_options: int, spent: np.ndarray, part: float) -> float:
        """The largest loss of a response whose cost, divided by `part`, is still covered."""
        low, high = 0.0, 2 * self.budget.epsilon
        for _ in range(30):
            middle = (low + high) / 2
            sums = spent + renyi_curve(response(n_options, middle), self.at) / part
            low, high = (middle, high) if (sums <= self.bounds).any() else (low, middle)
        return low

    def delta(self, n_jobs: int, loss: float = 0.0, spent: np.ndarray | float = 0.0) -> float:
        """The true delta that it reaches, after what was said with this loss and cost so much."""
        best = max(0.0, 1 - math.exp(self.budget.epsilon - loss))
        if n_jobs == 0:
            return best
        for n_options in OPTIONS:
            for part in PARTS if n_jobs > 1 else (1.0,):
                event = response(n_options, self.largest_loss(n_options, spent + np.zeros(len(self.at)), part))
                p, q = float(event.truthful), float((1 - event.truthful) / (n_options - 1))
                if p <= q:
                    continue
                after = spent + renyi_curve(event, self.at)
                moves = {1: p, -1: q, 0: (n_options - 2) * q}
                gain = sum(
                    chance * self.delta(n_jobs - 1, loss + sign * math.log(p / q), after)
                    for sign, chance in moves.items()
                    if chance > 0
                )
                best = max(best, gain)
        return best


@pytest.mark.parametrize("budget", [(1.0, 1e-6), (1.0, 0.1), (0.1, 0.05), (4.0, 1e-3)])
def test_no_strategy_of_two_jobs_gets_more_than_delta_and_the_best_ones_get_much_of_it(budget):
    reached = Analyst(RenyiFilter.of_budget(*budget)).delta(2)
    assert budget[1] / 3 < reached <= budget[1]


def test_no_strategy_of_three_jobs_gets_more_than_delta(monkeypatch):
    monkeypatch.setattr(f"{__name__}.OPTIONS", (2, 300))
    monkeypatch.setattr(f"{__name__}.PARTS", (0.3,))
    assert 0.003 < Analyst(RenyiFilter.of_budget(1.0, 0.01)).delta(3) <= 0.01


def test_a_filter_that_took_any_order_would_let_the_analyst_pass_delta():
    """The rule that composes at the best order afterwards: a filter that gives all of delta to each of many orders."""
    analyst = Analyst(RenyiFilter.of_budget(1.0, 1e-6))
    orders = np.unique(np.geomspace(2, 1e6, 60).astype(int))
    analyst.at = orders
    analyst.bounds = 1.0 - np.log1p(-1 / orders) + (math.log(1e-6) + np.log(orders)) / (orders - 1)
    assert analyst.delta(2) > 1.5e-6


class Life:
    """Books through which an owner and two analysts go at random, and what was committed in each period."""

    def __init__(self, seed: int) -> None:
        self.chance, self.books, self.n_entries, self.digest = random.Random(seed), Books(), 0, genesis("north")
        self.largest: dict[str, tuple[float, float]] = {}
        self.live: dict[str, tuple[str, Spending]] = {}
        self.committed: dict[str, list[Spending]] = {}
        self.orders: dict[str, object] = {}
        self.set_budget()

    def write(self, what) -> None:
        entry = write_entry(self.n_entries + 1, 0.0, what, self.digest)
        self.books.take(entry)
        self.n_entries, self.digest = entry.sequence, entry.digest

    def set_budget(self) -> None:
        period, epsilon, delta = (self.chance.choice(some) for some in ("ppq", (0.3, 1.0, 2.0), (1e-6, 1e-3)))
        budget = Budget(UNIT, period, epsilon, delta)
        orders = tuple((one.order, str(one.share)) for one in self.books.orders_for("visits", budget))
        self.write(BudgetSet("visits", budget, "again", orders))
        before = self.largest.get(period, (0.0, 0.0))
        self.largest[period] = (max(before[0], epsilon), max(before[1], delta))

    def reserve(self) -> None:
        cost = cost_of(
            response(self.chance.choice(OPTIONS), self.chance.choice((0.01, 0.1, 0.3, 0.6, 0.999, 1.4, 2.0)))
        )
        name = f"job-{self.n_entries}"
        analyst = self.chance.choice(("ada", "bob"))
        wanted = Reserved(name, "visits", analyst, "pattern-count", "here", "policy", UNIT, records_of(cost), 1)
        self.books.check_charge(wanted, self.chance.choice(((), (0.5,))))
        self.write(wanted)
        self.live[name] = (self.books.budgets["visits"].period, spending_of(wanted))

    def settle(self) -> None:
        if not self.live:
            return
        name = self.chance.choice(list(self.live))
        period, spending = self.live.pop(name)
        try:
            if self.chance.random() < 0.5:
                raise ChargeError("it failed before it was paid")
            self.books.check_commit(name)
        except ChargeError as error:
            self.write(Released(name, str(error)))
            return
        self.write(Committed(name))
        self.committed.setdefault(period, []).append(spending)
        self.check(period)

    def check(self, period: str) -> None:
        """Whatever has been opened in a period is within one filter of its largest budget, or is one job within it."""
        orders = self.books._orders_of["visits", period]
        assert self.orders.setdefault(period, orders) == orders  # fixed before the first of them
        jobs, (epsilon, delta) = self.committed[period], self.largest[period]
        total = sum(jobs, start=Spending())
        is_alone = len(jobs) == 1 and jobs[0].only.epsilon(delta).epsilon <= epsilon
        assert is_alone or RenyiFilter(epsilon, delta, orders).covers(total.curve, total.n_events)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_owner_and_analysts_do_what_is_opened_stays_within_the_largest_budget_of_the_period(seed):
    life = Life(seed)
    for _ in range(60):
        act = life.chance.choices((life.set_budget, life.reserve, life.settle), (1, 4, 4))[0]
        try:
            act()
        except ChargeError:
            continue
    assert life.committed
