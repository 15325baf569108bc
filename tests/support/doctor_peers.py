"""Members of a federation that `moiety doctor` can dial, and what else may listen at an address."""

import asyncio
import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deadlines import GENEROUS_S
from forked_services import ForkedService

from service.authorization import Permissions
from service.identity import Role
from service.pki import KeyPair, create_authority, issue
from service.server import Server
from service.tls import load_credentials

LOOPBACK = "127.0.0.1"


def write_pair(pair: KeyPair, certificate: Path, key: Path) -> None:
    """Write a certificate and its key in the place of others."""
    certificate.write_bytes(pair.certificate_pem)
    key.unlink(missing_ok=True)
    key.touch(mode=0o600)
    key.write_bytes(pair.key_pem)


def authority_of(acme: Path) -> KeyPair:
    """Return the authority of a federation that `moiety new` has made."""
    return KeyPair((acme / "authority" / "ca.pem").read_bytes(), (acme / "authority" / "ca.key").read_bytes())


def now(days: int = 0) -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)


def stranger(role: Role, name: str) -> tuple[KeyPair, KeyPair]:
    """Return another authority of the same name, and a member that it has certified."""
    authority = create_authority("acme", days=10, now=now())
    return authority, issue(authority, role, name, days=5, now=now())


@contextlib.contextmanager
def serving(acme: Path, names: Sequence[str], *, is_stopping: bool = False) -> Iterator[list[int]]:
    """Serve as these members and yield their ports: real servers that answer nothing but health."""
    ready, stop = threading.Event(), threading.Event()
    ports = []

    async def serve() -> None:
        servers = []
        for name in names:
            pki = acme / name / "pki"
            credentials = load_credentials(
                authority=pki / "ca.pem", certificate=pki / f"{name}.pem", key=pki / f"{name}.key"
            )
            server = Server(credentials, Permissions("acme", {}), [])
            ports.append(await server.start(f"{LOOPBACK}:0"))
            if is_stopping:
                await server._health.enter_graceful_shutdown()
            servers.append(server)
        ready.set()
        await asyncio.to_thread(stop.wait)
        for server in servers:
            await server.stop(0)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(GENEROUS_S)
        yield ports
    finally:
        stop.set()
        thread.join(GENEROUS_S)


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """Take connections and never say a word."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        yield listener.getsockname()[1]


@contextlib.contextmanager
def closed() -> Iterator[int]:
    """Hold a port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        yield taken.getsockname()[1]


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """Drop every attempt to connect: nobody accepts, and the queue of those that wait is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((LOOPBACK, 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@contextlib.contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """Do something with every connection."""
    with socket.create_server((LOOPBACK, 0)) as listener:

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    answer(connection)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(GENEROUS_S)


def plain_text() -> contextlib.AbstractContextManager[int]:
    """Answer like a web server without TLS."""
    return answering(lambda connection: (connection.recv(99), connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")))


def by_tls(
    folder: Path, pair: KeyPair, *, trusts: bytes | None = None, speaks: Sequence[str] = ()
) -> contextlib.AbstractContextManager[int]:
    """Shake hands by TLS, demand a certificate of an authority where one is given, and end the connection."""
    write_pair(pair, folder / "shown.pem", folder / "shown.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "shown.pem", folder / "shown.key")
    context.set_alpn_protocols(list(speaks))
    if trusts is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=trusts.decode())

    def answer(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as channel:
            channel.recv(1)

    return answering(answer)


@contextlib.contextmanager
def running_members(folder, logs, first_port, parties=("bank", "clinic", "shop")):
    """Run the coordinator and the parties of a folder that `moiety new` made, at ports from `first_port` on.

    Args:
        folder: of the federation.
        logs: where the processes' logs go.
        first_port: of them.
        parties: their names.

    Yields:
        Name to process.
    """
    services = {}
    try:
        for name in (*parties, "coordinator"):
            role = "coordinator" if name == "coordinator" else "party"
            arguments = [role, "serve", "--config", str(folder / name / f"{role}.toml")]
            services[name] = ForkedService(logs / f"{name}.log", "cli.main", arguments, {})
        for port in range(first_port, first_port + 1 + len(parties)):
            while True:
                assert all(service.poll() is None for service in services.values())
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), GENEROUS_S):
                    break
        yield services
    finally:
        for service in services.values():
            service.terminate()
        for service in services.values():
            service.wait(GENEROUS_S)
