"""`moiety explain`: what the code at the end of an error's text means, its likely cause and the fix."""

from dataclasses import asdict
from typing import Annotated

import typer

from cli.terminal.options import OutputFormat
from cli.terminal.output import ExitCode, Format, fail, print_result
from service.codes.explanations import catalogue, explanation_of


def explain(
    code: Annotated[
        str, typer.Argument(help="The words in brackets at the end of an error. Default: list all.", show_default=False)
    ] = "",
    output: OutputFormat = Format.TEXT,
) -> None:
    """Explain the code at the end of an error: what it means, its likely cause, and the fix."""
    if not code:
        groups = catalogue()
        lines = [
            line
            for title, group in groups.items()
            for line in (title, *(f"  {one.code:28} {one.means}" for one in group))
        ]
        print_result(output, [asdict(one) for group in groups.values() for one in group], lines)
        return
    found = explanation_of(code.strip("[]"))
    if found is None:
        fail(f"there is no code {code!r}; `moiety explain` lists all", ExitCode.NOT_FOUND)
    print_result(output, asdict(found), found.lines())
