"""Terms of coordinators over real connections: a later one shuts out earlier ones, and is found at its address."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest
from certificates import authority_in
from deadlines import GENEROUS_S
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from service.authorization import Permissions
from service.identity import Role
from service.server import Server
from service.trust.terms import service_of_term
from transport.calls.channel import open_channel
from transport.calls.leader import wait_for_term


@pytest.fixture
def issue_to(tmp_path):
    return authority_in(tmp_path, "local")


@asynccontextmanager
async def served(credentials, address="127.0.0.1:0"):
    server = Server(credentials, Permissions("local", {}), [])
    port = await server.start(address)
    try:
        yield server, f"127.0.0.1:{port}"
    finally:
        await server.stop(0.0)


async def call(address, peer, caller, term):
    """Return the status of a call by a coordinator that says a term."""
    async with open_channel(address, peer.identity, caller, term=term) as channel:
        try:
            await HealthStub(channel).Check(HealthCheckRequest(), timeout=GENEROUS_S)
        except grpc.aio.AioRpcError as error:
            return error.code(), error.details()
    return None


async def test_once_a_later_term_has_called_an_earlier_one_is_refused(issue_to):
    party, coordinator = issue_to(Role.PARTY, "bank"), issue_to(Role.COORDINATOR, "coordinator")
    async with served(party) as (server, address):
        for term in (7, 7, 9, 0):  # one without a term has no other beside it
            assert await call(address, party, coordinator, term) is None
        status, text = await call(address, party, coordinator, 8)
        assert status is grpc.StatusCode.FAILED_PRECONDITION
        assert text.endswith("this one no longer leads [coordinator-superseded]")
        assert server.terms.last(coordinator.identity) == 9
        assert await call(address, party, coordinator, 9) is None


async def test_a_term_counts_for_its_own_coordinator_alone(issue_to):
    party = issue_to(Role.PARTY, "bank")
    one, other = issue_to(Role.COORDINATOR, "one"), issue_to(Role.COORDINATOR, "other")
    peer = issue_to(Role.PARTY, "clinic")
    async with served(party) as (server, address):
        for caller, term in ((one, 9), (other, 5), (peer, 9)):
            assert await call(address, party, caller, term) is None
        assert [server.terms.last(who.identity) for who in (one, other, peer)] == [9, 5, 0]


async def test_who_waits_for_a_term_waits_until_the_address_leads_to_it(issue_to):
    coordinator, party = issue_to(Role.COORDINATOR, "coordinator"), issue_to(Role.PARTY, "bank")
    async with served(coordinator) as (before, address):
        await before.lead(5)
        async with open_channel(address, coordinator.identity, party) as channel:
            await wait_for_term(channel, lambda: 5, peer="coordinator", deadline_s=GENEROUS_S)
            waiting = asyncio.create_task(wait_for_term(channel, lambda: 6, peer="coordinator", deadline_s=GENEROUS_S))
            with pytest.raises(grpc.aio.AioRpcError, match="NOT_FOUND"):
                await HealthStub(channel).Check(HealthCheckRequest(service=service_of_term(6)), timeout=GENEROUS_S)
            assert not waiting.done()
            await before.stop(0.0)
            async with served(coordinator, address) as (after, _):
                await after.stand_by()
                await after.lead(6)
                await waiting


async def test_who_waits_for_no_term_asks_nobody():
    await wait_for_term(None, lambda: 0, peer="coordinator", deadline_s=GENEROUS_S)
