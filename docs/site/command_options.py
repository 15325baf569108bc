"""The reference of commands, written by typer from the commands themselves."""

import re

import typer
from typer.cli import get_docs_for_click

from cli.main import SUBCOMMANDS, load_subcommand
from cli.terminal.output import EXIT_CODES


def command_reference() -> str:
    """Return a page with every command, its arguments and its options."""
    lines = ["# Commands", "", "Every command prints its part of this with `--help`.", "", EXIT_CODES, ""]
    for name in SUBCOMMANDS:
        command = load_subcommand(name)
        text = get_docs_for_click(obj=command, ctx=typer.Context(command), indent=1, name=name, call_prefix="moiety")
        lines.append(_tidy(text))
    return "\n".join(lines)


def _tidy(text: str) -> str:
    """Leave out what each command repeats, and keep what looks like HTML outside of code as text."""
    text = text.replace(EXIT_CODES, "")
    text = re.sub(r"\* `--help`: .*\n", "", text)
    text = re.sub(r"\*\*Options\*\*:\n+(?=#|\*\*|\Z)", "", text)
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+", "", text)  # each follows under a heading of its own
    parts = re.split(r"(`[^`\n]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)
