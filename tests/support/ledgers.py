"""Ledgers and releases of known cost for tests."""

from fractions import Fraction
from pathlib import Path

from dp.accounting import Adjacency, SkellamDpEvent
from party.budget import Budget
from party.ledger import Ledger, open_ledger

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


def reserve(ledger: Ledger, job_id: str, cost: Fraction | float = Fraction(1, 100), **changes) -> None:
    fields = {
        "dataset": "visits",
        "unit": UNIT,
        "analyst": "ada",
        "analysis": "pca",
        "consent": "policy",
        "events": [event(cost)],
    }
    ledger.reserve(job_id, **{**fields, **changes})
