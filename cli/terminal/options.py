"""Options that several commands have in common."""

from pathlib import Path
from typing import Annotated

import typer

from cli.terminal.output import Format

Client = Annotated[
    Path,
    typer.Option("--client", envvar="MOIETY_CLIENT", help="Your client.toml: coordinator, certificate, key."),
]
DEFAULT_CLIENT = Path("client.toml")

OutputFormat = Annotated[Format, typer.Option("--format", help="How the result is printed on standard output.")]
