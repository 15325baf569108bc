"""Proxies of a configuration in this process: the environment beside them, a slow one, one that cuts."""

import asyncio
import contextlib
import dataclasses
import shutil
import socket
import subprocess
import time

import grpc
import pytest
from certificates import authority_in
from connect_proxy import ConnectProxy
from deadlines import GENEROUS_S
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from relayed import Relayed
from squid import Squid, needs_squid

from demo.ports import free_row_of_ports
from service.authorization import Permissions
from service.errors import error_from_call
from service.identity import Role
from service.reach.proxy import Proxy
from service.reach.relays import ByRelays, RelayPoint
from service.server import Server
from transport.calls.channel import CHANNEL_OPTIONS, check_certificate, open_channel
from transport.calls.way import wait_until_reachable

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
USUAL_CUT_S = 60.0
"""Seconds after which proxies and load balancers cut idle connections, by default."""

CUT_S = 25.0
"""Shorter than is usual, and longer than a member keeps silent."""


@contextlib.asynccontextmanager
async def member(folder):
    """Yield the address of a bank that serves its health, its identity, and credentials of a clinic."""
    issue = authority_in(folder, "acme")
    bank, clinic = (issue(Role.PARTY, name) for name in ("bank", "clinic"))
    server = Server(bank, Permissions("acme", {}), [])
    port = await server.start("127.0.0.1:0")
    try:
        yield f"127.0.0.1:{port}", bank.identity, clinic
    finally:
        await server.stop(0)


def through(credentials, address, **fields):
    return dataclasses.replace(credentials, proxy=Proxy(address, **fields))


@pytest.mark.parametrize("variable", ["no_proxy", "no_grpc_proxy", "NO_PROXY", "https_proxy", "grpc_proxy"])
async def test_no_variable_of_the_environment_changes_the_way_through_the_proxy(tmp_path, monkeypatch, variable):
    monkeypatch.setenv(variable, "127.0.0.1" if variable.lower().startswith("no") else "http://127.0.0.1:9")
    with ConnectProxy() as proxy:
        async with (
            member(tmp_path) as (address, bank, clinic),
            open_channel(address, bank, through(clinic, proxy.address)) as channel,
        ):
            await wait_until_reachable(channel, peer="bank", address=address, deadline_s=GENEROUS_S)
            assert await check_certificate(channel)
    assert proxy.asked == [address, address]  # the channel, and the look at the certificate


async def test_a_member_of_the_own_network_is_dialled_without_the_proxy(tmp_path):
    with ConnectProxy() as proxy:
        async with (
            member(tmp_path) as (address, bank, clinic),
            open_channel(address, bank, through(clinic, proxy.address, direct=("127.0.0.0/8",))) as channel,
        ):
            await wait_until_reachable(channel, peer="bank", address=address, deadline_s=GENEROUS_S)
            assert await check_certificate(channel)
    assert proxy.asked == []


async def test_a_proxy_whose_name_server_answers_late_is_waited_for(tmp_path):
    """Longer than an attempt to connect lasts without a proxy, which is begun anew after 2 s."""
    with ConnectProxy(delay_s=3.5) as proxy:
        async with (
            member(tmp_path) as (address, bank, clinic),
            open_channel(address, bank, through(clinic, proxy.address)) as channel,
        ):
            await wait_until_reachable(channel, peer="bank", address=address, deadline_s=GENEROUS_S)


async def test_a_proxy_that_gives_no_way_is_named_in_the_error_of_a_call(tmp_path):
    async with member(tmp_path) as (address, bank, clinic):
        for at, code in (
            (f"127.0.0.1:{free_row_of_ports(1)}", "proxy-not-reached"),
            ("proxy.invalid:3128", "proxy-unknown"),
        ):
            async with open_channel(address, bank, through(clinic, at)) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await HealthStub(channel).Check(HealthCheckRequest(), timeout=GENEROUS_S)
            assert error_from_call(caught.value, peer="bank", doing="ask").code == code


@pytest.mark.parametrize(("opens_tls", "code"), [(False, "certificate-of-another"), (True, "certificate-not-trusted")])
async def test_a_proxy_that_leads_elsewhere_or_opens_tls_is_noticed_by_tls(tmp_path, opens_tls, code):
    """Another member of the federation, and a bank of a proxy's own authority."""
    (tmp_path / "other").mkdir()
    issue = authority_in(tmp_path / "other", "acme")
    async with member(tmp_path) as (address, bank, clinic):
        shown = issue(Role.PARTY, "bank") if opens_tls else clinic
        elsewhere = Server(shown, Permissions("acme", {}), [])
        port = await elsewhere.start("127.0.0.1:0")
        with ConnectProxy(leads_to=f"127.0.0.1:{port}") as proxy:
            async with open_channel(address, bank, through(clinic, proxy.address)) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await HealthStub(channel).Check(HealthCheckRequest(), timeout=GENEROUS_S)
        await elsewhere.stop(0)
    assert error_from_call(caught.value, peer="bank", doing="ask").code == code
    assert proxy.asked


def test_nobody_keeps_silent_for_half_of_the_time_after_which_idle_connections_are_cut():
    options = dict(CHANNEL_OPTIONS)
    assert options["grpc.keepalive_permit_without_calls"] == 1
    assert options["grpc.keepalive_time_ms"] / 1000 < USUAL_CUT_S / 2


@contextlib.contextmanager
def haproxy(folder, target):
    """A load balancer of TCP that cuts idle connections; yields its address."""
    address = f"127.0.0.1:{free_row_of_ports(1)}"
    path = folder / "haproxy.cfg"
    times = "\n  ".join(f"timeout {what} {CUT_S:g}s" for what in ("client", "server", "tunnel"))
    path.write_text(
        f"defaults\n  mode tcp\n  timeout connect 5s\n  {times}\n"
        f"listen members\n  bind {address}\n  server member {target}\n"
    )
    with subprocess.Popen([HAPROXY, "-db", "-f", str(path)]) as process:
        try:
            yield address
        finally:
            process.terminate()


async def is_cut(address, proxied_to=None):
    """Connect and say nothing; return after how many seconds the connection was closed."""
    reader, writer = await asyncio.open_connection(*address.split(":"))
    if proxied_to is not None:
        writer.write(f"CONNECT {proxied_to} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
    began_s = time.monotonic()
    await reader.read()
    writer.transport.abort()
    return time.monotonic() - began_s


async def stays(address, bank, credentials):
    """Hold a call on which nothing is said for more than twice the time after which idle connections are cut."""
    async with open_channel(address, bank, credentials) as channel:
        call = HealthStub(channel).Watch(HealthCheckRequest())
        assert (await call.read()).status == HealthCheckResponse.SERVING
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5 * CUT_S):
                await call.read()


@pytest.mark.slow
@needs_squid
@pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed: apt-get install haproxy")
async def test_what_cuts_idle_connections_cuts_none_of_ours(tmp_path):
    """Load balancers before a member and before a relay, and a proxy, at the same time; each cuts what is silent."""
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(GENEROUS_S), "127.0.0.1", 0)
    quiet = "{}:{}".format(*silent.sockets[0].getsockname())
    squid = Squid(f"127.0.0.1:{free_row_of_ports(1)}", more=f"read_timeout {CUT_S:g} seconds")
    for name in ("quiet", "relayed"):
        (tmp_path / name).mkdir()
    async with member(tmp_path) as (address, bank, clinic), Relayed(tmp_path / "relayed") as federation:
        hub, relay = await federation.relay()
        with (
            haproxy(tmp_path, address) as balancer,
            haproxy(tmp_path / "quiet", quiet) as other,
            haproxy(tmp_path / "relayed", relay.address) as before_relay,
            squid,
        ):
            for one in (balancer, other, before_relay):
                await listening(one)
            point = RelayPoint(relay.identity, before_relay)
            shop, _ = await federation.party("shop", point)
            since = hub.connected()
            async with asyncio.TaskGroup() as tasks:
                cuts = [tasks.create_task(is_cut(other)), tasks.create_task(is_cut(squid.address, quiet))]
                tasks.create_task(stays(balancer, bank, clinic))
                tasks.create_task(stays(address, bank, through(clinic, squid.address)))
                hall = federation.issue_to(Role.PARTY, "hall")
                tasks.create_task(stays(ByRelays((point,)), shop.identity, hall))
            assert hub.connected() == since
        assert all(CUT_S - 2 < cut.result() < 2.5 * CUT_S for cut in cuts), [cut.result() for cut in cuts]
    silent.close()


async def listening(address):
    async with asyncio.timeout(GENEROUS_S):
        while True:
            with contextlib.suppress(OSError):
                host, port = address.split(":")
                socket.create_connection((host, int(port))).close()
                return
            await asyncio.sleep(0.05)
