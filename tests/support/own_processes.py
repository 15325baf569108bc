"""Every process that a test run starts ends with it, also where the run is killed itself.

A run marks its environment, which all that it starts inherit. What still runs after a test file is killed, and the
file fails. A watcher, who notices the end of the run by the end of a pipe, kills what is left of a killed run.
Users other than root do not see the environment of a service that forbids core files, so for them it is not found.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from functools import cache
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

MARK = "MOIETY_TEST_RUN"
PROC = Path("/proc")
LEAVE_S = 300.0
"""How long a process that has been told to end may take."""

_watchers: list[subprocess.Popen[bytes]] = []
"""Their pipes stay open as long as this process lives."""

WATCHER = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[2])
from own_processes import kept, kill, marked
sys.stdin.buffer.read()  # until the run has ended, however
while left := marked(sys.argv[1]) | marked(kept(sys.argv[1])):
    kill(left)
    time.sleep(0.1)
"""


@cache
def mark_this_run() -> str:
    """Mark what this process starts from now on, and watch over it; return the mark."""
    mark = uuid.uuid4().hex
    if PROC.is_dir():
        command = [sys.executable, "-c", WATCHER, mark, str(Path(__file__).parent)]
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        watcher = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
        watcher.returncode = 0  # nobody waits for it: it ends after us
        _watchers.append(watcher)
    os.environ[MARK] = mark
    return mark


def kept(mark: str) -> str:
    """Return the mark of what may outlive a test file: it ends with the run."""
    return f"{mark} kept"


@contextlib.contextmanager
def kept_until_the_run_ends() -> Iterator[None]:
    """Mark what is started within so that no test file has to end it."""
    before = os.environ[MARK]
    os.environ[MARK] = kept(before)
    try:
        yield
    finally:
        os.environ[MARK] = before


def marked(mark: str) -> dict[int, str]:
    """Return process id and command line of all living processes that a run has started."""
    found = {}
    entry = f"{MARK}={mark}".encode()
    for folder in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if command and int(folder.name) != os.getpid():  # a process that has ended has none
                    found[int(folder.name)] = command.strip()[:300]
    return found


def left_by_tests(mark: str, within_s: float = LEAVE_S) -> dict[int, str]:
    """Return what still runs after some time to end, without the helpers that serve all tests of this process."""
    helpers = {forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid}
    latest_s = time.monotonic() + within_s
    while left := {pid: command for pid, command in marked(mark).items() if pid not in helpers}:
        if time.monotonic() > latest_s:
            break
        time.sleep(0.05)
    return left


def kill(processes: dict[int, str]) -> None:
    """End processes by their ids."""
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
