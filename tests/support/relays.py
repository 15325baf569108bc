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
        self.address = address
        self._to = to
        self._pairs = []
        self._lock = threading.Lock()
        self._hushed = threading.Event()
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

    def hush(self):
        """Swallow all that comes from now on, and take no connection, as a network that is cut without a word."""
        self._hushed.set()

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
            if self._hushed.is_set():
                continue
            with self._lock:
                to = self._to
            host, _, port = to.rpartition(":")
            try:
                service = socket.create_connection((host, int(port)))
            except OSError:
                caller.close()
                continue
            with self._lock:
                leads_there = self._to == to
                if leads_there:
                    self._pairs.append((caller, service))
            if not leads_there:  # it was moved meanwhile
                cut((caller, service))
                continue
            for one, other in ((caller, service), (service, caller)):
                threading.Thread(target=copy, args=(one, other, self._hushed), daemon=True).start()


def copy(one, other, hushed):
    with contextlib.suppress(OSError):
        while data := one.recv(1 << 16):
            if not hushed.is_set():
                other.sendall(data)
    cut((one, other))


def cut(pair):
    for one in pair:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
