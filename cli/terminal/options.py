"""Options that several commands have in common."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal.output import ExitCode, Format, fail

if TYPE_CHECKING:
    from analyses.job.forecast import Wanted

Client = Annotated[
    Path,
    typer.Option("--client", envvar="MOIETY_CLIENT", help="Your client.toml: coordinator, certificate, key."),
]
DEFAULT_CLIENT = Path("client.toml")

OutputFormat = Annotated[Format, typer.Option("--format", help="How the result is printed on standard output.")]

Within = Annotated[
    float | None,
    typer.Option("--within", help="Also say the epsilon for this error: half of a 95 % interval, in a bad case."),
]
Of = Annotated[str, typer.Option("--of", help="Quantity that --within is about: how its name in the forecast begins.")]


def wanted_of(within: float | None, of: str) -> "Wanted | None":
    """Return the error that is wanted, where one is; a wrong one ends the command."""
    from analyses.job.forecast import Wanted
    from analyses.job.job import JobError

    if within is None:
        if of:
            fail("--of names the quantity whose error is wanted, so it needs --within", ExitCode.USAGE)
        return None
    try:
        return Wanted(within, of)
    except JobError as error:
        fail(f"--{error}", ExitCode.USAGE, code=error.code)
