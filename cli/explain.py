"""`moiety explain`: what the code at the end of an error's text means, its likely cause and the fix."""

from dataclasses import asdict
from typing import Annotated

import typer

from cli.terminal.options import OutputFormat
from cli.terminal.output import ExitCode, Format, fail, print_json, print_text
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
        if output is Format.JSON:
            print_json([asdict(one) for group in groups.values() for one in group])
            return
        for title, group in groups.items():
            print_text(f"{title}\n" + "\n".join(f"  {one.code:28} {one.means}" for one in group))
        return
    found = explanation_of(code.strip("[]"))
    if found is None:
        fail(f"there is no code {code!r}; `moiety explain` lists all", ExitCode.NOT_FOUND)
    print_json(asdict(found)) if output is Format.JSON else print_text("\n".join(found.lines()))
