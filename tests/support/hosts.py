"""Hosts of a network on one machine: network namespaces that a bridge joins. A user needs no more rights than usual."""

import contextlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from child_processes import child_environ

UNTIL_TOLD = ["sh", "-c", "echo ready; exec cat"]
"""Keeps a namespace until its input closes, which it does when this process ends, however."""


class Hosts:
    """Starts on entering the context; ends what runs on its hosts, then the hosts, on leaving.

    Args:
        addresses: name of a host to its address, or to several in networks of 24 bits (64 of IPv6). There are no routes
            beyond: hosts in different networks do not reach each other, though one line joins them.
    """

    def __init__(self, addresses: Mapping[str, str | Sequence[str]]) -> None:
        self.addresses = {name: (at,) if isinstance(at, str) else tuple(at) for name, at in addresses.items()}
        self._keepers: dict[str, subprocess.Popen[str]] = {}
        self._switch: subprocess.Popen[str] | None = None
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.callback(self._end)
            self._switch = _keeper(["unshare", "--user", "--map-root-user", "--net"])
            self._ip(self._switch, "link add switch type bridge", "link set switch up")
            for number, (name, own) in enumerate(self.addresses.items()):
                inside = ["nsenter", "--preserve-credentials", "--user", f"--target={self._switch.pid}"]
                keeper = self._keepers[name] = _keeper([*inside, "unshare", "--net"])
                line = f"port{number}"
                self._ip(
                    self._switch,
                    f"link add {line} type veth peer name eth0 netns {keeper.pid}",
                    f"link set {line} master switch",
                    f"link set {line} up",
                )
                lines = [f"{one}/64 dev eth0 nodad" if ":" in one else f"{one}/24 dev eth0" for one in own]
                self._ip(keeper, *(f"address add {one}" for one in lines), "link set eth0 up", "link set lo up")
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def on(self, name: str) -> list[str]:
        """Return what to put before a command so that it runs on a host."""
        return _within(self._keepers[name])

    def start(self, name: str, folder: Path, arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a command of Moiety on a host; it ends with the hosts."""
        command = [*self.on(name), sys.executable, "-m", "cli.main", *arguments]
        with log.open("wb") as file:
            process = subprocess.Popen(command, cwd=folder, stdout=file, stderr=file, env=child_environ())
        self._running.append(process)
        return process

    def run(self, name: str, folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command of Moiety on a host, to its end."""
        command = [*self.on(name), sys.executable, "-m", "cli.main", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=child_environ(), check=False)

    @staticmethod
    def _ip(keeper: "subprocess.Popen[str]", *lines: str) -> None:
        for line in lines:
            subprocess.run([*_within(keeper), "ip", *line.split()], check=True)

    def _end(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.wait()
        for keeper in [*self._keepers.values(), *([self._switch] if self._switch else [])]:
            keeper.communicate()  # closes its input


def are_allowed() -> bool:
    """Return whether this kernel lets its users make such hosts."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError), Hosts({"alone": "10.0.0.1"}):
        return True
    return False


def _keeper(command: Sequence[str]) -> "subprocess.Popen[str]":
    keeper = subprocess.Popen([*command, *UNTIL_TOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if keeper.stdout is None or keeper.stdout.readline() != "ready\n":
        keeper.communicate()
        raise OSError("this kernel gives no network namespaces to its users")
    return keeper


def _within(keeper: "subprocess.Popen[str]") -> list[str]:
    return ["nsenter", "--preserve-credentials", "--user", "--net", f"--target={keeper.pid}"]
