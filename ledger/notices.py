"""What an owner should know where the tables of a configuration and the budgets of its ledger do not fit together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ledger.accounts import label_of
from ledger.balance import Balance
from ledger.budget import Budget


@dataclass(frozen=True)
class Notice:
    """Something about budgets that their owner should know. For the owner alone.

    Attributes:
        account: whose.
        found: what is so.
        fix: what to do.
    """

    account: str
    found: str
    fix: str

    @property
    def found_of(self) -> str:
        """What is so, and of which budget."""
        return f"budget of {label_of(self.account)}: {self.found}"

    @property
    def text(self) -> str:
        """Both, in one line."""
        return f"{self.found_of}. {self.fix}"


def notices_of(
    tables: Mapping[str, str],
    first: Mapping[str, Budget],
    same_data: Iterable[Sequence[str]],
    balances: Sequence[Balance],
) -> list[Notice]:
    """Return what does not fit between the configuration's tables and the ledger's budgets.

    Args:
        tables: name of each table to its account.
        first: account to the budget that the configuration declares for its beginning.
        same_data: groups of tables that read the same data.
        balances: balances of all accounts in the ledger.
    """
    found = [_shared(tables, group) for group in same_data if len({tables[name] for name in group}) > 1]
    for balance in balances:
        account, budget = balance.dataset, balance.budget
        if account in tables and tables[account] != account:
            space = tables[account]
            why = f"the table is now charged to the {space}, whose budget does not count what was spent here"
            found.append(Notice(account, why, f"Make the budget of the {space} smaller by that."))
        elif account not in tables.values():
            why = "the configuration has no table that is charged to it"
            found.append(Notice(account, why, "Nothing is charged to it any more; it stays in the ledger for ever."))
        elif account in first and first[account] != budget:
            declared = first[account]
            why = f"first_budget declares {_told(declared)}, and the ledger holds {_told(budget)}, which counts"
            found.append(
                Notice(
                    account,
                    why,
                    "The section has no effect once the ledger has begun: correct or delete it, or change the budget "
                    "by moiety budget set.",
                )
            )
    return found


def _shared(tables: Mapping[str, str], group: Sequence[str]) -> Notice:
    names = ", ".join(map(repr, group))
    why = (
        f"the tables {names} read the same data and have budgets of their own, which add up for whom the data are about"
    )
    return Notice(
        tables[group[0]], why, "Give them the same id_space, keep one of them, or count both budgets together."
    )


def _told(budget: Budget) -> str:
    return f"epsilon {budget.epsilon:g} at delta {budget.delta:g} per {budget.unit}, period {budget.period!r}"
