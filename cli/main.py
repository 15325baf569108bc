"""The `moiety` command: a table of subcommands, each imported only when it runs, so that `--help` is quick."""

import importlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from cli.terminal.output import EXIT_CODES, ExitCode, coded_anyhow, fail, print_anywhere


class _Subcommand(NamedTuple):
    module: str
    attribute: str  # a typer.Typer, or the function of a single command
    summary: str
    is_hidden: bool = False


SUBCOMMANDS = {
    "demo": _Subcommand("demo.command", "demo_app", "Run a whole federation on this machine, on real data."),
    "new": _Subcommand("cli.federation.new", "new", "Make the folders of a new federation, one for each member."),
    "tables": _Subcommand("cli.tables", "tables", "List the tables that you may ask about."),
    "table": _Subcommand("cli.configuration.table_draft", "table_app", "Write a first section of a party's table."),
    "job": _Subcommand("cli.job", "job_app", "Submit jobs, watch them, read their results."),
    "verify": _Subcommand(
        "cli.checks.verify", "verify", "Check a saved result: signatures, plan, privacy. Contacts nobody."
    ),
    "answer": _Subcommand("cli.answer", "answer", "Ask released second moments again, without further cost."),
    "sql": _Subcommand("cli.sql", "sql", "Show the job that a SELECT over tables of several owners becomes."),
    "ask": _Subcommand("cli.ask", "ask", "Ask devices: a distribution, a sum, a mean, a histogram, a factorization."),
    "questions": _Subcommand("cli.questions", "questions", "List what you have open at devices, or call it off."),
    "party": _Subcommand("cli.serve", "party_app", "Run a party's service beside its data; approve jobs."),
    "budget": _Subcommand("cli.budget", "budget_app", "See and set a party's privacy budgets; check its ledger."),
    "coordinator": _Subcommand("cli.serve", "coordinator_app", "Run the coordinator's service."),
    "relay": _Subcommand("cli.serve", "relay_app", "Run a relay for parties that only dial out."),
    "device": _Subcommand("cli.device", "device_app", "Answer questions as a device that only dials out."),
    "pki": _Subcommand("cli.federation.revoke", "pki_app", "Make the certificates of a federation."),
    "audit": _Subcommand("cli.checks.audit", "audit", "Try to beat the privacy claim of a mechanism."),
    "doctor": _Subcommand("cli.diagnosis", "doctor", "Find out what is wrong with a member, and what to do."),
    "explain": _Subcommand("cli.explain", "explain", "Say what the code at the end of an error means, and what to do."),
    "sum": _Subcommand("cli.ask", "ask", "The earlier name of `ask`.", is_hidden=True),
    "distribution": _Subcommand("cli.distribution", "distribution_app", "Earlier names of `ask`.", is_hidden=True),
    "health": _Subcommand("cli.health", "health", "Say whether a service is serving."),
}


SERVICE_LIBRARIES = frozenset(
    {
        "cffi", "dp_accounting", "jinja2", "numba", "prometheus_client", "rbcl", "starlette", "structlog",
        "threadpoolctl", "uvicorn", "uvloop",
    }
)  # fmt: skip
"""Import names of the libraries of the extra `service`."""

MIN_WIDTH_OF_TABLES = 72
"""Columns of the terminal below which tables of options would cut their names off; help is plain text there."""

_WIDTH = shutil.get_terminal_size().columns
_MARKUP: Literal["rich"] | None = "rich" if _WIDTH >= MIN_WIDTH_OF_TABLES else None
_CONTEXT = {} if _MARKUP else {"terminal_width": _WIDTH - 1}


_UsageError: Any = typer.BadParameter.__base__
"""The errors with which typer refuses options and arguments, before any command has begun."""


@contextmanager
def _coded_usage() -> Iterator[None]:
    """Let errors of usage that typer finds end with the code that those of our own commands have."""
    try:
        yield
    except _UsageError as error:
        told = error.format_message
        error.format_message = lambda: coded_anyhow(told(), ExitCode.USAGE)
        raise


class _LazyGroup(TyperGroup):
    """Shows all subcommands of the table and imports the one that is called."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _coded_usage():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _coded_usage():
                return super().invoke(ctx)
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if library not in SERVICE_LIBRARIES | {"sqlglot"}:
                raise
            extra = "service" if library in SERVICE_LIBRARIES else "sql"
            needed = f"this command needs {error.name}: pip install 'moiety[{extra}]'"
            fail(needed, ExitCode.USAGE, code="extra-not-installed")

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name, one in SUBCOMMANDS.items() if not one.is_hidden]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = SUBCOMMANDS.get(cmd_name)
        return None if entry is None else TyperCommand(cmd_name, help=entry.summary, short_help=entry.summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load_subcommand(name), rest


def load_subcommand(name: str) -> Any:
    """Import a subcommand of the table and return its command object."""
    entry = SUBCOMMANDS[name]
    target = getattr(importlib.import_module(entry.module), entry.attribute)
    if isinstance(target, typer.Typer):
        command: Any = typer.main.get_group(target)  # unlike get_command without the options that install completion
    else:
        single = typer.Typer(add_completion=False)
        single.command()(target)
        command = typer.main.get_command(single)
    command.name = name
    _finish_help(command)
    return command


def _finish_help(command: Any) -> None:
    """Let the help of a command and of those below it fit the terminal, and end with the exit codes if it says none."""
    command.rich_markup_mode = _MARKUP
    if _MARKUP is None:  # a short help of its own is not cut off
        command.short_help = " ".join((command.help or "").split("\n\n")[0].split())
    command.epilog = command.epilog or ("" if "Exit codes:" in (command.help or "") else EXIT_CODES)
    for below in getattr(command, "commands", {}).values():
        _finish_help(below)


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=_MARKUP,
    context_settings=_CONTEXT,
    pretty_exceptions_enable=False,  # its tracebacks may show values
    help="Statistics over columns that several organisations hold, without showing them to anybody.",
)


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"moiety {version('moiety')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    print_anywhere()
    app()


if __name__ == "__main__":
    main()
