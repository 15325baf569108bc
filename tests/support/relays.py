"""An address that moves: a relay of TCP connections, which is led to another service as one moves a virtual address."""

import contextlib
import socket
import threading


class Relay:
    """Listens at an address, and joins each connection with one to the service that it leads to.

    Args:
        address: host:port to listen at.
        to: host:port of the first service.
    """

    def __init__(self, address, to):
        self._to = to
        self._pairs = []
        self._lock = threading.Lock()
        host, _, port = address.rpartition(":")
        self._listener = socket.create_server((host, int(port)))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def lead_to(self, to):
        """Lead to another service from now on; connections that stand are cut, as at a host that knows none of them."""
        with self._lock:
            self._to, pairs, self._pairs = to, self._pairs, []
        for pair in pairs:
            cut(pair)

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.lead_to(self._to)

    def _accept(self):
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                to = self._to
            host, _, port = to.rpartition(":")
            try:
                service = socket.create_connection((host, int(port)))
            except OSError:
                caller.close()
                continue
            with self._lock:
                self._pairs.append((caller, service))
            for one, other in ((caller, service), (service, caller)):
                threading.Thread(target=copy, args=(one, other), daemon=True).start()


def copy(one, other):
    with contextlib.suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
    cut((one, other))


def cut(pair):
    for one in pair:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
