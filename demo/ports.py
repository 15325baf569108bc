"""Ports of this machine for services that will listen on them later: no two processes get the same one."""

import random
import socket
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack

PORTS = range(20_000, 32_768)
"""Below those that systems give to outgoing connections: one of these could take a port before a service listens."""

KEPT = 200
"""A process keeps the ports that it drew last, and no more: the others' services are over."""

_DRAWS = 1_000

_kept: "deque[tuple[int, socket.socket | None]]" = deque()


def free_ports(n: int) -> list[int]:
    """Return different ports, drawn at random, that nobody listens on and that no other caller was given.

    Configurations name the ports of their services before these listen, and a service that is started again needs the
    same one. On Linux a socket with the port in its name therefore stands for each, until this process ends or has
    drawn `KEPT` others; its name is in no folder.

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
    """Keep the ports, if all of them are free."""
    with ExitStack() as stack:
        try:
            found = [(port, _held(port, stack)) for port in ports]
        except OSError:
            return False
        stack.pop_all()
    _kept.extend(found)
    while len(_kept) > KEPT:
        _, holder = _kept.popleft()
        if holder is not None:
            holder.close()
    return True


def _held(port: int, stack: ExitStack) -> socket.socket | None:
    """Return what stands for a port.

    Raises:
        OSError: it is taken.
    """
    if any(port == other for other, _ in _kept):
        raise OSError
    holder = None
    if sys.platform == "linux":
        holder = stack.enter_context(socket.socket(socket.AF_UNIX))
        holder.bind(f"\0moiety port {port}")
    with socket.socket() as one:
        one.bind(("127.0.0.1", port))
    return holder
