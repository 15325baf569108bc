"""A proxy that speaks CONNECT in threads of the test, notes whom it was asked for, and may be slow."""

import contextlib
import socket
import threading
import time
from typing import Self

from relays import copy

from service.reach.addresses import split_address


class ConnectProxy:
    """Starts on entering the context.

    Args:
        delay_s: seconds before it connects to whom it was asked for.
        leads_to: host:port to connect to, whomever it was asked for; empty for an honest proxy.
    """

    def __init__(self, delay_s: float = 0.0, leads_to: str = "") -> None:
        self._leads_to = leads_to
        self.asked: list[str] = []
        self._delay_s = delay_s

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError):
            request = b""
            while not request.endswith(b"\r\n\r\n"):
                if not (piece := caller.recv(1)):
                    return
                request += piece
            address = request.split()[1].decode()
            self.asked.append(address)
            time.sleep(self._delay_s)
            member = socket.create_connection(split_address(self._leads_to or address))
            caller.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            for one, other in ((caller, member), (member, caller)):
                threading.Thread(target=copy, args=(one, other, threading.Event()), daemon=True).start()
