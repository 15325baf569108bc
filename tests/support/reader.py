"""A reader who types what a page of the documentation says, letter by letter."""

import contextlib
import random
import re
import shlex
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deadlines import GENEROUS_S
from forked_services import ForkedService
from typer.testing import CliRunner

from cli.main import app

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Block:
    """A block of code of a page.

    Attributes:
        language: empty for commands.
        text: of all its lines.
    """

    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        """The lines without their comments."""
        return [line.partition("  #")[0].strip() for line in self.text.splitlines()]


def blocks_of(page: str, *, section: str = "") -> list[Block]:
    """Return the blocks of a page, or of its section with a heading, which any other heading ends."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    if section:
        text = re.split(r"^##", text.partition(f"\n{section}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [Block(language, inside) for language, inside in found]


class Reader:
    """Types what a page says, in an empty folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.services: list[ForkedService] = []
        monkeypatch.chdir(folder)
        monkeypatch.delenv("MOIETY_CLIENT", raising=False)

    def types(self, line: str, *more: str, answer: str = "") -> str:
        """Run a line in the current folder; return what a command of Moiety prints."""
        if line.startswith("export "):
            self.monkeypatch.setenv(*line.removeprefix("export ").split("="))
            return ""
        name, *arguments = shlex.split(line)
        if name != "moiety":
            subprocess.run(line, shell=True, check=True)
            return ""
        done = CliRunner().invoke(app, [*arguments, *more], input=answer)
        assert done.exit_code == 0, done.output
        return done.stdout

    def runs(self, program: str) -> dict[str, Any]:
        """Run a program of Python; return its names."""
        named: dict[str, Any] = {}
        exec(program, named)
        return named

    def starts(self, line: str) -> None:
        _, *arguments = shlex.split(line)
        arguments[-1] = str(self.folder / arguments[-1])
        log = self.folder / f"{len(self.services)}-{random.getrandbits(32)}.log"
        self.services.append(ForkedService(log, "cli.main", arguments, {}))

    def loses_the_folder_of(self, number: int, folder: str, line: str) -> None:
        """End a service, delete its folder, and start it again by a line."""
        service = self.services[number]
        service.kill()
        service.wait(GENEROUS_S)
        shutil.rmtree(self.folder / folder)
        self.starts(line)
        self.services[number] = self.services.pop()

    def waits(self, first_port: int) -> None:
        for port in range(first_port, first_port + len(self.services)):
            while True:
                assert all(service.poll() is None for service in self.services), self.logs()
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), GENEROUS_S):
                    break

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("*.log"))

    def leaves(self) -> None:
        for service in self.services:
            service.terminate()
        for service in self.services:
            service.wait(GENEROUS_S)
