import asyncio
import datetime
import ssl
from contextlib import asynccontextmanager

import pytest
from deadlines import GENEROUS_S
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from page.access import PageError
from page.connections import MAX_CONNECTIONS, MAX_CONNECTIONS_EACH
from page.serving import serving
from service.identity import Role
from service.pki import create_authority, issue
from service.watch.page_config import PageConfig

pytestmark = pytest.mark.real_time


async def hello(request):
    return PlainTextResponse("hello")


async def slow(request):
    await request.app.state.may_end.wait()
    return PlainTextResponse("slow")


async def form(request):
    return PlainTextResponse(await request.body())


ROUTES = [Route("/", hello), Route("/slow", slow), Route("/form", form, methods=["POST"])]
APPLICATION = Starlette(routes=ROUTES)
HALF = (
    b"GET / HTTP/1.1\r\nHost: local",
    b"POST /form HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntok",
    b"",
)


@asynccontextmanager
async def connections(url, n, sends=b""):
    host, _, port = url.rstrip("/").rpartition("//")[2].rpartition(":")
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(n)]
    try:
        for _, writer in opened:
            writer.write(sends)
            await writer.drain()
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def is_ended(reader):
    async with asyncio.timeout(GENEROUS_S):
        try:
            return await reader.read() == b""
        except ConnectionError:
            return True


async def get(url: str, context: ssl.SSLContext | None = None) -> bytes:
    host, _, port = url.rstrip("/").rpartition("//")[2].rpartition(":")
    async with asyncio.timeout(GENEROUS_S):
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    return answer


async def test_a_page_is_served_as_long_as_its_context_lasts():
    async with serving(APPLICATION, PageConfig(listen="127.0.0.1:0")) as url:
        assert url.startswith("http://127.0.0.1:")
        answer = await get(url)
        assert answer.endswith(b"hello")
        assert b"\r\nserver:" not in answer.lower()
    with pytest.raises(OSError, match=r".*"):
        await get(url)


async def test_an_address_that_is_taken_or_of_another_machine_is_said():
    async with serving(APPLICATION, PageConfig(listen="127.0.0.1:0")) as url:
        taken = url.rstrip("/").removeprefix("http://")
        with pytest.raises(PageError, match=f"cannot be served at {taken}: Address already in use"):
            async with serving(APPLICATION, PageConfig(listen=taken)):
                pass


async def test_a_page_with_a_certificate_is_served_by_https_and_one_without_is_warned_of(tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    pair = issue(create_authority("acme", days=2, now=now), Role.PARTY, "bank", days=1, now=now)
    certificate, key, token = tmp_path / "page.pem", tmp_path / "page.key", tmp_path / "token"
    certificate.write_bytes(pair.certificate_pem)
    key.write_bytes(pair.key_pem)
    with_tls = PageConfig(listen="0.0.0.0:0", token_file=token, certificate=certificate, key=key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with capture_logs() as logs:
        async with serving(APPLICATION, with_tls) as url:
            assert url.startswith("https://")
            assert (await get(url.replace("0.0.0.0", "127.0.0.1"), context)).endswith(b"hello")
        assert [line["log_level"] for line in logs] == ["info"]
        async with serving(APPLICATION, PageConfig(listen="0.0.0.0:0", token_file=token)):
            pass
    assert logs[-1]["event"].startswith("the page is served without TLS")
    key.write_bytes(b"no key")
    with pytest.raises(PageError, match="cannot be served"):
        async with serving(APPLICATION, with_tls):
            pass


@pytest.mark.parametrize("half", HALF, ids=["a header", "a body", "nothing"])
async def test_half_sent_requests_keep_nobody_out(half):
    async with (
        serving(APPLICATION, PageConfig(listen="127.0.0.1:0")) as url,
        connections(url, MAX_CONNECTIONS + 6, half) as opened,
    ):
        for _ in range(3):
            assert (await get(url)).startswith(b"HTTP/1.1 200")
        assert await is_ended(opened[0][0]), "the oldest makes room"


@pytest.mark.parametrize("half", HALF, ids=["a header", "a body", "nothing"])
async def test_a_request_that_does_not_arrive_in_time_is_broken_off(half, monkeypatch):
    """However often a byte of it comes."""
    monkeypatch.setattr("page.connections.REQUEST_S", 0.5)
    async with (
        serving(APPLICATION, PageConfig(listen="127.0.0.1:0")) as url,
        connections(url, 1, half) as [(reader, writer)],
    ):
        ended = asyncio.create_task(is_ended(reader))
        while not ended.done():
            writer.write(b"x" if half else b"")
            await asyncio.sleep(0.05)
        assert await ended


async def test_who_is_being_answered_is_not_broken_off(monkeypatch):
    monkeypatch.setattr("page.connections.REQUEST_S", 0.2)
    APPLICATION.state.may_end = asyncio.Event()
    request = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with (
        serving(APPLICATION, PageConfig(listen="127.0.0.1:0")) as url,
        connections(url, 1, request) as [(reader, _)],
        connections(url, MAX_CONNECTIONS + 6),
    ):
        await asyncio.sleep(0.4)
        APPLICATION.state.may_end.set()
        async with asyncio.timeout(GENEROUS_S):
            assert (await reader.read()).endswith(b"slow")


async def test_one_address_of_another_machine_has_fewer_connections_than_all(monkeypatch):
    monkeypatch.setattr("page.connections.is_loopback", lambda host: False)
    async with (
        serving(APPLICATION, PageConfig(listen="127.0.0.1:0")) as url,
        connections(url, MAX_CONNECTIONS_EACH + 1, HALF[0]) as opened,
    ):
        assert await is_ended(opened[0][0])
        assert (await get(url)).startswith(b"HTTP/1.1 200")
