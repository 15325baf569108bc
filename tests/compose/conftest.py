"""A federation in containers, made and removed by name."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
IMAGE = "moiety-test"
PARTIES = ("carrier", "host", "monitor")
SERVICES = (*PARTIES, "coordinator")
DEVICES = {"devices-first": ("ann", "ben"), "devices-second": ("cleo", "dan"), "devices-third": ("eve",)}
"""Container to its devices."""

FILES = ("docker-compose.yml", "deploy/compose/devices.yml")

# None of these limits is about how fast a machine is: they end what will never end.
COMMAND_TIMEOUT_S = 900.0
HEALTHY_TIMEOUT_S = 1800.0
BUILD_TIMEOUT_S = 7200.0


def run(*command: str, timeout_s: float = COMMAND_TIMEOUT_S, **options: Any) -> str:
    """Run a command and return its standard output; its failure shows both outputs."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, cwd=REPOSITORY, **options)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def compose_command() -> tuple[str, ...] | None:
    """Return the Compose command of this machine, the plugin or the older program, or None without an engine."""
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], capture_output=True).returncode != 0:
        return None
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        return ("docker", "compose")
    return ("docker-compose",) if shutil.which("docker-compose") else None


@dataclass(frozen=True)
class Federation:
    """A running project of docker-compose.yml with the devices beside it."""

    compose: tuple[str, ...]
    project: str
    port: int
    analyst_folder: Path
    devices: Mapping[str, Sequence[str]] = field(default_factory=lambda: DEVICES)
    files: Sequence[str] = FILES

    @property
    def environment(self) -> dict[str, str]:
        """What the compose file reads, and where the analyst's configuration is overridden."""
        return {
            **os.environ,
            "MOIETY_IMAGE": f"{IMAGE}:local",
            "MOIETY_POSTGRES_IMAGE": f"{IMAGE}:postgres",
            "MOIETY_DATABASE_IMAGE": f"{IMAGE}-database:bookworm",
            "MOIETY_COORDINATOR_PORT": str(self.port),
            "MOIETY_CLIENT__COORDINATOR__ADDRESS": f"127.0.0.1:{self.port}",
        }

    @property
    def client_config(self) -> Path:
        """The analyst's configuration on the host."""
        return self.analyst_folder / "client.toml"

    @property
    def command(self) -> tuple[str, ...]:
        """The beginning of every Compose command."""
        return (*self.compose, *(word for file in self.files for word in ("-f", file)), "--project-name", self.project)

    def call(self, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """Run a Compose command on this project."""
        return run(*self.command, *arguments, timeout_s=timeout_s, env=self.environment)

    def container(self, service: str) -> str:
        """Return the id of a service's container."""
        label = f"label=com.docker.compose.project={self.project}"
        found = run("docker", "ps", "-aq", "--filter", label, "--filter", f"label=com.docker.compose.service={service}")
        return found.split()[0]

    def inspect(self, service: str) -> dict[str, Any]:
        """Return what the engine says of a service's container."""
        return json.loads(run("docker", "inspect", self.container(service)))[0]

    def processor_s(self, service: str) -> float | None:
        """Return the processor seconds of all that ran in a service's container, probes included; None if unknown."""
        container = self.inspect(service)["Id"]
        old = Path("/sys/fs/cgroup/cpuacct/docker") / container / "cpuacct.usage"
        if old.exists():
            return int(old.read_text()) / 1e9
        for path in Path("/sys/fs/cgroup").glob(f"**/*{container}*/cpu.stat"):
            fields = dict(line.split() for line in path.read_text().splitlines())
            if "usage_usec" in fields:
                return int(fields["usage_usec"]) / 1e6
        return None

    def kill(self, service: str) -> None:
        """Send SIGKILL to a service's container."""
        run("docker", "kill", "--signal", "KILL", self.container(service))

    def limit_processor(self, service: str, *, percent: int | None) -> None:
        """Let a service use only so much of one core; None lifts the limit."""
        quota = -1 if percent is None else 1000 * percent  # microseconds per period of 100 ms
        run("docker", "update", "--cpu-quota", str(quota), self.container(service))

    def wait_until_healthy(self, *services: str) -> None:
        """Wait until the health checks pass."""
        deadline = time.monotonic() + HEALTHY_TIMEOUT_S
        for service in services:
            while (status := self.inspect(service)["State"]["Health"]["Status"]) != "healthy":
                if time.monotonic() > deadline:
                    pytest.fail(f"{service} is {status}:\n{self.call('logs', '--tail', '40', service)}")
                time.sleep(0.3)

    def wait_until_devices_are_ready(self, service: str) -> None:
        """Wait until all devices of a container have said that they are ready since its last start."""
        since, deadline = self.inspect(service)["State"]["StartedAt"], time.monotonic() + HEALTHY_TIMEOUT_S
        said = ["docker", "logs", "--since", since, self.container(service)]
        while True:
            done = subprocess.run(said, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
            if (done.stdout + done.stderr).count("member is ready") == len(self.devices[service]):
                return
            if time.monotonic() > deadline:
                pytest.fail(f"{service} is not ready:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
            time.sleep(0.3)

    def fetch_analyst_certificate(self) -> None:
        """Copy the analyst's files from their volume, as deploy/compose/client.toml says."""
        folder = self.analyst_folder / "analyst"
        folder.mkdir()
        unpack = f"tar -C {folder} --no-same-owner -x"
        pack = "run --rm -T --entrypoint tar analyst -C deploy/compose/analyst -c ."
        run("sh", "-c", f"{' '.join(self.command)} {pack} | {unpack}", env=self.environment)
        shutil.copy(REPOSITORY / "deploy/compose/client.toml", self.client_config)

    def submit_from_host(self, job: Path, *options: str) -> str:
        """Submit a job with the command line of this machine."""
        command = [sys.executable, "-m", "cli.main", "job", "submit", str(job), "--client", str(self.client_config)]
        return run(*command, *options, env={**self.environment, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'proto'}"})

    def remove(self) -> None:
        """Remove the project's containers, volumes and networks; what Compose leaves goes one by one."""
        down = [*self.command, "down", "--volumes", "--remove-orphans", "--timeout", "5"]
        subprocess.run(down, cwd=REPOSITORY, env=self.environment, capture_output=True, timeout=COMMAND_TIMEOUT_S)
        for kind, names in self.leftovers().items():
            for name in names:
                force = ["--force"] if kind != "network" else []
                subprocess.run(["docker", kind, "rm", *force, name], capture_output=True, timeout=COMMAND_TIMEOUT_S)

    def leftovers(self) -> dict[str, list[str]]:
        """Return what the engine still has of this project."""
        label = f"label=com.docker.compose.project={self.project}"
        listed = {
            "container": ["docker", "container", "ls", "--all", "--quiet", "--filter", label],
            "volume": ["docker", "volume", "ls", "--quiet", "--filter", label],
            "network": ["docker", "network", "ls", "--quiet", "--filter", label],
        }
        return {kind: run(*command).split() for kind, command in listed.items()}


@pytest.fixture(scope="session")
def compose() -> tuple[str, ...]:
    """The Compose command, once the image of the services is built."""
    found = compose_command()
    if found is None:
        pytest.skip("no Docker engine answers, or there is no Compose command")
    build("image")
    return found


def build(script: str) -> None:
    """Let a script of deploy/without-registry build its images."""
    run(
        f"deploy/without-registry/{script}",
        IMAGE,
        timeout_s=BUILD_TIMEOUT_S,
        env={**os.environ, "PYTHON": sys.executable},
    )


@contextmanager
def started(
    compose: tuple[str, ...], analyst_folder: Path, files: Sequence[str], devices: Mapping[str, Sequence[str]]
) -> Iterator[Federation]:
    """Start a project of some Compose files, wait until it is healthy, and remove it at the end, whatever happened."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    project = f"moietytest{uuid.uuid4().hex[:8]}"
    running = Federation(compose, project, port, analyst_folder, devices, files)
    try:
        running.call("up", "--detach", "--no-build", timeout_s=HEALTHY_TIMEOUT_S)
        running.wait_until_healthy(*SERVICES)
        for service in running.devices:
            running.wait_until_devices_are_ready(service)
        running.fetch_analyst_certificate()
        yield running
    finally:
        running.remove()
    left = {kind: names for kind, names in running.leftovers().items() if names}
    assert left == {}, f"left behind: {left}"


@pytest.fixture(scope="session")
def federation(compose: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """All of docker-compose.yml and the devices."""
    with started(compose, tmp_path_factory.mktemp("analyst"), FILES, DEVICES) as running:
        yield running


@pytest.fixture(scope="module")
def federation_with_database(
    compose: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Federation]:
    """All of docker-compose.yml, with a table of one party in PostgreSQL, in a container beside it."""
    build("postgres-images")
    files = ("docker-compose.yml", "deploy/compose/postgres.yml")
    with started(compose, tmp_path_factory.mktemp("analyst"), files, {}) as running:
        yield running


@pytest.fixture(scope="module")
def federation_that_dials_out(
    compose: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Federation]:
    """All of docker-compose.yml, with parties that accept no connection and are reached by the coordinator's relay."""
    files = ("docker-compose.yml", "deploy/compose/dial-out.yml")
    with started(compose, tmp_path_factory.mktemp("analyst"), files, {}) as running:
        yield running
