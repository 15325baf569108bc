"""Begins the budgets that a party's tables declare, and tells its owner's log what does not fit."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import structlog

from ledger.balance import Balance
from ledger.budget import Budget
from ledger.ledger import FIRST_BUDGET, Ledger
from ledger.notices import Notice

log = structlog.get_logger()


class BudgetOwner(Protocol):
    """What this module needs of a party's configuration."""

    @property
    def accounts(self) -> Mapping[str, str]:
        """Table to the account of the ledger that its jobs are charged to."""

    @property
    def first_budgets(self) -> Mapping[str, Budget]:
        """Account to the budget with which it begins."""

    def budget_notices(self, balances: Sequence[Balance]) -> list[Notice]:
        """Return what does not fit between its tables and the budgets of its ledger."""


def begin_budgets(ledger: Ledger, owner: BudgetOwner, but: Collection[str] = ()) -> None:
    """Set the first budgets of accounts that have none yet.

    Args:
        ledger: it has been begun.
        owner: what its tables declare.
        but: accounts that need not be looked at.

    Raises:
        LedgerError: it cannot be used.
    """
    for account, first in owner.first_budgets.items():
        if account not in but and ledger.set_first_budget(account, first, FIRST_BUDGET):
            log.info("first budget set", table=account, epsilon=first.epsilon, delta=first.delta)


def warn_of_budgets(ledger: Ledger, owner: BudgetOwner) -> None:
    """Warn of budgets that do not fit the tables, those of tables that are gone among them, and of tables without one.

    Raises:
        LedgerError: it cannot be used.
    """
    balances = ledger.balances()
    for notice in owner.budget_notices(balances):
        log.warning("look at a budget", about=notice.text)
    if without := sorted(t for t, account in owner.accounts.items() if account not in {b.dataset for b in balances}):
        log.warning("tables without a privacy budget: no job may use them", tables=", ".join(without))
