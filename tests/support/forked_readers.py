"""Processes that read files of tables (`party.tables.sources.apart`), forked from one that has imported what they need.

They run the same code with the same pipes and limits, 0.2 s of a processor sooner each.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from party.tables.sources import apart

SERVER = """
import json, os, signal, socket, sys, time
from party.tables.sources import apart_main, file_query, columnar_file
from party.tables.sources.sql import delta_table, duckdb_table
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
asked = socket.socket(fileno=int(sys.argv[1]))
while True:
    request, ends, _, _ = socket.recv_fds(asked, 1 << 20, 2)
    if not request:
        break
    if (child := os.fork()) == 0:
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
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        apart_main.main()
    for end in ends:
        os.close(end)
    asked.send(str(child).encode())
"""


class ForkServer:
    """Starts with the first reader; ends with the context."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self._socket.close()
            self._process.wait()

    def fork(self, stdin: int, stdout: int) -> int:
        """Fork a reader with the ends of two pipes; return its process id."""
        request = json.dumps({"cwd": os.getcwd(), "environ": dict(os.environ)}).encode()
        with self._one_at_a_time:  # services read in threads; who takes another's id ends another's reader
            if self._process is None:
                self._socket, childs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with childs:
                    command = [sys.executable, "-c", SERVER, str(childs.fileno())]
                    self._process = subprocess.Popen(command, pass_fds=[childs.fileno()])
            socket.send_fds(self._socket, [request], [stdin, stdout])
            return int(self._socket.recv(32))


class ForkedReader:
    """What `subprocess.Popen` is to `party.tables.sources.apart`."""

    def __init__(self, server: ForkServer) -> None:
        (read, self._in), (self._out, write) = os.pipe(), os.pipe()
        pid = server.fork(read, write)
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


@contextlib.contextmanager
def forked_readers() -> Any:
    """Let readers of files be forked from one process."""
    with pytest.MonkeyPatch.context() as patch, ForkServer() as server:
        patch.setattr(
            apart,
            "subprocess",
            SimpleNamespace(Popen=lambda *_, **__: ForkedReader(server), PIPE=None, DEVNULL=None),
        )
        yield
