"""Checks of what a service keeps: the privacy ledger, its counter and its budgets, or the coordinator's stores."""

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from service.reach.check import Check, failed, passed, warning

if TYPE_CHECKING:
    from coordinator.config import CoordinatorConfig
    from ledger.ledger import Ledger
    from party.config import PartyConfig

BUDGET = "--epsilon E --delta D --period NAME --reason WHY"
"""What `moiety budget set` wants beside the name of a table."""


def check_ledger(config: "PartyConfig") -> list[Check]:
    """Check a party's ledger: it opens, the chain and the counter fit, each table has a budget.

    The ledger may be in use by the service meanwhile; it is opened as `moiety budget verify` opens it.
    """
    from ledger.entry import LedgerError
    from ledger.ledger import open_ledger

    path, counter = config.ledger_path, config.counter_path
    url = None if config.ledger.url is None else config.ledger.url.get_secret_value()
    where = "the database of ledger.url" if url is not None else str(path)
    checks = [_counter(counter, config.data_dir if url is not None else path.parent, url is None)]
    if url is None and not path.exists():
        if counter.exists() and counter.stat().st_size:
            found = f"the counter {counter} remembers a ledger, and {path} does not exist"
            fix = f"Put the newest copy of the ledger back to {path}; what it lacks is told by moiety budget verify."
            return [*checks, failed("ledger", found, fix)]
        return [*checks, *_no_ledger(config, f"{path} does not exist")]
    if not counter.exists():
        found = f"the ledger {where} exists, and its counter {counter} does not: is the ledger complete?"
        fix = f"Put the counter back to {counter}, or accept the ledger as it is with moiety budget adopt."
        return [*checks, failed("ledger", found, fix)]
    try:
        ledger = open_ledger(config.name, path=path, url=url, counter=counter, holder="doctor")
        try:
            head, is_new = ledger.verify(), ledger.is_new
            budgets = _budgets(config, ledger)
        finally:
            ledger.close()
    except LedgerError as error:
        fix = "Put the newest copy of the ledger back, or accept what is there with moiety budget adopt and a reason."
        return [*checks, failed("ledger", str(error), fix)]
    if is_new:
        return [*checks, *_no_ledger(config, f"{where} has no entry")]
    return [*checks, passed("ledger", f"{where} is whole: {head.counted}"), *budgets]


def check_store(path: Path, what: str) -> Check:
    """Check a SQLite file of the coordinator, which belongs to its service while that runs. Nothing is changed."""
    name = f"store of {what}"
    if not path.exists():
        return passed(name, f"{path} does not exist yet; the service makes it")
    fix = f"Put a copy of {path} back, or rename it: the service then begins an empty one."
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.1)
        try:
            (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            db.close()
    except sqlite3.Error as error:
        if "locked" in str(error):
            return passed(name, f"{path} is in use by the service")
        return failed(name, f"{path}: {error}", fix)
    if verdict != "ok":
        return failed(name, f"{path} is damaged: {verdict}", fix)
    return passed(name, f"{path} is whole")


def check_database(config: "CoordinatorConfig") -> Check:
    """Check the PostgreSQL database of the coordinator's jobs, and say who leads. Nothing is changed."""
    from coordinator.leading.database import DatabaseAwayError, DatabaseError
    from service.identity import Identity, Role

    name, database = "store of jobs", config.database
    assert database is not None, "jobs in a file are checked by `check_store`"
    try:
        leader = database.leader(Identity(config.federation, Role.COORDINATOR, config.name).uri)
    except DatabaseAwayError as error:
        return failed(name, str(error), "Start its server, or correct host and port in `store`.")
    except DatabaseError as error:
        return failed(name, str(error), "Correct `store` and its password, or what the text names.")
    if leader is None:
        return passed(name, "the database can be used and has no tables yet; the service makes them")
    if not leader.leads:
        return passed(name, "the database can be used; no coordinator leads now")
    return passed(name, f"the database can be used; {leader.holder} leads")


def _no_ledger(config: "PartyConfig", found: str) -> list[Check]:
    """Tell what a service does that finds no ledger, or one without entries."""
    if not config.tables:
        return [passed("ledger", f"{found}; a party without tables needs none")]
    if config.ledger.may_begin:
        return [passed("ledger", f"{found}; it begins with the service"), *_first(config)]
    fix = "Put the ledger back if it was lost; only for a new party begin one with moiety budget init."
    return [failed("ledger", f"{found}, so no job with noise may use a table", fix)]


def _counter(counter: Path, beside: Path, is_file: bool) -> Check:
    """Tell whether the counter would be lost or put back together with the ledger."""
    there = [path for path in (counter.parent, beside) if path.exists()]
    if is_file and len(there) == 2 and there[0].stat().st_dev == there[1].stat().st_dev:
        return warning(
            "counter",
            f"the counter {counter} is on the same disk as the ledger: who puts both back together hides what was "
            "spent since",
            "Set `counter` in [ledger] to a file on another disk, out of the backup of the ledger.",
        )
    return passed("counter", f"{counter} is not on the disk of the ledger")


def _first(config: "PartyConfig") -> list[Check]:
    """Check the budgets of tables before there is a ledger."""
    first = config.first_budgets
    return [
        passed(f"budget of {table.name}", f"epsilon {first[table.account].epsilon:g} from the first start on")
        if table.account in first
        else _no_budget(table.name)
        for table in config.tables
    ]


def _budgets(config: "PartyConfig", ledger: "Ledger") -> list[Check]:
    checks = []
    balances = {balance.dataset: balance for balance in ledger.balances()}
    for table in config.tables:
        name, balance = f"budget of {table.name}", balances.get(table.account)
        if balance is None:
            checks += _first_of(config, table.name)
            continue
        standing = balance.as_dict()
        found = f"period {standing['period']!r}: {standing['remaining_part']:.0%} of epsilon {standing['epsilon']:g}"
        if standing["remaining_part"] <= 0:
            fix = f"Let the owner decide on another period: moiety budget set {table.name} {BUDGET}."
            checks.append(warning(name, f"{found} remains, so noisy jobs are refused", fix))
        else:
            checks.append(passed(name, f"{found} remains"))
    notices = config.budget_notices(list(balances.values()))
    return [*checks, *(warning("tables and ledger", one.found_of, one.fix) for one in notices)]


def _first_of(config: "PartyConfig", table: str) -> list[Check]:
    return [check for check in _first(config) if check.name == f"budget of {table}"]


def _no_budget(table: str) -> Check:
    return warning(
        f"budget of {table}",
        "no budget is set, so no job with noise may use the table",
        f"Run moiety budget set {table} {BUDGET}, or write [tables.first_budget] into the configuration.",
    )
