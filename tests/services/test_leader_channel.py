"""Channels to coordinators with several addresses, over real connections: who leads is called, and nobody else."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import grpc
import pytest
from certificates import authority_in
from cryptography import x509
from deadlines import GENEROUS_S
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from coordinator.leading.standby import StandsByError
from demo.ports import free_ports
from service.authorization import Permissions
from service.errors import UnauthenticatedError, UnreachableError
from service.identity import Role
from service.server import Server
from service.trust.revocation import RevocationList
from transport.calls.leader import LeaderChannel, find_leader, is_in_doubt, open_coordinator_channel, wait_for_term
from transport.repeated_calls import RepeatedCalls

TERM = "moiety.term.{}".format
VAIN_S = 2.0
"""So long one waits in vain for what never comes."""


FETCH = "/moiety.v1.Survey/Fetch"


def stands_by_now(caller):
    raise StandsByError("this coordinator stands by: another leads")


def add_fetch(server):
    """Offer the method, whose calls the permissions refuse."""
    handler = grpc.unary_unary_rpc_method_handler(lambda request, context: None)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("moiety.v1.Survey", {"Fetch": handler}),))


class Place:
    """Coordinators of one identity, each at an address of its own, and a member that knows these."""

    def __init__(self, folder, stack):
        self.stack = stack
        self.issue_to = authority_in(folder, "local")
        self.member = self.issue_to(Role.DEVICE, "ann")
        self.certificates = {}

    async def serve(self, address, *, term=0, stands_by=False):
        credentials = self.certificates[address] = self.issue_to(Role.COORDINATOR, "hub")
        permissions = Permissions("local", {FETCH: frozenset({Role.DEVICE})}, {FETCH: stands_by_now})
        server = Server(credentials, permissions, [add_fetch])
        if stands_by:
            await server.stand_by()
        if term:
            await server.lead(term)
        await server.start(address)
        self.stack.push_async_callback(server.stop, 0.0)
        return server

    def channel(self, addresses, *, revoked=()):
        serials = {
            x509.load_pem_x509_certificate(self.certificates[at].certificate_pem).serial_number for at in revoked
        }
        end = self.member.not_valid_after
        own = replace(self.member, revoked=RevocationList(1, frozenset(serials), end))
        channel = open_coordinator_channel(addresses, self.issue_to(Role.COORDINATOR, "hub").identity, own)
        self.stack.push_async_callback(channel.close)
        return channel


@pytest.fixture
async def place(tmp_path):
    async with AsyncExitStack() as stack:
        yield Place(tmp_path, stack)


@pytest.fixture
def addresses():
    return [f"127.0.0.1:{port}" for port in free_ports(2)]


async def knows(channel, term):
    """Say whether whoever is called leads in a term."""
    code = await HealthStub(channel).Check(HealthCheckRequest(service=TERM(term)), timeout=GENEROUS_S).code()
    assert code in (grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND)
    return code is grpc.StatusCode.OK


@pytest.mark.parametrize("leader", [0, 1])
async def test_who_serves_is_called_wherever_it_stands_in_the_list(place, addresses, leader):
    await place.serve(addresses[leader], term=7)
    await place.serve(addresses[1 - leader], stands_by=True)
    channel = place.channel(addresses)
    assert is_in_doubt(channel)
    assert await find_leader(channel)
    assert not is_in_doubt(channel)
    assert await knows(channel, 7)


async def test_one_address_has_the_channel_that_it_always_had(place, addresses):
    await place.serve(addresses[0], stands_by=True)
    channel = place.channel(addresses[:1])
    assert not isinstance(channel, LeaderChannel)
    assert not is_in_doubt(channel)
    assert await find_leader(channel)


async def test_calls_move_when_the_one_that_led_is_gone_and_another_leads(place, addresses):
    before = await place.serve(addresses[0], term=7)
    channel = place.channel(addresses)
    calls = RepeatedCalls("hub", channel, GENEROUS_S)
    stub = HealthStub(channel)
    ask = lambda term: lambda: stub.Check(HealthCheckRequest(service=TERM(term)), timeout=GENEROUS_S)  # noqa: E731
    await calls(ask(7), "ask")
    await before.stop(0.0)
    waiting = asyncio.create_task(calls(ask(8), "ask"))
    await place.serve(addresses[1], term=8)
    await waiting


async def test_who_made_no_call_since_the_leader_went_looks_for_the_next_one_before_the_first(place, addresses):
    before = await place.serve(addresses[0])
    channel = place.channel(addresses)
    await find_leader(channel)
    await before.stop(0.0)
    while not is_in_doubt(channel):  # noqa: ASYNC110 -- gRPC tells nobody that a connection is lost
        await asyncio.sleep(0.01)
    await place.serve(addresses[1], term=8)
    await channel.channel_ready()
    assert await knows(channel, 8)


async def test_a_refusal_of_one_that_stands_by_now_is_heard_although_the_connection_to_it_stands(place, addresses):
    """As where an address is that of a relay, which leads to another coordinator than before."""
    leader = await place.serve(addresses[0])
    channel = place.channel(addresses)
    await find_leader(channel)
    await leader.stand_by()
    refused = channel.unary_unary("/moiety.v1.Survey/None")(b"", timeout=GENEROUS_S)
    assert (await refused.code(), await refused.details()) == (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
    assert not is_in_doubt(channel), "this says nothing of who leads"
    assert await channel.unary_unary(FETCH)(b"", timeout=GENEROUS_S).code() is grpc.StatusCode.UNAVAILABLE
    assert is_in_doubt(channel)
    await place.serve(addresses[1], term=8)
    await channel.channel_ready()
    assert await knows(channel, 8)


async def test_where_none_leads_the_one_that_led_last_says_why(place, addresses):
    for address in addresses:
        await place.serve(address, stands_by=True)
    channel = place.channel(addresses)
    assert not await find_leader(channel)
    assert is_in_doubt(channel)
    with pytest.raises(UnreachableError, match="the address of hub does not lead to the one that leads now"):
        await wait_for_term(channel, lambda: 9, peer="hub", deadline_s=VAIN_S)


async def test_who_waits_for_a_term_leaves_a_leader_that_was_stopped_and_keeps_its_connections(place, addresses):
    await place.serve(addresses[0], term=7)
    channel = place.channel(addresses)
    await wait_for_term(channel, lambda: 7, peer="hub", deadline_s=GENEROUS_S)
    await place.serve(addresses[1], term=8)
    assert not is_in_doubt(channel)
    await wait_for_term(channel, lambda: 8, peer="hub", deadline_s=GENEROUS_S)
    assert await knows(channel, 8)


async def test_a_coordinator_whose_certificate_is_revoked_is_not_called_although_it_serves(place, addresses):
    await place.serve(addresses[0])
    await place.serve(addresses[1], term=8)
    channel = place.channel(addresses, revoked=addresses[:1])
    assert await find_leader(channel)
    assert await knows(channel, 8)


@pytest.mark.parametrize("term", [0, 8])
async def test_where_no_other_serves_its_certificate_is_the_reason(place, addresses, term):
    await place.serve(addresses[0], term=8)
    channel = place.channel(addresses, revoked=addresses[:1])
    with pytest.raises(UnauthenticatedError, match="revoked"):
        await (wait_for_term(channel, lambda: 8, peer="hub", deadline_s=GENEROUS_S) if term else find_leader(channel))


async def test_somebody_else_at_one_of_the_addresses_is_not_called(place, addresses):
    """TLS itself refuses it, as it does where there is one address."""
    other = Server(place.issue_to(Role.COORDINATOR, "another"), Permissions("local", {}), [])
    await other.start(addresses[0])
    place.stack.push_async_callback(other.stop, 0.0)
    channel = place.channel(addresses)
    assert not await find_leader(channel)
    await place.serve(addresses[1], term=8)
    await channel.channel_ready()
    assert await knows(channel, 8)
