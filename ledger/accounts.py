"""Accounts: which budget the jobs about a table are charged to, its own or that of its id space.

An owner may say of several tables that their ids are those of one kind of unit, say patients (`id_space`). The ledger
then has one account for all of them, with one budget, and every job about any of them is charged to it. Nothing else
changes: an account is a name in the ledger's entries, so what holds for a table's budget holds for it after a crash,
too.

CLAIM. Let each table of an id space have at most one record of each id, or let jobs protect persons, whom its column of
persons names. Then the budget of the space bounds what all jobs of a period about all of these tables show together of
one id: for neighbours that differ in all that any of these tables say of it. These are, for the coordinator, tables of
which each has the records of the id or lacks them; for the coalition, tables of which each may hold other contents for
it.

PROOF. Take the tables together as one data set, and a job about one of them as a job about the data set. Between such
neighbours that table differs by at most one unit of the kind that the job protects: one record where an id is one
record (`id_column` refuses a second row of an id, `matching` makes one row of all), else the rows of one person, of
which the job lets so many count as it is charged for. Where it does not differ the job costs nothing. So each job costs
at most what it is charged, for the same pair of data sets; and which table a job reads is part of how jobs are chosen,
which the filters of a period leave open (`dp.cost.renyi_filter`, `dp.cost.gaussian_filter`). QED

It is the owner who says that ids are units: no program sees whether a person has two ids in one table, or whether
tables of different spaces are about the same persons. That two tables read the same data is seen
(`ledger.notices`).
"""

from dp.cost.views import PERSON, PERSON_AT_PARTY_UNIT, ROW_UNIT, UNIT, UNIT_AGAINST_COORDINATOR

_SPACE = "id space "
"""No name of a table has a space in it, so no account of one is called so."""


def account_of_space(id_space: str) -> str:
    """Return what the ledger calls the budget of an id space."""
    return f"{_SPACE}{id_space}"


def units_of_id(*, has_persons: bool) -> tuple[str, ...]:
    """Return the units of which one holds all that a table says of one id.

    Args:
        has_persons: whether the table names persons, of whom it may have several rows.
    """
    return (PERSON, PERSON_AT_PARTY_UNIT) if has_persons else (UNIT, ROW_UNIT, UNIT_AGAINST_COORDINATOR)


def label_of(account: str) -> str:
    """Return how to speak of an account."""
    return account if account.startswith(_SPACE) else f"table {account!r}"
