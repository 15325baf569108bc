"""Processes that read files of tables (`party.tables.sources.apart`), forked from one that has imported what they need.

They run the same code with the same pipes and limits, 0.5 s of a processor sooner each. All tests of a process and the
services that they fork (`forked_services.py`) share one that forks.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from functools import cache
from types import SimpleNamespace

from own_processes import kept_until_the_run_ends

from party.tables.sources import apart

SERVER = """
import json, os, select, socket, sys, time
from party.tables.sources import apart_main, file_query, columnar_file
from party.tables.sources.sql import delta_table, duckdb_table
listening = socket.socket(fileno=int(sys.argv[1]))
while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:  # which closes with the run
    asked, _ = listening.accept()
    request, ends, _, _ = socket.recv_fds(asked, 1 << 20, 2)
    if request and (child := os.fork()) == 0:
        place = json.loads(request)
        os.chdir(place["cwd"])
        os.environ.clear()
        os.environ.update(place["environ"])
        time.tzset()
        for end, own in zip(ends, (0, 1), strict=True):
            os.dup2(end, own)
            os.close(end)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        asked.close()
        listening.close()
        apart_main.main()
    for end in ends:
        os.close(end)
    if request:
        asked.send(str(child).encode())
    asked.close()
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
"""


@cache
def fork_server() -> str:
    """Start the process that forks, once; return where it listens, which only who knows the name can find."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    address = f"\0moiety readers {uuid.uuid4().hex}"
    listening.bind(address)
    listening.listen(128)
    command = [sys.executable, "-c", SERVER, str(listening.fileno())]
    with listening, kept_until_the_run_ends():
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listening.fileno()])
    process.returncode = 0  # nobody waits for it: it ends after us
    _servers.append(process)
    return address


_servers: list[subprocess.Popen[bytes]] = []
"""Their pipes stay open as long as this process lives."""


class ForkedReader:
    """What `subprocess.Popen` is to `party.tables.sources.apart`."""

    def __init__(self, address: str) -> None:
        (read, self._in), (self._out, write) = os.pipe(), os.pipe()
        request = json.dumps({"cwd": os.getcwd(), "environ": dict(os.environ)}).encode()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:  # of its own: others ask at the same time
            asked.connect(address)
            socket.send_fds(asked, [request], [read, write])
            pid = int(asked.recv(32))
        os.close(read)
        os.close(write)
        self.stdin, self.stdout = os.fdopen(self._in, "wb"), os.fdopen(self._out, "rb")
        self._ended = None
        with contextlib.suppress(ProcessLookupError):
            self._ended = os.pidfd_open(pid)

    def kill(self) -> None:
        if self._ended is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._ended, signal.SIGKILL)

    def __enter__(self) -> "ForkedReader":
        return self

    def __exit__(self, *error: object) -> None:
        self.stdout.close()
        with contextlib.suppress(OSError):
            self.stdin.close()
        if self._ended is not None:
            os.close(self._ended)


def fork_readers(address: str = "") -> None:
    """Let readers of files be forked from now on, from a process that another one has started or from our own."""
    new = SimpleNamespace(Popen=lambda *_, **__: ForkedReader(address or fork_server()), PIPE=None, DEVNULL=None)
    apart.subprocess = new  # type: ignore[attr-defined]
