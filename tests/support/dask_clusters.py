"""Dask clusters as real processes: a scheduler and workers, TLS of an authority of their owner's own."""

import datetime
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from child_processes import child_environ
from deadlines import GENEROUS_S

from service.identity import Role
from service.pki import create_authority, issue


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


class DaskCluster:
    """A scheduler and workers of one owner; ended by their process ids."""

    def __init__(self, folder: Path, owner: str, n_workers: int = 2) -> None:
        folder.mkdir()
        self.folder, self.tls = folder, cluster_files(folder, owner)
        self.processes: list[subprocess.Popen[bytes]] = []
        self._n_workers = n_workers
        self.scheduler = ""

    def __enter__(self) -> "DaskCluster":
        try:
            contact = self.folder / "scheduler.json"
            options = ["--port", "0", "--host", "tls://127.0.0.1", "--no-dashboard", "--scheduler-file", str(contact)]
            self._start("dask_scheduler", *options)
            latest_s = time.monotonic() + GENEROUS_S
            while not self.scheduler:
                assert self.processes[0].poll() is None, self.log()
                assert time.monotonic() < latest_s, self.log()
                if contact.exists() and contact.read_text().strip().endswith("}"):
                    self.scheduler = json.loads(contact.read_text())["address"]
                time.sleep(0.05)
            for _ in range(self._n_workers):
                self.add_worker()
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
        return self.processes[1:]

    def add_worker(self) -> None:
        """Start one more process of the cluster."""
        options = ["--no-nanny", "--no-dashboard", "--nthreads", "1", "--host", "127.0.0.1"]
        folder = ["--local-directory", str(self.folder)]
        self._start("dask_worker", self.scheduler, *options, *folder)

    def _start(self, module: str, *options: str) -> None:
        tls = ["--tls-ca-file", self.tls["authority"], "--tls-cert", self.tls["certificate"]]
        command = [sys.executable, "-m", f"distributed.cli.{module}", *options, *tls, "--tls-key", self.tls["key"]]
        with (self.folder / "log").open("ab") as log:
            environment = {**child_environ(), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        self.processes.append(process)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def section(self, **fields: object) -> dict:
        """Return the section `[engine]` that uses this cluster, without the certificate of the party's workers."""
        return {"kind": "dask", "scheduler": self.scheduler, "cluster_tls": self.tls, **fields}
