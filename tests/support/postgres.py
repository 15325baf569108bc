"""A throw-away PostgreSQL cluster of a test: own folder, own free port, removed afterwards."""

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo.loopback import loopback_addresses


def find_programs() -> Path:
    """Return the folder of initdb and postgres, the newest version; skips the test aloud where there is none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    found = [path for path in folders if (path / "initdb").exists() and (path / "postgres").exists()]
    if found:
        return found[-1]
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).parent
    pytest.skip("SKIPPED LEDGER IN POSTGRESQL: no initdb; install the package postgresql (Debian) to run these tests")


@contextmanager
def throwaway_cluster(folder: Path) -> Iterator[str]:
    """Yield the URL of an empty database; PostgreSQL does not run as root, so root becomes `postgres` or `nobody`."""
    programs = find_programs()
    pytest.importorskip("psycopg", reason="SKIPPED LEDGER IN POSTGRESQL: psycopg is not installed")
    user = _unprivileged_user()
    data = folder / "cluster"
    data.mkdir(mode=0o700)
    if user is not None:
        os.chown(data, user.pw_uid, user.pw_gid)
        for above in (folder, *folder.parents):
            if above.stat().st_uid == os.getuid() and above != Path("/") and not above.stat().st_mode & 0o001:
                above.chmod(above.stat().st_mode | 0o011)
    identity = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    initdb = [programs / "initdb", "-D", data, "-U", "moiety", "-A", "trust", "--no-locale", "-E", "UTF8", "-N"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=data, **identity)
    port = loopback_addresses(["postgres"])["postgres"].rpartition(":")[2]
    command = [programs / "postgres", "-D", data, "-p", port, "-h", "127.0.0.1", "-k", data]
    log = (folder / "postgres.log").open("wb")
    server = subprocess.Popen(command, stdout=log, stderr=log, cwd=data, **identity)
    try:
        url = f"postgresql://moiety@127.0.0.1:{port}/postgres"
        _wait_until_ready(url, server)
        yield url
    finally:
        server.terminate()
        server.wait(300)
        log.close()


def _unprivileged_user():
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("SKIPPED LEDGER IN POSTGRESQL: no unprivileged user to run it as")


def _wait_until_ready(url: str, server: subprocess.Popen) -> None:
    import psycopg

    deadline = time.monotonic() + 300
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
