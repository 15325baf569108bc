"""Flower's SecAgg+ workflow beside our masked sums, in a virtual environment of its own.

`run_services` starts a SuperLink and one SuperNode per member, as Flower's documentation does (its apps are processes
that Flower starts for every message), and submits `flower_app`; `run_in_memory` runs the same app without all that.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.machine import ONE_THREAD
from bench.peers.environment import PROGRAMS, PeerRunError, ensure_environment, run_to_its_end

REQUIREMENTS = ("flwr==1.41.0", "numpy==2.4.6")
APP = PROGRAMS / "flower_app"
START_S = 120.0


def ensure_flower() -> Path:
    """Install Flower where it is not yet; raises as `ensure_environment`."""
    return ensure_environment("flower", REQUIREMENTS) / "bin"


def run_in_memory(n_members: int, n_elements: int, timeout_s: float) -> dict[str, Any]:
    """Run the workflow and its clients in one process; return `seconds` and `largest_error` of the sum.

    Raises:
        PeerRunError: it failed or took too long.
    """
    arguments = ["--members", str(n_members), "--elements", str(n_elements)]
    command = [str(ensure_flower() / "python"), str(APP / "secagg_app.py"), *arguments]
    report: dict[str, Any] = json.loads(run_to_its_end(command, timeout_s).splitlines()[-1])
    return report


def run_services(n_members: int, n_elements: int, timeout_s: float) -> dict[str, Any]:
    """Run the workflow over a SuperLink and SuperNodes on loopback, without TLS; returns as `run_in_memory`.

    Raises:
        PeerRunError: it failed or took too long.
    """
    binaries = ensure_flower()
    with tempfile.TemporaryDirectory(prefix="flower-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        shutil.copytree(APP, folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
        link_port, *node_ports = _free_ports(1 + n_members)
        address = f"127.0.0.1:{link_port}"
        (folder / "home").mkdir()
        config = f'[superlink]\ndefault = "bench"\n\n[superlink.bench]\naddress = "{address}"\ninsecure = true\n'
        (folder / "home" / "config.toml").write_text(config)
        path = folder / "report.json"
        values = f"members={n_members} elements={n_elements} report='{path}'"
        with contextlib.ExitStack() as stack:
            link = ["--insecure", "--disable-runtime-dependency-installation", "--port", str(link_port)]
            stack.enter_context(_service(binaries, folder, "link", "flower-superlink", *link))
            _wait_for(link_port, folder / "link.log")
            for number, port in enumerate(node_ports, start=1):
                node = ["--insecure", "--superlink", address, "--port", str(port), "--node-config", f"member={number}"]
                stack.enter_context(_service(binaries, folder, f"node{number}", "flower-supernode", *node))
            run = ["run", str(folder / "app"), "bench", "--run-config", values, "--stream"]
            stack.enter_context(_service(binaries, folder, "run", "flwr", *run))
            deadline_s = time.monotonic() + START_S + timeout_s
            while not path.exists():
                if time.monotonic() > deadline_s:
                    raise PeerRunError(f"Flower gave no sum:\n{(folder / 'run.log').read_text()[-2000:]}")
                time.sleep(0.1)
            report: dict[str, Any] = json.loads(path.read_text())
            return report


@contextlib.contextmanager
def _service(binaries: Path, folder: Path, name: str, program: str, *arguments: str) -> Iterator[None]:
    """Run one of Flower's programs, and end it with all that it has started."""
    environment = {
        **os.environ,
        **ONE_THREAD,
        "FLWR_HOME": str(folder / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "PATH": f"{binaries}:{os.environ.get('PATH', '')}",
    }
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(binaries / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(port: int, log: Path) -> None:
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        time.sleep(0.05)
    raise PeerRunError(f"Flower's SuperLink does not listen:\n{log.read_text()[-2000:]}")


def _free_ports(n_ports: int) -> list[int]:
    """Return ports that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n_ports)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
