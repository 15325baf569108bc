"""A whole federation on this machine's loopback: real processes, real certificates, free ports, one folder.

The demo, the benchmarks and the service tests start their parties and their coordinator with it.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from demo.loopback import loopback_addresses, tls_files, toml, write_certificates
from service.identity import Role
from service.pki import KeyPair

START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 60.0
COORDINATOR_NAME = "coordinator"
ANALYST_NAME = "analyst"
HUB = "relay of the coordinator"
"""Name of the address at which the coordinator listens as a relay."""


class DeploymentError(RuntimeError):
    """A process did not start; the text holds the end of its log."""


@dataclass(frozen=True)
class LocalRatings:
    """What a table of ratings declares beside the bounds of its column of ratings.

    Attributes:
        user, item, rating: names of its columns.
        items: how many there are, called 0, 1, 2, ...; or their names, or `{"file": path}`.
        users: how many there may be.
        ratings_per_user: about how many a user has.
    """

    user: str
    item: str
    rating: str
    items: Any
    users: int
    ratings_per_user: int


@dataclass(frozen=True)
class LocalTable:
    """A table of one party.

    Attributes:
        name: name that jobs use.
        path: the file.
        bounds: column to (lower, upper).
        rows: the least and the most that it may have; None says nothing of them.
        id_column: name of the id column, if any.
        on_request: columns that only jobs get that name them.
        person_column, most_rows_per_person: whose the rows are, and how many of one person count, if it says so.
        unit: unit of its first budget.
        ratings: what a table of ratings declares; None for a table of rows.
        show_budget: whether the analyst sees what remains of its budget.
        sections: further sections of its configuration as TOML, such as `[tables.columns]`, or `[tables.source]` where
            it has no path.
    """

    name: str
    path: Path | None
    bounds: Mapping[str, tuple[float, float]]
    rows: tuple[int, int] | None
    id_column: str | None = None
    on_request: tuple[str, ...] = ()
    person_column: str | None = None
    most_rows_per_person: int | None = None
    unit: str = "record of the joint table"
    ratings: LocalRatings | None = None
    show_budget: bool = False
    sections: str = ""

    @property
    def usual_bounds(self) -> dict[str, tuple[float, float]]:
        """Bounds of the columns of a job that names none; a table of ratings has no columns to be named."""
        if self.ratings is not None:
            return {}
        return {name: bounds for name, bounds in self.bounds.items() if name not in self.on_request}


def largest_delta(rows: int) -> float:
    """Return a delta that a table of so many rows may have: half of 1 / rows, which it must stay below."""
    return 1 / (2 * rows)


@dataclass
class LocalDeployment:
    """Starts the services on entering the context, ends them by their process ids on leaving.

    Attributes:
        folder: for certificates, configurations, logs, tables' reports; must exist and be empty.
        tables: party name to its tables; a party without tables only computes.
        federation: its name.
        environment: extra environment variables of all processes.
        budget: epsilon and delta of every table: ample, as nobody's data are at stake on one machine. A table with more
            rows than this delta admits has `largest_delta`.
        policy: party to sections of its configuration, for instance `{"policy.limits": {"min_compute_parties": 3}}`;
            by default every job that the budget covers is accepted.
        members: others that get a certificate: devices, and workers of parties.
        sum_members: name to Ed25519 key, hexadecimal, of those that may take part in masked sums.
        dial_out: parties that only dial out; the others reach them by relays.
        relays: names of relays that run as processes of their own. Where there are none and a party only dials out, the
            coordinator relays.
    """

    folder: Path
    tables: Mapping[str, Sequence[LocalTable]]
    federation: str = "local"
    environment: Mapping[str, str] = field(default_factory=dict)
    budget: tuple[float, float] = (10_000.0, 1e-6)
    policy: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    members: Sequence[tuple[Role, str]] = ()
    sum_members: Mapping[str, str] = field(default_factory=dict)
    dial_out: Collection[str] = ()
    relays: Sequence[str] = ()
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)
    addresses: dict[str, str] = field(default_factory=dict, init=False)
    authority: KeyPair = field(init=False, repr=False)

    def __enter__(self) -> Self:
        try:
            self.write_files()
            names = (*self.relays, *self.tables, COORDINATOR_NAME)
            for name in names:
                self.start(name)
            for name in names:
                self.wait_until_ready(name)
            for name in self.dial_out:
                self.wait_until_logged(name, "connected to a relay")
        except BaseException:
            self._stop_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop_all()

    def write_files(self) -> None:
        """Write certificates and configurations, and start nothing."""
        members = [(Role.COORDINATOR, COORDINATOR_NAME), (Role.ANALYST, ANALYST_NAME)]
        members += [*((Role.PARTY, name) for name in self.tables), *self.members]
        members += [(Role.RELAY, name) for name in self.relays]
        self.authority = write_certificates(self.folder, self.federation, members)
        self._write_configurations()

    @property
    def client_config(self) -> Path:
        """The analyst's configuration file, for `moiety job --client`."""
        return self.folder / "client.toml"

    def data_dir(self, party: str) -> Path:
        """Return the folder where a party keeps its local reports."""
        return self.folder / party

    def report(self, party: str, job_id: str, timeout_s: float = STOP_TIMEOUT_S) -> dict[str, Any]:
        """Return what a party noted of a job for itself; it may come a moment after the result.

        Raises:
            DeploymentError: there is none.
        """
        path = self.data_dir(party) / "reports" / f"{job_id}.json"
        deadline = time.monotonic() + timeout_s
        while not path.exists():
            if time.monotonic() > deadline:
                raise DeploymentError(f"{party} wrote no report of job {job_id}")
            time.sleep(0.02)
        report: dict[str, Any] = json.loads(path.read_text())
        return report

    def config_path(self, name: str) -> Path:
        """Return the configuration file of a service."""
        return self.folder / f"{name}.toml"

    def log_path(self, name: str) -> Path:
        """Return the log file of a service."""
        return self.folder / f"{name}.log"

    def start(self, name: str) -> None:
        """Start a service; also again, after it was killed."""
        role = "coordinator" if name == COORDINATOR_NAME else "relay" if name in self.relays else "party"
        self.launch(name, "cli.main", role, "serve", "--config", str(self.config_path(name)))

    def launch(self, name: str, module: str, *arguments: str) -> None:
        """Start the process that serves `name`: our own interpreter with one of our modules."""
        command = [sys.executable, "-m", module, *arguments]
        with self.log_path(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(  # noqa: S603 -- our own interpreter and module
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )

    def wait_until_ready(self, name: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until a service accepts connections.

        Raises:
            DeploymentError: it ended, or did not listen in time.
        """
        host, port = self.addresses[name].rsplit(":", 1)

        def is_listening() -> bool:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1.0):
                return True
            return False

        self._wait_until(name, is_listening, "listen", timeout_s)

    def wait_until_logged(self, name: str, words: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until a process that listens nowhere has logged some words.

        Raises:
            DeploymentError: it ended, or did not log them in time.
        """
        log = self.log_path(name)
        self._wait_until(name, lambda: words in log.read_text(errors="replace"), f"log {words!r}", timeout_s)

    def _wait_until(self, name: str, is_so: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.processes[name].poll() is not None:
                raise DeploymentError(f"{name} ended at its start:\n{self._end_of_log(name)}")
            if is_so():
                return
            time.sleep(0.02)
        raise DeploymentError(f"{name} did not {what} within {timeout_s:g} s:\n{self._end_of_log(name)}")

    def send_signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a service; SIGKILL waits for its end."""
        self.processes[name].send_signal(number)
        if number == signal.SIGKILL:
            self.processes[name].wait()

    def _stop_all(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in self.processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _end_of_log(self, name: str) -> str:
        return self.log_path(name).read_text(errors="replace")[-2000:]

    def _relays(self) -> list[tuple[str, str, str]]:
        """Return name, role and name of the address of each relay."""
        if not self.dial_out:
            return []
        return [(name, "relay", name) for name in self.relays] or [(COORDINATOR_NAME, "coordinator", HUB)]

    def _dialled(self, party: str) -> str:
        return "relay" if party in self.dial_out else self.addresses[party]

    def _write_configurations(self) -> None:
        self.addresses = loopback_addresses((*self.tables, COORDINATOR_NAME, *self.relays, HUB))
        for name in self.relays:
            head = {"name": name, "federation": self.federation, "log_format": "json"}
            listens = {"listen": self.addresses[name]}
            self.config_path(name).write_text(toml(head, {"relay": listens, "tls": tls_files(name)}))
        relays = "".join(
            "\n[[relays]]\n" + toml({"name": name, "role": role, "address": self.addresses[place]})
            for name, role, place in self._relays()
        )
        for name, tables in self.tables.items():
            self.data_dir(name).mkdir()
            head = {
                "name": name,
                "federation": self.federation,
                "listen": self.addresses[name],
                "data_dir": str(self.data_dir(name)),
                "log_format": "json",
                "reach": "dial-out" if name in self.dial_out else "direct",
            }
            sections: dict[str, Mapping[str, Any]] = {
                "tls": tls_files(name),
                "coordinator": {"name": COORDINATOR_NAME, "address": self.addresses[COORDINATOR_NAME]},
                "peers": {peer: self._dialled(peer) for peer in self.tables if peer != name},
                "ledger": {"may_begin": True},
                "policy.automatic": {"max_epsilon_per_job": self.budget[0], "analysts": [ANALYST_NAME]},
                **self.policy.get(name, {}),
            }
            text = toml(head, sections) + relays
            for table in tables:
                ids: dict[str, Any] = {} if table.id_column is None else {"id_column": table.id_column}
                if table.person_column is not None:
                    ids |= {"person_column": table.person_column, "most_rows_per_person": table.most_rows_per_person}
                kind = {} if table.ratings is None else {"kind": "ratings", **asdict(table.ratings)}
                path = {} if table.path is None else {"path": str(table.path)}
                text += "\n[[tables]]\n" + toml({"name": table.name, **path, **kind, **ids})
                rows = {} if table.rows is None else {"rows": list(table.rows)}
                text += toml({**rows, "on_request": list(table.on_request), "show_budget": table.show_budget})
                epsilon, delta = self.budget
                if table.rows is not None:
                    delta = min(delta, largest_delta(table.rows[1]))
                text += "\n[tables.first_budget]\n"
                text += toml({"unit": table.unit, "period": "this deployment", "epsilon": epsilon, "delta": delta})
                text += "\n[tables.bounds]\n"
                text += "".join(f"{json.dumps(c)} = [{low!r}, {high!r}]\n" for c, (low, high) in table.bounds.items())
                text += table.sections
            self.config_path(name).write_text(text)
        head = {
            "name": COORDINATOR_NAME,
            "federation": self.federation,
            "listen": self.addresses[COORDINATOR_NAME],
            "store": str(self.folder / "jobs.sqlite"),
            "log_format": "json",
        }
        sections = {"tls": tls_files(COORDINATOR_NAME), "analysts": {"allowed": [ANALYST_NAME]}}
        if self.dial_out and not self.relays:
            sections["relay"] = {"listen": self.addresses[HUB]}
        text = toml(head, sections) + (relays if self.relays else "")
        for name in self.tables:
            text += "\n[[parties]]\n" + toml({"name": name, "address": self._dialled(name)})
        for name, identity in self.sum_members.items():
            text += "\n[[sum_members]]\n" + toml({"name": name, "identity": identity})
        self.config_path(COORDINATOR_NAME).write_text(text)
        head = {"federation": self.federation}
        coordinator = {"name": COORDINATOR_NAME, "address": self.addresses[COORDINATOR_NAME]}
        self.client_config.write_text(toml(head, {"coordinator": coordinator, "tls": tls_files(ANALYST_NAME)}))
