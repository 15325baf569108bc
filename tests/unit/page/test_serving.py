import asyncio
import datetime
import ssl

import pytest
from deadlines import GENEROUS_S
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from page.access import PageError
from page.serving import serving
from service.identity import Role
from service.pki import create_authority, issue
from service.watch.page_config import PageConfig

pytestmark = pytest.mark.real_time


async def hello(request):
    return PlainTextResponse("hello")


APPLICATION = Starlette(routes=[Route("/", hello)])


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
