"""`moiety health` against real servers with real certificates on loopback."""

import asyncio
import datetime
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deadlines import GENEROUS_S
from doctor_peers import by_tls, plain_text
from typer.testing import CliRunner

from cli.main import app
from service.authorization import Permissions
from service.identity import Role
from service.pki import KeyPair, create_authority, issue
from service.reach.addresses import dialled
from service.server import Server
from service.tls import load_credentials

PARTY = """
data_dir = "."
peers = { south = "127.0.0.1:2", west = "127.0.0.1:3" }
coordinator = { name = "hub", address = "127.0.0.1:1" }
"""
COORDINATOR = """
store = "jobs.sqlite"
analysts = { allowed = [] }
parties = [{ name = "north", address = "127.0.0.1:1" }]
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority("hospitals", days=1, now=now)
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    for role, name in ((Role.PARTY, "north"), (Role.PARTY, "south"), (Role.COORDINATOR, "hub")):
        pair = issue(authority, role, name, days=1, now=now)
        (tmp_path / f"{name}.pem").write_bytes(pair.certificate_pem)
        (tmp_path / f"{name}.key").touch(mode=0o600)
        (tmp_path / f"{name}.key").write_bytes(pair.key_pem)
    return tmp_path


def configuration(folder: Path, name: str, kind: str, port: int) -> str:
    """Write a service's configuration that listens everywhere, and return its path."""
    path = folder / f"{name}.toml"
    tls = f'[tls]\nauthority = "ca.pem"\ncertificate = "{name}.pem"\nkey = "{name}.key"\n'
    path.write_text(f'name = "{name}"\nfederation = "hospitals"\nlisten = "0.0.0.0:{port}"\n{kind}\n{tls}')
    return str(path)


@contextmanager
def serving(folder: Path, name: str) -> Iterator[int]:
    """Run a server with a member's certificate in another thread and yield its port."""
    ready, stop = threading.Event(), threading.Event()
    ports = []

    async def serve() -> None:
        credentials = load_credentials(
            authority=folder / "ca.pem", certificate=folder / f"{name}.pem", key=folder / f"{name}.key"
        )
        server = Server(credentials, Permissions("hospitals", {}), [])
        ports.append(await server.start("127.0.0.1:0"))
        ready.set()
        await asyncio.to_thread(stop.wait)
        await server.stop(0)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(GENEROUS_S)
        yield ports[0]
    finally:
        stop.set()
        thread.join(GENEROUS_S)


def health(path: str):
    return CliRunner().invoke(app, ["health", "--config", path, "--timeout", "60"])


@pytest.mark.parametrize(("name", "kind"), [("north", PARTY), ("hub", COORDINATOR)])
def test_a_serving_service_is_healthy(folder, name, kind):
    with serving(folder, name) as port:
        result = health(configuration(folder, name, kind, port))
    assert result.exit_code == 0, result.output
    assert f"{name} serves at 127.0.0.1:{port}" in result.output


def test_a_service_that_does_not_listen_is_not_healthy(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        result = health(configuration(folder, "north", PARTY, taken.getsockname()[1]))
    assert result.exit_code == 1
    assert "north" in result.output
    assert "nothing listens at its address [not-serving]" in result.output


def test_something_that_speaks_no_tls_is_named_as_such(folder):
    with plain_text() as port:
        result = health(configuration(folder, "north", PARTY, port))
    assert result.exit_code == 1
    assert "what listens there does not speak TLS [not-serving]" in result.output


def test_a_connection_that_ends_is_told_with_its_causes(folder):
    shown = KeyPair((folder / "north.pem").read_bytes(), (folder / "north.key").read_bytes())
    with by_tls(folder, shown, speaks=["h2"]) as port:
        result = health(configuration(folder, "north", PARTY, port))
    assert result.exit_code == 1
    assert "it closed the connection: it went away, or does not accept our certificate" in result.output


def test_another_member_at_the_address_is_not_healthy(folder):
    with serving(folder, "south") as port:
        result = health(configuration(folder, "north", PARTY, port))
    assert result.exit_code == 1
    assert "belongs to somebody else" in result.output


def test_a_missing_configuration_is_wrong_usage(folder):
    result = health(str(folder / "none.toml"))
    assert result.exit_code == 2
    assert "none.toml" in result.output


@pytest.mark.parametrize(
    ("listen", "address"),
    [("0.0.0.0:7101", "127.0.0.1:7101"), ("[::]:7101", "[::1]:7101"), ("10.1.2.3:80", "10.1.2.3:80")],
)
def test_an_address_for_everywhere_is_dialled_on_the_own_machine(listen, address):
    assert dialled(listen) == address
