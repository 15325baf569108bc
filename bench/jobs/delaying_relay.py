"""TCP relays that deliver everything later, put between the services of a deployment, and record who waits for whom.

Every pair of a service and one that it dials has a relay of its own, so that it is known whose bytes they are. All of
them run in one thread of this process, and share a `Chain`: bytes that leave a service have the depth of the
deepest ones that have reached it before, and one more. The depth of the last ones is the longest chain of messages,
those of TCP's users only: TLS, HTTP/2 and calls. Each link of it took one delay at least.
"""

import asyncio
import contextlib
import threading
from collections import defaultdict
from dataclasses import dataclass, field

from demo.local_deployment import COORDINATOR_NAME, LocalDeployment
from demo.loopback import loopback_addresses

PIECE_BYTES = 1 << 16
START_S = 60.0


@dataclass
class Chain:
    """How deep the chain of messages is that has reached each service."""

    reached: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    n_bytes: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def leave(self, sender: str, receiver: str, n_bytes: int) -> int:
        """Record bytes that leave; return their depth."""
        self.n_bytes[sender, receiver] += n_bytes
        return self.reached[sender] + 1

    def arrive(self, receiver: str, depth: int) -> None:
        """Record bytes that have arrived."""
        self.reached[receiver] = max(self.reached[receiver], depth)

    @property
    def depth(self) -> int:
        """Of the longest chain so far."""
        return max(self.reached.values(), default=0)


class DelayingRelays:
    """The relays of one deployment; a context manager. `put_between` rewrites its configurations.

    Args:
        delay_s: from the arrival of bytes at a relay to their delivery, in each direction.
    """

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.chain = Chain()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)

    def __enter__(self) -> "DelayingRelays":
        self._thread.start()
        return self

    def __exit__(self, *of_error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(START_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def put_between(self, deployment: LocalDeployment) -> None:
        """Let each service dial the others through relays; it listens where it did, and the analyst dials directly."""
        services = (*deployment.tables, COORDINATOR_NAME)
        pairs = [(a, b) for a in services for b in (*services, *deployment.relays) if a != b]
        ports = loopback_addresses([f"{a} {b}" for a, b in pairs])
        for dialer, dialed in pairs:
            address = ports[f"{dialer} {dialed}"]
            path = deployment.config_path(dialer)
            path.write_text(path.read_text().replace(f'"{deployment.addresses[dialed]}"', f'"{address}"'))
            serving = self._serve(address, dialer, dialed, deployment.addresses[dialed])
            asyncio.run_coroutine_threadsafe(serving, self._loop).result(START_S)

    async def _serve(self, address: str, dialer: str, dialed: str, target: str) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError), contextlib.closing(writer):
                onward_reader, onward_writer = await asyncio.open_connection(*_host_and_port(target))
                with contextlib.closing(onward_writer):
                    there = self._carry(reader, onward_writer, dialer, dialed)
                    back = self._carry(onward_reader, writer, dialed, dialer)
                    await asyncio.gather(there, back)

        self._servers.append(await asyncio.start_server(connected, *_host_and_port(address)))

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sender: str, receiver: str
    ) -> None:
        """Deliver what one end sends, later and in order, until it ends its side."""
        on_the_way: asyncio.Queue[tuple[float, int, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due_s, depth, piece = await on_the_way.get()
                await asyncio.sleep(due_s - self._loop.time())
                if not piece:
                    writer.write_eof()
                    return
                self.chain.arrive(receiver, depth)
                writer.write(piece)
                await writer.drain()

        async def take() -> None:
            piece = b"."
            while piece:
                piece = await reader.read(PIECE_BYTES)
                depth = self.chain.leave(sender, receiver, len(piece)) if piece else 0
                on_the_way.put_nowait((self._loop.time() + self.delay_s, depth, piece))

        await asyncio.gather(take(), deliver())

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        mine = asyncio.current_task()
        while tasks := [task for task in asyncio.all_tasks() if task is not mine]:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _host_and_port(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)
