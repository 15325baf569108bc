"""Every command of Moiety that a page shows is one: its name, its arguments and its options exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from cli.main import load_subcommand

REPOSITORY = Path(__file__).parents[3]
PAGES = sorted([*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"])
LINE = re.compile(r"^(?:\.venv/bin/)?moiety (?! |demo)(.+)$", re.MULTILINE)


def shown(text: str) -> list[str]:
    """Return the commands of the blocks of a page, without their comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line.partition("  #")[0] for block in blocks for line in LINE.findall(block)]


def parse(line: str) -> None:
    """Raise what the command line says where there is no such command or option."""
    name, *arguments = shlex.split(line)
    command = load_subcommand(name)
    while hasattr(command, "resolve_command"):
        _, command, arguments = command.resolve_command(typer.Context(command, info_name=name), arguments)
    command.make_parser(typer.Context(command)).parse_args(arguments)


COMMANDS = sorted({line for page in PAGES for line in shown(page.read_text(encoding="utf-8"))})


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_a_page_exists(line):
    parse(line)


def test_there_are_many_of_them():
    assert len(COMMANDS) > 20


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("party serves", "No such command 'serves'"),
        ("budget show --file party.toml", "No such option: --file"),
        ("nothing", "nothing"),
        ("party serve x --now", "No such option: --now"),
    ],
)
def test_a_command_that_does_not_exist_is_found(line, said):
    with pytest.raises(Exception, match=said):
        parse(line)
