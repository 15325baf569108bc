"""A firewall that cuts silent connections: it joins each with one to a service, and resets both ends."""

import contextlib
import select
import socket
import struct
import threading
import time

from relays import cut

LOOK_S = 0.1
"""Seconds between looks at whether it shall cut."""

RESET = struct.pack("ii", 1, 0)


class CutsSilent:
    """Listens at an address, and leads to a service.

    Args:
        address: host:port to listen at.
        leads_to: host:port of the service.

    Attributes:
        silence_s: seconds without a byte in either direction after which a connection is cut; None: it cuts none, as a
            slow machine may be silent for any time where tests expect no cut.
        n_cut: connections cut so far.
    """

    def __init__(self, address: str, leads_to: str) -> None:
        self.address, self.leads_to = address, leads_to
        self.silence_s: float | None = None
        self.n_cut = 0
        host, _, port = address.rpartition(":")
        self._listener = socket.create_server((host, int(port)), backlog=128)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        host, _, port = self.leads_to.rpartition(":")
        try:
            service = socket.create_connection((host, int(port)))
        except OSError:
            caller.close()
            return
        other = {caller: service, service: caller}
        with caller, service, contextlib.suppress(OSError):
            heard_s = time.monotonic()
            while self.silence_s is None or time.monotonic() - heard_s < self.silence_s:
                for one in select.select([caller, service], [], [], LOOK_S)[0]:
                    heard_s = time.monotonic()
                    if not (data := one.recv(1 << 16)):
                        cut((caller, service))
                        return
                    other[one].sendall(data)
            self.n_cut += 1
            for one in other:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
