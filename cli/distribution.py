"""`moiety distribution`: earlier names of `moiety ask`, for one version more."""

from pathlib import Path
from typing import Annotated

import typer

from cli.ask import Members, ask
from cli.terminal.options import DEFAULT_CLIENT, Client, OutputFormat
from cli.terminal.output import Format
from cli.terminal.plot import Plot

distribution_app = typer.Typer(name="distribution", no_args_is_help=True)
Question = Annotated[Path, typer.Argument(help="TOML file; see examples/survey.toml.")]


@distribution_app.callback()
def _distribution() -> None:
    """Earlier names of `moiety ask`."""


@distribution_app.command("ask")
def ask_survey(
    question: Question, client: Client = DEFAULT_CLIENT, plot: Plot = None, output: OutputFormat = Format.TEXT
) -> None:
    """Use `moiety ask FILE`."""
    ask(question, client=client, plot=plot, output=output)


@distribution_app.command()
def plan(question: Question, members: Members = None, output: OutputFormat = Format.TEXT) -> None:
    """Use `moiety ask FILE --plan`."""
    ask(question, plan=True, members=members, output=output)


@distribution_app.command()
def show(
    survey: Annotated[str, typer.Argument(metavar="SURVEY", help="The identifier that `ask` has printed.")],
    client: Client = DEFAULT_CLIENT,
    plot: Plot = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Use `moiety ask --follow SURVEY`."""
    ask(client=client, follow=survey, plot=plot, output=output)
