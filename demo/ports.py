"""Ports of this machine for services that will listen on them later: no two processes of a user get the same one."""

import fcntl
import os
import random
import socket
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path

PORTS = range(20_000, 32_768)
"""Below those that systems give to outgoing connections: one of these could take a port before a service listens."""

KEPT = 1_000
"""A process keeps the ports that it drew last, and no more: the others' services are over."""

_DRAWS = 1_000

_kept: deque[int] = deque()
_register: int | None = None


def free_ports(n: int) -> list[int]:
    """Return different ports, drawn at random, that nobody listens on and that no other caller was given.

    Configurations name the ports of their services before these listen, and a service that is started again needs the
    same one. Each port is therefore locked, as a byte of a file, until this process ends or has drawn `KEPT` others.

    Raises:
        OSError: hardly any port is free.
    """
    return [_drawn(1) for _ in range(n)]


def free_row_of_ports(n: int) -> int:
    """Return the first of n ports in a row; see `free_ports`."""
    return _drawn(n)


def _drawn(n: int) -> int:
    firsts = range(PORTS.start, PORTS.stop - n + 1)
    for first in random.SystemRandom().choices(firsts, k=_DRAWS):
        if _take(range(first, first + n)):
            return first
    raise OSError(f"{_DRAWS} ports between {PORTS.start} and {PORTS.stop - 1}, drawn at random, were all taken")


def _take(ports: Sequence[int]) -> bool:
    """Lock the ports, if all of them are free."""
    register, locked = _opened(), []
    try:
        for port in ports:
            if port in _kept:
                raise OSError
            fcntl.lockf(register, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            locked.append(port)
            with socket.socket() as one:
                one.bind(("127.0.0.1", port))
    except OSError:
        for port in locked:
            fcntl.lockf(register, fcntl.LOCK_UN, 1, port)
        return False
    _kept.extend(ports)
    while len(_kept) > KEPT:
        fcntl.lockf(register, fcntl.LOCK_UN, 1, _kept.popleft())
    return True


def _opened() -> int:
    global _register
    if _register is None:
        path = Path(tempfile.gettempdir(), f"moiety-ports-{os.getuid()}")
        _register = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    return _register
