"""Who gets a connection to whom, over real TLS on loopback."""

import asyncio
import datetime
import re

import grpc
import pytest
from deadlines import GENEROUS_S
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from mailbox_federation import running_federation, write_files

from service.authorization import Permissions
from service.errors import UnauthenticatedError, UnreachableError
from service.identity import Identity, Role
from service.pki import create_authority, issue
from service.server import ListenError, Server
from service.tls import Credentials
from transport.calls.channel import open_channel
from transport.calls.way import wait_until_reachable

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
async def federation(tmp_path):
    async with running_federation(tmp_path, 1) as running:
        yield running


@pytest.fixture
def outsider(tmp_path):
    """Credentials of an authority that calls itself acme too."""
    authority = create_authority("acme", days=1, now=NOW)
    pair = issue(authority, Role.PARTY, "party-1", days=1, now=NOW)
    return write_files(tmp_path / "outsider", authority, pair)


async def reach(channel, deadline_s=GENEROUS_S):
    try:
        await wait_until_reachable(channel, peer="bank", address="host:1", deadline_s=deadline_s)
    finally:
        await channel.close()


async def refusal(channel, words):
    """Try until an attempt fails for the reason that is due; on a slow machine the first ones may take too long."""
    async with asyncio.timeout(GENEROUS_S):
        while True:
            with pytest.raises(UnreachableError) as caught:
                await wait_until_reachable(channel, peer="bank", address="host:1", deadline_s=1.0)
            if re.search(words, str(caught.value)):
                return await channel.close()


@pytest.mark.parametrize("role", Role)
async def test_every_member_reaches_a_server_of_its_federation(federation, role):
    await reach(federation.dial(1, federation.issue(role, "someone")))


async def test_a_server_of_another_authority_is_not_trusted(federation, outsider):
    with pytest.raises(UnauthenticatedError, match="another authority signed it"):
        await reach(federation.dial(1, outsider))


async def test_a_client_of_another_authority_is_turned_away(federation, outsider):
    mixed = Credentials(
        outsider.identity, federation.authority.certificate_pem, outsider.certificate_pem, outsider.key_pem, NOW
    )
    await refusal(federation.dial(1, mixed), "it went away, or does not accept our certificate")


async def test_a_client_without_certificate_is_turned_away(federation):
    member = federation.members[1]
    trust = grpc.ssl_channel_credentials(federation.authority.certificate_pem)
    options = (("grpc.ssl_target_name_override", member.identity.dns_name),)
    await refusal(
        grpc.aio.secure_channel(f"127.0.0.1:{member.port}", trust, options=options),
        "it went away, or does not accept our certificate",
    )


@pytest.mark.parametrize(("role", "name"), [(Role.PARTY, "party-2"), (Role.COORDINATOR, "party-1")])
async def test_another_member_at_the_address_is_noticed(federation, role, name):
    member = federation.members[1]
    channel = open_channel(f"127.0.0.1:{member.port}", Identity("acme", role, name), member.credentials)
    await refusal(channel, "the certificate shown there belongs to somebody else")


async def test_an_analyst_cannot_play_a_server(federation):
    analyst = federation.issue(Role.ANALYST, "ann")
    server = Server(analyst, Permissions("acme", {}), [])
    port = await server.start("127.0.0.1:0")
    channel = open_channel(f"127.0.0.1:{port}", analyst.identity, federation.members[1].credentials)
    await refusal(channel, "not for serving")
    await server.stop(0)


async def test_an_expired_client_certificate_is_turned_away(federation, tmp_path):
    past = NOW - datetime.timedelta(days=3)
    authority = federation.authority
    pair = issue(authority, Role.PARTY, "late", days=1, now=past)
    expired = Credentials(
        Identity("acme", Role.PARTY, "late"), authority.certificate_pem, pair.certificate_pem, pair.key_pem, past
    )
    await refusal(federation.dial(1, expired), "does not accept our certificate")


async def test_nothing_at_the_address_is_said_within_the_deadline(federation):
    member = federation.members[1]
    await member.server.stop(0)
    await refusal(federation.dial(1, federation.members[0].credentials), "nothing listens at its address")


async def test_a_server_that_starts_late_is_waited_for(federation):
    member = federation.members[1]
    await member.server.stop(0)
    waiting = asyncio.create_task(reach(federation.dial(1, federation.members[0].credentials), deadline_s=GENEROUS_S))
    await asyncio.sleep(0.5)
    again = Server(member.credentials, Permissions("acme", {}), [])
    await again.start(f"127.0.0.1:{member.port}")
    await waiting
    await again.stop(0)


async def test_something_that_speaks_no_tls_is_named_as_such(federation):
    async def answer(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    plain = await asyncio.start_server(answer, "127.0.0.1", 0)
    member = federation.members[1]
    channel = open_channel(f"127.0.0.1:{plain.sockets[0].getsockname()[1]}", member.identity, member.credentials)
    await refusal(channel, "does not speak TLS")
    plain.close()


async def test_another_federation_is_refused_at_once(federation):
    member = federation.members[1]
    foreign = Server(member.credentials, Permissions("other", {}), [])
    port = await foreign.start("127.0.0.1:0")
    channel = open_channel(f"127.0.0.1:{port}", member.identity, federation.members[0].credentials)
    with pytest.raises(UnauthenticatedError, match=r"bank .*does not belong to federation other"):
        await reach(channel, deadline_s=GENEROUS_S)
    await foreign.stop(0)


async def test_a_taken_port_is_refused(federation):
    member = federation.members[1]
    second = Server(member.credentials, Permissions("acme", {}), [])
    with pytest.raises(
        ListenError,
        match=rf"cannot listen at 127.0.0.1:{member.port}: the port is in use, or the address does not belong to this "
        r"machine",
    ):
        await second.start(f"127.0.0.1:{member.port}")


async def test_a_server_that_stops_and_comes_back_is_waited_for(federation):
    member, answers = federation.members[1], []

    async def check(request, context):
        answers.append(request)
        if len(answers) == 1:
            await context.abort(grpc.StatusCode.CANCELLED)
        return HealthCheckResponse(status=HealthCheckResponse.SERVING)

    handler = grpc.unary_unary_rpc_method_handler(
        check, HealthCheckRequest.FromString, HealthCheckResponse.SerializeToString
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    credentials = member.credentials
    port = server.add_secure_port(
        "127.0.0.1:0",
        grpc.ssl_server_credentials(
            [(credentials.key_pem, credentials.certificate_pem)], credentials.authority_pem, require_client_auth=True
        ),
    )
    await server.start()
    await reach(open_channel(f"127.0.0.1:{port}", member.identity, federation.issue(Role.PARTY, "party-9")))
    assert len(answers) == 2
    await server.stop(0)
