"""`moiety doctor`: finds out what is wrong with a member's files, certificates, connections and tables.

It ends with 0 if everything works or there are warnings only, with 1 if a check failed, and with 2 where the
configuration cannot be used.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.doctor.certificates import check_certificates
from cli.doctor.connections import check_connections
from cli.doctor.files import check_files
from cli.doctor.ledger import check_database, check_ledger, check_store
from cli.doctor.member import Member, read_member, role_of
from cli.terminal.output import ExitCode, Format, fail, print_json
from service.errors import ServiceError
from service.identity import Role
from service.reach.check import Check, Outcome, failed, warning
from service.settings_tree import SettingsError

if TYPE_CHECKING:
    from cli.doctor.federation import Row

DEFAULT_TIMEOUT_S = 5.0
COLOURS = {Outcome.OK: "green", Outcome.WARNING: "yellow", Outcome.FAILED: "bold red"}


def doctor(
    config: Annotated[Path, typer.Option(help="party.toml, coordinator.toml, client.toml or device.toml.")],
    role: Annotated[Role | None, typer.Option(help="Whose it is, where the file does not tell.")] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds to wait for each other member.")
    ] = DEFAULT_TIMEOUT_S,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out tables, records and ledger, and with them all numeric libraries.")
    ] = False,
    federation: Annotated[
        bool, typer.Option("--federation", help="At the coordinator: ask all parties, and show who reaches whom.")
    ] = False,
    output: Annotated[Format, typer.Option("--format", help="How it is printed. Both are for the owner only.")] = (
        Format.TEXT
    ),
) -> None:
    """Check a member before it starts or while it runs: what is wrong, and what to do about it.

    What is wrong in a table is told with lines and values: show the output to nobody else.
    Exit codes: 0 works, perhaps with warnings; 1 a check failed; 2 the configuration cannot be used.
    """
    if federation:
        _show_federation(config, role, timeout_s, output)
        return
    try:
        member, settings = read(config, role, quick=quick)
    except SettingsError as error:
        fix = (
            f"Correct {config}; the examples in the documentation show every field. A service that runs goes on with "
            "what it read before."
        )
        code, checks = ExitCode.USAGE, [failed("configuration", str(error), fix)]
    else:
        checks = examine(member, settings, timeout_s)
        code = ExitCode.FAILED if any(check.outcome is Outcome.FAILED for check in checks) else ExitCode.OK
    if output is Format.JSON:
        print_json({"ok": code == ExitCode.OK, "checks": [check.as_dict() for check in checks]})
    else:
        _print(checks)
    if code:
        raise typer.Exit(code)


def _show_federation(path: Path, role: Role | None, timeout_s: float, output: Format) -> None:
    """Print who reaches whom; end with 1 where somebody does not reach another, with 2 at other members."""
    from cli.doctor.federation import check_federation

    try:
        whose = role_of(path) if role is None else role
        if whose is not Role.COORDINATOR:
            fail(f"{path} is the configuration of a {whose}: --federation is for the coordinator", ExitCode.USAGE)
        rows = check_federation(read_member(path, whose), timeout_s)
    except (SettingsError, ServiceError) as error:
        fail(error, ExitCode.USAGE)
    checks = [(row.name, check) for row in rows for check in row.checks.values()]
    is_ok = not any(check.outcome is Outcome.FAILED for _, check in checks)
    if output is Format.JSON:
        print_json({"ok": is_ok, "members": [row.as_dict() for row in rows]})
    else:
        _print_matrix(rows)
    if not is_ok:
        raise typer.Exit(ExitCode.FAILED)


def read(path: Path, role: Role | None, *, quick: bool) -> tuple[Member, Any]:
    """Read a configuration.

    Args:
        path: the file.
        role: role of the member; None: its fields tell.
        quick: whether no model may be used that loads a numeric library.

    Returns:
        What the light checks need, and the whole model; None where it was not read.

    Raises:
        SettingsError: it cannot be used.
    """
    whose = role_of(path) if role is None else role
    settings: Any = None
    if whose is Role.COORDINATOR:
        from coordinator.config import CoordinatorConfig

        settings = CoordinatorConfig.load(path)
    elif whose is Role.ANALYST:
        from analyst.connection import ClientConfig

        settings = ClientConfig.load(path)
    elif not quick and whose is Role.PARTY:
        from party.config import load_party_config

        settings = load_party_config(path)
    elif not quick:
        from device.config import DeviceConfig

        settings = DeviceConfig.load(path)
    return read_member(path, whose), settings


def examine(member: Member, settings: Any, timeout_s: float) -> list[Check]:
    """Make all checks of a member.

    Args:
        member: member whose configuration it is.
        settings: settings that `read` returns.
        timeout_s: seconds for each other member.
    """
    checks = [*check_files(member), *check_certificates(member), *check_connections(member, timeout_s)]
    if settings is None:
        return checks
    if member.role is Role.COORDINATOR:
        jobs = check_store(settings.store, "jobs") if settings.database is None else check_database(settings)
        checks += [jobs]
        if settings.survey_path is not None:
            checks += [check_store(settings.survey_path, "surveys")]
    elif member.role is Role.PARTY:
        checks += [*check_ledger(settings), *_check_reload(settings.data_dir)]
        if settings.tables:
            from cli.doctor.tables import check_tables

            checks += check_tables(settings)
    elif member.role is Role.DEVICE:
        from cli.doctor.records import check_device

        checks += check_device(settings)
    return checks


def _check_reload(folder: Path) -> list[Check]:
    """Say that the service refused to read its files again, and so goes on with earlier ones."""
    from service.trust.changes import last_refusal

    if (refusal := last_refusal(folder)) is None:
        return []
    found = f"the service has refused to read its files again and goes on with those of before ({refusal})"
    return [warning("reload", found, "Correct what it names and send the service SIGHUP, or restart it.")]


def _print(checks: Sequence[Check]) -> None:
    """Print a table that a terminal of 40 columns can show: outcome on the left, all else wrapped beside it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        told = Text.assemble((check.name, "bold"), f": {check.found}")
        if check.fix:
            told.append(f"\n-> {check.fix}")
        table.add_row(Text(str(check.outcome), COLOURS[check.outcome]), told)
    console = Console(highlight=False, emoji=False, markup=False)
    console.print(table)
    counts = Counter(check.outcome for check in checks)
    words = {outcome: f"{outcome}" for outcome in Outcome}
    if counts[Outcome.WARNING] != 1:
        words[Outcome.WARNING] += "s"
    console.print(", ".join(f"{counts[outcome]} {word}" for outcome, word in words.items()))


def _print_matrix(rows: "Sequence[Row]") -> None:
    """Print a row per member that dials and a column per member that is dialled, then all that is not well."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("from, to", *(row.name for row in rows), "version", "protocol", box=None, pad_edge=False)
    for row in rows:
        cells = [
            Text("") if other.name == row.name
            else Text(_cell(row.checks[other.name]), COLOURS[row.checks[other.name].outcome])
            if other.name in row.checks
            else Text("not asked", "dim")
            for other in rows
        ]  # fmt: skip
        table.add_row(row.name, *cells, row.version, str(row.protocol or "?"))
    console = Console(highlight=False, emoji=False, markup=False)
    console.print(table)
    for row in rows:
        for check in row.checks.values():
            if check.fix:
                told = Text.assemble((f"{row.name}, {check.name}", "bold"), f": {check.found}\n-> {check.fix}")
                console.print(told)


def _cell(check: Check) -> str:
    """Return how an attempt ended; where all is well, by which relay it went, and the time of a round trip."""
    words = [str(check.outcome)]
    if check.outcome is Outcome.OK:
        words += [f"by {relay}" for relay in re.findall(r" by relay (\S+) at ", check.found)]
        words += re.findall(r"round trip (\d+ ms)", check.found)
    return " ".join(words)
