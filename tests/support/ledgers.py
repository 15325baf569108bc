"""Ledgers and releases of known cost for tests."""

from fractions import Fraction
from pathlib import Path

import attr

from dp.cost.accounting import Adjacency
from dp.cost.events.record import record_of
from dp.cost.events.skellam import SkellamDpEvent
from dp.cost.job_cost import JobCost
from dp.cost.views import ADJACENCY
from ledger.budget import Budget
from ledger.ledger import Ledger, open_ledger

UNIT = "record of the joint table"
HOLDER = "installation-1"


def event(cost: Fraction | float = Fraction(1, 100), adjacency: Adjacency = Adjacency.REPLACE_ONE) -> SkellamDpEvent:
    """A release whose Renyi divergence at order a is close to a * cost / 4."""
    squares = Fraction(cost)
    return SkellamDpEvent(squares, squares / 10**6, squares / 10**6, squares / 10**6, adjacency)


def budget(epsilon: float = 1.0, *, delta: float = 1e-6, period: str = "2026", unit: str = UNIT) -> Budget:
    return Budget(unit, period, epsilon, delta)


def ledger_in(folder: Path, *, party: str = "north", holder: str = HOLDER, adopt: str | None = None) -> Ledger:
    return open_ledger(
        party, path=folder / "ledger.sqlite", url=None, counter=folder / "ledger.counter", holder=holder, adopt=adopt
    )


def cost_of(*events, unit: str = UNIT, colluding: int = 1, coordinator=None) -> JobCost:
    """The cost of a job with these releases in the coalition's view, and as many or others in the coordinator's."""

    def events_of(view):
        if view == "coordinator" and coordinator is not None:
            return coordinator
        return [attr.evolve(one, adjacency=ADJACENCY[view]) for one in events]

    return JobCost.of(events_of, unit, colluding)


def records_of(cost: JobCost):
    """As a ledger keeps them."""
    return {view: tuple(map(record_of, events)) for view, events in cost.events.items()}


def reserve(ledger: Ledger, job_id: str, cost: Fraction | float | JobCost = Fraction(1, 100), **changes) -> None:
    """Reserve a job; `events` and `unit` may be changed too, or the whole cost be given."""
    events, unit = changes.pop("events", None), changes.pop("unit", UNIT)
    whole = cost if isinstance(cost, JobCost) else cost_of(*(events or [event(cost)]), unit=unit)
    fields = {"dataset": "visits", "analyst": "ada", "analysis": "pca", "consent": "policy", "cost": whole}
    ledger.reserve(job_id, **{**fields, **changes})
