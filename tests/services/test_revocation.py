"""Revoked certificates on both ends of real connections, and certificates that are renewed while a server runs."""

import asyncio
import datetime
import ssl
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
import pytest
from cryptography import x509
from deadlines import GENEROUS_S
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from service.authorization import Permissions
from service.errors import UnauthenticatedError, error_from_call
from service.identity import Identity, Role
from service.pki import create_authority, issue
from service.server import Server
from service.tls import Credentials, CredentialsError
from service.trust.revocation import RevocationList
from transport.calls.channel import check_certificate, open_channel
from transport.calls.way import wait_until_reachable

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
MOMENT = DAY / 86_400
"""Before or after the end of a certificate by a clock that a test sets."""
AUTHORITY = create_authority("acme", days=9, now=NOW)
BANK, TELCO = Identity("acme", Role.PARTY, "bank"), Identity("acme", Role.PARTY, "telco")


def member(identity: Identity, revoked: RevocationList | None = None) -> Credentials:
    pair = issue(AUTHORITY, identity.role, identity.name, days=1, now=NOW)
    files = (AUTHORITY.certificate_pem, pair.certificate_pem, pair.key_pem)
    return Credentials(identity, *files, NOW + DAY, None, revoked)


def serial_of(credentials: Credentials) -> int:
    return x509.load_pem_x509_certificate(credentials.certificate_pem).serial_number


def revoking(*members: Credentials, number: int = 1, end: datetime.datetime = NOW + DAY) -> RevocationList:
    return RevocationList(number, frozenset(map(serial_of, members)), end)


@asynccontextmanager
async def connected(server_credentials: Credentials, client_credentials: Credentials, **options):
    server = Server(server_credentials, Permissions("acme", {}), [], **options)
    port = await server.start("127.0.0.1:0")
    channel = open_channel(f"127.0.0.1:{port}", server_credentials.identity, client_credentials)
    try:
        yield server, channel, port
    finally:
        await channel.close()
        await server.stop(0)


async def reach(channel) -> None:
    await wait_until_reachable(channel, peer="the server", address="there", deadline_s=GENEROUS_S)


async def test_a_caller_is_refused_at_its_next_call_on_a_connection_that_it_has():
    bank, telco = member(BANK), member(TELCO)
    async with connected(bank, telco) as (server, channel, _):
        await reach(channel)
        server.renew(replace(bank, revoked=revoking(telco)))
        with pytest.raises(UnauthenticatedError, match=r"the certificate of .*telco is revoked"):
            await reach(channel)


async def test_a_call_in_flight_of_a_revoked_caller_is_broken_off_and_those_of_others_go_on():
    bank, telco, shop = member(BANK), member(TELCO), member(Identity("acme", Role.PARTY, "shop"))
    async with (
        connected(bank, telco) as (server, channel, port),
        open_channel(f"127.0.0.1:{port}", BANK, shop) as other,
    ):
        streams = [HealthStub(one).Watch(HealthCheckRequest()) for one in (channel, other)]
        for stream in streams:
            await stream.read()
        server.renew(replace(bank, revoked=revoking(telco)))
        async with asyncio.timeout(GENEROUS_S):
            with pytest.raises(Exception) as caught:  # noqa: PT011 -- grpc's own error
                await streams[0].read()
        error = error_from_call(caught.value, peer="bank", doing="watch")
        assert isinstance(error, UnauthenticatedError)
        assert "telco is revoked" in str(error)
        assert not streams[1].done()
        await reach(other)
        streams[1].cancel()


async def test_a_server_whose_certificate_is_revoked_is_refused_by_its_callers():
    bank = member(BANK)
    async with connected(bank, member(TELCO, revoking(bank))) as (_, channel, _):
        with pytest.raises(UnauthenticatedError, match=r"the certificate of bank .*is revoked"):
            await check_certificate(channel)


async def test_once_a_list_has_expired_nobody_is_accepted_on_either_side():
    expired = revoking(end=NOW - DAY)
    async with connected(member(BANK, expired), member(TELCO)) as (_, channel, _):
        with pytest.raises(UnauthenticatedError, match="nobody is accepted: the revocation list here expired"):
            await reach(channel)
    async with connected(member(BANK), member(TELCO, expired)) as (_, channel, _):
        with pytest.raises(UnauthenticatedError, match="nobody is accepted"):
            await check_certificate(channel)


async def test_a_list_is_replaced_by_newer_ones_only_and_never_forgotten():
    bank, telco = member(BANK), member(TELCO)
    async with connected(replace(bank, revoked=revoking(telco, number=5)), telco) as (server, channel, _):
        with pytest.raises(CredentialsError, match="the revocation list is older than the one in use"):
            server.renew(replace(bank, revoked=revoking(number=4)))
        with pytest.raises(CredentialsError, match="a service forgets it only when it is restarted"):
            server.renew(bank)
        with pytest.raises(CredentialsError, match=r"the new certificate is that of .*telco, not of .*bank"):
            server.renew(replace(telco, revoked=revoking(number=9)))
        with pytest.raises(UnauthenticatedError):
            await reach(channel)
        server.renew(replace(bank, revoked=revoking(number=5)))
        await reach(channel)


async def shown_at(port: int) -> int:
    """Serial number of the certificate that a new connection shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(der).serial_number
    finally:
        writer.transport.abort()


async def test_a_renewed_certificate_is_shown_in_new_connections_and_present_ones_go_on():
    before, after = member(BANK), member(BANK)
    async with connected(before, member(TELCO)) as (server, channel, port):
        await reach(channel)
        stream = HealthStub(channel).Watch(HealthCheckRequest())
        await stream.read()
        assert await shown_at(port) == serial_of(before)
        server.renew(after)
        assert [await shown_at(port) for _ in range(3)] == [serial_of(after)] * 3
        assert not stream.done()
        await reach(channel)
        stream.cancel()


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime.datetime:
        return self.now


ENDS = {
    "the caller's certificate": (DAY, r"the certificate of .*telco expired on"),
    "the authority's certificate": (2 * DAY, "nobody is accepted: the authority's certificate expired on"),
    "the revocation list": (DAY / 2, "nobody is accepted: the revocation list here expired on"),
}


def trusting(which: str) -> tuple[Credentials, Credentials]:
    """Return a server and a caller, of whom `which` is the first that is not valid any more."""
    authority = create_authority("acme", days=2, now=NOW)
    server, caller = (
        Credentials(one, authority.certificate_pem, pair.certificate_pem, pair.key_pem, NOW + DAY)
        for one in (BANK, TELCO)
        for pair in [issue(authority, one.role, one.name, days=1 if which.startswith("the caller") else 2, now=NOW)]
    )
    return (replace(server, revoked=revoking(end=NOW + DAY / 2)) if "list" in which else server), caller


@pytest.mark.parametrize("which", ENDS)
async def test_a_call_on_an_open_connection_is_refused_once_a_certificate_has_expired(which):
    (end, words), clock = ENDS[which], Clock()
    async with connected(*trusting(which), now=clock) as (_, channel, _):
        await reach(channel)
        clock.now = NOW + end + MOMENT
        with pytest.raises(UnauthenticatedError, match=words):
            await reach(channel)


@pytest.mark.parametrize("which", ENDS)
async def test_a_call_in_flight_ends_when_a_certificate_expires(which):
    (end, words), clock = ENDS[which], Clock()
    async with connected(*trusting(which), now=clock) as (_, channel, _):
        await reach(channel)
        clock.now = NOW + end - 2 * MOMENT
        stream = HealthStub(channel).Watch(HealthCheckRequest())
        await stream.read()
        clock.now = NOW + end + MOMENT
        async with asyncio.timeout(GENEROUS_S):
            with pytest.raises(grpc.aio.AioRpcError, match=words) as caught:
                await stream.read()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_certificate_that_is_not_valid_yet_is_refused():
    clock = Clock()
    async with connected(member(BANK), member(TELCO), now=clock) as (_, channel, _):
        clock.now = NOW - DAY
        with pytest.raises(UnauthenticatedError, match="is valid only from"):
            await reach(channel)


async def test_a_server_whose_certificate_has_expired_is_refused_on_a_connection_that_was_open_before():
    pair = issue(AUTHORITY, BANK.role, BANK.name, days=1, now=NOW - 2 * DAY)
    expired = Credentials(BANK, AUTHORITY.certificate_pem, pair.certificate_pem, pair.key_pem, NOW - DAY)
    async with connected(member(BANK), member(TELCO)) as (server, channel, _):
        await HealthStub(channel).Check(HealthCheckRequest())
        server.renew(expired)
        with pytest.raises(UnauthenticatedError, match=r"the certificate of bank .* expired on"):
            await check_certificate(channel)
