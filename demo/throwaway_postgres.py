"""A throw-away PostgreSQL server: own folder, own free port, removed afterwards. For demos and tests."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo.loopback import loopback_addresses

START_TIMEOUT_S = 300.0


class NoPostgresError(RuntimeError):
    """There is no PostgreSQL to start; the text says what to install."""


@contextmanager
def throwaway_cluster(rules: str = "") -> Iterator[str]:
    """Yield the URL of an empty database; PostgreSQL does not run as root, so root becomes `postgres` or `nobody`.

    Its folder is not below that of whoever calls, which may be closed to all other users.

    Args:
        rules: lines of pg_hba.conf before those that trust everybody.

    Raises:
        NoPostgresError: the server, its driver, or a user to run it as is missing.
    """
    programs, user = _programs(), _unprivileged_user()
    identity: dict[str, Any] = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    with tempfile.TemporaryDirectory(prefix="moiety-postgres-", ignore_cleanup_errors=True) as folder:
        data = Path(folder, "cluster")
        data.mkdir(mode=0o700)
        if user is not None:
            os.chown(data, user.pw_uid, user.pw_gid)
            Path(folder).chmod(0o711)
        initdb: list[str | Path] = [
            programs / "initdb",
            "-D",
            data,
            "-U",
            "moiety",
            "-A",
            "trust",
            "--no-locale",
            "-E",
            "UTF8",
            "-N",
        ]
        subprocess.run(initdb, check=True, capture_output=True, cwd=data, **identity)  # noqa: S603 -- as installed
        access = data / "pg_hba.conf"
        access.write_text(rules + access.read_text())
        port = loopback_addresses(["postgres"])["postgres"].rpartition(":")[2]
        command: list[str | Path] = [programs / "postgres", "-D", data, "-p", port, "-h", "127.0.0.1", "-k", data]
        with Path(folder, "postgres.log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=data, **identity)  # noqa: S603 -- likewise
        try:
            url = f"postgresql://moiety@127.0.0.1:{port}/postgres"
            _wait_until_ready(url, server)
            yield url
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: nobody needs what it would still write
            server.wait(START_TIMEOUT_S)


def _programs() -> Path:
    """Return the folder of initdb and postgres, the newest version."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise NoPostgresError("psycopg is not installed; install moiety[postgres]") from None
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    found = [path for path in folders if (path / "initdb").exists() and (path / "postgres").exists()]
    if found:
        return found[-1]
    on_path = shutil.which("initdb")
    if on_path is None:
        raise NoPostgresError("there is no initdb; install the package postgresql (Debian)")
    return Path(on_path).parent


def _unprivileged_user() -> pwd.struct_passwd | None:
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoPostgresError("there is no unprivileged user to run PostgreSQL as")


def _wait_until_ready(url: str, server: "subprocess.Popen[Any]") -> None:
    import psycopg

    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
