"""Connections to other members, opened directly or through a proxy: for threads, and for an event loop."""

import asyncio
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any

from service.reach.addresses import split_address
from service.reach.health_call import remaining_s
from service.reach.proxy import (
    ANSWER_END,
    FAILS,
    MAX_ANSWER_BYTES,
    NOT_REACHED,
    SILENT,
    UNKNOWN,
    Proxy,
    ProxyError,
    note_place,
)


def connect(address: str, proxy: Proxy | None, timeout_s: float) -> socket.socket:
    """Return a connection to an address.

    Args:
        address: host:port.
        proxy: through what, unless it does not lead there; None for nothing.
        timeout_s: seconds for all of it without the resolution of the name, which the system limits.

    Raises:
        ProxyError: the proxy is not reached, or opens no connection.
        OSError: there is no connection, directly.
    """
    if proxy is None or not proxy.leads_to(address):
        return socket.create_connection(split_address(address), timeout_s)
    end_s = time.monotonic() + timeout_s
    plain = _connect_to(proxy, timeout_s)
    try:
        plain.settimeout(remaining_s(end_s))
        plain.sendall(proxy.request(address))
        answer = b""
        while not answer.endswith(ANSWER_END) and len(answer) < MAX_ANSWER_BYTES:
            plain.settimeout(remaining_s(end_s))
            if not (piece := plain.recv(1)):  # what comes after the answer is not for us
                raise ConnectionError
            answer += piece
    except OSError as error:
        plain.close()
        raise _in_between(proxy, error) from error
    try:
        proxy.check_answer(answer, address)
    except ProxyError:
        plain.close()
        raise
    return plain


def _connect_to(proxy: Proxy, timeout_s: float) -> socket.socket:
    host, port = split_address(proxy.address)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _unreached(proxy, error) from error
    last = OSError("it has no address")
    for place in _places(found):
        try:
            return socket.create_connection(place, timeout_s)
        except OSError as error:
            last = error
    raise _unreached(proxy, last) from last


async def open_stream(
    address: str, proxy: Proxy | None, *, context: ssl.SSLContext | None = None, server_name: str | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a stream of bytes to an address and one from it. Who wants a time limit sets it around the call.

    Args:
        address: host:port.
        proxy: through what, unless it does not lead there; None for nothing.
        context: context of TLS with the member at the address; None for none.
        server_name: name by which that member's certificate is known; with a context only.

    Raises:
        ProxyError: the proxy is not reached, or opens no connection.
        OSError: there is no connection, directly; or TLS fails.
    """
    host, port = split_address(address)
    if proxy is None or not proxy.leads_to(address):
        return await asyncio.open_connection(host, port, ssl=context, server_hostname=server_name)
    reader, writer = await _open_to(proxy)
    try:
        try:
            writer.write(proxy.request(address))
            answer = await reader.readuntil(ANSWER_END)
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            raise _in_between(proxy, error) from error
        proxy.check_answer(answer, address)
        if context is not None:
            await writer.start_tls(context, server_hostname=server_name)
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def _open_to(proxy: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = split_address(proxy.address)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _unreached(proxy, error) from error
    last = OSError("it has no address")
    for place in _places(found):
        try:
            return await asyncio.open_connection(*place, limit=MAX_ANSWER_BYTES)
        except OSError as error:
            last = error
    raise _unreached(proxy, last) from last


def _places(found: Sequence[Any]) -> list[tuple[str, int]]:
    """Return the addresses of our proxy that a name server has given, which are known in texts from now on."""
    places = [(str(place[0]), int(place[1])) for _, _, _, _, place in found]
    for host, port in places:
        note_place(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return places


def _unreached(proxy: Proxy, error: OSError) -> ProxyError:
    if isinstance(error, socket.gaierror):
        return ProxyError(UNKNOWN, proxy, error.strerror or "")
    if isinstance(error, TimeoutError):
        return ProxyError(NOT_REACHED, proxy, "no answer at all; packets are dropped on the way")
    return ProxyError(NOT_REACHED, proxy, error.strerror or str(error))


def _in_between(proxy: Proxy, error: Exception) -> ProxyError:
    """Return what an error between request and answer means."""
    if isinstance(error, TimeoutError):
        return ProxyError(SILENT, proxy)
    return ProxyError(FAILS, proxy, "it closes the connection, or its answer does not end")
