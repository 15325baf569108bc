"""`moiety budget`: the privacy budgets of a party's tables and what was spent of them. For the owner."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.configuration.party_config import Config, begin_ledger, opened_ledger, read_config
from cli.terminal.options import OutputFormat
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_result, say
from service.codes.printed_time import printed_time

if TYPE_CHECKING:
    from ledger.entry import Entry
    from party.config import PartyConfig
    from party.tables.config import TableConfig

budget_app = typer.Typer(
    name="budget", help="See and set a party's privacy budgets; check its ledger.", no_args_is_help=True
)

Reason = Annotated[str, typer.Option(help="Why; kept in the ledger for ever.")]


@budget_app.command()
def show(config: Config, output: OutputFormat = Format.TEXT) -> None:
    """Show every table's budget: its adversary, what was spent, what running jobs reserve, and what remains."""
    with exit_codes():
        loaded = read_config(config)
        with opened_ledger(loaded) as ledger:
            head, balances = ledger.verify(), ledger.balances()
        known, accounts = {balance.dataset for balance in balances}, loaded.accounts
        without = sorted(table for table, account in accounts.items() if account not in known)
        tables = {one: [table for table, account in accounts.items() if account == one] for one in known}
        notices = loaded.budget_notices(balances)
        shown = [balance.as_dict() | {"tables": tables[balance.dataset]} for balance in balances]
        about = [notice.text for notice in notices]
        found = {"party": loaded.name, "head": str(head), "budgets": shown, "without_budget": without, "notices": about}
        lines = [line for balance in balances for line in _lines_of(balance.as_dict(), tables[balance.dataset])]
        lines += [f"look at: {text}" for text in about]
        lines += [f"{name}: no budget, so no job may use it (moiety budget set)" for name in without]
        print_result(
            output,
            found,
            [*lines, f"head {head} (note it: `moiety budget verify --noted` compares the ledger with it)"],
        )


@budget_app.command()
def history(config: Config, output: OutputFormat = Format.TEXT) -> None:
    """List every entry of the ledger, oldest first."""
    with exit_codes():
        with opened_ledger(read_config(config)) as ledger:
            entries = ledger.history()
        lines = (f"{one.sequence:6}  {printed_time(one.at_s)}  {one.kind:9}  {_describe(one)}" for one in entries)
        print_result(output, [_entry_as_dict(entry) for entry in entries], lines)


@budget_app.command()
def verify(
    config: Config,
    noted: Annotated[
        str | None, typer.Option(help="A head that `moiety budget show` printed earlier: the ledger must contain it.")
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Check that the ledger was not edited, truncated or restored from an old copy."""
    with exit_codes():
        from ledger.counter import Head

        anchor = None
        if noted is not None:
            sequence, _, digest = noted.partition(":")
            if not sequence.isascii() or not sequence.isdigit() or not digest:
                fail(f"--noted: a head looks like 12:5f3a..., got {noted!r}", ExitCode.USAGE)
            anchor = Head(int(sequence), digest)
        with opened_ledger(read_config(config)) as ledger:
            head = ledger.verify(anchor)
        text = f"the ledger is whole: {head.counted}\nhead {head}"
        print_result(output, {"entries": head.sequence, "head": str(head)}, text)


@budget_app.command()
def init(config: Config, output: OutputFormat = Format.TEXT) -> None:
    """Begin the ledger of a new party, with the first budgets of party.toml.

    Never begin one in the place of a ledger that was lost: it would forget what was spent. Restore that one instead.
    """
    with exit_codes():
        loaded = read_config(config)
        if all(table.first_budget is None for table in loaded.tables):
            fail(f"{config}: no table has a first_budget; set one with moiety budget set", ExitCode.USAGE)
        balances = begin_ledger(loaded)
        if balances is None:
            fail(f"the ledger of {loaded.name} has begun already; nothing was changed", ExitCode.FAILED)
        found = [balance.as_dict() for balance in balances]
        print_result(output, found, (line for one in found for line in _lines_of(one)), by=say)


@budget_app.command("set")
def set_budget(
    config: Config,
    table: Annotated[str, typer.Argument(help="Name of a table in party.toml, or of an id space.")],
    epsilon: Annotated[float, typer.Option(help="All jobs of the period together may come to this.")],
    delta: Annotated[float, typer.Option(help="Below 1 / (number of rows).")],
    period: Annotated[str, typer.Option(help="A name; another one than before starts with nothing spent.")],
    reason: Reason,
    unit: Annotated[
        str | None, typer.Option(help="What is protected, say 'person'; default: as before, or one record.")
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Set the budget of a table, or refill it by beginning another period. An entry of the ledger says so.

    For a table of an id space that is the budget of the space, which holds for all of its tables together.
    """
    with exit_codes():
        from dp.cost.views import UNIT, check_budget_unit
        from ledger.accounts import account_of_space
        from ledger.budget import Budget, BudgetError

        loaded = read_config(config)
        try:
            Budget(check_budget_unit(unit or UNIT), period, epsilon, delta)
        except (BudgetError, ValueError) as error:
            fail(error, ExitCode.USAGE)
        account = loaded.accounts.get(table, account_of_space(table))
        inside = [one for one in loaded.tables if one.account == account]
        for name in [one.name for one in inside] or [table]:
            _check_delta(loaded, name, delta)
        _check_unit(inside, unit or inside[0].usual_unit)
        with opened_ledger(loaded, may_be_new=True) as ledger:
            before = ledger.balance(account)
            kept = unit or (inside[0].usual_unit if before is None else before.budget.unit)
            _check_unit(inside, kept)
            ledger.set_budget(account, Budget(kept, period, epsilon, delta), reason)
            balance = ledger.balance(account)
        assert balance is not None
        print_result(output, balance.as_dict(), _lines_of(balance.as_dict()), by=say)


@budget_app.command()
def adopt(config: Config, reason: Reason, output: OutputFormat = Format.TEXT) -> None:
    """Accept a ledger that does not match its counter, after the counter or the newest entries were lost.

    The spending in lost entries is forgotten, so reduce the budgets by that amount. The reason is kept in the ledger.
    """
    with exit_codes():
        if not reason.strip():
            fail("--reason: say why", ExitCode.USAGE)
        with opened_ledger(read_config(config), adopt=reason) as ledger:
            head = ledger.verify()
        text = f"the ledger is taken over as it is: {head.counted}"
        print_result(output, {"entries": head.sequence, "head": str(head)}, text, by=say)


def _check_delta(config: "PartyConfig", table: str, delta: float) -> None:
    from party.tables.table import TableError, UnusableTableError, count_rows

    declared = {one.name: one.rows for one in config.tables}.get(table)
    try:
        most_rows = count_rows(config, table) if declared is None else declared[1]
    except UnusableTableError as error:
        fail(f"table {table!r}: {error.detail}", ExitCode.USAGE, code=error.code)
    except TableError as error:
        fail(error, ExitCode.USAGE)
    if delta >= 1 / max(1, most_rows):
        what = "its number of rows" if declared is None else f"{most_rows}, the most rows that it declares"
        fail(f"delta: {delta:g} is not below 1 / n for table {table!r}, where n is {what}", ExitCode.USAGE)


def _check_unit(tables: "Sequence[TableConfig]", unit: str) -> None:
    for table in tables:
        if problem := table.problem_with_unit(unit):
            fail(f"--unit: for table {table.name!r} it {problem}", ExitCode.USAGE)


def _lines_of(balance: dict[str, Any], tables: Sequence[str] = ()) -> list[str]:
    """Return the lines of one budget, which names its tables if they are several or have another name."""
    from ledger.standing import lines_of

    relations = ", ".join(f"{view}: {adjacency}" for view, adjacency in balance["adjacency"].items())
    named = "" if list(tables) in ([], [balance["dataset"]]) else f" (tables {', '.join(tables)})"
    heading = f"{balance['dataset']}{named}: period {balance['period']!r}, per {balance['unit']} ({relations})"
    return [heading, *lines_of(balance)]


def _entry_as_dict(entry: "Entry") -> dict[str, Any]:
    import json

    shown: dict[str, Any] = json.loads(entry.text)
    return shown | {"digest": entry.digest}


def _describe(entry: "Entry") -> str:
    from ledger.entry import Adopted, BudgetSet, Committed, ExactRelease, Released, Reserved

    match entry.what:
        case BudgetSet(dataset, budget, reason):
            return (
                f"{dataset}: epsilon {budget.epsilon:g} at delta {budget.delta:g} per {budget.unit}, "
                f"period {budget.period!r}: {reason}"
            )
        case Reserved(job_id, dataset, analyst, analysis, _, consent, colluding=colluding):
            withstands = "" if colluding is None else f", withstands {colluding} colluding"
            return f"job {job_id}: {analysis} on {dataset} for {analyst}, by consent of the {consent}{withstands}"
        case ExactRelease(job_id, dataset, analyst, analysis, consent):
            return f"job {job_id}: {analysis} on {dataset} for {analyst}, without noise, by consent of the {consent}"
        case Committed(job_id):
            return f"job {job_id}"
        case Released(job_id, reason):
            return f"job {job_id}: {reason}"
        case Adopted(reason):
            return reason
