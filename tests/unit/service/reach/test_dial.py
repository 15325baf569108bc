"""Connections through a proxy, from threads and from an event loop: both say the same of everything that goes wrong."""

import asyncio
import contextlib
import socket
import threading

import pytest
from deadlines import GENEROUS_S

from service.reach.dial import connect, open_stream
from service.reach.proxy import Proxy, ProxyError

ADDRESS = "bank.invalid:7101"
OPENED = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n"


@contextlib.contextmanager
def answering(answer, host="127.0.0.1"):
    """A proxy that answers so to a request, and sends back what comes after it; yields its address and the requests."""
    asked = []
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    caller, _ = listener.accept()
                    with caller:
                        request = b""
                        while not request.endswith(b"\r\n\r\n"):
                            request += caller.recv(1)
                        asked.append(request)
                        if answer is not None:
                            caller.sendall(answer)
                        while data := caller.recv(1000):
                            caller.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        yield f"[{host}]:{port}" if ":" in host else f"{host}:{port}", asked
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def in_a_thread(proxy, timeout_s=GENEROUS_S):
    with connect(ADDRESS, proxy, timeout_s) as plain:
        plain.sendall(b"hello")
        return plain.recv(5)


def in_a_loop(proxy):
    async def run():
        reader, writer = await open_stream(ADDRESS, proxy)
        writer.write(b"hello")
        try:
            return await reader.readexactly(5)
        finally:
            writer.transport.abort()

    return asyncio.run(run())


WAYS = pytest.mark.parametrize("way", [in_a_thread, in_a_loop])


@WAYS
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_proxy_is_asked_for_the_name_and_passes_bytes_on(way, host):
    with answering(OPENED, host) as (address, asked):
        assert way(Proxy(address)) == b"hello"
    assert asked == [f"CONNECT {ADDRESS} HTTP/1.1\r\nHost: {ADDRESS}\r\n\r\n".encode()]


@WAYS
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic\r\n\r\n", "proxy-refuses-us"),
        (b"HTTP/1.1 403 x\r\nContent-Length: 9\r\n\r\nforbidden", "proxy-forbids"),
        (b"HTTP/1.1 503 x\r\n\r\n", "proxy-finds-nobody"),
        (b"x" * (1 << 17), "proxy-fails"),
    ],
)
def test_an_answer_that_is_no_connection_is_an_error_with_a_code(way, answer, code):
    with answering(answer) as (address, _), pytest.raises(ProxyError) as caught:
        way(Proxy(address))
    assert caught.value.code == code


@WAYS
def test_a_proxy_that_is_not_there_or_has_no_address_is_called_that(way):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ProxyError, match=rf"our proxy cannot be reached \(127.0.0.1:{port}") as caught:
        way(Proxy(f"127.0.0.1:{port}"))
    assert caught.value.code == "proxy-not-reached"
    with pytest.raises(ProxyError, match=r"name of our proxy cannot be resolved \(proxy\.invalid:3128") as caught:
        way(Proxy("proxy.invalid:3128"))
    assert caught.value.code == "proxy-unknown"


@WAYS
def test_a_proxy_that_hangs_up_is_not_taken_for_the_member(way):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up():
            caller, _ = listener.accept()
            caller.recv(1000)
            caller.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(ProxyError) as caught:
            way(Proxy(f"127.0.0.1:{listener.getsockname()[1]}"))
        thread.join()
    assert caught.value.code == "proxy-fails"


def test_a_proxy_that_says_nothing_ends_the_attempt_in_time():
    with answering(None) as (address, _), pytest.raises(ProxyError) as caught:
        in_a_thread(Proxy(address), 0.2)
    assert caught.value.code == "proxy-silent"


@WAYS
def test_who_is_to_be_dialled_directly_is(way):
    with answering(OPENED) as (address, asked), pytest.raises(socket.gaierror):
        way(Proxy(address, direct=("bank.invalid",)))
    assert asked == []
