"""Dask clusters as real processes: a scheduler and workers, TLS of an authority of their owner's own."""

import datetime
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from service.identity import Role
from service.pki import create_authority, issue

START_S = 300.0
"""Limit for a scheduler to listen: it imports for seconds on a busy machine."""


def cluster_files(folder: Path, owner: str) -> dict[str, str]:
    """Make an authority of the owner's own; return what its client of the cluster needs."""
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority(f"cluster-of-{owner}", days=2, now=now)
    pair = issue(authority, Role.PARTY, owner, days=1, now=now)
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    (folder / "own.pem").write_bytes(pair.certificate_pem)
    key = folder / "own.key"
    key.touch(mode=0o600)
    key.write_bytes(pair.key_pem)
    names = {"authority": "ca.pem", "certificate": "own.pem", "key": "own.key"}
    return {field: str(folder / name) for field, name in names.items()}


class Place(NamedTuple):
    """Where a process of a cluster runs: what stands before its command, and the address of that host."""

    prefix: tuple[str, ...] = ()
    address: str = "127.0.0.1"


class DaskCluster:
    """A scheduler and workers of one owner; ended by their process ids.

    Args:
        folder: new, for certificates, logs and scratch.
        owner: a party.
        n_workers: processes beside the scheduler's.
        places: where the scheduler and then the workers run; by default all on this host.

    Attributes:
        tls: paths of the cluster's authority, and of a certificate and a key of all its members.
        scheduler: the address.
        processes: the scheduler's, then those of the workers.
    """

    def __init__(self, folder: Path, owner: str, n_workers: int = 2, places: Sequence[Place] = ()) -> None:
        folder.mkdir()
        self.folder, self.tls = folder, cluster_files(folder, owner)
        self.processes: list[subprocess.Popen[bytes]] = []
        self._n_workers = n_workers
        self._places = places or [Place()] * (1 + n_workers)
        self.scheduler = ""

    def __enter__(self) -> Self:
        try:
            contact = self.folder / "scheduler.json"
            options = ["--port", "0", "--host", f"tls://{self._places[0].address}", "--no-dashboard"]
            self._start(self._places[0], "dask_scheduler", *options, "--scheduler-file", str(contact))
            latest_s = time.monotonic() + START_S
            while not self.scheduler:
                assert self.processes[0].poll() is None, self.log()
                assert time.monotonic() < latest_s, self.log()
                if contact.exists() and contact.read_text().strip().endswith("}"):
                    self.scheduler = json.loads(contact.read_text())["address"]
                time.sleep(0.05)
            for place in self._places[1:]:
                self._add_worker(place)
            while self.log().count("Register worker") < self._n_workers:
                assert time.monotonic() < latest_s, self.log()
                time.sleep(0.05)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        """The processes of the workers, in the order of their starts."""
        return self.processes[1:]

    def _add_worker(self, place: Place) -> None:
        options = ["--no-nanny", "--no-dashboard", "--nthreads", "1", "--host", place.address]
        folder = ["--local-directory", str(self.folder)]
        self._start(place, "dask_worker", self.scheduler, *options, *folder)

    def _start(self, place: Place, module: str, *options: str) -> None:
        tls = ["--tls-ca-file", self.tls["authority"], "--tls-cert", self.tls["certificate"]]
        program = [*place.prefix, sys.executable, "-m", f"distributed.cli.{module}"]
        command = [*program, *options, *tls, "--tls-key", self.tls["key"]]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes.append(process)

    def log(self) -> str:
        """Return what all of them have said."""
        return (self.folder / "log").read_text()

    def section(self, **fields: Any) -> dict[str, Any]:
        """Return the section `[engine]` that uses this cluster, without the certificate of the party's workers."""
        return {"kind": "dask", "scheduler": self.scheduler, "cluster_tls": self.tls, **fields}
