"""squid, the HTTP proxy: started in a folder of its own, open or with users and passwords."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest
from deadlines import GENEROUS_S

PROGRAM = shutil.which("squid", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CHECKS_PASSWORDS = "/usr/lib/squid/basic_ncsa_auth"
AS_SOMEBODY = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
"""In a namespace of users that knows root alone, squid cannot give up being root."""

needs_squid = pytest.mark.skipif(PROGRAM is None, reason="squid is not installed: apt-get install squid")


class Squid:
    """Starts on entering the context; listens at `address`, again at the same one after `stop` and `start`.

    Args:
        address: host:port to listen at.
        users: user to password; without any, everybody may use it.
        on_host: what stands before a command so that it runs on a host (`hosts.Hosts.on`).
        more: further lines of its configuration, before it lets anybody in.
    """

    def __init__(
        self, address: str, users: Mapping[str, str] | None = None, *, on_host: Sequence[str] = (), more: str = ""
    ) -> None:
        self.address = address
        self._users = dict(users or {})
        self._before = [*on_host, *(AS_SOMEBODY if on_host else [])]
        self._on_host = list(on_host)
        self._more = more
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="squid-")
        folder = Path(self._folder.name)
        folder.chmod(0o777)  # squid gives up being root
        lines = [
            f"http_port {self.address}",
            "logformat moiety %>a %[un %ru %>Hs",
            f"access_log stdio:{folder}/access.log moiety",
            f"coredump_dir {folder}",
            f"cache_log {folder}/cache.log",
            "logfile_rotate 0",
            "buffered_logs off",
            "pid_filename none",
            "cache deny all",
            "cache_mem 1 MB",
            "shutdown_lifetime 0 seconds",
            "connect_timeout 5 seconds",
            "visible_hostname proxy.example",
            self._more,
        ]
        if self._users:
            words = folder / "passwords"
            words.write_text("".join(f"{user}:{_hashed(word)}\n" for user, word in self._users.items()))
            lines += [
                f"auth_param basic program {CHECKS_PASSWORDS} {words}",
                "auth_param basic children 1 startup=1",
                "acl known proxy_auth REQUIRED",
                "http_access allow known",
                "http_access deny all",
            ]
        else:
            lines.append("http_access allow all")
        (folder / "squid.conf").write_text("\n".join([*lines, ""]))
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._folder.cleanup()

    def start(self) -> None:
        folder = Path(self._folder.name)
        name = f"moiety{secrets.token_hex(8)}"  # also of its shared memory, which two of one name would fight for
        command = [*self._before, str(PROGRAM), "-N", "-n", name, "-f", str(folder / "squid.conf")]
        with (folder / "out").open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)
        end_s = time.monotonic() + GENEROUS_S
        while not self._listens():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < end_s, self.log()
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()  # so that it leaves nothing behind
            self._process.wait(GENEROUS_S)
            self._process = None

    def asked(self) -> set[tuple[str, str, int]]:
        """Return user, host:port and status of each CONNECT that has ended; a line is written when a tunnel ends."""
        path = Path(self._folder.name) / "access.log"
        found = set()
        for line in path.read_text().splitlines() if path.exists() else ():
            _, user, address, status = line.split()
            found.add((user, address, int(status)))
        return found

    def log(self) -> str:
        """Return what squid says of itself."""
        paths = [Path(self._folder.name) / name for name in ("out", "cache.log", "access.log")]
        return "".join(path.read_text() for path in paths if path.exists())

    def _listens(self) -> bool:
        if self._on_host:
            port = self.address.rpartition(":")[2]
            ask = ["sh", "-c", f"ss -Hltn | grep -q ':{port} '"]
            return subprocess.run([*self._on_host, *ask], check=False).returncode == 0
        host, _, port = self.address.rpartition(":")
        with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), 1.0):
            return True
        return False


def _hashed(word: str) -> str:
    done = subprocess.run(
        ["openssl", "passwd", "-apr1", "-stdin"], input=word, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def a_password() -> str:
    """Return a password with characters that a URL or a header could stumble over."""
    return f"{secrets.token_hex(8)}: @/%é"
