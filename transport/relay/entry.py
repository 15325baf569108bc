"""Local entries to ways by relays: a socket of this machine to which gRPC's channels dial as if the peer were there.

It is an abstract Unix socket, which only processes of this user may use. Each connection to it becomes a way to the
peer by the first relay that has one. So gRPC's own TLS runs from end to end, and it connects anew as on a direct way.
"""

import asyncio
import os
import secrets
import socket
import struct
import time
from contextlib import suppress

from service.codes.coded_text import told
from service.identity import Identity
from service.reach.entry_faults import note_fault
from service.reach.relays import ASK_S, ByRelays, Endpoint, RelayError, RelayPoint, open_way, together
from service.tls import Credentials
from transport.relay.splice import DIALLERS, Splice, join

DOUBTED_S = 30.0
"""Seconds for which a relay that failed is asked after the others."""


class Entry:
    """The entry to one peer.

    Args:
        way: relays that may have a way to it.
        peer: member to reach.
        credentials: ours.
    """

    def __init__(self, way: ByRelays, peer: Identity, credentials: Credentials) -> None:
        self.way, self.peer, self.credentials = way, Endpoint(peer, way.endpoint), credentials
        self._doubted_until_s: dict[RelayPoint, float] = {}
        self._name = f"moiety-{secrets.token_hex(16)}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"\0{self._name}")
        self._listener.listen()
        self._listener.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._splices: set[Splice] = set()
        self._keep(self._loop.create_task(self._accept()))

    @property
    def target(self) -> str:
        """Where a channel dials."""
        return f"unix-abstract:{self._name}"

    def close(self) -> None:
        """Take no more connections; those that stand go on. From any thread, and also after the loop's end."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._listener.close()
        note_fault(self._name, "")

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        while True:
            local, _ = await self._loop.sock_accept(self._listener)
            if _user_of(local) != os.geteuid():
                local.close()
                continue
            self._keep(self._loop.create_task(self._open(local)))

    async def _open(self, local: socket.socket) -> None:
        faults: list[RelayError] = []
        for relay in self._in_order():
            try:
                way = await self._loop.run_in_executor(DIALLERS, open_way, relay, self.peer, self.credentials, ASK_S)
            except RelayError as error:
                self._doubted_until_s[relay] = time.monotonic() + DOUBTED_S
                faults.append(error)
                continue
            except BaseException:
                local.close()
                raise
            self._doubted_until_s.pop(relay, None)
            note_fault(self._name, "")
            await join(local, way, self._splices)
            return
        note_fault(self._name, told(together(faults)))
        local.close()

    def _in_order(self) -> list[RelayPoint]:
        now = time.monotonic()
        return sorted(self.way.relays, key=lambda relay: self._doubted_until_s.get(relay, 0.0) > now)


def _user_of(local: socket.socket) -> int:
    """Return the number of the user whose process is at the other end of a Unix socket."""
    found = local.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", found)[1])
