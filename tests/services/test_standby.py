"""A coordinator that stands by, over real connections and a real database."""

import asyncio
import os
import signal

import grpc
import pytest
from certificates import authority_in
from deadlines import GENEROUS_S
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from leases import lease_on

from coordinator.leading.standby import Standby
from coordinator.server import PERMITTED
from demo.ports import free_ports
from service.identity import Role
from transport.calls.channel import open_channel


@pytest.fixture
def issue_to(tmp_path):
    return authority_in(tmp_path, "local")


@pytest.fixture
def held(url):
    lease = lease_on(url, "north")
    assert lease.take()
    yield lease
    lease.release()


@pytest.fixture
async def standby(url, issue_to):
    return Standby(
        lease_on(url, "south"),
        lease_s=0.1,  # of its looks: five in it
        credentials=issue_to(Role.COORDINATOR, "coordinator"),
        federation="local",
        permitted=PERMITTED,
    )


@pytest.fixture
def address():
    return f"127.0.0.1:{free_ports(1)[0]}"


async def test_every_call_of_a_coordinator_is_refused_and_its_health_is_that_it_does_not_serve(
    held, standby, address, issue_to
):
    standing = asyncio.create_task(standby.until_leading(address, lambda: None))
    callers = {role: issue_to(role, "caller") for role in (Role.ANALYST, Role.PARTY, Role.DEVICE)}
    for method, roles in PERMITTED.items():
        for role in roles:
            async with open_channel(address, standby.server.credentials.identity, callers[role]) as channel:
                call = channel.stream_stream(method)(timeout=GENEROUS_S, wait_for_ready=True)
                assert await call.code() is grpc.StatusCode.UNAVAILABLE
                assert await call.details() == "this coordinator stands by: north leads [coordinator-stands-by]"
                health = await HealthStub(channel).Check(HealthCheckRequest(), timeout=GENEROUS_S)
                assert health.status == HealthCheckResponse.NOT_SERVING
    held.release()
    assert await standing
    standby._lease.release()


async def test_a_signal_ends_it_also_where_the_lease_becomes_free_at_that_moment(held, standby, address, monkeypatch):
    """Both coordinators are often told to end together: the leader's lease is free just then."""
    standing = asyncio.create_task(standby.until_leading(address, lambda: None))
    stop, is_stopping = standby.server.stop, asyncio.Event()

    async def slowly(grace_s):
        is_stopping.set()
        held.release()
        while standby._lease.term == 0:  # noqa: ASYNC110 -- a thread takes it
            await asyncio.sleep(0.01)
        await stop(grace_s)

    monkeypatch.setattr(standby.server, "stop", slowly)
    while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # noqa: ASYNC110 -- nobody says that it listens
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    assert not await standing
    assert is_stopping.is_set()
    await stop(0.0)


async def test_a_free_lease_is_taken_before_anything_listens(standby, address):
    assert await standby.until_leading(address, lambda: None)
    with pytest.raises(OSError, match="onnect"):
        await asyncio.open_connection(*address.split(":"))
    standby._lease.release()
