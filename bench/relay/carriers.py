"""Processor time per GB of three ways to carry the bytes of a way by a relay.

    python -m bench.relay.carriers

A source, a relay and a sink are processes of their own on loopback; one stream of 1 GiB of random bytes goes through.

* `outer TLS kept`: both connections of the relay stay in TLS, beside the TLS of the members within.
* `outer TLS ended`: the connections are plain by then, as ours are once both ends have proved who they are.
* `gRPC stream`: the relay answers a stream of messages of 448 KiB by TLS and sends them on by another one.

Prints JSON: processor seconds per GB (10^9 bytes) of each process.
"""

import asyncio
import json
import multiprocessing
import os
import resource
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import grpc
import uvloop

from demo.loopback import write_certificates
from service.identity import Identity, Role
from service.tls import Credentials, load_credentials

N_BYTES = 1 << 30
PIECE_BYTES = 1 << 16
CHUNK_BYTES = 448 << 10
METHOD = "/bench.Carrier/Carry"
OWN = Identity("bench", Role.PARTY, "relay")
OPTIONS = (("grpc.ssl_target_name_override", OWN.dns_name), ("grpc.max_receive_message_length", 1 << 20))


def used_s() -> float:
    """Return the processor seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def contexts(own: Credentials) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return what it takes to serve and to dial by TLS."""
    assert own.files is not None, "they were loaded from files"
    both = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in both:
        context.load_cert_chain(*own.files)
        context.load_verify_locations(cadata=own.authority_pem.decode())
    return both


class _Joined(asyncio.Protocol):
    """One of two joined TLS connections."""

    def __init__(self) -> None:
        self.other: _Joined | None = None
        self.transport: Any = None
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=PIECE_BYTES)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()
        if not self.ended.done():
            self.ended.set_result(None)


async def relay_streams(own: Credentials, told: "Queue[Any]", port: int, *, is_tls: bool) -> None:
    """Forward one connection."""
    loop = asyncio.get_running_loop()
    serving, dialling = contexts(own) if is_tls else (None, None)
    done = loop.create_future()

    class _Incoming(_Joined):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.pause_reading()
            self.task = loop.create_task(self.dial())

        async def dial(self) -> None:
            name = OWN.dns_name if dialling else None
            _, self.other = await loop.create_connection(_Joined, "127.0.0.1", port, ssl=dialling, server_hostname=name)
            self.other.other = self
            self.transport.resume_reading()
            await self.ended
            done.set_result(None)

    listener = await loop.create_server(_Incoming, "127.0.0.1", 0, ssl=serving)
    told.put(listener.sockets[0].getsockname()[1])
    await done


async def sink_streams(own: Credentials, told: "Queue[Any]", port: int, *, is_tls: bool) -> None:
    """Take one connection's bytes."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    class _Sink(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            ended.set_result(None)

    listener = await loop.create_server(_Sink, "127.0.0.1", 0, ssl=contexts(own)[0] if is_tls else None)
    told.put(listener.sockets[0].getsockname()[1])
    await ended


async def send_streams(own: Credentials, port: int, *, is_tls: bool) -> None:
    """Send all bytes by one connection."""
    context, name = (contexts(own)[1], OWN.dns_name) if is_tls else (None, None)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    piece = os.urandom(PIECE_BYTES)
    for _ in range(N_BYTES // PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def serve_calls(own: Credentials, told: "Queue[Any]", port: int) -> None:
    """Serve one call: forward it to a port, or take its bytes where that is 0."""
    done = asyncio.get_running_loop().create_future()

    async def carry(messages: AsyncIterator[bytes], context: Any) -> bytes:
        if not port:
            async for _ in messages:
                pass
        else:
            async with grpc.aio.secure_channel(f"127.0.0.1:{port}", own.for_channel(), options=OPTIONS) as channel:
                await channel.stream_unary(METHOD)(messages)
        asyncio.get_running_loop().call_later(0.1, done.set_result, None)
        return b""

    server = grpc.aio.server(options=OPTIONS)
    handler = grpc.method_handlers_generic_handler(
        "bench.Carrier", {"Carry": grpc.stream_unary_rpc_method_handler(carry)}
    )
    server.add_generic_rpc_handlers((handler,))
    told.put(server.add_secure_port("127.0.0.1:0", own.for_server(lambda: None)))
    await server.start()
    await done
    await server.stop(0)


async def send_calls(own: Credentials, port: int) -> None:
    """Send all bytes by one call."""

    async def messages() -> AsyncIterator[bytes]:
        chunk = os.urandom(CHUNK_BYTES)
        for _ in range(N_BYTES // CHUNK_BYTES):
            yield chunk

    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", own.for_channel(), options=OPTIONS) as channel:
        await channel.stream_unary(METHOD)(messages())


def be(serve: Callable[..., Any], folder: str, told: "Queue[Any]", *arguments: Any, **how: Any) -> None:
    """Be one of the processes: tell a port, or nothing, and at last the processor seconds of the work."""
    own = _own(folder)
    before_s = used_s()
    uvloop.run(serve(own, *([told] if told is not None else []), *arguments, **how))
    sys.stdout.flush()
    if told is not None:
        told.put(used_s() - before_s)


def _own(folder: str) -> Credentials:
    at = Path(folder)
    return load_credentials(authority=at / "ca.pem", certificate=at / "relay.pem", key=at / "relay.key")


def measure(folder: str, serve_last: Any, relay: Any, send: Any, **how: Any) -> dict[str, float]:
    """Return the processor seconds per GB of source, relay and sink."""
    of_sink: Queue[Any] = multiprocessing.Queue()
    of_relay: Queue[Any] = multiprocessing.Queue()
    sink = multiprocessing.Process(target=be, args=(serve_last, folder, of_sink, 0), kwargs=how)
    sink.start()
    between = multiprocessing.Process(target=be, args=(relay, folder, of_relay, of_sink.get()), kwargs=how)
    between.start()
    before_s, own = used_s(), _own(folder)
    uvloop.run(send(own, of_relay.get(), **how))
    source_s = used_s() - before_s
    per_gb = 1e9 / N_BYTES
    found = {"source": source_s * per_gb, "relay": of_relay.get() * per_gb, "sink": of_sink.get() * per_gb}
    between.join()
    sink.join()
    return found


def main() -> None:
    """Run the measurement and print it."""
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        write_certificates(Path(folder), "bench", [(Role.PARTY, "relay")])
        streams = (sink_streams, relay_streams, send_streams)
        found = {
            "outer TLS kept": measure(folder, *streams, is_tls=True),
            "outer TLS ended": measure(folder, *streams, is_tls=False),
            "gRPC stream": measure(folder, serve_calls, serve_calls, send_calls),
        }
    json.dump(found, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
