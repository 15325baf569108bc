"""Bytes that a process sends through its TCP connections: TLS, HTTP/2 and frames included, headers of IP and TCP not.

The kernel counts them per socket (TCP_INFO); here they are read of another process' sockets. Linux 5.6 and later only.
"""

import ctypes
import os
import socket
import struct
from collections.abc import Mapping

_PIDFD_GETFD = 438
_INFO_BYTES = 256
_BYTES_SENT = 200
"""Where tcpi_bytes_sent stands in struct tcp_info."""


def bytes_by_socket(pid: int) -> dict[str, int]:
    """Return what went out through each open TCP connection of a process, by the name of the socket.

    Raises:
        PermissionError: it is not ours to look at; some containers forbid it for any but the own process.
        OSError: there is no such process.
    """
    counted = {}
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            try:
                name = os.readlink(f"/proc/{pid}/fd/{number}")
            except FileNotFoundError:  # closed meanwhile
                continue
            if not name.startswith("socket:"):
                continue
            copy = os.dup(int(number)) if pid == os.getpid() else libc.syscall(_PIDFD_GETFD, process, int(number), 0)
            if copy < 0:
                if ctypes.get_errno() == 9:  # EBADF: closed meanwhile
                    continue
                raise OSError(ctypes.get_errno(), f"the sockets of process {pid} cannot be read")
            with socket.socket(fileno=copy) as same:
                if same.family in (socket.AF_INET, socket.AF_INET6) and same.type == socket.SOCK_STREAM:
                    information = same.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
                    (counted[name],) = struct.unpack_from("=Q", information, _BYTES_SENT)
    finally:
        os.close(process)
    return counted


def sent_between(before: Mapping[str, int], after: Mapping[str, int]) -> int:
    """Return the bytes sent between two counts; what connections sent that were closed in between is missing."""
    return sum(count - before.get(name, 0) for name, count in after.items())
