"""Limits of one identity over all of its connections, and that nothing is decoded before a caller may speak."""

import asyncio

import grpc
import pytest
from deadlines import GENEROUS_S
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from mailbox_federation import running_federation
from wire.v1 import aggregation_pb2, batch_pb2, coordinator_pb2, mailbox_pb2, party_pb2, questions_pb2
from wire.v1.coordinator_pb2 import JobRef

from service.authorization import Permissions
from service.errors import NotAllowedError
from service.identity import Role
from service.interceptor import HEARD_EACH
from service.limits import LIMITS, UNLISTED
from service.server import Server
from transport.calls.channel import open_channel

SHOW, WATCH, WAIT, WRITE = (f"/moiety.v1.Test/{name}" for name in ("Show", "Watch", "Wait", "Write"))


class Service:
    """Counts what it decodes; a call of `Wait` stays as long as its caller."""

    def __init__(self):
        self.decoded = []

    def _decode(self, data):
        self.decoded.append(data)
        return JobRef.FromString(data)

    async def show(self, request, context):
        return b""

    async def watch(self, request, context):
        yield b""

    async def wait(self, request, context):
        await asyncio.Event().wait()

    def add_to(self, server):
        methods = {
            "Show": grpc.unary_unary_rpc_method_handler(self.show, request_deserializer=self._decode),
            "Watch": grpc.unary_stream_rpc_method_handler(self.watch, request_deserializer=self._decode),
            "Write": grpc.stream_unary_rpc_method_handler(self.show, request_deserializer=self._decode),
            "Wait": grpc.unary_unary_rpc_method_handler(self.wait, request_deserializer=self._decode),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("moiety.v1.Test", methods),))


def refuse_mallory(caller):
    if caller.name == "mallory":
        raise NotAllowedError("not you")


@pytest.fixture
async def serving(tmp_path):
    """A service, and a function that opens connections to it."""
    async with running_federation(tmp_path, 1) as federation:
        hub, service, channels = federation.members[0], Service(), []
        analysts = dict.fromkeys((SHOW, WATCH, WAIT, WRITE), frozenset({Role.ANALYST}))
        permissions = Permissions("acme", analysts, dict.fromkeys((SHOW, WATCH, WRITE), refuse_mallory))
        server = Server(hub.credentials, permissions, [service.add_to])
        port = await server.start("127.0.0.1:0")
        issued = {}

        def dial(role, name):
            if (role, name) not in issued:
                issued[role, name] = federation.issue(role, name)
            channels.append(open_channel(f"127.0.0.1:{port}", hub.identity, issued[role, name]))
            return channels[-1]

        yield service, dial
        for channel in channels:
            await channel.close()
        await server.stop(0)


async def code_of(call):
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("who", [(Role.DEVICE, "phone"), (Role.PARTY, "bank"), (Role.ANALYST, "mallory")])
async def test_nothing_is_decoded_before_the_caller_may_speak(serving, who):
    service, dial = serving
    channel = dial(*who)
    calls = [channel.unary_unary(SHOW)(bytes(100)), channel.unary_stream(WATCH)(bytes(100)).read()]
    for call in calls:
        assert await code_of(call) is grpc.StatusCode.PERMISSION_DENIED
    assert service.decoded == []
    assert await code_of(dial(Role.ANALYST, "ann").unary_unary(SHOW)(b"")) is grpc.StatusCode.OK
    assert service.decoded == [b""]


@pytest.mark.parametrize("n_bytes", [100, 200_000], ids=["small", "beyond the window"])
@pytest.mark.parametrize("kind", ["stream_unary", "stream_stream"])
async def test_a_refused_caller_that_still_writes_reads_why(serving, kind, n_bytes):
    """With gRPC's own client, whose failed writes would put INTERNAL in the place of the status."""
    service, dial = serving
    channel = dial(Role.ANALYST, "mallory")

    async def messages():
        for _ in range(5):
            yield bytes(n_bytes)

    async def refused():
        call = getattr(channel, kind)(WRITE)(messages())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await (call if kind == "stream_unary" else call.read())
        return caught.value.code(), caught.value.details()

    found = await asyncio.gather(*(refused() for _ in range(HEARD_EACH)))
    assert {code for code, _ in found} == {grpc.StatusCode.PERMISSION_DENIED}
    assert all(details.startswith("not you") for _, details in found)
    assert service.decoded == []


async def test_a_refused_caller_that_writes_for_ever_is_not_heard_for_ever(serving):
    service, dial = serving

    async def messages():
        while True:
            yield bytes(1000)
            await asyncio.sleep(0)

    call = dial(Role.ANALYST, "mallory").stream_unary(WRITE)(messages())
    async with asyncio.timeout(GENEROUS_S):
        assert await code_of(call) is not grpc.StatusCode.OK
    assert service.decoded == []


async def test_a_request_is_measured_before_it_is_decoded(serving):
    service, dial = serving
    show = dial(Role.ANALYST, "ann").unary_unary(SHOW)
    assert await code_of(show(bytes(UNLISTED.message_bytes + 1))) is grpc.StatusCode.INVALID_ARGUMENT
    assert service.decoded == []


async def test_a_request_that_is_none_is_refused_in_one_line(serving, capsys):
    _, dial = serving
    with pytest.raises(grpc.aio.AioRpcError, match="cannot be decoded") as caught:
        await dial(Role.ANALYST, "ann").unary_unary(SHOW)(b"\xff\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "Traceback" not in capsys.readouterr().out


async def test_calls_in_flight_are_counted_by_identity_over_all_connections(serving):
    service, dial = serving
    most = UNLISTED.calls_each
    connections = [dial(Role.ANALYST, "ann") for _ in range(4)]
    calls = [connections[i % 4].unary_unary(WAIT)(b"") for i in range(most)]
    async with asyncio.timeout(GENEROUS_S):
        while len(service.decoded) < most:  # noqa: ASYNC110 - a service says so to nobody
            await asyncio.sleep(0.01)
    for connection in connections:
        assert await code_of(connection.unary_unary(WAIT)(b"")) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(service.decoded) == most
    assert await code_of(connections[0].unary_unary(SHOW)(b"")) is grpc.StatusCode.OK  # another method
    other = dial(Role.ANALYST, "ben").unary_unary(WAIT)(b"")  # another identity
    async with asyncio.timeout(GENEROUS_S):
        while len(service.decoded) < most + 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    calls.pop().cancel()
    async with asyncio.timeout(GENEROUS_S):
        again = connections[0].unary_unary(WAIT)
        while await code_of(again(b"", timeout=0.5)) is grpc.StatusCode.RESOURCE_EXHAUSTED:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    for call in (other, *calls):
        call.cancel()


async def test_the_health_of_a_service_can_be_watched(serving):
    _, dial = serving
    watching = HealthStub(dial(Role.DEVICE, "phone")).Watch(HealthCheckRequest())
    assert (await watching.read()).status == HealthCheckResponse.SERVING
    watching.cancel()


async def test_a_compressed_request_is_refused(serving):
    service, dial = serving
    show = dial(Role.ANALYST, "ann").unary_unary(SHOW)
    code = await code_of(show(bytes(10_000), compression=grpc.Compression.Gzip))
    assert code is not grpc.StatusCode.OK
    assert service.decoded == []


def test_the_table_names_every_method_that_a_service_offers():
    for module in (aggregation_pb2, coordinator_pb2, mailbox_pb2, party_pb2, questions_pb2, batch_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                assert f"/{service.full_name}/{method.name}" in LIMITS
