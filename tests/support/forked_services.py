"""A local deployment whose services are forked from a process that has imported them, once for all tests.

Each imports for 3 to 4 processor seconds otherwise, and a file of tests starts four or more. What a service does with
its process at its start is tested without (`test_service_process.py`, `test_memory_bounds.py`, the demos).
"""

import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import scipy.linalg
import scipy.special
from child_processes import PROCESSES, run_child, start_the_fork_server
from forked_readers import fork_readers, fork_server

import cli.main
import cli.serve
import coordinator.server
import party.server
from analyses.registry import ANALYSES
from demo.local_deployment import LocalDeployment

IMPORTED = (cli.main, cli.serve, coordinator.server, party.server, *ANALYSES.values(), scipy.linalg, scipy.special)
"""What services import, at the latest for their first job. None of it may need polars, which starts threads when it is
imported: who forks must have none."""


class ForkedService:
    """As much of `subprocess.Popen` as a deployment and its tests use."""

    def __init__(
        self,
        log: Path,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        serve: Callable[..., None] | None = None,
    ) -> None:
        start_the_fork_server()
        work = (fork_server(), serve or serve_in_child, log, module, tuple(arguments), dict(environment))
        self._process = PROCESSES.Process(target=run_child, args=(run_service, work), daemon=True)
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_service(readers: str, serve: Callable[..., None], *arguments: object) -> None:
    fork_readers(readers)
    serve(*arguments)


def serve_in_child(log: Path, module: str, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    """Be the process that `LocalDeployment.launch` starts."""
    os.setsid()
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for descriptor in (1, 2):
        os.dup2(out, descriptor)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


@dataclass
class ForkedDeployment(LocalDeployment):
    """Starts its services in children of the fork server."""

    serves: Mapping[str, Callable[..., None]] = field(default_factory=dict)
    """Name of a service to what runs it instead of `serve_in_child`: a function that can be pickled."""

    def launch(self, name: str, module: str, *arguments: str) -> None:
        # A look at the tables takes a process of its own at each start; its tests ask for it.
        environment = {"MOIETY_PARTY__LOOKS_AT_TABLES": "false", **os.environ, **self.environment}
        serve = self.serves.get(name)
        self.processes[name] = ForkedService(self.log_path(name), module, arguments, environment, serve)  # type: ignore[assignment]
